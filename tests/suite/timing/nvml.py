"""A fake of NVIDIA's management library that records calls and answers them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bakeoff.suite.timing import gpu_state as module

NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED
UUID = "b3c1e0a2-0000-0000-0000-000000000001"


class Library:
    """A stand-in for NVML that returns codes, and numbers through pointers."""

    def __init__(self, reasons: int = 0, code: int = 0) -> None:
        self.reasons, self.code, self.millijoules = reasons, code, 0
        self.asked: list[Any] = []

    def nvmlInit_v2(self) -> int:
        self.asked.append("init")
        return self.code

    def nvmlDeviceGetHandleByUUID(self, name: bytes, handle: Any) -> int:
        self.asked.append(name)
        return 0

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, answer: Any) -> int:
        answer._obj.value = {1: 1755}[kind.value]
        return 0

    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: Any, answer: Any) -> int:
        answer._obj.value = {1: 1980}[kind.value]
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, answer: Any) -> int:
        answer._obj.value = self.reasons
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: Any, answer: Any) -> int:
        answer._obj.value = 412_500
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, answer: Any) -> int:
        answer._obj.value = self.millijoules
        return NOT_SUPPORTED if self.millijoules < 0 else 0


def with_library(monkeypatch: pytest.MonkeyPatch, library: Library) -> Library:
    """Install the library for the only card and clear the cache of known cards."""
    module._card_of.cache_clear()
    properties = SimpleNamespace(uuid=UUID)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libnvidia-ml.so.1": library}[name])
    return library
