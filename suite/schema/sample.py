"""Samples of a trained model's output on held-out examples, for display."""

from __future__ import annotations

import base64
import math
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from bakeoff.suite.schema.training import without_idle

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
    """A text, a matrix or a few small images that a trained model produced for a held-out example.

    Attributes:
        text: The text that the model generated, or the example that a matrix belongs to.
        title: The title of the sample.
        num_rows, num_columns: The shape of the matrix; 0 if there is none.
        levels: The values row by row, one byte each, as base64: 0 means `low`, 255 `high`.
        row_words, column_words: A word for each row and each column; empty if unknown. If the
            vocabulary has subword pieces, the first piece of a word begins with a space.
        source: The source of a translation.
        reference: The target of a translation or a caption.
        score: The sentence chrF of a translation, or None for other kinds.
        picture: The shape `(rows, columns, channels)` of the image that each row of the matrix
            holds, stored row by row with channels last. Empty if rows are not images.
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
        """The content for hashes and files, without later fields that have their defaults."""
        return without_idle(asdict(self), **LATE_IN_SAMPLES)

    def decoded(self) -> NDArray[np.uint8] | None:
        """Return the levels as `[rows, columns]`, or `[rows, *picture]` if rows are images.

        Return None if the data do not fit this shape: another program may have written them.
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
        import numpy as np  # imported late, so that the command line starts without numpy

        return np.frombuffer(levels, dtype=np.uint8).reshape(sides)

    def values(self) -> NDArray[np.float64] | None:
        """Return the values of the levels, from `low` to `high`, in the shape of `decoded`."""
        levels = self.decoded()
        return None if levels is None else self.low + (self.high - self.low) * (levels / 255.0)


LATE_IN_SAMPLES: dict[str, Any] = {
    each.name: each.default
    for each in fields(Sample)
    if each.name in _LATE and each.default is not MISSING
}
