"""Decode the samples of trained models, and describe where an attention head attends to.

Samples come from files that another program may have written: invalid ones are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.reports.results.variant_labels import MAX_SHOWN, shown_variants
from bakeoff.suite.schema import About, Sample, SampleKind

_TITLE = re.compile(r"(encoder |decoder |)layer ([1-9]\d{0,3}), head ([1-9]\d{0,3})")
_MAX_SIDE, _MAX_PICTURES = 256, 64
_LARGEST = 1.001  # largest valid weight, with rounding
_FEWEST = 4  # a head is described if its map has at least this many tokens
_MOSTLY = 0.25  # share of the weight from which a kind of place is named
_SIGNED = ("grid_positions", "filters")  # kinds of pictures whose values start at -1, not at 0
_ROUNDING = 1e-3

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix that can be drawn.

    Attributes:
        values: `[rows, columns]`.
        letters: A letter for each column; empty if they are not known.
        layer: The layer, from 1; 0 if the matrix does not belong to a head.
        head: The head, from 1; 0 if the matrix does not belong to a head.
        side: ``encoder`` or ``decoder``; empty if there is one stack.
        row_words, column_words: A word for each row and column; empty if they are not known.
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
        """A name as ``layer 1, head 2`` or ``encoder layer 1, head 2``."""
        return f"{self.layer_name}, head {self.head}" if self.layer else ""

    @property
    def layer_name(self) -> str:
        """A name as ``layer 1`` or ``encoder layer 1``."""
        return f"{self.side} layer {self.layer}".lstrip()


@dataclass(frozen=True, eq=False)
class Pictures:
    """Several pictures of one size.

    Attributes:
        title: A title that is distinct among pictures of one kind.
        values: `[pictures, rows, columns, channels]`.
        words: A word for each picture; empty if they are not known.
    """

    title: str
    values: NDArray[np.float64]
    words: tuple[str, ...] = ()

    @property
    def grid(self) -> tuple[int, int]:
        """The number of rows and of columns of each picture."""
        return self.values.shape[1], self.values.shape[2]

    @property
    def relative(self) -> NDArray[np.float64]:
        """The first channel over its mean in each picture, `[pictures, rows, columns]`."""
        values = self.values[..., 0]
        mean = values.mean(axis=(1, 2), keepdims=True)
        ones = np.ones_like(values)
        relative: NDArray[np.float64] = np.divide(values, mean, out=ones, where=mean > 0)
        return relative


@dataclass(frozen=True, kw_only=True)
class HeadFocus:
    """The shares of the attention weight by kind of position, as means over tokens.

    The first two tokens are not counted, since the kinds of position coincide there.

    Attributes:
        itself: The share on the token itself.
        previous: The share on the token before.
        next: The share on the token after, or None if no token attends to later ones.
        first: The share on the first token.
        distance: The mean number of tokens between a token and the one that it attends to.
        entropy: The mean entropy of the weights shown, in bits.
        most_entropy: The entropy of equal weights on all tokens that a token may attend to, in
            bits.
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
        """The kind of position with the most weight, as ``on the previous token (41 %)``."""
        shares = {
            "itself": self.itself,
            "the previous token": self.previous,
            "the next token": self.next or 0.0,
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
    """Return what a function finds in the samples of a few variants, and how many have a result.

    Args:
        about: The description of the sweep: its samples, the order of variants and the baseline,
            which comes first.
        task: The task of the samples.
        found_in: A function of samples; its result is empty if a variant has nothing to show.
        most: The largest number of variants; at least three.
    """
    found = {variant: found_in(some) for variant, some in about.samples[task].items()}
    having = {variant for variant, some in found.items() if some}
    return {v: found[v] for v in shown_variants(about, having, most)}, len(having)


def texts(samples: Iterable[Sample], kind: SampleKind) -> dict[str, Sample]:
    """Return title -> sample, for samples of one kind."""
    return {each.title: each for each in samples if each.kind == kind}


def matrices(samples: Iterable[Sample], kind: SampleKind) -> list[Matrix]:
    """Return the valid matrices of one kind, in their order."""
    found = (_matrix(sample) for sample in samples if sample.kind == kind)
    return [matrix for matrix in found if matrix is not None]


def of_heads(samples: Iterable[Sample], kind: SampleKind) -> list[Matrix]:
    """Return the valid matrices of one kind that belong to a head."""
    return [matrix for matrix in matrices(samples, kind) if matrix.layer]


def pictures(samples: Iterable[Sample], kind: SampleKind) -> dict[str, Pictures]:
    """Return title -> pictures, for valid pictures of one kind."""
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
    """Return where the weight of an attention map is, or None for few tokens or empty rows."""
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
