"""Defines what a trained model leaves of its work on held-out examples, for people to look at."""

from __future__ import annotations

import base64
import math
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from suite.schema.training import without_idle

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SampleKind = Literal[
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
_MAX_SIDE = 1024


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A text, a matrix or some small pictures that a trained model made of a held-out example.

    Attributes:
        text: The text that the model wrote, or the example of a matrix; `title` names it.
        num_rows, num_columns: The sides of the matrix; 0 where there is none.
        levels: The values row by row, one byte each, as base64: 0 means `low`, 255 `high`.
        row_words, column_words: A word for each row and each column; empty where unknown. The first
            piece of a word begins with a space, where a vocabulary has pieces.
        source: The source of a translation.
        reference: The target of a translation or a caption.
        score: The sentence chrF of a translation; None for other kinds.
        picture: Rows, columns and channels of the picture that each row of the matrix holds: row by
            row, channels last. Empty where rows are not pictures.
    """

    kind: SampleKind
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
        """The content of hashes and files, without fields that came later and are idle."""
        return without_idle(asdict(self), **LATE_IN_SAMPLES)

    def decoded(self) -> NDArray[np.uint8] | None:
        """Return the levels as `[rows, columns]`, or `[rows, *picture]` if rows are pictures.

        Return None if the levels do not fit these sides: another program may have written them.
        """
        sides = (self.num_rows, *(self.picture or (self.num_columns,)))
        if not all(1 <= side <= _MAX_SIDE for side in sides):
            return None
        try:
            levels = base64.b64decode(self.levels, validate=True)
        except ValueError:
            return None
        if len(levels) != math.prod(sides):
            return None
        import numpy as np  # the command line starts without it

        return np.frombuffer(levels, dtype=np.uint8).reshape(sides)

    def values(self) -> NDArray[np.float64] | None:
        """Return the values that `decoded` levels stand for, between `low` and `high`."""
        levels = self.decoded()
        return None if levels is None else self.low + (self.high - self.low) * (levels / 255.0)


LATE_IN_SAMPLES: dict[str, Any] = {
    each.name: each.default
    for each in fields(Sample)
    if each.name in _LATE and each.default is not MISSING
}
