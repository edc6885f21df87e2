"""Decodes the samples of trained models, and describes in numbers where an attention head looks.

Samples come from files that another program may have written: those that do not fit are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from reports.results.variant_labels import MAX_SHOWN, shown_variants
from suite.schema import About, Sample, SampleKind

_TITLE = re.compile(r"(encoder |decoder |)layer ([1-9]\d{0,3}), head ([1-9]\d{0,3})")
_MAX_SIDE, _MAX_PICTURES = 256, 64
_LARGEST = 1.001  # weight, with rounding
_FEWEST = 4  # tokens of a map from which a head is described
_MOSTLY = 0.25  # of the weight in one kind of place
_SIGNED = ("grid_positions", "filters")  # kinds of pictures with values from -1, not from 0
_ROUNDING = 1e-3

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix that can be drawn.

    Attributes:
        values: `[rows, columns]`.
        letters: A letter for each column; empty where they are not known.
        layer: The layer, from 1; 0 where the matrix belongs to no head.
        head: The head, from 1; 0 where the matrix belongs to no head.
        side: ``encoder`` or ``decoder``; empty where there is one stack.
        row_words, column_words: A word for each row and column; empty where they are not known.
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
        """Return a name as ``layer 1, head 2`` or ``encoder layer 1, head 2``."""
        return f"{self.layer_name}, head {self.head}" if self.layer else ""

    @property
    def layer_name(self) -> str:
        """Return a name as ``layer 1`` or ``encoder layer 1``."""
        return f"{self.side} layer {self.layer}".lstrip()


@dataclass(frozen=True, eq=False)
class Pictures:
    """Some pictures of one size.

    Attributes:
        title: The title that tells them from others of their kind.
        values: `[pictures, rows, columns, channels]`.
        words: A word for each picture; empty where they are not known.
    """

    title: str
    values: NDArray[np.float64]
    words: tuple[str, ...] = ()

    @property
    def grid(self) -> tuple[int, int]:
        """Return the rows and columns of each."""
        return self.values.shape[1], self.values.shape[2]

    @property
    def relative(self) -> NDArray[np.float64]:
        """Return the first channel over its mean in each picture, `[pictures, rows, columns]`."""
        values = self.values[..., 0]
        mean = values.mean(axis=(1, 2), keepdims=True)
        ones = np.ones_like(values)
        relative: NDArray[np.float64] = np.divide(values, mean, out=ones, where=mean > 0)
        return relative


@dataclass(frozen=True, kw_only=True)
class HeadFocus:
    """The shares of the weight that tokens give to places, the mean over tokens.

    The first two tokens are not counted, since there the places coincide.

    Attributes:
        next: The share on the token after; None where no token sees later ones.
        distance: The mean number of tokens between a token and the one that it looks at.
        entropy: The mean over tokens of the entropy of the weights shown, in bits.
        most_entropy: The entropy of equal weights on all tokens that a token sees.
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
        """Return the place with the most weight, as ``on the token before (41 %)``."""
        shares = {
            "itself": self.itself,
            "the token before": self.previous,
            "the token after": self.next or 0.0,
            "the first token": self.first,
        }
        place = max(shares, key=lambda name: shares[name])
        share = shares[place]
        return f"on {place} ({100 * share:.0f} %)" if share >= _MOSTLY else "spread out"


def of_variants(
    about: About,
    task: str,
    found_in: Callable[[Sequence[Sample]], Found],
    most: int = MAX_SHOWN,
) -> tuple[dict[str, Found], int]:
    """Return what is found in the samples of a few variants, and how many variants have any.

    Args:
        about: Gives the samples, the order and the baseline, which comes first.
        task: The task of the samples.
        found_in: Returns something that is empty where a variant has nothing.
        most: The largest number of variants; at least three.
    """
    found = {variant: found_in(some) for variant, some in about.samples[task].items()}
    having = {variant for variant, some in found.items() if some}
    return {v: found[v] for v in shown_variants(about, having, most)}, len(having)


def texts(samples: Iterable[Sample], kind: SampleKind) -> dict[str, Sample]:
    """Return the samples of that kind by their titles."""
    return {each.title: each for each in samples if each.kind == kind}


def matrices(samples: Iterable[Sample], kind: SampleKind) -> list[Matrix]:
    """Return the valid matrices of that kind, in their order."""
    found = (_matrix(sample) for sample in samples if sample.kind == kind)
    return [matrix for matrix in found if matrix is not None]


def of_heads(samples: Iterable[Sample], kind: SampleKind) -> list[Matrix]:
    """Return the valid matrices of that kind that belong to a head."""
    return [matrix for matrix in matrices(samples, kind) if matrix.layer]


def pictures(samples: Iterable[Sample], kind: SampleKind) -> dict[str, Pictures]:
    """Return the valid pictures of that kind by their titles."""
    found = (_pictures(sample) for sample in samples if sample.kind == kind)
    return {each.title: each for each in found if each is not None}


def _matrix(sample: Sample) -> Matrix | None:
    if not (sample.low <= sample.high and math.isfinite(sample.high - sample.low)):
        return None
    is_weight = sample.kind in ("attention", "alignment")
    if is_weight and not (sample.low >= 0 and sample.high <= _LARGEST):
        return None
    values = sample.values()
    if values is None or values.ndim != 2:
        return None
    if min(values.shape) < 2 or max(values.shape) > _MAX_SIDE:
        return None
    height, width = values.shape
    title = _TITLE.fullmatch(sample.title)
    return Matrix(
        values=values,
        letters=sample.text if len(sample.text) == width == height else "",
        layer=int(title[2]) if title else 0,
        head=int(title[3]) if title else 0,
        side=title[1].strip() if title else "",
        row_words=sample.row_words if len(sample.row_words) == height else (),
        column_words=sample.column_words if len(sample.column_words) == width else (),
    )


def _pictures(sample: Sample) -> Pictures | None:
    lowest = -1.0 if sample.kind in _SIGNED else 0.0
    if not lowest - _ROUNDING <= sample.low <= sample.high <= 1.0 + _ROUNDING:
        return None
    values = sample.values()
    if values is None or values.ndim != 4 or values.shape[3] not in (1, 3):
        return None
    if len(values) > _MAX_PICTURES or max(values.shape) > _MAX_SIDE:
        return None
    return Pictures(
        title=sample.title,
        values=values,
        words=sample.row_words if len(sample.row_words) == len(values) else (),
    )


def head_focus(matrix: Matrix) -> HeadFocus | None:
    """Return where the weight of an attention map is; None for few tokens or empty rows."""
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
    """Return the mean over pairs whose column is `distance` places before the row."""
    return float(np.diagonal(matrix.values, -distance).mean())
