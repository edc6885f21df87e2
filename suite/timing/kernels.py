"""Time three kernels whose exponents are known: n, n log n and n^2 units of work.

A unit is one small matrix product, always the same, whose matrices stay in the innermost cache.
So a kernel's time depends on the number of its units only: no cache fills up as n grows and no
thread starts late. The constants put the times for n = 64 to 16,384 between a tenth of a
millisecond and half a second on a CPU; the quadratic one grows 65,536-fold there and begins at one
unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from bakeoff.suite.schema import Status
from bakeoff.suite.timing.passes import Call, Missing, Pass

LINEAR, LINEARITHMIC, QUADRATIC = (
    "linear_kernel_seconds",
    "linearithmic_kernel_seconds",
    "quadratic_kernel_seconds",
)
MOST_TOKENS = 16_384
_SIDE_OF_A_UNIT = {"cpu": 64, "cuda": 512}  # on a GPU long enough to hide the next launch
_TOKENS_OF_A_LINEAR_UNIT = 4
_TOKENS_OF_A_LINEARITHMIC_UNIT = 32
_TOKENS_OF_A_QUADRATIC_UNIT = 64


def kernels(length: int, device: str) -> Mapping[str, Pass | Missing]:
    """Return the three kernels at one length, by metric."""
    if length > MOST_TOKENS:
        reason = f"the synthetic kernels go up to {MOST_TOKENS:,} tokens"
        return dict.fromkeys((LINEAR, LINEARITHMIC, QUADRATIC), Missing(Status.SKIPPED, reason))
    unit = _unit(_SIDE_OF_A_UNIT["cpu" if device == "cpu" else "cuda"], device)
    return {metric: Pass(_repeated(unit, count)) for metric, count in num_units(length).items()}


def num_units(length: int) -> Mapping[str, int]:
    """Return the number of units of each kernel, by metric; it is exact at powers of two."""
    levels = max(1, round(math.log2(length)))
    counts = {
        LINEAR: length // _TOKENS_OF_A_LINEAR_UNIT,
        LINEARITHMIC: levels * (length // _TOKENS_OF_A_LINEARITHMIC_UNIT),
        QUADRATIC: (length // _TOKENS_OF_A_QUADRATIC_UNIT) ** 2,
    }
    return {metric: max(1, count) for metric, count in counts.items()}


def _unit(side: int, device: str) -> Call:
    drawn = torch.Generator().manual_seed(0)
    a, b, out = (torch.randn(side, side, generator=drawn).to(device) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def _repeated(unit: Call, count: int) -> Call:
    def run() -> None:
        for _ in range(count):
            unit()

    return run
