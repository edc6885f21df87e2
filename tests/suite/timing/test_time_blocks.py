"""Test which rounds count: candidates may differ in their number of quiet rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bakeoff.suite.timing.machine_load import num_cpus
from bakeoff.suite.timing.passes import Key
from bakeoff.suite.timing.stopping import Limits, median_of
from bakeoff.suite.timing.time_blocks import (
    LEAST_CANDIDATES,
    LEAST_ROUNDS,
    Record,
    TimeBlock,
    without_round_effects,
)
from tests.suite.timing.scripted import key

A, B = key("a"), key("b")
LIMITS = Limits(least_rounds=6, least_seconds=0.0, half_width=0.02)
BUSY = "other processes took 50 % of a core"


def record(*blocks: tuple[int, str, float | None]) -> Record:
    """Return a record of blocks with the given numbers of rounds; busy ones are slower."""
    held = [
        TimeBlock([{A: 2.0 if busy else 1.0}] * number, busy, cores, float(number))
        for number, busy, cores in blocks
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
    seen = record((2, "", 0.0), (1, BUSY, 0.5))  # three passes per sample take 12 s
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


KEYS = [key(name) for name in "abcdefgh"]
SPEEDS = {each: 2.0**index for index, each in enumerate(KEYS)}
Rounds = list[dict[Key, float]]


def rounds(factors: np.ndarray, rest: float = 0.0) -> Rounds:
    """Return rounds scaled by a common factor each, with extra noise per sample."""
    drawn = np.random.default_rng(0)
    return [
        {each: SPEEDS[each] * factor * math.exp(drawn.normal(0, rest)) for each in KEYS}
        for factor in factors
    ]


def test_what_slows_whole_rounds_goes() -> None:
    factors = np.array([1.0, 1.5, 1.0, 0.8, 1.1, 1.0, 3.0])
    for held in without_round_effects(rounds(factors)):
        for each, seconds in held.items():
            assert seconds == pytest.approx(SPEEDS[each], rel=1e-12)


def test_the_middle_round_is_left_as_it_was() -> None:
    factors = np.array([5.0, 1.2, 1.2, 1.2, 0.1])
    found = without_round_effects(rounds(factors))
    assert found[2][KEYS[0]] == pytest.approx(1.2)


def test_a_candidate_that_is_slower_stays_slower_by_as_much() -> None:
    held = rounds(np.exp(np.random.default_rng(1).normal(0, 0.2, 41)))
    slowed = [{**one, KEYS[3]: one[KEYS[3]] * 1.05} for one in held]
    medians = [
        median_of([one[KEYS[3]] for one in without_round_effects(some)]).value
        for some in (held, slowed)
    ]
    assert medians[1] / medians[0] == pytest.approx(1.05, rel=1e-9)


def test_odd_samples_of_one_candidate_move_no_other() -> None:
    held = rounds(np.ones(9))
    held[4] = {**held[4], KEYS[0]: 100.0}
    found = without_round_effects(held)
    assert [one[KEYS[1]] for one in found] == pytest.approx([SPEEDS[KEYS[1]]] * 9)
    assert found[4][KEYS[0]] == pytest.approx(100.0)


def test_the_interval_is_that_of_the_candidates_own_noise() -> None:
    restless = np.exp(np.random.default_rng(2).normal(0, 0.3, 60))
    own = {
        name: median_of([one[KEYS[0]] for one in some]).half_width
        for name, some in {
            "raw": rounds(restless, rest=0.01),
            "without": without_round_effects(rounds(restless, rest=0.01)),
            "calm": rounds(np.ones(60), rest=0.01),
        }.items()
    }
    assert own["raw"] > 5 * own["calm"]
    assert own["without"] == pytest.approx(own["calm"], rel=1.0)


def test_a_candidate_may_sit_rounds_out() -> None:
    held = rounds(np.linspace(1, 2, 9))
    for one in held[5:]:
        del one[KEYS[7]]
    found = without_round_effects(held)
    assert [set(one) for one in found] == [set(one) for one in held]
    assert found[0][KEYS[7]] == pytest.approx(found[4][KEYS[7]])


@pytest.mark.parametrize(
    ("num_keys", "num_rounds"),
    [(LEAST_CANDIDATES - 1, 20), (len(KEYS), LEAST_ROUNDS - 1), (len(KEYS), 0)],
)
def test_too_few_are_left_as_they_are(num_keys: int, num_rounds: int) -> None:
    held = rounds(np.linspace(1, 2, num_rounds))
    some = [{each: one[each] for each in KEYS[:num_keys]} for one in held]
    assert without_round_effects(some) == some
