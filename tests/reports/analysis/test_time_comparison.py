"""Test that the outcome of a pair is what its interval supports, and never more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bakeoff.reports.analysis.time_comparison import (
    DifferentEnvironments,
    TimeComparison,
    TimeOutcome,
    compare,
    false_alarms,
    found,
    judge_ratio,
    smallest_detectable_effect,
)
from bakeoff.reports.results.reading import resolution_of
from bakeoff.suite.schema import Status
from tests.reports.conftest import known
from tests.reports.made_growth import HERE, reading, readings


def _ratio(logs: list[float]) -> TimeComparison:
    return judge_ratio(readings(math.exp(x) for x in logs))


def _spread_of(middle: float, half: float) -> list[float]:
    """Return three logarithms with that mean and that half-width of their t interval."""
    step = half * math.sqrt(3) / stats.t.ppf(0.975, 2)
    return [middle - step, middle, middle + step]


@pytest.mark.parametrize(
    ("middle", "half", "outcome"),
    [
        (-0.050, 0.044, TimeOutcome.FASTER),
        (-0.050, 0.046, TimeOutcome.AMBIGUOUS),  # reaches into the last half per cent
        (0.050, 0.044, TimeOutcome.SLOWER),
        (0.050, 0.046, TimeOutcome.AMBIGUOUS),
        (0.000, 0.019, TimeOutcome.SAME),
        (0.000, 0.021, TimeOutcome.AMBIGUOUS),
        (0.010, 0.004, TimeOutcome.SLOWER),  # small but certain, so a difference
        (0.004, 0.003, TimeOutcome.SAME),  # certain, and too small to matter
    ],
)
def test_rules(middle: float, half: float, outcome: TimeOutcome) -> None:
    verdict = _ratio(_spread_of(middle, half))
    assert verdict.outcome is outcome
    assert verdict.is_certain == (outcome is not TimeOutcome.AMBIGUOUS)
    assert bool(verdict.reason) == (outcome is TimeOutcome.AMBIGUOUS)


def test_the_interval_is_that_of_scipy_on_logarithms_paired_by_process() -> None:
    a, b = [1.1, 1.3, 1.25, 1.4], [1.0, 1.1, 1.2, 1.15]
    shuffled = [reading(b[seed], seed) for seed in (2, 0, 3, 1)]
    verdict = compare(readings(a), shuffled)
    logs = np.log(np.array(a) / np.array(b))
    low, high = stats.t.interval(0.95, 3, loc=logs.mean(), scale=stats.sem(logs))
    ends = (verdict.ratio.point, verdict.ratio.low, verdict.ratio.high)
    assert ends == pytest.approx(tuple(np.exp([logs.mean(), low, high])), rel=1e-12)
    assert verdict.ratio.n == 4


@pytest.mark.parametrize(
    ("again", "limit"),
    [
        ((0.931, 1.07, 1.0), 1 / 0.931),  # the ratio of one process
        ((1.02, 0.99) * 50, 1.00788),  # for many, the far end of the mean's interval
        ((0.95,), 1 / 0.95),
        ((), 1.0),
    ],
)
def test_nothing_is_told_within_what_the_baseline_shows_against_itself(
    again: tuple[float, ...], limit: float
) -> None:
    resolution = resolution_of(readings(again))
    assert math.exp(resolution) == pytest.approx(limit, abs=1e-5)
    for sign in (-1.0, 1.0):
        inside, outside = (_spread_of(sign * size, 1e-4) for size in (0.9 * resolution, 0.081))
        beside = readings([1.0] * 3)
        verdict = compare(readings(math.exp(x) for x in outside), beside, resolution)
        assert verdict.outcome is (TimeOutcome.FASTER if sign < 0 else TimeOutcome.SLOWER)
        if resolution:
            verdict = compare(readings(math.exp(x) for x in inside), beside, resolution)
            assert verdict.outcome not in (TimeOutcome.FASTER, TimeOutcome.SLOWER)
            assert verdict.ratio.point == pytest.approx(math.exp(sign * 0.9 * resolution))


def test_what_a_machine_did_to_both_cancels() -> None:
    slow_down = [1.0, 3.0, 0.7]
    verdict = compare(readings(2.0 * x for x in slow_down), readings(1.0 * x for x in slow_down))
    assert verdict.outcome is TimeOutcome.SLOWER
    assert verdict.ratio.low == pytest.approx(2.0)


def test_the_other_way_round_says_the_opposite() -> None:
    a, b = readings([1.0, 1.01, 0.99]), readings([1.2, 1.22, 1.19])
    assert (compare(a, b).outcome, compare(b, a).outcome) == (
        TimeOutcome.FASTER,
        TimeOutcome.SLOWER,
    )


@pytest.mark.parametrize("other", [1.0, 1.03])  # the same or ambiguous, if there were no noise
def test_restless_processes_are_never_called_alike_but_keep_their_ratio(other: float) -> None:
    noisy = [reading(1.0, seed, status=Status.NOISY, reason="±4.1 % after 8 s") for seed in (1, 2)]
    verdict = compare((*readings([1.001]), *noisy), readings([other, 1.0, other]))
    assert verdict.outcome is TimeOutcome.NOISY
    assert verdict.ratio.point == pytest.approx(1.0, abs=0.03)
    assert verdict.reason == "±4.1 % after 8 s"


def test_a_difference_that_the_processes_agree_on_stands_whatever_the_noise_inside_them() -> None:
    """Check that the between-process interval already includes the noise within processes."""
    noisy = [
        reading(v, s, status=Status.NOISY, reason="±40 %") for s, v in enumerate([1, 1.3, 1.1])
    ]
    assert compare(noisy, readings([9.0, 9.0, 9.0])).outcome is TimeOutcome.FASTER
    assert compare(noisy, readings([1.2, 1.2, 1.2])).outcome is TimeOutcome.NOISY


def test_one_noisy_process_of_three_is_judged_by_the_interval_between_them() -> None:
    one = reading(1.3, 2, status=Status.NOISY, reason="±9 %")
    calm = compare((*readings([1.0, 1.0]), one), readings([20.0, 20.0, 20.0]))
    assert calm.outcome is TimeOutcome.FASTER
    close = compare((*readings([1.0, 1.0]), one), readings([1.2, 1.2, 1.2]))
    assert close.outcome is TimeOutcome.AMBIGUOUS


def test_two_processes_are_too_few_however_clear() -> None:
    failed = reading(math.nan, 2, status=Status.OUT_OF_MEMORY)
    verdict = compare((*readings([1.0, 1.0]), failed), readings([9.0, 9.0, 9.0]))
    assert verdict.outcome is TimeOutcome.NOISY
    assert verdict.reason == "2 paired processes, and at least 3 are needed"


def test_nothing_in_common_is_no_ratio() -> None:
    assert compare((), readings([1.0])).ratio.point is None


def test_times_of_two_environments_are_refused() -> None:
    with pytest.raises(DifferentEnvironments) as caught:
        compare(readings([1.0] * 3), readings([1.0] * 3, place="bbbbbbbbbbbb"))
    assert str(caught.value) == (
        f"these were measured in {HERE} and bbbbbbbbbbbb; times of different devices, thread "
        "counts or torch versions are never compared."
    )


def test_a_cell_without_a_number_names_no_environment() -> None:
    skipped = reading(math.nan, 0, place="", status=Status.SKIPPED)
    assert compare(readings([1.0] * 3), (skipped,)).ratio.n == 0


@pytest.mark.parametrize("num_processes", [3, 5])
def test_the_smallest_detectable_effect_is_found_four_times_in_five(num_processes: int) -> None:
    rng = np.random.default_rng(3)
    again = [_ratio(list(rng.normal(0, 0.01, num_processes))) for _ in range(400)]
    effect = known(smallest_detectable_effect(again))
    with_it = [
        _ratio(list(rng.normal(math.log1p(effect), 0.01, num_processes))) for _ in range(1000)
    ]
    assert 0.75 < found(with_it).num / 1000 < 0.85
    assert false_alarms(again).num <= 0.05 * 400


def test_there_is_no_smallest_effect_where_every_pair_is_noisy() -> None:
    noisy = judge_ratio([reading(1.0, s, status=Status.NOISY, reason="x") for s in range(3)])
    assert smallest_detectable_effect([noisy]) is None
    assert smallest_detectable_effect([]) is None
    assert str(false_alarms([noisy])) == "0 of 0"
    assert str(found([noisy])) == "0 of 1"  # noise hides the injected difference
