"""With which power does it grow?

Three answers that check one another. Local slopes, on double logarithmic axes, step by step; the
exponent, which is the slope over the last two steps; and the mixture of powers. An interval alone
does not save a slope from a wrong model: attention with its projections has a slope of 1.8 over its
top octaves, with an interval that excludes the true 2. So an exponent is called pre-asymptotic
where its last two local slopes differ, or where the leading term of the mixture makes up less than
90 % at the top: what is measured is then a stretch of the curve, and no law.

Slopes are sums of means with weights, so their intervals are Student's t with the spread pooled
over all places of the variant. In simulations (three and five processes, seven lengths, noise of
0.5 to 5 %, normal, skewed or heavy-tailed) a nominal 95 % covered the true slope in 92 to 98 of
100. Where the shortest length is three times as noisy as the longest, exponents cover more (97 and
above), and the first local slope less: 81 to 89.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reports.growth import Growth
from reports.log_means import Array, LogMeans
from reports.mixtures import Mixture, growth_means, leading_term, mixture, names_of, terms_of
from reports.stats.intervals import Estimate

__all__ = [
    "Exponent", "LocalSlope", "Mixture", "WhichGrowth", "exponent", "local_slopes", "mixture",
    "which_growth",
]  # fmt: skip

MOST_DRIFT = 0.05  # between two exact exponents that count as the same
LEADING_SHARE = 0.9
NUM_TOP = 3  # places that an exponent is taken over
_WIDEST = 0.5  # half-width of a drift that says nothing any more
_LEAST_DRAWS = 0.025
MOST_MISFIT = 0.15


@dataclass(frozen=True, kw_only=True)
class LocalSlope:
    """The power between two neighbouring places, as 1.93 between 2048 and 4096 tokens.

    Attributes:
        start: The shorter place.
        end: The longer place.
        slope: Ratio of the logarithms; without an interval for what is exact.
    """

    start: int
    end: int
    slope: Estimate


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """The power with which something grows at the top of its range.

    Attributes:
        estimate: `n` is 0 where nothing was measured; without an interval for what is exact.
        is_pre_asymptotic: Whether it is a stretch of a curve that still bends, or the data cannot
            say.
        reason: Why it is that, or why there is none; one phrase, else empty.
        places: Those it is taken over, ascending.
        is_noisy: Whether a process did not meet its stopping criterion at one of them.
    """

    estimate: Estimate
    is_pre_asymptotic: bool
    reason: str = ""
    places: tuple[int, ...] = ()
    is_noisy: bool = False


@dataclass(frozen=True, kw_only=True)
class WhichGrowth:
    """The pure models n, n log n and n^2, each with a fixed cost beside it, by how well they fit.

    Attributes:
        ranking: Their names, the best first.
        misfits: Name -> root of the mean squared relative residual.
        excluded: Those that fit best in fewer than one of forty redraws of the noise; all, where
            even the best is off by more than 15 %.
    """

    ranking: tuple[str, ...]
    misfits: Mapping[str, float]
    excluded: tuple[str, ...]

    @property
    def is_told(self) -> bool:
        """Whether only one is left."""
        return len(self.excluded) == len(self.ranking) - 1

    @property
    def text(self) -> str:
        """One phrase, as ``n log n; not n, not n^2``."""
        left = [name for name in self.ranking if name not in self.excluded]
        if not left:
            best = self.ranking[0]
            off = f"{100 * self.misfits[best]:.0f} %"
            return f"none of the three: the nearest, {best}, is off by {off}"
        others = ", ".join(f"not {name}" for name in self.excluded)
        return "; ".join(filter(None, [" or ".join(left), others]))


def local_slopes(growth: Growth, variant: str) -> tuple[LocalSlope, ...]:
    """The slope of each step between neighbouring places that have a number."""
    means = growth_means(growth, variant)
    return tuple(
        LocalSlope(
            start=start,
            end=end,
            slope=means.contrast(_slope_weights(means.places, (index, index + 1))),
        )
        for index, (start, end) in enumerate(pairwise(means.places))
    )


def exponent(growth: Growth, variant: str) -> Exponent:
    """The exponent over the last three places, and whether it can be taken for a law."""
    means = growth_means(growth, variant)
    if len(means.places) < 2:
        return Exponent(
            estimate=Estimate(n=0), is_pre_asymptotic=True, reason=_why_none(growth, variant)
        )
    count = len(means.places)
    indices = tuple(range(max(0, count - NUM_TOP), count))
    places = means.places[-NUM_TOP:]
    reason = _why_pre_asymptotic(means) or _why_not_leading(growth, means)
    return Exponent(
        estimate=means.contrast(_slope_weights(means.places, indices)),
        is_pre_asymptotic=bool(reason),
        reason=reason,
        places=places,
        is_noisy=any(growth.is_noisy(variant, place) for place in places),
    )


def slope_over(growth: Growth, variant: str, places: Sequence[int]) -> Estimate:
    """The slope over exactly these places; `n` is 0 where one of them has no number."""
    means = growth_means(growth, variant)
    if len(places) < 2 or not set(places) <= set(means.places):
        return Estimate(n=0)
    indices = tuple(means.places.index(place) for place in places)
    return means.contrast(_slope_weights(means.places, indices))


def which_growth(growth: Growth, variant: str) -> WhichGrowth | None:
    """Which of n, n log n, n^2 it is; None with fewer than four places.

    Each has one coefficient, and beside it a fixed cost that every call has, neither negative;
    the fit is on relative residuals. A model is excluded where it fits best in fewer than one of
    forty of 2000 redraws of the noise.
    """
    means = growth_means(growth, variant)
    if len(means.places) < 4:
        return None
    names = names_of(growth.axis)[1:]
    terms = terms_of(means.places)
    points = np.stack([_misfits(terms, means.means[None, :], i) for i in (1, 2, 3)])[:, 0]
    drawn = np.stack([_misfits(terms, means.redraws(), i) for i in (1, 2, 3)])
    wins = np.bincount(drawn.argmin(axis=0), minlength=3) / drawn.shape[1]
    order = [int(i) for i in np.argsort(points, kind="stable")]
    is_any = float(points[order[0]]) <= MOST_MISFIT
    excluded = tuple(names[i] for i in order if not is_any or wins[i] < _LEAST_DRAWS)
    return WhichGrowth(
        ranking=tuple(names[i] for i in order),
        misfits={names[i]: float(points[i]) for i in order},
        excluded=excluded,
    )


def _slope_weights(places: Sequence[int], indices: Sequence[int]) -> Array:
    """Least-squares weights of a slope over some of the places; 0 at the others."""
    logs = np.log(np.array([places[i] for i in indices], dtype=np.float64))
    centred = logs - logs.mean()
    weights = np.zeros(len(places))
    weights[list(indices)] = centred / (centred @ centred)
    return weights


def _why_none(growth: Growth, variant: str) -> str:
    fates = dict.fromkeys(r.fate for place in growth.places for r in growth.of(variant, place))
    others = [fate for fate in fates if fate not in ("ok", "noisy")]
    if not fates:
        return "not measured"
    return ", ".join(others) or "measured at one place only, or nothing to count"


def _why_pre_asymptotic(means: LogMeans) -> str:
    """What the last two local slopes say; empty where they agree."""
    count = len(means.places)
    if count < NUM_TOP:
        return "two places cannot say whether the slope still changes"
    last = _slope_weights(means.places, (count - 2, count - 1))
    before = _slope_weights(means.places, (count - 3, count - 2))
    drift = means.contrast(last - before)
    assert drift.point is not None, "three places have two slopes"
    if drift.half_width is not None and drift.half_width > _WIDEST:
        return "too noisy to say whether the slope still changes"
    is_clear = drift.half_width is None or drift.excludes_zero
    if is_clear and abs(drift.point) > MOST_DRIFT:
        first, second = (float(w @ means.means) for w in (before, last))
        return f"the last two local slopes differ: {first:.2f} and {second:.2f}"
    return ""


def _why_not_leading(growth: Growth, means: LogMeans) -> str:
    found = leading_term(means)
    if found is None or found.share >= LEADING_SHARE:
        return ""
    name, share = names_of(growth.axis)[found.leading], math.floor(100 * found.share)
    return f"the {name} term is only {share} % of it at {means.places[-1]:,}"


def _misfits(terms: Array, logs: Array, index: int) -> Array:
    """Of one term with a fixed cost beside it, neither negative: `[draw]`."""
    by = np.exp(-logs)
    fixed, growing = by, terms[:, index] * by
    ff, fg, gg = (
        np.sum(a * b, axis=1) for a, b in ((fixed, fixed), (fixed, growing), (growing, growing))
    )
    f, g = fixed.sum(axis=1), growing.sum(axis=1)
    cost = np.maximum((f * gg - g * fg) / (ff * gg - fg**2), 0.0)
    slope = np.maximum((g - cost * fg) / gg, 0.0)
    residuals = cost[:, None] * fixed + slope[:, None] * growing - 1
    misfits: Array = np.sqrt((residuals**2).mean(axis=1))
    return misfits
