"""Test NVML by its recorded calls, and the empty answers without it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bakeoff.suite.timing import gpu_state as module
from bakeoff.suite.timing.gpu_state import GpuState, gpu_state, joules_since
from tests.suite.timing.nvml import NOT_SUPPORTED, UUID, Library, with_library

CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    module._card_of.cache_clear()
    properties = SimpleNamespace(uuid=UUID)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    yield
    module._card_of.cache_clear()


@pytest.mark.parametrize(
    ("reasons", "words"),
    [(0x1 | 0x4 | 0x40, "power cap, heat, by hardware"), (0x1, "")],  # idle is not a reason
)
def test_clock_and_reasons_are_read(
    monkeypatch: pytest.MonkeyPatch, reasons: int, words: str
) -> None:
    library = with_library(monkeypatch, Library(reasons=reasons))
    for _ in range(2):
        assert gpu_state(CUDA) == GpuState(1755, 1980, words, watts=412.5)
    assert library.asked == ["init", b"GPU-" + UUID.encode()]  # only once


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


def test_what_a_card_cannot_answer_takes_nothing_from_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Power fails by an NVML code, reasons because the library lacks the function."""
    library = with_library(monkeypatch, Library())
    monkeypatch.setattr(library, "nvmlDeviceGetPowerUsage", lambda *_: NOT_SUPPORTED, raising=False)
    monkeypatch.delattr(Library, "nvmlDeviceGetCurrentClocksThrottleReasons")
    assert gpu_state(CUDA) == GpuState(1755, 1980, None, watts=None)


@pytest.mark.parametrize(
    ("begun", "ended", "share", "joules"),
    [
        (7_000_000_000, 7_000_120_000, 1.0, 120.0),
        (7_000_000_000, 7_000_120_000, 0.25, 30.0),
        (-1, 120_000, 1.0, None),
        (120_000, -1, 1.0, None),  # the value is missing at the end
        (120_000, 20_000, 1.0, None),  # the driver was reloaded
    ],
)
def test_the_share_of_what_the_counter_went_on_by(
    monkeypatch: pytest.MonkeyPatch, begun: int, ended: int, share: float, joules: float | None
) -> None:
    library = with_library(monkeypatch, Library())
    library.millijoules = begun
    since = joules_since(CUDA, share)
    library.millijoules = ended
    assert since() == (None if joules is None else pytest.approx(joules))
