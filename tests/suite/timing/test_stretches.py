"""Which rounds count: one contestant may have enough quiet ones where another has not."""

from __future__ import annotations

import pytest

from suite.timing.machine_load import num_cpus
from suite.timing.stopping import Limits
from suite.timing.stretches import Record, Stretch
from tests.suite.timing.scripted import key

A, B = key("a"), key("b")
LIMITS = Limits(least_rounds=6, least_seconds=0.0, half_width=0.02)
BUSY = "other processes took 50 % of a core"


def record(*stretches: tuple[int, str, float | None]) -> Record:
    """Each so many rounds; the busy ones are slower."""
    held = [
        Stretch([{A: 2.0 if busy else 1.0}] * number, busy, cores, float(number))
        for number, busy, cores in stretches
    ]
    return Record({A: 3, B: 1}, held, elapsed=10.0)


def test_quiet_rounds_count_where_there_are_enough() -> None:
    series, noise = record((2, "", 0.0), (5, BUSY, 0.5), (4, "", 0.0)).counted(A, LIMITS)
    assert list(series.samples) == [1.0] * 6
    assert series.seconds == 18.0
    assert noise == ""


def test_all_rounds_count_where_too_few_are_quiet() -> None:
    words = ["took 20 %", "took 90 %", "took 50 %"]
    seen = record((3, "", 0.0), (1, words[0], 0.2), (1, words[1], 0.9), (1, words[2], 0.5))
    series, noise = seen.counted(A, LIMITS)
    assert list(series.samples) == [1.0] * 3 + [2.0] * 3
    assert noise == "took 50 %"


def test_few_rounds_that_are_all_quiet_are_few_and_not_disturbed() -> None:
    series, noise = record((3, "", 0.0)).counted(A, LIMITS)
    assert len(series.samples) == 3
    assert noise == "fewer than 6 rounds, after 3 rounds and 10 s"


def test_who_has_taken_enough_time_is_known_whatever_disturbed_it() -> None:
    seen = record((2, "", 0.0), (1, BUSY, 0.5))  # three passes a sample: 12 s
    assert seen.is_spent(A, Limits(cell_seconds=12.0))
    assert not seen.is_spent(A, Limits(cell_seconds=12.1))


def test_load_is_weighed_by_time_and_shared_among_cpus() -> None:
    seen = record((1, "", 0.0), (3, BUSY, 0.8), (9, "", None))
    assert seen.other_load() == pytest.approx(0.6 / num_cpus())
    assert record((1, "", None)).other_load() is None
    assert record().other_load() is None


def test_rounds_are_counted_by_whether_they_were_disturbed() -> None:
    seen = record((2, "", 0.0), (5, BUSY, 0.5), (1, "", 0.0))
    assert (seen.num_quiet, seen.num_disturbed) == (3, 5)
