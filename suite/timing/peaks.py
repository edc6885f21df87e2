"""Measure the device's peaks: matrix products and copies, the best of a few passes.

A share of these peaks says more of a mixer than seconds do: neither the maker's figure nor that
of all cores can be reached with the threads that a trial has.
"""

from __future__ import annotations

from pathlib import Path

import torch

from suite.timing.clock import Clock
from suite.timing.passes import Call

_PASSES = 5
_SIDE = {"cpu": 1024, "cuda": 8192}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BYTES_OF_A_CACHE = 32 * 2**20  # where the system does not say
_CACHES_OF_A_BUFFER = 2
_MOST_BYTES = 2**30
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def matrix_peak(clock: Clock, device: str) -> float:
    """FLOP/s of a square matrix product in float32, 2 per multiply-add."""
    side = _SIDE["cpu" if device == "cpu" else "cuda"]
    drawn = torch.Generator().manual_seed(0)
    a, b, out = (torch.randn(side, side, generator=drawn).to(device) for _ in range(3))
    return 2.0 * side**3 / _best(clock, lambda: torch.mm(a, b, out=out))


def copy_peak(clock: Clock, device: str) -> float:
    """Bytes/s of a copy that no cache holds; what is read counts, and what is written."""
    size = min(_MOST_BYTES, _CACHES_OF_A_BUFFER * _cache_bytes(device))
    source, target = (torch.zeros(size, dtype=torch.int8, device=device) for _ in range(2))
    return 2.0 * size / _best(clock, lambda: target.copy_(source))


def _best(clock: Clock, one_pass: Call) -> float:
    one_pass()  # makes pages and handles
    return min(clock.seconds(one_pass, 1) for _ in range(_PASSES))


def _cache_bytes(device: str) -> int:
    """Of the last level."""
    if device != "cpu":
        size: int = torch.cuda.get_device_properties(device).L2_cache_size
        return size
    sizes = [_bytes(file.read_text().strip()) for file in _CACHES.glob("index*/size")]
    return max(sizes, default=_BYTES_OF_A_CACHE)


def _bytes(text: str) -> int:
    """Of ``32768K``."""
    return int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)
