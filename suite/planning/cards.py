"""Names GPUs and how fast they multiply matrices, for plans made where there is none.

The figures are those of the makers for dense matrices, which a product of two large ones comes near
to. A training reaches a share of them: `suite.planning.estimate` has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch

from suite.errors import UsageError, unknown_name
from suite.planning.estimate import H100
from suite.schema import BYTES_OF_A_CONTEXT
from suite.timing.clock import clock_of
from suite.timing.peaks import matrix_peak

_TERA = 1e12


@dataclass(frozen=True, kw_only=True)
class Card:
    """A kind of GPU.

    Attributes:
        title: As its maker calls it.
        flops_per_second: Of matrix products, by the precision of a recipe.
        memory_bytes: Of the whole GPU.
    """

    title: str
    flops_per_second: Mapping[str, float]
    memory_bytes: int

    def share_for(self, num_bytes: int) -> float:
        """The least of 1, 1/2, 1/4, ... of the GPU that holds a trial which took so many bytes.

        With room for the context of its process, and an eighth more than it took.
        """
        wanted = (9 * num_bytes // 8 + BYTES_OF_A_CONTEXT) / self.memory_bytes
        return 1.0 if wanted >= 1 else 0.5 ** math.floor(-math.log2(wanted))


def _card(title: str, *, gib: int, float32: float, tf32: float, bf16: float) -> Card:
    of_each = {"float32": float32 * _TERA, "tf32": tf32 * _TERA, "bf16": bf16 * _TERA}
    return Card(title=title, flops_per_second=of_each, memory_bytes=gib * 2**30)


# NVIDIA's data sheets of each, without sparsity; cards older than Ampere have neither TF32 nor
# bf16, and compute both in float32.
CARDS: Mapping[str, Card] = {
    "a10": _card("A10", gib=24, float32=31.2, tf32=62.5, bf16=125.0),
    "a100": _card("A100", gib=80, float32=19.5, tf32=156.0, bf16=312.0),
    "h100": Card(title="H100 SXM", flops_per_second=H100, memory_bytes=80 * 2**30),
    "h200": Card(title="H200 SXM", flops_per_second=H100, memory_bytes=141 * 2**30),
    "l4": _card("L4", gib=24, float32=30.3, tf32=60.0, bf16=121.0),
    "t4": _card("T4", gib=16, float32=8.1, tf32=8.1, bf16=8.1),
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
    num_bytes: int = torch.cuda.get_device_properties(0).total_memory
    return Card(title=torch.cuda.get_device_name(0), flops_per_second=found, memory_bytes=num_bytes)
