"""Test effective speedups on laws whose speedup is known, and the coverage of their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pytest

from bakeoff.reports.analysis.speedup import NoCurve, Reach, effective_speedup
from bakeoff.reports.stats.intervals import smallest_level
from tests.reports.conftest import known

L0, A, POWER = 1.2, 30.0, 0.3
BUDGETS = (5e8, 1e9, 2e9)
TRUTH = 1.25  # the speedup in simulations


def loss(budget: float) -> float:
    return L0 + A * budget**-POWER


def accuracy(budget: float) -> float:
    return 1 / (1 + math.exp(-0.8 * (math.log(budget) - math.log(1e9))))


def one_seed(
    budgets: Sequence[float], law: Callable[[float], float]
) -> dict[float, dict[int, float]]:
    return {budget: {0: law(budget)} for budget in budgets}


@pytest.mark.parametrize("truth", [0.6, 0.9, 1.0, 1.3, 1.9])
@pytest.mark.parametrize(
    ("budgets", "within"), [(BUDGETS, 0.002), ((2.5e8, 1e9, 4e9), 0.02), ((*BUDGETS, 4e9), 0.002)]
)
def test_a_law_gives_the_speedup_that_it_was_made_with(
    truth: float, budgets: Sequence[float], within: float
) -> None:
    spent = 1e9
    found = effective_speedup(
        one_seed(budgets, loss), {0: loss(truth * spent)}, spent, better="lower"
    )
    assert found.reach is Reach.BETWEEN
    assert found.ratio.point == pytest.approx(truth, rel=within)
    assert found.ratio.low is None


def test_a_score_that_grows_is_read_the_other_way() -> None:
    found = effective_speedup(
        one_seed(BUDGETS, accuracy), {0: accuracy(1.4e9)}, 1e9, better="higher"
    )
    assert found.ratio.point == pytest.approx(1.4, rel=0.01)


def test_it_is_a_ratio_of_budgets_and_not_of_losses() -> None:
    """Check a variant that is as good for half of the budget, whatever the unit is."""
    for scale in (1.0, 3600.0):
        budgets = {scale * one: {0: loss(one)} for one in BUDGETS}
        found = effective_speedup(budgets, {0: loss(1e9)}, scale * 5e8, better="lower")
        assert found.ratio.point == pytest.approx(2.0, rel=1e-5)


def test_nothing_is_extrapolated() -> None:
    better = effective_speedup(one_seed(BUDGETS, loss), {0: loss(9e9)}, 1e9, better="lower")
    assert (better.reach, better.ratio.point) == (Reach.BEYOND, pytest.approx(2.0))
    worse = effective_speedup(one_seed(BUDGETS, loss), {0: loss(1e8)}, 1e9, better="lower")
    assert (worse.reach, worse.ratio.point) == (Reach.BELOW, pytest.approx(0.5))


def test_what_a_seed_does_to_all_trainings_cancels() -> None:
    luck = {0: 0.3, 1: -0.2, 2: 0.1}
    budgets = {one: {s: loss(one) + more for s, more in luck.items()} for one in BUDGETS}
    scores = {s: loss(1.2e9) + more for s, more in luck.items()}
    ratio = effective_speedup(budgets, scores, 1e9, better="lower").ratio
    assert ratio.low == pytest.approx(1.2, rel=0.01)
    assert ratio.high == pytest.approx(1.2, rel=0.01)


def test_only_seeds_of_all_trainings_count() -> None:
    budgets = {one: {0: loss(one), 1: loss(one)} for one in BUDGETS}
    found = effective_speedup(budgets, {1: loss(1e9), 2: 99.0}, 1e9, better="lower")
    assert found.ratio.n == 1
    with pytest.raises(NoCurve, match="no seed"):
        effective_speedup(budgets, {2: 1.0}, 1e9, better="lower")


@pytest.mark.parametrize(
    ("budgets", "why"),
    [
        ({1e9: {0: 1.0}, 2e9: {0: 0.9}}, "at least 3 budgets"),
        ({1e9: {0: 1.0}, 2e9: {0: 1.1}, 4e9: {0: 0.9}}, "does not improve"),
        ({1e9: {0: 1.0}, 2e9: {0: 0.9}, 4e9: {0: 0.9}}, "does not improve"),
        # The parabola through a score that saturates has its minimum between the last two.
        ({1e9: {0: 1.0}, 2e9: {0: 0.3}, 4e9: {0: 0.29}}, "not monotone; add budgets"),
    ],
)
def test_a_baseline_without_a_curve_is_refused(
    budgets: Mapping[float, Mapping[int, float]], why: str
) -> None:
    with pytest.raises(NoCurve, match=why):
        effective_speedup(budgets, {0: 1.0}, 1e9, better="lower")


def test_an_interval_that_reaches_the_last_budget_is_open() -> None:
    noise = (1e-3, -1e-3, 5e-4)
    budgets = {one: {s: loss(one) for s in range(3)} for one in BUDGETS}
    scores = {s: loss(1.95e9) + more for s, more in enumerate(noise)}
    found = effective_speedup(budgets, scores, 1e9, better="lower")
    assert found.is_open_above
    assert not found.is_open_below
    assert found.ratio.high == pytest.approx(2.0)


def test_a_budget_beyond_an_excluded_one_is_excluded_too() -> None:
    """Check a curve whose smallest budget is so noisy that no test of it alone excludes it."""
    budgets = {
        1.0: {0: -3.0, 1: 0.0, 2: 1.2},
        2.0: {0: 0.50, 1: 0.51, 2: 0.49},
        4.0: {0: 1.00, 1: 1.01, 2: 0.99},
    }
    found = effective_speedup(budgets, dict.fromkeys(range(3), 0.75), 4.0, better="higher")
    compared = found.comparison
    assert smallest_level(compared.advantages(math.log(1 / 4))) > 0.05
    assert smallest_level(compared.advantages(math.log(2 / 4))) < 0.05
    assert 2 / 4 < known(found.ratio.low) < known(found.ratio.point)
    assert not found.is_open_below
    assert compared.p_value(math.log(1 / 4)) < 0.05


def test_p_is_the_level_at_which_the_interval_ends() -> None:
    """Check noise as large as the step between two budgets, where the tests are not ordered."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        budgets, scores = _simulated(rng, BUDGETS, 3, 1.0, heavy=False)
        with suppress(NoCurve):
            found = effective_speedup(budgets, scores, 1e9, better="lower")
            ratio = found.log_ratio
            for log_ratio in np.linspace(math.log(0.55), math.log(1.9), 7):
                inside = known(ratio.low) <= log_ratio <= known(ratio.high)
                assert (found.comparison.p_value(log_ratio) >= 0.05) == inside


def _simulated(
    rng: np.random.Generator, places: Sequence[float], num_seeds: int, noise: float, *, heavy: bool
) -> tuple[dict[float, dict[int, float]], dict[int, float]]:
    """Return losses of the baseline, by budget and seed, and of a variant of speedup `TRUTH`."""
    spread = noise * (loss(1e9) - loss(2e9)) / math.sqrt(2)

    def drawn() -> np.ndarray:
        made = rng.standard_t(4, num_seeds) / math.sqrt(2) if heavy else rng.normal(size=num_seeds)
        return spread * made

    shared = drawn()
    budgets = {one: dict(enumerate(loss(one) + shared + drawn())) for one in places}
    return budgets, dict(enumerate(loss(TRUTH * 1e9) + shared + drawn()))


def _coverage(
    num_sweeps: int, num_seeds: int, num_budgets: int, noise: float, *, heavy: bool
) -> tuple[float, float, float]:
    """Return the shares of intervals that hold the truth, that are open, and of sweeps without one.

    Args:
        num_sweeps: The number of simulated sweeps.
        num_seeds: The number of seeds.
        num_budgets: The number of budgets of the baseline.
        noise: The standard deviation of a training, half of its variance shared between the
            trainings of a seed, in differences between two budgets.
        heavy: Whether the noise is Student's t with 4 degrees of freedom.
    """
    rng = np.random.default_rng([num_seeds, num_budgets, heavy, round(10 * noise)])
    places = (*BUDGETS, 4e9)[:num_budgets]
    found = []
    for _ in range(num_sweeps):
        budgets, scores = _simulated(rng, places, num_seeds, noise, heavy=heavy)
        with suppress(NoCurve):
            found.append(effective_speedup(budgets, scores, 1e9, better="lower").log_ratio)
    held = sum(known(one.low) <= math.log(TRUTH) <= known(one.high) for one in found)
    is_open = sum(math.inf in (-known(one.low), one.high) for one in found)
    return held / len(found), is_open / len(found), 1 - len(found) / num_sweeps


@pytest.mark.whole
@pytest.mark.parametrize("num_seeds", [3, 10])
@pytest.mark.parametrize("num_budgets", [3, 4])
@pytest.mark.parametrize("heavy", [False, True])
def test_an_interval_holds_the_truth_19_times_in_20(
    num_seeds: int, num_budgets: int, heavy: bool
) -> None:
    held, _, without = _coverage(1_000, num_seeds, num_budgets, 0.1, heavy=heavy)
    assert 0.93 <= held <= 0.97
    assert without == 0


@pytest.mark.statistics
def test_coverage_at_length() -> None:
    """Print the table of docs/statistics.md: 3 and 4 budgets, each of 3, 5 and 10 seeds."""
    num = 1_000
    slack = 3.5 * math.sqrt(0.95 * 0.05 / num)
    print()
    for noise in (0.1, 0.3, 1.0, 2.0):
        for heavy in (False, True):
            cells = [
                _coverage(num, num_seeds, num_budgets, noise, heavy=heavy)
                for num_budgets in (3, 4)
                for num_seeds in (3, 5, 10)
            ]
            shown = " | ".join(
                f"{100 * held:.1f} ({100 * opened:.0f})" for held, opened, _ in cells
            )
            name = "t, 4 degrees of freedom" if heavy else "normal"
            most = max(without for *_, without in cells)
            print(f"| {noise} | {name} | {shown} |  without a curve: at most {100 * most:.0f} %")
            least, most_held = (0.95 - slack, 0.97) if noise <= 1 else (0.88, 1.0)
            assert all(least <= held <= most_held for held, *_ in cells)
