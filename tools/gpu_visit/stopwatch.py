"""Times repeated work on a device, launched by Python or recorded as a CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from bakeoff.suite.training.engines.recording import on_gpu

Work = Callable[[], Any]
_WARM_UPS = 3
_SECONDS, _FEWEST = 0.3, 3


def wait_for(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def seconds_of(work: Work, device: str, *, seconds: float = _SECONDS) -> float:
    """Return the seconds of one call, the mean over as many as fit."""
    for _ in range(_WARM_UPS):
        work()
    wait_for(device)
    begun, calls = time.perf_counter(), 0
    while calls < _FEWEST or time.perf_counter() - begun < seconds:
        work()
        calls += 1
        if calls % 10 == 0:  # or Python runs ahead of the GPU
            wait_for(device)
    wait_for(device)
    return (time.perf_counter() - begun) / calls


def seconds_recorded(work: Work, device: str) -> float | None:
    """Return the same for the work as one CUDA graph, or None without a GPU."""
    return None if device == "cpu" else seconds_of(on_gpu(work), device)


def milliseconds(seconds: float | None) -> str:
    """Return them as text; a dash for none."""
    return "-" if seconds is None else f"{seconds * 1e3:.3g} ms"
