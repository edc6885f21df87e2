"""Decodes the matrices of specimens, and says in numbers where the weight of a head lies.

Specimens come from files that somebody else may have written: what does not fit is left out.
"""

from __future__ import annotations

import base64
import math
import re
from binascii import Error
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.schema import Specimen, SpecimenKind

_TITLE = re.compile(r"(encoder |decoder |)layer ([1-9]\d{0,3}), head ([1-9]\d{0,3})")
_MAX_SIDE = 256
_LARGEST = 1.001  # weight, rounding allowed for
_FEWEST = 4  # tokens of which it can be said where a head looks
_MOSTLY = 0.25  # of the weight in one kind of place


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix that can be drawn.

    Attributes:
        values: `[rows, columns]`.
        letters: One a column; empty where they are not known.
        layer: From 1; 0 where the matrix belongs to no head.
        head: From 1; 0 where the matrix belongs to no head.
        side: ``encoder`` or ``decoder``; empty where there is one stack.
        row_words, column_words: What rows and columns stand for; empty where they are not known.
    """

    values: NDArray[np.float64]
    letters: str = ""
    layer: int = 0
    head: int = 0
    side: str = ""
    row_words: tuple[str, ...] = ()
    column_words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As ``layer 1, head 2`` or ``encoder layer 1, head 2``."""
        return f"{self.layer_name}, head {self.head}" if self.layer else ""

    @property
    def layer_name(self) -> str:
        """As ``layer 1`` or ``encoder layer 1``."""
        return f"{self.side} layer {self.layer}".lstrip()


@dataclass(frozen=True, kw_only=True)
class HeadFocus:
    """Where a head looks: shares of the weight that tokens give, the mean over tokens.

    The first two tokens are not counted, since there the places coincide.

    Attributes:
        next: None where nobody sees later tokens.
        distance: Mean number of tokens between the one that looks and what it looks at.
        entropy: Mean over tokens, in bits; of the weight on the tokens shown.
        most_entropy: What it would be if all that a token sees weighed alike.
    """

    itself: float
    previous: float
    next: float | None
    first: float
    distance: float
    entropy: float
    most_entropy: float

    @property
    def mostly(self) -> str:
        """The place that most weight lies on, in words, as ``on the token before (41 %)``."""
        shares = {
            "itself": self.itself,
            "the token before": self.previous,
            "the token after": self.next or 0.0,
            "the first token": self.first,
        }
        place = max(shares, key=lambda name: shares[name])
        share = shares[place]
        return f"on {place} ({100 * share:.0f} %)" if share >= _MOSTLY else "spread out"


def matrices(specimens: Sequence[Specimen], kind: SpecimenKind) -> list[Matrix]:
    """Those of that kind that are what they should be, in their order."""
    found = [_matrix(specimen) for specimen in specimens if specimen.kind == kind]
    return [matrix for matrix in found if matrix is not None]


def of_heads(specimens: Sequence[Specimen], kind: SpecimenKind) -> list[Matrix]:
    """Those that belong to a head."""
    return [matrix for matrix in matrices(specimens, kind) if matrix.layer]


def head_focus(matrix: Matrix) -> HeadFocus | None:
    """Where the weight of an attention map lies; None of too few tokens, or without weight."""
    weights, size = matrix.values, len(matrix.values)
    if size < _FEWEST or weights.shape != (size, size):
        return None
    sums = weights.sum(axis=1)
    if (sums <= 0).any():
        return None
    is_causal = not np.triu(weights, k=1).any()
    rows, later = np.arange(2, size), np.arange(2, size - 1)
    shares = weights / sums[:, None]
    far = np.abs(np.arange(size)[:, None] - np.arange(size))
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -np.where(shares > 0, shares * np.log2(shares), 0.0).sum(axis=1)
    num_seen = rows + 1 if is_causal else np.full(len(rows), size)
    return HeadFocus(
        itself=float(weights[rows, rows].mean()),
        previous=float(weights[rows, rows - 1].mean()),
        next=None if is_causal else float(weights[later, later + 1].mean()),
        first=float(weights[rows, 0].mean()),
        distance=float((shares * far)[rows].sum(axis=1).mean()),
        entropy=float(bits[rows].mean()),
        most_entropy=float(np.log2(num_seen).mean()),
    )


def at_distance(matrix: Matrix, distance: int) -> float:
    """The mean over the pairs of which the column stands that many places before the row."""
    return float(np.diagonal(matrix.values, -distance).mean())


def _matrix(specimen: Specimen) -> Matrix | None:
    height, width = specimen.num_rows, specimen.num_columns
    try:
        levels = base64.b64decode(specimen.levels, validate=True)
    except (Error, ValueError):
        return None
    if not (2 <= height <= _MAX_SIDE and 2 <= width <= _MAX_SIDE and len(levels) == height * width):
        return None
    if not (specimen.low <= specimen.high and math.isfinite(specimen.high - specimen.low)):
        return None
    if specimen.kind in ("attention", "alignment") and not (
        specimen.low >= 0 and specimen.high <= _LARGEST
    ):
        return None
    shares = np.frombuffer(levels, dtype=np.uint8).reshape(height, width) / 255.0
    title = _TITLE.fullmatch(specimen.title)
    return Matrix(
        values=specimen.low + (specimen.high - specimen.low) * shares,
        letters=specimen.text if len(specimen.text) == width == height else "",
        layer=int(title[2]) if title else 0,
        head=int(title[3]) if title else 0,
        side=title[1].strip() if title else "",
        row_words=specimen.row_words if len(specimen.row_words) == height else (),
        column_words=specimen.column_words if len(specimen.column_words) == width else (),
    )
