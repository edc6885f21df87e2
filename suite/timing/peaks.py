"""Measure the peak rates of a device: matrix products and copies, the best of a few passes.

A share of these peaks is more meaningful than seconds: neither the maker's figure nor the rate of
all cores can be reached with the threads that a trial has, and each precision has its own peak. On
a GPU the passes are repeated for a quarter of a second, since an idle GPU runs below its clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from bakeoff.suite.schema import Measurement
from bakeoff.suite.timing.clock import Clock
from bakeoff.suite.timing.passes import Call
from bakeoff.suite.training.recipes import float32_products

MATRIX_PEAK, COPY_PEAK = "matrix_peak_flops_per_second", "copy_peak_bytes_per_second"
_PASSES = 5
_SECONDS_ON_A_GPU = 0.25  # the time of the passes, after which the clock has risen
_SIDE = {"cpu": 1024, "cuda": 8192}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BYTES_OF_A_CACHE = 32 * 2**20  # the default, if the system does not report the size
# Long on a GPU, where a pass also writes back the part of the last flush that the cache holds.
_CACHES_OF_A_BUFFER = {"cpu": 2, "cuda": 20}
_MOST_BYTES = 2**30
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


class Peaks(NamedTuple):
    """The peak rates of one device at one precision.

    Attributes:
        matrix: The rate of matrix products in FLOP/s.
        copy: The rate of copies in bytes/s.
    """

    matrix: float
    copy: float

    def rows(self, at: str = "") -> Iterator[Measurement]:
        """Yield the peaks as controls at a coordinate."""
        named = {MATRIX_PEAK: (self.matrix, "FLOP/s"), COPY_PEAK: (self.copy, "B/s")}
        for metric, (value, unit) in named.items():
            yield Measurement(metric=metric, value=value, unit=unit, better="none", at=at)


def are_wanted(device: str) -> bool:
    """Return True if shares of the peaks are reported for whole models, that is, on a GPU."""
    return device != "cpu"


def peaks(clock: Clock, device: str, precision: str) -> Peaks:
    """Measure both peaks, first that of matrix products, which raises the device's clock."""
    matrix = matrix_peak(clock, device, precision)
    return Peaks(matrix, copy_peak(clock, device))


def matrix_peak(clock: Clock, device: str, precision: str = "float32") -> float:
    """Return the FLOP/s of a square matrix product at a recipe's precision, 2 per multiply-add."""
    side = _SIDE[_kind(device)]
    drawn = torch.Generator(device).manual_seed(0)  # ones would take less power
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b, out = (
        torch.randn(side, side, generator=drawn, device=device).to(dtype) for _ in range(3)
    )
    with float32_products(precision):
        return 2.0 * side**3 / _best(clock, device, lambda: torch.mm(a, b, out=out))


def copy_peak(clock: Clock, device: str) -> float:
    """Return the bytes/s of a copy that no cache holds; both reads and writes count."""
    size = min(_MOST_BYTES, _CACHES_OF_A_BUFFER[_kind(device)] * _cache_bytes(device))
    source, target = (torch.zeros(size, dtype=torch.int8, device=device) for _ in range(2))
    return 2.0 * size / _best(clock, device, lambda: target.copy_(source))


def _kind(device: str) -> str:
    return "cpu" if device == "cpu" else "cuda"


def _best(clock: Clock, device: str, one_pass: Call) -> float:
    one_pass()  # allocates pages and handles
    end = clock.now() + (0.0 if device == "cpu" else _SECONDS_ON_A_GPU)
    found = [clock.seconds(one_pass, 1) for _ in range(_PASSES)]
    while clock.now() < end:
        found.append(clock.seconds(one_pass, 1))
    return min(found)


def _cache_bytes(device: str) -> int:
    """Return the size of the last-level cache in bytes."""
    if device != "cpu":
        size: int = torch.cuda.get_device_properties(device).L2_cache_size
        return size
    sizes = [file.read_text().strip() for file in _CACHES.glob("index*/size")]  # such as ``32768K``
    found = (int(size.rstrip("KMG")) * _UNITS.get(size[-1:], 1) for size in sizes)
    return max(found, default=_BYTES_OF_A_CACHE)
