"""Test device peaks: the best pass counts, long enough on a GPU, at each precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bakeoff.suite.timing import peaks
from bakeoff.suite.timing.clock import CpuClock, clock_of
from bakeoff.suite.timing.passes import Call
from bakeoff.suite.timing.peaks import copy_peak, matrix_peak
from tests.suite.timing.scripted import ScriptedClock


class Scripted(ScriptedClock):
    """A clock that runs the pass of each sample and returns a scripted time."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self.script = iter(seconds)

    def seconds(self, one_pass: Call, num_passes: int) -> float:
        one_pass()
        return next(self.script)


def test_the_best_pass_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "_SIDE", {"cpu": 10})
    monkeypatch.setattr(peaks, "_cache_bytes", lambda device: 1000)
    times = (0.4, 0.3, 0.2, 0.3, 0.4)
    assert matrix_peak(Scripted(*times), "cpu") == pytest.approx(2 * 10**3 / 0.2)
    assert copy_peak(Scripted(*times), "cpu") == pytest.approx(2 * 2 * 1000 / 0.2)


def test_the_cache_is_as_large_as_the_system_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peaks, "_CACHES", tmp_path)
    assert peaks._cache_bytes("cpu") == 32 * 2**20  # no size given
    for index, size in enumerate(["32K\n", "1024K\n", "24M\n"]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size)
    assert peaks._cache_bytes("cpu") == 24 * 2**20


def test_a_real_peak_is_possible() -> None:
    assert 1e8 < matrix_peak(CpuClock(), "cpu") < 1e13
    assert 1e8 < copy_peak(CpuClock(), "cpu") < 1e12


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("float32", (torch.float32, False)),
        ("tf32", (torch.float32, True)),
        ("bf16", (torch.bfloat16, False)),
    ],
)
def test_each_precision_has_a_peak_of_its_own(
    precision: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()

    def noted(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        assert (a.dtype, a.shape) == (b.dtype, b.shape) == (out.dtype, out.shape)
        seen.add((a.dtype, torch.backends.cuda.matmul.allow_tf32))

    monkeypatch.setattr(peaks, "_SIDE", {"cpu": 4})
    monkeypatch.setattr(torch, "mm", noted)
    matrix_peak(Scripted(*[1.0] * 5), "cpu", precision)
    assert seen == {expected}


def test_a_gpu_has_time_to_raise_its_clock() -> None:
    clock = ScriptedClock()

    def product() -> None:
        clock.time += 0.01 if clock.time < 0.2 else 0.005

    assert peaks._best(clock, "cuda", product) == pytest.approx(0.005)
    assert peaks._best(clock, "cpu", product) == pytest.approx(0.005)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_real_gpu_multiplies_faster_with_less_precision() -> None:
    clock = clock_of("cuda")
    exact, tf32, bf16 = (matrix_peak(clock, "cuda", p) for p in ("float32", "tf32", "bf16"))
    assert 1e12 < exact < tf32 < bf16 < 1e16
    assert 1e10 < copy_peak(clock, "cuda") < 1e14
