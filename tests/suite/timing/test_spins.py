"""Test the cost of a spin on a fake GPU whose costs are known."""

from __future__ import annotations

import pytest

from bakeoff.suite.timing.spins import SpinCost
from tests.suite.timing.fake_gpu import US, FakeGpu


@pytest.mark.parametrize("is_graph", [True, False])
def test_the_cost_of_a_spin_is_one_kernel_and_its_cycles(
    monkeypatch: pytest.MonkeyPatch, is_graph: bool
) -> None:
    gpu = FakeGpu(monkeypatch)
    gpu.pause = 1.5 * US
    made = gpu.on_gpu if is_graph else (lambda run: run)
    seconds, cost = gpu.clock.pass_and_spin(gpu.work(1, 300 * US), made)
    assert seconds == pytest.approx(301.5 * US, rel=0.01)
    assert cost.kernel_seconds == pytest.approx(1.5 * US, rel=0.01)
    assert cost.cycles_per_second == pytest.approx(2e9, rel=0.01)  # not that of an idle GPU


def test_a_spin_adds_so_many_seconds_with_its_kernel() -> None:
    cost = SpinCost(kernel_seconds=2 * US, cycles_per_second=2e9)
    assert cost.cycles(10 * US) == 16_000
    assert cost.cycles(2 * US) == cost.cycles(1 * US) == 0
