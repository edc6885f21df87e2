"""Decodes specimens whose matrix holds a small picture a row.

Specimens come from files that somebody else may have written: what does not fit is left out.
"""

from __future__ import annotations

import base64
import math
from binascii import Error
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.schema import Specimen, SpecimenKind

_MAX_SIDE, _MAX_PICTURES = 256, 64
_RANGES = {  # what values may be, by kind; rounding is allowed for
    "images": (0.0, 1.0),
    "patch_attention": (0.0, 1.0),
    "grid_positions": (-1.0, 1.0),
    "filters": (-1.0, 1.0),
    "captioned_images": (0.0, 1.0),
    "word_attention": (0.0, 1.0),
    "asked_images": (0.0, 1.0),
    "drawn_images": (0.0, 1.0),
}
_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class Pictures:
    """Some pictures of one size.

    Attributes:
        title: What they are, of several that are of one kind.
        values: `[pictures, rows, columns, channels]`.
        words: One a picture; empty where they are not known.
    """

    title: str
    values: NDArray[np.float64]
    words: tuple[str, ...] = ()

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of each."""
        return self.values.shape[1], self.values.shape[2]


def pictures(specimens: Iterable[Specimen], kind: SpecimenKind) -> dict[str, Pictures]:
    """Those of that kind that are what they should be, by their titles."""
    found = (_pictures(specimen) for specimen in specimens if specimen.kind == kind)
    return {each.title: each for each in found if each is not None}


def _pictures(specimen: Specimen) -> Pictures | None:
    sides, number = specimen.picture, specimen.num_rows
    if len(sides) != 3 or not all(1 <= side <= _MAX_SIDE for side in sides):
        return None
    if sides[2] not in (1, 3) or not 1 <= number <= _MAX_PICTURES:
        return None
    low, high = _RANGES.get(specimen.kind, (0.0, 0.0))
    if not low - _ROUNDING <= specimen.low <= specimen.high <= high + _ROUNDING:
        return None
    try:
        levels = base64.b64decode(specimen.levels, validate=True)
    except (Error, ValueError):
        return None
    if len(levels) != number * math.prod(sides):
        return None
    shares = np.frombuffer(levels, dtype=np.uint8).reshape(number, *sides) / 255.0
    return Pictures(
        title=specimen.title,
        values=specimen.low + (specimen.high - specimen.low) * shares,
        words=specimen.row_words if len(specimen.row_words) == number else (),
    )
