"""Check that the kernels do as much work as their names say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bakeoff.suite.schema import CONTROLS, Status
from bakeoff.suite.timing import kernels as module
from bakeoff.suite.timing.kernels import LINEAR, LINEARITHMIC, QUADRATIC, kernels, num_units
from bakeoff.suite.timing.passes import Missing, Pass

LENGTHS = [2**i for i in range(6, 15)]


def test_units_grow_as_n_n_log_n_and_n_squared() -> None:
    n = np.array(LENGTHS, dtype=float)
    units = {metric: [num_units(length)[metric] for length in LENGTHS] for metric in num_units(64)}
    np.testing.assert_allclose(np.array(units[LINEAR]) / n, 1 / 4)
    np.testing.assert_allclose(np.array(units[LINEARITHMIC]) / (n * np.log2(n)), 1 / 32)
    np.testing.assert_allclose(np.array(units[QUADRATIC]) / n**2, 1 / 4096)


def test_a_pass_does_as_many_units(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(module, "_unit", lambda side, device: lambda: calls.append(side))
    for metric, kernel in kernels(256, "cpu").items():
        calls.clear()
        assert isinstance(kernel, Pass)
        kernel.run()
        assert len(calls) == num_units(256)[metric]
        assert set(calls) == {64}


def test_a_unit_is_real_work() -> None:
    sizes: list[torch.Size] = []
    original = torch.mm

    def noted(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        sizes.append(out.shape)
        return original(a, b, out=out)

    torch.mm = noted
    try:
        kernel = kernels(64, "cpu")[QUADRATIC]
        assert isinstance(kernel, Pass)
        kernel.run()
    finally:
        torch.mm = original
    assert sizes == [torch.Size([64, 64])]


@pytest.mark.parametrize("length", [1, 2, 63, 100])
def test_no_length_is_too_odd_for_them(length: int) -> None:
    assert all(count >= 1 for count in num_units(length).values())


def test_beyond_their_range_they_are_skipped() -> None:
    found = kernels(32768, "cpu")
    assert set(found) == {LINEAR, LINEARITHMIC, QUADRATIC} <= CONTROLS
    for kernel in found.values():
        assert isinstance(kernel, Missing)
        assert kernel == Missing(Status.SKIPPED, "the synthetic kernels go up to 16,384 tokens")
    assert all(isinstance(kernel, Pass) for kernel in kernels(16384, "cpu").values())
