"""Names GPUs and how fast they multiply matrices, for plans made where there is none.

The figures are those of the makers for dense matrices, which a product of two large ones comes near
to. A training reaches a share of them: `suite.planning.estimate` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch

from suite.errors import UsageError, unknown_name
from suite.planning.estimate import H100
from suite.timing.clock import clock_of
from suite.timing.peaks import matrix_peak

_TERA = 1e12


@dataclass(frozen=True, kw_only=True)
class Card:
    """A kind of GPU.

    Attributes:
        title: As its maker calls it.
        flops_per_second: Of matrix products, by the precision of a recipe.
    """

    title: str
    flops_per_second: Mapping[str, float]


def _card(title: str, *, float32: float, tf32: float, bf16: float) -> Card:
    of_each = {"float32": float32 * _TERA, "tf32": tf32 * _TERA, "bf16": bf16 * _TERA}
    return Card(title=title, flops_per_second=of_each)


# NVIDIA's data sheets of each, without sparsity; cards older than Ampere have neither TF32 nor
# bf16, and compute both in float32.
CARDS: Mapping[str, Card] = {
    "a10": _card("A10", float32=31.2, tf32=62.5, bf16=125.0),
    "a100": _card("A100", float32=19.5, tf32=156.0, bf16=312.0),
    "h100": Card(title="H100 SXM", flops_per_second=H100),
    "h200": Card(title="H200 SXM", flops_per_second=H100),
    "l4": _card("L4", float32=30.3, tf32=60.0, bf16=121.0),
    "t4": _card("T4", float32=8.1, tf32=8.1, bf16=8.1),
}
USUAL = "h100"  # what `standard` scales are made for


def card_named(name: str | None) -> Card:
    """The card of that name; without a name that of this machine, or the usual one.

    Raises:
        UsageError: there is none of that name; the message holds all names.
    """
    if name is None:
        return card_here() if torch.cuda.is_available() else CARDS[USUAL]
    if name.lower() not in CARDS:
        raise UsageError(unknown_name("card", name, CARDS))
    return CARDS[name.lower()]


@cache
def card_here() -> Card:
    """The first GPU of this machine, as measured."""
    clock, precisions = clock_of("cuda"), CARDS[USUAL].flops_per_second
    found = {precision: matrix_peak(clock, "cuda", precision) for precision in precisions}
    return Card(title=torch.cuda.get_device_name(0), flops_per_second=found)
