"""Test the choice between compiled and recorded steps by measured times."""

from __future__ import annotations

from bakeoff.suite.training.engines.step_choice import (
    MODULES_COMPILED,
    SECONDS_TO_COMPILE,
    choice_by_time,
)

RECORDED, COMPILED = 3.53e-3, 2.38e-3


def test_compiling_is_chosen_where_it_saves_more_than_it_takes() -> None:
    even = SECONDS_TO_COMPILE / (RECORDED - COMPILED)
    assert choice_by_time(int(even * 0.99), RECORDED, COMPILED, 1).runtime == "graph"
    longer = choice_by_time(int(even * 1.01), RECORDED, COMPILED, 1)
    assert longer.runtime == "compiled"
    assert longer.why == "compiling takes about 16 s and saves about 16 s"
    larger = choice_by_time(int(even * 1.01), RECORDED, COMPILED, 2 * MODULES_COMPILED)
    assert larger.runtime == "graph"
    assert choice_by_time(int(even * 0.5), 3 * RECORDED, 3 * COMPILED, 1).runtime == "compiled"
