"""Peak rates and memory of GPUs, for plans made on a machine without one.

The rates are those of products of large matrices: a share of the vendors' figures for dense
matrices. A training reaches a fraction of them; see `bakeoff.suite.probes.gpu_steps`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch

from bakeoff.suite.errors import UsageError, unknown_name
from bakeoff.suite.schema import BYTES_OF_A_CONTEXT
from bakeoff.suite.timing.clock import clock_of
from bakeoff.suite.timing.peaks import matrix_peak


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """A kind of GPU.

    Attributes:
        title: The vendor's name for it.
        flops_per_second: Rate of large matrix products, by the precision of a recipe.
        memory_bytes: Memory of the whole GPU.
    """

    title: str
    flops_per_second: Mapping[str, float]
    memory_bytes: int

    def share_for(self, num_bytes: int) -> float:
        """Return the smallest share 1, 1/2, 1/4, ... of the GPU that holds a trial's `num_bytes`.

        The share includes the CUDA context of the process, and an eighth more than the trial used.
        """
        wanted = (9 * num_bytes // 8 + BYTES_OF_A_CONTEXT) / self.memory_bytes
        return 1.0 if wanted >= 1 else 0.5 ** math.floor(-math.log2(wanted))


# Measured on an H200: 754 to 787 of 989.5 TFLOP/s in bf16, see docs/gpu/README.md.
_SHARE_OF_DATA_SHEET = 0.78


def _spec(title: str, *, gib: int, float32: float, tf32: float, bf16: float) -> GpuSpec:
    """Return a kind of GPU from the rates in its data sheet, in TFLOPs per second."""
    sheet = {"float32": float32, "tf32": tf32, "bf16": bf16}
    rates = {name: _SHARE_OF_DATA_SHEET * 1e12 * rate for name, rate in sheet.items()}
    return GpuSpec(title=title, flops_per_second=rates, memory_bytes=gib * 2**30)


# NVIDIA's data sheets, without sparsity. GPUs older than Ampere have neither TF32 nor bf16, and
# compute both in float32.
GPU_SPECS: Mapping[str, GpuSpec] = {
    "a10": _spec("A10", gib=24, float32=31.2, tf32=62.5, bf16=125.0),
    "a100": _spec("A100", gib=80, float32=19.5, tf32=156.0, bf16=312.0),
    "h100": _spec("H100 SXM", gib=80, float32=67.0, tf32=494.5, bf16=989.5),
    "h200": _spec("H200 SXM", gib=141, float32=67.0, tf32=494.5, bf16=989.5),
    "l4": _spec("L4", gib=24, float32=30.3, tf32=60.0, bf16=121.0),
    "t4": _spec("T4", gib=16, float32=8.1, tf32=8.1, bf16=8.1),
}
USUAL = GPU_SPECS["h100"]  # the GPU that `standard` scales are designed for
H100 = USUAL.flops_per_second


def gpu_spec(name: str | None) -> GpuSpec:
    """Return the GPU of that name; without a name the one of this machine, else `USUAL`.

    Raises:
        UsageError: If the name is unknown; the message lists all names.
    """
    if name is None:
        return local_gpu() if torch.cuda.is_available() else USUAL
    if name.lower() not in GPU_SPECS:
        raise UsageError(unknown_name("card", name, GPU_SPECS))
    return GPU_SPECS[name.lower()]


@cache
def local_gpu() -> GpuSpec:
    """Return the first GPU of this machine, with measured rates."""
    clock = clock_of("cuda")
    rates = {precision: matrix_peak(clock, "cuda", precision) for precision in H100}
    num_bytes: int = torch.cuda.get_device_properties(0).total_memory
    return GpuSpec(
        title=torch.cuda.get_device_name(0), flops_per_second=rates, memory_bytes=num_bytes
    )
