"""A gauge tells slow from usual, and takes a new normal for usual after a while."""

from __future__ import annotations

from suite.timing.gauge import Gauge


class Machine:
    """Takes what it is set to."""

    def __init__(self) -> None:
        self.seconds = 1.0
        self.gauge = Gauge(lambda: self.seconds)

    def said(self, seconds: float, times: int = 1, *, is_noted: bool = True) -> list[bool]:
        self.seconds = seconds
        return [self.gauge.is_at_speed(is_noted=is_noted) for _ in range(times)]


def test_a_third_slower_is_slow_and_a_little_slower_is_not() -> None:
    machine = Machine()
    assert all(machine.said(1.0, 20))
    assert machine.said(1.3) == [False]
    assert machine.said(1.07) == machine.said(0.9) == [True]


def test_it_judges_by_readings_and_first_needs_some() -> None:
    machine = Machine()
    assert all(machine.said(1.0, 5) + machine.said(9.0, 4))
    assert machine.said(9.0) == [False]


def test_slow_half_the_time_is_still_slow() -> None:
    machine = Machine()
    for _ in range(200):
        machine.said(1.0)
        found = machine.said(1.3)
    assert found == [False]


def test_a_new_normal_is_usual_after_a_while() -> None:
    machine = Machine()
    machine.said(1.0, 200)
    found = machine.said(1.5, 200)
    assert not any(found[:150])
    assert found[-1]


def test_a_long_wait_makes_no_normal() -> None:
    machine = Machine()
    machine.said(1.0, 20)
    assert not any(machine.said(1.5, 1000, is_noted=False))
