"""Estimate the exponent with which a cost grows at the top of its range, and judge it.

The exponent is the slope over the last three places on double logarithmic axes. An interval alone
does not protect a slope from a wrong model: attention with its projections has a slope of 1.8 over
its top octaves, with an interval that excludes the true 2. So an exponent is called pre-asymptotic
if its last two local slopes differ, or if the leading term of a mixture of powers makes up less
than 90 % at the top: it then describes the measured range only, and is not an asymptotic law.

Slopes are weighted sums of means, so their intervals are Student's t with the spread pooled over
all places of the variant. In simulations (three and five processes, seven lengths, noise of 0.5 to
5 %, normal, skewed or heavy-tailed) a nominal 95 % covered the true slope in 92 to 98 of 100. If
the shortest length is three times as noisy as the longest, exponents are covered more often (97 and
above), and the first local slope less often: 81 to 89.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bakeoff.reports.results.length_sweep import AXIS_SYMBOLS, Growth
from bakeoff.reports.stats.intervals import Estimate, rounded
from bakeoff.reports.stats.log_means import (
    MIN_PLACES,
    Array,
    LogMeans,
    leading_term,
    log_means,
    term_names,
    terms_of,
)

_MOST_DRIFT = 0.05  # two exact exponents that differ by less are the same
_LEADING_SHARE = 0.9
_NUM_TOP = 3  # places used for an exponent
_WIDEST = 0.5  # largest useful half-width of a difference of slopes
_LEAST_DRAWS = 0.025
_MOST_MISFIT = 0.15


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """The power with which a quantity grows at the top of its range.

    Attributes:
        estimate: The power; `n` is 0 if nothing was measured, and exact counts have no interval.
        is_pre_asymptotic: True if the curve still bends, or if the data cannot decide that.
        why_missing: A phrase if there is no estimate; else empty.
        places: The places used, ascending.
        is_noisy: True if, at one of them, most processes missed their stopping criterion.
        theory: The slope of theory's formula over the same places, or None if it has none.
    """

    estimate: Estimate
    is_pre_asymptotic: bool = True
    why_missing: str = ""
    places: tuple[int, ...] = ()
    is_noisy: bool = False
    theory: float | None = None

    @property
    def disagrees(self) -> bool:
        """True if the measurement excludes theory's slope."""
        return self.theory is not None and self.excludes(self.theory)

    def excludes(self, power: float) -> bool:
        """Return True if a power lies outside the interval; for exact counts, more than 0.05 away.

        A noisy exponent excludes nothing.
        """
        found = self.estimate
        if found.point is None or self.is_noisy:
            return False
        if found.low is None or found.high is None:
            return abs(found.point - power) > _MOST_DRIFT
        return not found.low <= power <= found.high


def exponent(growth: Growth | None, variant: str, theory: Growth | None = None) -> Exponent:
    """Return the exponent over the last three places, and whether it is asymptotic.

    Args:
        growth: The measurements, if there are any.
        variant: The label of the variant.
        theory: The values of theory's formula at the same places.
    """
    if growth is None:
        return Exponent(estimate=Estimate(n=0), why_missing="not measured")
    means = growth_means(growth, variant)
    if len(means.places) < 2:
        return Exponent(estimate=Estimate(n=0), why_missing=_why_missing(growth, variant))
    places = means.places[-_NUM_TOP:]
    leading = leading_term(means)
    is_led = leading is None or leading.share >= _LEADING_SHARE
    return Exponent(
        estimate=means.contrast(_slope_weights(means, places)),
        is_pre_asymptotic=not is_led or not _is_straight(means),
        places=places,
        is_noisy=any(growth.is_noisy(variant, place) for place in places),
        theory=slope_over(theory, variant, places),
    )


def slope_over(growth: Growth | None, variant: str, places: Sequence[int]) -> float | None:
    """Return the slope over exactly these places, or None if one of them has no number."""
    if growth is None or len(places) < 2:
        return None
    means = growth_means(growth, variant)
    if not set(places) <= set(means.places):
        return None
    return rounded(float(_slope_weights(means, places) @ means.means))


def growth_means(growth: Growth, variant: str) -> LogMeans:
    """Return the means of the logarithms of a variant's values over processes, at each place."""
    return log_means({p: list(growth.values(variant, p).values()) for p in growth.places})


def which_growth(growth: Growth, variant: str) -> str:
    """Return which of n, n log n and n^2 fits, as ``n log n; not n, not n^2``.

    The text is empty for fewer than four places.

    Each model has one coefficient and a fixed cost per call, both non-negative; the fit is on
    relative residuals. A model is excluded if it fits best in fewer than one of forty redraws of
    the noise; all are excluded if even the best is off by more than 15 %.
    """
    means = growth_means(growth, variant)
    if len(means.places) < MIN_PLACES:
        return ""
    names = term_names(AXIS_SYMBOLS[growth.axis])[1:]
    terms = terms_of(means.places)
    misfits = _misfits(terms, means.means[None, :])[:, 0]
    wins = np.bincount(_misfits(terms, means.redraws()).argmin(axis=0), minlength=len(names))
    order = np.argsort(misfits, kind="stable")
    nearest = float(misfits[order[0]])
    if nearest > _MOST_MISFIT:
        off = f"is off by {100 * nearest:.0f} %"
        return f"none of the three: the nearest, {names[order[0]]}, {off}"
    is_left = wins >= _LEAST_DRAWS * wins.sum()
    left = " or ".join(names[i] for i in order if is_left[i])
    others = ", ".join(f"not {names[i]}" for i in order if not is_left[i])
    return "; ".join(filter(None, [left, others]))


def _slope_weights(means: LogMeans, places: Sequence[int]) -> Array:
    """Return least-squares weights, `[place]`, of the slope over some places; 0 at the others."""
    logs = np.log(np.array(places, dtype=np.float64))
    centred = logs - logs.mean()
    weights = np.zeros(len(means.places))
    weights[np.isin(means.places, places)] = centred / (centred @ centred)
    return weights


def _why_missing(growth: Growth, variant: str) -> str:
    fates = dict.fromkeys(r.fate for place in growth.places for r in growth.of(variant, place))
    if not fates:
        return "not measured"
    others = [fate for fate in fates if fate not in ("ok", "noisy")]
    return ", ".join(others) or "measured at one place only, or nothing to count"


def _is_straight(means: LogMeans) -> bool:
    """Return True if the last two local slopes agree and are precise enough to decide that."""
    if len(means.places) < _NUM_TOP:
        return False
    before, last = (_slope_weights(means, p) for p in (means.places[-3:-1], means.places[-2:]))
    drift = means.contrast(last - before)
    assert drift.point is not None, "three places have two slopes"
    if drift.half_width is not None and drift.half_width > _WIDEST:
        return False
    is_clear = drift.half_width is None or drift.excludes_zero
    return not is_clear or abs(drift.point) <= _MOST_DRIFT


def _misfits(terms: Array, logs: Array) -> Array:
    """Return root mean squared relative residuals, `[model, draw]`, of each term with a fixed cost.

    Args:
        terms: `[place, 4]`, the first of them the fixed cost.
        logs: `[draw, place]`.
    """
    fixed = np.exp(-logs)
    ff, f = (fixed**2).sum(axis=1), fixed.sum(axis=1)
    found = []
    for term in terms.T[1:]:
        growing = term * fixed
        fg, gg, g = (x.sum(axis=1) for x in (fixed * growing, growing**2, growing))
        cost = np.maximum((f * gg - g * fg) / (ff * gg - fg**2), 0.0)
        slope = np.maximum((g - cost * fg) / gg, 0.0)
        residuals = cost[:, None] * fixed + slope[:, None] * growing - 1
        found.append(np.sqrt((residuals**2).mean(axis=1)))
    return np.stack(found)
