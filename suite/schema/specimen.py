"""What a trained model does with held-out examples, for people to see."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal

from suite.schema.training import without_idle

SpecimenKind = Literal[
    "attention",
    "positions",
    "text",
    "alignment",
    "translation",
    "images",
    "patch_attention",
    "grid_positions",
    "filters",
    "captioned_images",
    "caption",
    "word_attention",
    "asked_images",
    "drawn_images",
]
_LATE = ("row_words", "column_words", "source", "reference", "score", "picture")


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """What a trained model does with one held-out example: a matrix or a text, for people to see.

    Attributes:
        text: What a model wrote, or the example that a matrix belongs to; `title` names it.
        num_rows, num_columns: Of the matrix; 0 where there is none.
        levels: Its values row by row, one byte each, as base64: 0 means `low`, 255 `high`.
        row_words, column_words: What each row and each column stands for; empty where unknown. The
            first piece of a word begins with a space, where a vocabulary has pieces.
        source, reference: Of a translation: what was read, and what was asked for; of a caption the
            second.
        score: Of a translation, its sentence chrF; None where there is none.
        picture: Rows, columns and channels, where each row of the matrix is a picture: row by row,
            channels last.
    """

    kind: SpecimenKind
    title: str
    text: str = ""
    num_rows: int = 0
    num_columns: int = 0
    levels: str = ""
    low: float = 0.0
    high: float = 1.0
    row_words: tuple[str, ...] = ()
    column_words: tuple[str, ...] = ()
    source: str = ""
    reference: str = ""
    score: float | None = None
    picture: tuple[int, ...] = ()

    @property
    def hashed(self) -> dict[str, Any]:
        """What goes into hashes and files: fields that came later are left out where idle."""
        return without_idle(asdict(self), **LATE_IN_SPECIMENS)


LATE_IN_SPECIMENS: dict[str, Any] = {
    each.name: each.default
    for each in fields(Specimen)
    if each.name in _LATE and each.default is not MISSING
}
