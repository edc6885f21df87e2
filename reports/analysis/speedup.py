"""Find by how much less compute a variant reaches the score of the baseline: its effective speedup.

The baseline is trained to several budgets, each with its own decay of the learning rate. Let
b(C) be its score after a budget C, interpolated between these trainings along log C; a variant
that spends C_v reaches a score v. The baseline would need the budget C at which b(C) = v, and the
effective speedup is C / C_v: 1.2 means that the baseline needs 1.2 times as much as the variant.
The budget may be counted in FLOPs or in seconds.

At each budget the difference b(C) - v is a sum of measured scores with fixed weights. It is
computed for each seed, so that what a seed does to all trainings alike cancels. The interval holds
the budgets at which Student's t test of these differences does not tell them from zero (Fieller's
method), so it includes the noise of the curve and of the variant. Nothing is extrapolated: if the
variant is better than the baseline's largest budget, the speedup is a lower bound.

Budgets are interpolated by a spline of parabolas, which needs three of them: for a loss
L0 + A C^-a with a = 0.3 and budgets that are a factor of two apart, it errs by less than 0.2 % in
C. A straight line between two budgets would err by 2 %, more than the noise of a good comparison.
docs/statistics.md gives the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import stdtrit

from bakeoff.reports.stats.intervals import CONFIDENCE, Estimate, rounded
from bakeoff.reports.stats.log_means import Array
from bakeoff.suite.schema import Better

MIN_BUDGETS = 3
_NUM_PLACES = 2_000  # budgets, evenly spaced along log C, at which the differences are tested
_DIGITS = 6  # significant digits that are the same on all processors

Scores = Mapping[int, float]  # by seed


class Reach(StrEnum):
    """The place of the variant's score relative to those of the baseline's budgets."""

    BETWEEN = "between"
    BEYOND = "beyond"
    BELOW = "below"


class NoCurve(ValueError):
    """Raised if the baseline's budgets give no curve; the message is a phrase with the reason."""


@dataclass(frozen=True, kw_only=True)
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
    """

    reach: Reach
    ratio: Estimate
    is_open_below: bool = False
    is_open_above: bool = False


def effective_speedup(
    budgets: Mapping[float, Scores], scores: Scores, spent: float, better: Better
) -> Speedup:
    """Return the speedup of a variant, against the baseline's own budgets.

    Args:
        budgets: Budget -> the baseline's scores, in FLOPs or seconds.
        scores: The variant's scores.
        spent: The variant's budget, in the same unit.
        better: Whether ``lower`` or ``higher`` scores are better.

    Raises:
        NoCurve: if there are fewer than three budgets, if no seed is in all trainings, or if the
            mean score of the baseline does not improve from each budget to the next.
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
    grid, weights = _interpolation(tuple(np.log(places)))
    reached = sign * np.array([scores[seed] for seed in seeds])
    ahead = known @ weights.T - reached[:, None]  # [seed, place], of the baseline
    mean = ahead.mean(axis=0)
    point, reach = _zero(grid, mean)
    ratio = float(np.exp(point) / spent)
    if len(seeds) == 1:
        return Speedup(reach=reach, ratio=Estimate(n=1, point=rounded(ratio, _DIGITS)))
    error = ahead.std(axis=0, ddof=1) / math.sqrt(len(seeds))
    quantile = float(stdtrit(len(seeds) - 1, 0.5 + CONFIDENCE / 2))
    is_possible = np.abs(mean) <= quantile * error
    is_possible[np.argmin(np.abs(grid - point))] = True
    low, high = grid[is_possible][[0, -1]]
    least, most = (rounded(float(np.exp(end) / spent), _DIGITS) for end in (low, high))
    return Speedup(
        reach=reach,
        ratio=Estimate(n=len(seeds), point=rounded(ratio, _DIGITS), low=least, high=most),
        is_open_below=bool(is_possible[0]),
        is_open_above=bool(is_possible[-1]),
    )


@lru_cache(maxsize=64)
def _interpolation(logs: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the places, and each budget's weight in the interpolated score, `[place, budget]`."""
    grid = np.linspace(logs[0], logs[-1], _NUM_PLACES)
    return grid, make_interp_spline(logs, np.eye(len(logs)), k=2)(grid)


def _zero(grid: Array, ahead: Array) -> tuple[float, Reach]:
    """Return the log budget at which the baseline draws level, or the end that comes nearest."""
    if ahead[-1] < 0:
        return float(grid[-1]), Reach.BEYOND
    if ahead[0] > 0:
        return float(grid[0]), Reach.BELOW
    after = int(np.flatnonzero(ahead >= 0)[0])
    if after == 0:
        return float(grid[0]), Reach.BETWEEN
    before, here = ahead[after - 1], ahead[after]
    share = before / (before - here)
    return float(grid[after - 1] + share * (grid[after] - grid[after - 1])), Reach.BETWEEN
