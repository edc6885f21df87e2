"""Test the error rates and the power of reports on thousands of ablations with known truth.

The short form runs with all tests. The long form, `make statistics-test`, prints the numbers in
docs/statistics.md. Both are seeded; bounds are 3.5 binomial standard errors from the stated rates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bakeoff.reports.analysis.power import power_in_words
from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict, verdict, with_q_values
from bakeoff.reports.stats.aggregate import interquartile_mean, pooled_interval
from bakeoff.reports.stats.intervals import Estimate, mean_interval
from bakeoff.reports.stats.significance import ALPHA, power, smallest_effect
from tests.reports.analysis.test_gate import measured
from tests.reports.simulated import about, overview, series

pytestmark = pytest.mark.whole

SEEDS = (3, 5, 10)
NUM_CLAIMS = 10
Draw = Callable[[np.random.Generator, Any], NDArray[np.float64]]


def normal(rng: np.random.Generator, shape: Any) -> NDArray[np.float64]:
    return rng.normal(size=shape)


def heavy(rng: np.random.Generator, shape: Any) -> NDArray[np.float64]:
    """Draw from Student's t with 3 degrees of freedom, with occasional outliers."""
    return rng.standard_t(3, size=shape) / math.sqrt(3)


def skewed(rng: np.random.Generator, shape: Any) -> NDArray[np.float64]:
    """Draw from a lognormal: most seeds are slightly better than the mean, a few much worse."""
    drawn: NDArray[np.float64] = rng.lognormal(size=shape) - math.exp(0.5)
    return drawn / math.sqrt((math.e - 1) * math.e)


def _slack(share: float, num: int) -> float:
    return 3.5 * math.sqrt(share * (1 - share) / num)


def _holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def _coverage(draw: Draw, n: int, num: int, *, is_paired: bool) -> float:
    """Return the share of intervals that contain the true value, zero."""
    rng = np.random.default_rng(n)
    a, b = draw(rng, (num, n)), draw(rng, (num, n))
    shared = rng.normal(size=(num, n))
    values = (a + shared) - (b + shared) if is_paired else a
    return sum(_holds(mean_interval(row.tolist()), 0.0) for row in values) / num


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("is_paired", [False, True], ids=["mean", "paired"])
def test_intervals_hold_the_truth_nineteen_times_in_twenty(n: int, is_paired: bool) -> None:
    held = _coverage(normal, n, 4000, is_paired=is_paired)
    assert 0.93 < held < 0.97
    assert abs(held - 0.95) < _slack(0.95, 4000)


def _pooled_coverage(num_tasks: int, n: int, num: int, interval: Any = pooled_interval) -> float:
    """Return the coverage where tasks with larger effects have larger spreads."""
    effects, spreads = np.linspace(0, 2, num_tasks)[:, None], np.linspace(0.5, 1.5, num_tasks)
    truth = _pooled(effects + spreads[:, None] * _many_normal(num_tasks), interquartile_mean)
    rng = np.random.default_rng([num_tasks, n])
    held = 0
    for _ in range(num):
        values = effects + spreads[:, None] * rng.normal(size=(num_tasks, n))
        held += _holds(_pooled(values, interval), truth)
    return held / num


def _pooled(values: NDArray[np.float64], statistic: Any) -> Any:
    return statistic({f"task {index}": row.tolist() for index, row in enumerate(values)})


def _many_normal(num_tasks: int) -> NDArray[np.float64]:
    return np.random.default_rng(1).normal(size=(num_tasks, 50_000))


def _plain_percentile(differences: Mapping[str, Sequence[float]]) -> Estimate:
    """Return the usual percentile interval: resample within each task and take the quantiles."""
    rng = np.random.default_rng(0)
    drawn = []
    for values in differences.values():
        given = np.asarray(values)
        drawn.append(given[rng.integers(given.size, size=(1000, given.size))])
    pooled = np.sort(np.concatenate(drawn, axis=1), axis=1)
    cut = pooled.shape[1] // 4
    low, high = np.quantile(pooled[:, cut : pooled.shape[1] - cut].mean(axis=1), [0.025, 0.975])
    return Estimate(n=pooled.shape[1], low=float(low), high=float(high))


def test_pooled_intervals_hold_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bakeoff.reports.stats.aggregate.NUM_RESAMPLES", 1000)
    held, plain = _pooled_coverage(4, 3, 600), _pooled_coverage(4, 3, 600, _plain_percentile)
    assert abs(held - 0.95) < _slack(0.95, 600)
    assert plain < held - 0.03  # from the same draws


def _is_false(answer: Verdict, truth: float, by: float) -> bool:
    """Return True if the outcome of a verdict, or its finding, is false."""
    match answer.outcome:
        case ClaimOutcome.SUPPORTED:
            return truth <= 0
        case ClaimOutcome.SMALLER:
            return not 0 < truth < by
        case ClaimOutcome.EQUIVALENT:
            return abs(truth) >= by
        case ClaimOutcome.REFUTED:
            says_worse = answer.advantage.excludes_zero and (answer.advantage.high or 0) < 0
            return truth >= 0 if says_worse else truth >= by
        case _:
            return False


def _overviews(
    num: int, draw: Draw = normal, **given: Any
) -> Iterator[list[tuple[Verdict, float, float]]]:
    """Yield overviews of claims, each with its verdict, its true difference and its margin.

    Args:
        num: The number of overviews.
        draw: The distribution of the noise.
        given: `seeds`, and `truths` and `margins` of each claim in standard errors of its
            difference.
    """
    seeds: Sequence[int] = given.get("seeds", SEEDS)
    truths: Sequence[float] = given.get("truths", [0.0] * NUM_CLAIMS)
    margins: Sequence[float] = given.get("margins", MARGINS)
    rng = np.random.default_rng([11, *seeds])
    for index in range(num):
        n = seeds[index % len(seeds)]
        cases = overview(_abouts(n, tuple(margins)), truths, draw, rng)
        found = {name: verdict(*case) for name, case in cases.items()}
        answers = with_q_values({name: each for name, each in found.items() if each is not None})
        error = math.sqrt(2 / n)
        yield [
            (answer, truth * error, margin * error)
            for answer, truth, margin in zip(answers.values(), truths, margins, strict=True)
        ]


def _false_share(num: int, draw: Draw = normal, **given: Any) -> float:
    """Return the share of false verdicts among all claims of `num` overviews."""
    every = [_is_false(*claim) for claims in _overviews(num, draw, **given) for claim in claims]
    return sum(every) / len(every)


def _false_discoveries(num: int, draw: Draw = normal, **given: Any) -> float:
    """Return the mean share of claims without a difference among those with a q of at most 5 %."""
    shares = []
    for claims in _overviews(num, draw, **given):
        found = [truth for answer, truth, _ in claims if (answer.q or 0.0) <= ALPHA]
        shares.append(sum(truth == 0 for truth in found) / max(1, len(found)))
    return sum(shares) / len(shares)


TRUTHS = (0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 6.0, 9.0, 12.0, -5.0)
MARGINS = (0.0, 0.0, 0.0, 1.0, 2.5, 0.0, 0.0, 1.0, 2.5, 5.0)


@functools.cache
def _abouts(n: int, margins: tuple[float, ...]) -> list[Any]:
    return [about(n, margin * math.sqrt(2 / n)) for margin in margins]


def test_few_verdicts_and_few_discoveries_are_false() -> None:
    """Check both rates; without the q-values many more of the supported claims would be false."""
    share = _false_share(100)
    assert 0.005 < share <= 0.05 + _slack(0.05, 100 * NUM_CLAIMS)
    found = _false_discoveries(100, truths=TRUTHS)
    assert found <= 0.05 + _slack(0.05, 100)
    supported = [
        truth
        for claims in _overviews(100, truths=[0.0] * 9 + [9.0])
        for answer, truth, _ in claims
        if answer.p is not None and answer.p < ALPHA
    ]
    assert sum(truth == 0 for truth in supported) / len(supported) > 0.15


def _found_share(n: int, effect: float, num: int) -> float:
    """Return how often an effect, in standard deviations of the difference, supports the claim."""
    said = about(n, 0.0)
    rng = np.random.default_rng([n, 5])
    found = 0
    for _ in range(num):
        seeds, b, a = rng.normal(size=(3, n))
        answer = verdict(said, [series(seeds + a + effect * math.sqrt(2), seeds + b)])
        found += answer is not None and answer.outcome is ClaimOutcome.SUPPORTED
    return found / num


def test_the_power_is_what_is_stated() -> None:
    stated = power(smallest_effect(1.0, 5), 1.0, 5)
    found = _found_share(5, smallest_effect(1.0, 5), 600)
    assert stated == pytest.approx(0.8)
    assert abs(found - stated) < _slack(stated, 600)


def _power_as_planned(num_pairs: int, n: int, num: int) -> float:
    """Return how often the effect that a plan prints from `num_pairs` pairs is then supported."""
    rng = np.random.default_rng([num_pairs, n])
    earlier, planned = about(num_pairs, 0.0), about(n, 0.0)
    found = 0
    for _ in range(num):
        drawn = rng.normal(size=(2, num_pairs + n))
        before, after = drawn[:, :num_pairs], drawn[:, num_pairs:]
        said = power_in_words(earlier, [series(*before)], n)
        effect = float(said.partition(" bit")[0].rpartition(" ")[2])
        answer = verdict(planned, [series(after[0] + effect, after[1])])
        found += answer is not None and answer.outcome is ClaimOutcome.SUPPORTED
    return found / num


@pytest.mark.parametrize(("num_pairs", "n"), [(3, 3), (3, 10), (10, 10)])
def test_what_a_plan_promises_is_found_as_often(num_pairs: int, n: int) -> None:
    """Check that the plan includes the error of the spread; without it the power is 63 %."""
    assert abs(_power_as_planned(num_pairs, n, 400) - 0.8) < _slack(0.8, 400)


def _sweeps(n: int, num: int, *, below: float = 0.0) -> list[Verdict]:
    """Return verdicts on two equal variants that are `below` deviations worse than the floor."""
    rng = np.random.default_rng([n, int(100 + below)])
    answers = []
    for _ in range(num):
        b = rng.normal(2.0 + 0.1 * below, 0.1, size=n)
        a = b + 0.1 * rng.normal(size=n)
        answers.append(verdict(*measured(a.tolist(), b.tolist(), {"floor": 2.0, "poor": 4.0})))
    return [answer for answer in answers if answer is not None]


def _passed(answers: Sequence[Verdict]) -> float:
    tested = [answer for answer in answers if answer.outcome is not ClaimOutcome.NOT_TESTED]
    return len(tested) / len(answers)


def test_the_gate_is_shut_for_models_at_chance() -> None:
    """Check that one in 200 passes at the floor on either side, and almost none below."""
    assert _passed(_sweeps(5, 100)) <= 0.03
    assert _passed(_sweeps(5, 50, below=1.0)) == 0
    assert _passed(_sweeps(5, 10, below=-20.0)) == 1


def _rows(title: str, cells: Mapping[str, float]) -> Iterator[str]:
    yield f"\n{title}"
    for name, share in cells.items():
        yield f"  {name:<44} {100 * share:6.2f} %"


def _print(title: str, cells: Mapping[str, float]) -> None:
    print("\n".join(_rows(title, cells)))


@pytest.mark.statistics
def test_coverage_at_length() -> None:
    num = 20_000
    cells = {
        f"{draw.__name__}, {'paired' if is_paired else 'mean'}, {n} seeds": _coverage(
            draw, n, num, is_paired=is_paired
        )
        for draw in (normal, heavy, skewed)
        for is_paired in (False, True)
        for n in SEEDS
    }
    _print(f"Nominal 95 % intervals hold the truth ({num:,} draws each)", cells)
    for name, held in cells.items():
        if name.startswith("normal"):
            assert 0.93 <= held <= 0.97
            assert abs(held - 0.95) < _slack(0.95, num)
        elif "paired" in name or name.startswith("heavy"):
            assert held >= 0.93  # differences of two equal distributions are symmetric
        else:
            assert held < 0.93  # the mean of a skewed sample has less coverage than nominal


@pytest.mark.statistics
def test_pooled_coverage_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bakeoff.reports.stats.aggregate.NUM_RESAMPLES", 1000)
    num = 1000
    cells = {
        f"{tasks} tasks, {n} seeds": _pooled_coverage(tasks, n, num)
        for tasks in (2, 4, 10)
        for n in SEEDS
    }
    plain = {
        f"{tasks} tasks, {n} seeds": _pooled_coverage(tasks, n, num, _plain_percentile)
        for tasks in (4, 10)
        for n in SEEDS
    }
    _print(f"Pooled over tasks ({num:,} draws each)", cells)
    _print("The same by the plain percentile bootstrap", plain)
    assert all(
        0.93 - _slack(0.93, num) < held < 0.97 + _slack(0.97, num) for held in cells.values()
    )
    assert all(plain[f"{tasks} tasks, 3 seeds"] < 0.93 for tasks in (4, 10))


@pytest.mark.statistics
def test_false_verdicts_at_length() -> None:
    num = 1000
    cells = {f"no differences, {n} seeds": _false_share(num, seeds=[n]) for n in SEEDS}
    cells |= {
        f"no differences, every margin {margin:g} errors": _false_share(
            num, margins=[margin] * NUM_CLAIMS
        )
        for margin in (0.0, 1.0, 2.5, 4.0)
    }
    cells["half of them true differences"] = _false_share(num, truths=TRUTHS)
    cells["the truth on every margin"] = _false_share(
        num, truths=[2.5] * NUM_CLAIMS, margins=[2.5] * NUM_CLAIMS
    )
    cells["no differences, heavy tails"] = _false_share(num, heavy)
    cells["no differences, skewed"] = _false_share(num, skewed)
    _print(f"Claims with a false verdict ({num * NUM_CLAIMS:,} each)", cells)
    assert all(share <= 0.05 + _slack(0.05, num * NUM_CLAIMS) for share in cells.values())


@pytest.mark.statistics
def test_false_discoveries_at_length() -> None:
    num, cells = 1000, {}
    for draw in (normal, heavy, skewed):
        name = draw.__name__
        cells[f"{name}, no differences"] = _false_discoveries(num, draw)
        cells[f"{name}, half of them true"] = _false_discoveries(num, draw, truths=TRUTHS)
    _print(f"False among claims with a q of at most 5 % ({num:,} overviews each)", cells)
    assert all(share <= 0.05 + _slack(0.05, num) for share in cells.values())


@pytest.mark.statistics
def test_the_gate_at_length() -> None:
    num = 1000
    cells = {
        f"{below:g} deviations below the floor, {n} seeds": _passed(_sweeps(n, num, below=below))
        for below in (0.0, 1.0, -4.0)
        for n in SEEDS
    }
    _print(f"Sweeps that pass the gate ({num:,} each)", cells)
    beyond = [answer for n in SEEDS for answer in _sweeps(n, num, below=-50.0)]
    false = sum(_is_false(answer, 0.0, 0.0) for answer in beyond) / len(beyond)
    _print("Those that have learnt, without a difference, falsely judged", {"all": false})
    assert _passed(beyond) == 1
    assert false <= 0.05 + _slack(0.05, len(beyond))
    for name, share in cells.items():
        if name.startswith("0"):
            assert share <= 0.01 + _slack(0.01, num)
        if name.startswith("1"):
            assert share <= 0.002


@pytest.mark.statistics
def test_the_power_of_plans_at_length() -> None:
    num = 2000
    cells = {
        f"{pairs} earlier pairs, {n} seeds": _power_as_planned(pairs, n, num)
        for pairs in SEEDS
        for n in SEEDS
    }
    _print(f"The effect that plan prints is supported ({num:,} sweeps each)", cells)
    assert all(abs(share - 0.8) < 0.05 for share in cells.values())


@pytest.mark.statistics
def test_power_at_length() -> None:
    num = 4000
    cells, stated = {}, {}
    for n in SEEDS:
        for effect in (1.0, 2.0, smallest_effect(1.0, n)):
            name = f"{effect:.2f} standard deviations, {n} seeds"
            cells[name] = _found_share(n, effect, num)
            stated[name] = power(effect, 1.0, n)
    _print("Power, stated", stated)
    _print(f"Power, found ({num:,} claims each)", cells)
    for name, share in cells.items():
        assert abs(share - stated[name]) < _slack(stated[name], num) + 1 / num
