"""Test the choice between compiled and recorded steps by measured times."""

from __future__ import annotations

import pytest

from bakeoff.suite.training.engines.step_choice import (
    MEASURED_STEPS,
    MODULES_COMPILED,
    SECONDS_TO_COMPILE,
    choice_by_time,
    seconds_of_step,
)


def test_the_estimate_is_what_was_measured() -> None:
    gains = []
    for each in MEASURED_STEPS:
        recorded, compiled = seconds_of_step(each.flops)
        assert (recorded, compiled) == pytest.approx((each.recorded_seconds, each.compiled_seconds))
        gains.append(round(recorded / compiled, 2))
    assert gains == [1.48, 1.70]


@pytest.mark.parametrize("flops", [0.0, 1e9, 1e14])
def test_a_compiled_step_is_never_estimated_to_be_slower(flops: float) -> None:
    recorded, compiled = seconds_of_step(flops)
    assert 0 < compiled < recorded


def test_compiling_is_chosen_where_it_saves_more_than_it_takes() -> None:
    small = MEASURED_STEPS[0]
    even = SECONDS_TO_COMPILE / (small.recorded_seconds - small.compiled_seconds)
    assert choice_by_time(int(even * 0.99), small.flops, 1).runtime == "graph"
    longer = choice_by_time(int(even * 1.01), small.flops, 1)
    assert longer.runtime == "compiled"
    assert longer.why == "compiling takes about 16 s and saves about 16 s"
    assert choice_by_time(int(even * 1.01), small.flops, 2 * MODULES_COMPILED).runtime == "graph"
    assert choice_by_time(int(even * 0.5), 4 * small.flops, 1).runtime == "compiled"
