"""Find by how much less compute a variant reaches the score of the baseline: its effective speedup.

The baseline is trained to several budgets, each with its own decay of the learning rate. Let
b(C) be its score after a budget C, interpolated between these trainings along log C; a variant
that spends C_v reaches a score v. The baseline would need the budget C at which b(C) = v, and the
effective speedup is C / C_v: 1.2 means that the baseline needs 1.2 times as much as the variant.
The budget may be counted in FLOPs or in seconds.

At each budget the difference b(C) - v is a sum of measured scores with fixed weights. It is
computed for each seed, so that what a seed does to all trainings alike cancels. The interval holds
the budgets around the estimate at which Student's t test of these differences does not tell them
from zero (Fieller's method), so it includes the noise of the curve and of the variant. On either
side it ends at the first budget that is excluded, since a rising curve excludes all beyond it. The
p-value of a speedup is the level at which the interval excludes it. Nothing is extrapolated: if the
variant is better than the baseline's largest budget, the speedup is a lower bound.

FLOPs are counted exactly. Seconds are steps times the time of a step, of which the baseline has one
for all its budgets, since they train the same model. The ratio of the two step times has an
interval of its own, over paired processes, and that of the speedup is wider by all of it.

Budgets are interpolated by a spline of parabolas, which needs three of them: for a loss
L0 + A C^-a with a = 0.3 and budgets that are a factor of two apart, it errs by less than 0.2 % in
C. A straight line between two budgets would err by 2 %, more than the noise of a good comparison.
docs/statistics.md gives the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import stdtrit

from bakeoff.reports.analysis.cost import (
    is_timed_as_trained,
    num_steps,
    timed_steps,
    variant_costs,
)
from bakeoff.reports.analysis.time_comparison import log_ratios
from bakeoff.reports.results.axis_values import all_values_of
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import (
    CONFIDENCE,
    Estimate,
    as_ratio,
    mean_interval,
    rounded,
    smallest_level,
)
from bakeoff.reports.stats.log_means import Array
from bakeoff.suite.schema import About, Better

MIN_BUDGETS = 3
_NUM_PLACES = 2_000  # budgets, evenly spaced along log C, at which the differences are tested
_DIGITS = 6  # significant digits that are the same on all processors
_ROUNDING = 1e-9  # by which scores may fall from one place to the next
_WEIGHT_DECIMALS = 12  # so that a measured budget has a weight of exactly 1
BUDGET = "steps"  # the axis along which the baseline is trained to several budgets
STEP_TIME = "step_time"
COUNTED = {"flops": "FLOPs", STEP_TIME: "training time"}  # by the probe that counts them

Scores = Mapping[int, float]  # by seed


class Reach(StrEnum):
    """The place of the variant's score relative to those of the baseline's budgets."""

    BETWEEN = "between"
    BEYOND = "beyond"
    BELOW = "below"


class NoCurve(ValueError):
    """Raised if the baseline's budgets give no curve; the message is a phrase with the reason."""


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """The budgets of a variant and of the baseline's trainings, in one unit.

    Attributes:
        of_training: Label -> budget, if it is known.
        log_error: The distance by which the logarithm of the variant's budget, relative to the
            others, may be off: 0 for FLOPs, which are counted.
    """

    of_training: Mapping[str, float]
    log_error: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveComparison:
    """A variant's scores beside those of a baseline's budgets, seed by seed.

    Attributes:
        known: The baseline's scores, `[seed, budget]`; more is better.
        reached: The variant's scores, `[seed]`; more is better.
        logs: Logarithms of the baseline's budgets, ascending, relative to the variant's budget.
        log_error: The distance by which 0 may be off on that scale, see `Budgets`.
    """

    known: Array
    reached: Array
    logs: Array
    log_error: float

    @cached_property
    def grid(self) -> Array:
        """The log ratios at which the differences are tested, ascending."""
        even = np.linspace(self.logs[0], self.logs[-1], _NUM_PLACES)
        own = np.clip([-self.log_error, 0.0, self.log_error], self.logs[0], self.logs[-1])
        return np.unique(np.concatenate([even, own]))

    def lead(self, log_ratios: Array) -> Array:
        """Return the variant's score minus the baseline's at these log ratios, `[seed, place]`."""
        weights = make_interp_spline(self.logs, np.eye(self.logs.size), k=2)(log_ratios)
        found: Array = self.reached[:, None] - self.known @ weights.round(_WEIGHT_DECIMALS).T
        return found

    @property
    def is_rising(self) -> bool:
        """True if the mean of the baseline's curve never falls, so that it reaches a score once."""
        return bool((np.diff(self.on_grid.mean(axis=0)) <= _ROUNDING).all())

    @cached_property
    def on_grid(self) -> Array:
        """The lead at each place of the grid."""
        return self.lead(self.grid)

    def advantages(self, log_ratio: float) -> tuple[float, ...]:
        """Return how much better the variant is than the baseline with a multiple of its budget.

        If the variant's budget has an error, the one that is nearest to the point estimate is
        taken, and if the baseline has no such budget, the nearest one.

        Args:
            log_ratio: The logarithm of the multiple; 0 is the variant's own budget.
        """
        return tuple(self.lead(np.array([self._place_of(log_ratio)]))[:, 0].tolist())

    def _place_of(self, log_ratio: float) -> float:
        point, _ = self.level
        off = min(max(point - log_ratio, -self.log_error), self.log_error)
        return float(np.clip(log_ratio + off, self.logs[0], self.logs[-1]))

    @cached_property
    def level(self) -> tuple[float, Reach]:
        """The log ratio at which the means are equal, or the end that comes nearest."""
        mean = self.on_grid.mean(axis=0)
        if mean[-1] > 0:
            return float(self.grid[-1]), Reach.BEYOND
        if mean[0] < 0:
            return float(self.grid[0]), Reach.BELOW
        return _zero(self.grid, mean, int(np.flatnonzero(mean <= 0)[0])), Reach.BETWEEN

    def interval(self) -> tuple[float, float]:
        """Return the ends of the log ratios around the point that a t test does not exclude."""
        point, _ = self.level
        places = np.unique(np.append(self.grid, point))
        values, at = self.lead(places), int(np.searchsorted(places, point))
        num_seeds = len(values)
        error = values.std(axis=0, ddof=1) / math.sqrt(num_seeds)
        quantile = float(stdtrit(num_seeds - 1, 0.5 + CONFIDENCE / 2))
        excess = np.abs(values.mean(axis=0)) - quantile * error
        excluded = np.flatnonzero(excess > 0)
        if at in excluded:  # without noise, or the score is beyond those of the curve
            return point, point
        below, above = excluded[excluded < at], excluded[excluded > at]
        return (
            _zero(places, excess, int(below[-1]) + 1) if below.size else float(places[0]),
            _zero(places, excess, int(above[0])) if above.size else float(places[-1]),
        )

    def p_value(self, log_ratio: float) -> float:
        """Return the smallest level alpha at which the (1 - alpha) interval excludes a log ratio.

        It is the smallest p of the t tests from the point estimate to the place that `advantages`
        takes for that log ratio.
        """
        point, _ = self.level
        end = self._place_of(log_ratio)
        path = self.grid[(self.grid - point) * (self.grid - end) <= 0]
        return min(smallest_level(values) for values in self.lead(np.append(path, end)).T.tolist())


@dataclass(frozen=True, kw_only=True, eq=False)
class Speedup:
    """The effective speedup of a variant.

    Attributes:
        reach: Whether the score is between those of the baseline's budgets. If it is beyond the
            score of the largest, the speedup is at least `ratio.point`; if it is below that of the
            smallest, at most.
        ratio: The speedup, with its interval; an end is the limit of the measured budgets where
            `is_open_below` or `is_open_above`.
        is_open_below: True if the interval reaches the baseline's smallest budget.
        is_open_above: True if the interval reaches the baseline's largest budget.
        comparison: The scores that it is computed from.
    """

    reach: Reach
    ratio: Estimate
    is_open_below: bool = False
    is_open_above: bool = False
    comparison: CurveComparison

    @property
    def log_ratio(self) -> Estimate:
        """The logarithm of the speedup; an open end of its interval is infinite."""
        point, low, high = (
            None if x is None else math.log(x)
            for x in (self.ratio.point, self.ratio.low, self.ratio.high)
        )
        return Estimate(
            n=self.ratio.n,
            point=point,
            low=-math.inf if self.is_open_below else low,
            high=math.inf if self.is_open_above else high,
        )


def effective_speedup(
    budgets: Mapping[float, Scores],
    scores: Scores,
    spent: float,
    better: Better,
    log_error: float = 0.0,
) -> Speedup:
    """Return the speedup of a variant, against the baseline's own budgets.

    Args:
        budgets: Budget -> the baseline's scores, in FLOPs or seconds.
        scores: The variant's scores.
        spent: The variant's budget, in the same unit.
        better: Whether ``lower`` or ``higher`` scores are better.
        log_error: The distance by which the logarithm of `spent` may be off; the interval is wider
            by as much on both sides.

    Raises:
        NoCurve: if there are fewer than three budgets, if no seed is in all trainings, or if the
            mean score of the baseline, or its curve, does not improve everywhere.
    """
    if len(budgets) < MIN_BUDGETS:
        raise NoCurve(f"a curve needs at least {MIN_BUDGETS} budgets of the baseline")
    seeds = sorted(set(scores).intersection(*budgets.values()))
    if not seeds:
        raise NoCurve("no seed was measured for all trainings")
    sign = -1.0 if better == "lower" else 1.0
    places = sorted(budgets)
    known = sign * np.array([[budgets[place][seed] for place in places] for seed in seeds])
    if (np.diff(known.mean(axis=0)) <= 0).any():
        raise NoCurve("the baseline does not improve from each of its budgets to the next")
    compared = CurveComparison(
        known=known,
        reached=sign * np.array([scores[seed] for seed in seeds]),
        logs=np.log(places) - math.log(spent),
        log_error=log_error,
    )
    if not compared.is_rising:
        raise NoCurve(
            "the baseline improves so unevenly that the curve through its budgets is not monotone; "
            "add budgets between them"
        )
    point, reach = compared.level
    if len(seeds) == 1:
        return Speedup(reach=reach, ratio=Estimate(n=1, point=_ratio(point)), comparison=compared)
    low, high = compared.interval()
    return Speedup(
        reach=reach,
        ratio=Estimate(
            n=len(seeds),
            point=_ratio(point),
            low=_ratio(low - log_error),
            high=_ratio(high + log_error),
        ),
        is_open_below=bool(low <= compared.logs[0]),
        is_open_above=bool(high >= compared.logs[-1]),
        comparison=compared,
    )


def speedup_of(
    about: About,
    measured: Sequence[Series],
    score: Series,
    pair: tuple[str, str],
    counted_by: str,
) -> Speedup:
    """Return the effective speedup of a variant.

    Args:
        about: The sweep.
        measured: The series of its measurements.
        score: The score that the variant and the baseline's trainings reach.
        pair: The variant, and the training of the baseline whose step is timed.
        counted_by: The probe that counts the budgets, a key of `COUNTED`.

    Raises:
        NoCurve: In the cases of `effective_speedup`, or if a budget or a score is missing.
    """
    variant, baseline = pair
    budgets = _budgets(about, measured, score.task, pair, counted_by)
    spent = budgets.of_training.get(variant)
    if not spent:
        raise NoCurve(f"the {COUNTED[counted_by]} of {shown_name(about, variant)} are not known")
    return effective_speedup(
        {
            budget: scores
            for label in curve_of(about, baseline)
            if (budget := budgets.of_training.get(label)) and (scores := score.values(label))
        },
        score.values(variant),
        spent,
        score.better,
        budgets.log_error,
    )


def speedup_in_words(found: Speedup) -> tuple[str, str]:
    """Return the speedup and its interval as text: ``1.40``, ``1.20 to 2.00 or more``."""
    ratio = found.ratio
    assert ratio.point is not None, "a speedup has a number"
    if ratio.low is None or ratio.high is None:
        return as_ratio(ratio.point), ""
    low = as_ratio(ratio.low) + " or less" * found.is_open_below
    high = as_ratio(ratio.high) + " or more" * found.is_open_above
    return as_ratio(ratio.point), f"{low} to {high}"


def curve_of(about: About, baseline: str) -> list[str]:
    """Return the variants that differ from a baseline in the number of steps only, and itself."""
    others = {
        v: {name: value for name, value in all_values_of(about, v).items() if name != BUDGET}
        for v in about.variants
    }
    return [v for v in about.variants if others[v] == others[baseline]]


def _budgets(
    about: About, measured: Sequence[Series], task: str, pair: tuple[str, str], counted_by: str
) -> Budgets:
    if counted_by != STEP_TIME:
        costs = variant_costs(about, measured, task)
        return Budgets(of_training=next((c.amounts for c in costs if c.key == counted_by), {}))
    variant, baseline = pair
    timed = timed_steps(measured, task)
    logs = log_ratios(timed.values(variant), timed.values(baseline)) if timed else {}
    times = mean_interval([*logs.values()])
    if times.point is None or not all(is_timed_as_trained(about, each) for each in pair):
        return Budgets(of_training={})
    if times.half_width is None:
        raise NoCurve("the times of a step have no interval, since one process measured them")
    steps = {v: num_steps(about, v, task) for v in (*curve_of(about, baseline), variant)}
    return Budgets(
        of_training=steps | {variant: steps[variant] * math.exp(times.point)},
        log_error=times.half_width,
    )


def _zero(grid: Array, values: Array, after: int) -> float:
    """Return the zero between the places `after - 1` and `after`, by a straight line."""
    if after == 0:
        return float(grid[0])
    before, here = values[after - 1], values[after]
    share = before / (before - here) if before != here else 1.0
    return float(grid[after - 1] + share * (grid[after] - grid[after - 1]))


def _ratio(log_ratio: float) -> float:
    return rounded(math.exp(log_ratio), _DIGITS)
