"""NVML, by what is asked of it; without it, nothing is said."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from suite.timing import gpu_state as module
from suite.timing.gpu_state import GpuState, gpu_state

CUDA = torch.device("cuda")
UUID = "b3c1e0a2-0000-0000-0000-000000000001"


class Library:
    """Answers as NVML does: a code, and numbers through pointers."""

    def __init__(self, reasons: int = 0, code: int = 0) -> None:
        self.reasons, self.code = reasons, code
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


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    module._handle.cache_clear()
    properties = SimpleNamespace(uuid=UUID)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    yield
    module._handle.cache_clear()


def with_library(monkeypatch: pytest.MonkeyPatch, library: Library) -> Library:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libnvidia-ml.so.1": library}[name])
    return library


@pytest.mark.parametrize(
    ("reasons", "words"),
    [(0x1 | 0x4 | 0x40, "power cap, heat, by hardware"), (0x1, "")],  # idle counts for none
)
def test_clock_and_reasons_are_read(
    monkeypatch: pytest.MonkeyPatch, reasons: int, words: str
) -> None:
    library = with_library(monkeypatch, Library(reasons=reasons))
    for _ in range(2):
        assert gpu_state(CUDA) == GpuState(1755, 1980, words)
    assert library.asked == ["init", b"GPU-" + UUID.encode()]  # once


def test_without_nvml_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert gpu_state(CUDA) is None


def test_an_error_of_nvml_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with_library(monkeypatch, Library(code=9))
    assert gpu_state(CUDA) is None


def test_a_torch_that_gives_no_uuid_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace())
    assert gpu_state(CUDA) is None
