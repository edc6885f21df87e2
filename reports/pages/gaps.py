"""Compare two variants in words: how much better one is, with its interval, by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bakeoff.reports.analysis.time_comparison import log_ratios
from bakeoff.reports.document import readable
from bakeoff.reports.results.series import Series
from bakeoff.reports.sections.axis_series import is_log_of_zero
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_times,
    for_estimates,
    for_quantities,
    mean_interval,
    paired_differences,
)

_UNITS_NAMED = frozenset({"s", "B", "bytes", "bit", "FLOP"})


ALIKE = "no significant difference"


@dataclass(frozen=True)
class Gap:
    """How much better one variant is than another, paired by seed.

    Attributes:
        advantage: The advantage, positive if the first is better; the logarithm of a ratio for
            times and rates.
        notation: The notation of the advantage.
        is_ratio: Whether it is the logarithm of a ratio.
        resolution: The size below which a ratio of times does not differ significantly from 1.
        why_not: Why they are not compared: seeds diverged. Empty if they are.
        is_bound: Whether the difference may be larger, since the worse one is below the range of
            float32.
    """

    advantage: Estimate
    notation: Notation
    is_ratio: bool = False
    resolution: float = 0.0
    why_not: str = ""
    is_bound: bool = False

    @property
    def is_seen(self) -> bool:
        """True if the interval excludes zero and the machine resolves the difference."""
        point = self.advantage.point
        return self.advantage.excludes_zero and abs(point or 0.0) > self.resolution

    @property
    def is_tested(self) -> bool:
        """True if there are seeds enough for an interval."""
        return self.advantage.half_width is not None

    @property
    def is_better(self) -> bool:
        """True if the first is better beyond doubt."""
        return self.is_seen and (self.advantage.point or 0.0) > 0

    @property
    def size(self) -> str:
        """The size with its interval, without a sign: ``0.031 (0.010 to 0.051)``."""
        one = self.advantage
        if one.point is None:
            return ""
        if self.is_ratio:
            text = f"{as_times(one.point)} times as fast"
            ends = [as_times(end) for end in ends_of(one)]
        else:
            text = self.notation.with_unit(self.notation.write(abs(one.point)))
            if self.is_bound:
                return f"at least {text}"
            ends = [self.notation.write(end) for end in sorted(map(abs, ends_of(one)))]
        if not one.half_width:  # exact, or without an interval
            return text
        return f"{text} ({ends[0]} to {ends[1]})" if ends else text

    @property
    def text(self) -> str:
        """The whole comparison: ``0.031 better (0.010 to 0.051)``, or that nothing was seen."""
        one, write = self.advantage, self.notation.write_signed
        if one.point is None:
            return self.why_not or "not compared"
        if one.point == 0 and one.half_width == 0:
            return "the same with every seed" if one.n > 1 else "the same"
        if self.is_seen and self.is_ratio:
            return self.size
        if self.is_seen:
            word = "better" if self.is_better else "worse"
            number, bracket, interval = self.size.partition(" (")
            return f"{number} {word}{bracket}{interval}"
        if not self.is_tested:
            size = self.size if self.is_ratio else self.notation.with_unit(write(one.point))
            return f"{size}, not tested"
        if self.is_ratio:
            return f"{ALIKE} ({self.size})"
        point = self.notation.with_unit(write(one.point))
        return f"{ALIKE} ({point}, {' to '.join(map(write, ends_of(one)))})"


def ends_of(estimate: Estimate) -> list[float]:
    """Return both ends of an interval, or an empty list if there is none."""
    known = (estimate.low, estimate.high)
    return [end for end in known if end is not None] if None not in known else []


def gap(series: Series, a: str, b: str) -> Gap:
    """Return how much better variant `a` is than `b`.

    If a seed of either diverged they are not compared, since a mean over the other seeds would
    favour a variant that loses its bad ones.
    """
    if lost := diverged_in_words(series, a) or diverged_in_words(series, b):
        return Gap(Estimate(n=0), Notation(), why_not=lost)
    mine, theirs = series.values(a), series.values(b)
    sign = -1.0 if series.better == "lower" else 1.0
    is_positive = all(value > 0 for value in (*mine.values(), *theirs.values()))
    if series.is_timed and is_positive:
        pair = (theirs, mine) if series.better == "lower" else (mine, theirs)
        advantage = mean_interval(tuple(log_ratios(*pair).values()))
        return Gap(advantage, Notation(), is_ratio=True, resolution=series.resolution)
    differences = tuple(sign * x for x in paired_differences(mine, theirs))
    advantage = series.mean_difference(differences)
    least = min((*mine.values(), *theirs.values()), default=0.0)
    is_bound = is_log_of_zero(series.metric, least)
    return Gap(advantage, notation_of(series, advantage), is_bound=is_bound)


def untested(series: Series, best: str, others: Sequence[str]) -> list[str]:
    """Return the variants that have too few seeds in common with the best for a test."""
    return [other for other in others if not gap(series, best, other).is_tested]


def notation_of(series: Series, advantage: Estimate) -> Notation:
    """Return the notation of a difference; the name of the metric stands for units such as BLEU."""
    found = series.notation(advantage)
    if series.unit == "log10":
        return replace(found, unit="orders of magnitude")
    return found if series.unit in _UNITS_NAMED else replace(found, unit="")


def metric_in_words(series: Series) -> str:
    """Return the name of a metric, as ``trained gradient (log10)``."""
    return readable(series.metric.replace("_log10", " (log10)"))


def written_means(
    series: Series, variants: Sequence[str], notation: Notation | None = None
) -> dict[str, str]:
    """Return the mean of each variant as text, for those that have a number.

    Args:
        series: The metric.
        variants: The variants.
        notation: The notation of scores; by default the digits depend on their intervals.
    """
    every = {v: series.mean(v) for v in variants}
    known = {v: one for v, one in every.items() if one.point is not None}
    points = [one.point for one in known.values() if one.point is not None]
    if series.is_bound_to_environment or series.unit in ("B", "bytes"):
        return {v: _as_amount(series.unit, one.point or 0.0) for v, one in known.items()}
    written = notation or (for_estimates(series.unit, known.values()) if points else Notation())
    bounds = {v for v, one in known.items() if is_log_of_zero(series.metric, one.point or 0.0)}
    return {
        v: f"{'≤ ' if v in bounds else ''}{written.write(one.point)}"
        for v, one in known.items()
        if one.point is not None
    }


def _as_amount(unit: str, value: float) -> str:
    """Return a quantity with three digits: ``2.26 ms``, ``26,400``."""
    notation = for_quantities(unit, [value])
    scaled = value / notation.factor
    digits = 0 if not scaled else max(0, 2 - math.floor(math.log10(abs(scaled))))
    text = f"{float(f'{scaled:.3g}'):,.{digits}f}"
    return text if unit.endswith("/s") and notation.factor == 1 else notation.with_unit(text)


def diverged_in_words(series: Series, variant: str) -> str:
    """Return how many seeds of a variant diverged, or an empty string if none did."""
    num, num_all = len(series.seeds_diverged(variant)), len(series.of(variant))
    return f"{num} of {num_all} seeds diverged" if num else ""


def best_of(series: Series, variants: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the variant with the best mean, and those that do not differ significantly from it.

    Variants with diverged seeds are left out.
    """
    points = {
        v: one
        for v in variants
        if (one := series.mean(v).point) is not None and not series.seeds_diverged(v)
    }
    if not points or series.better == "none":
        return None
    choose = max if series.better == "higher" else min
    best = choose(points, key=lambda variant: points[variant])
    return best, [v for v in points if v != best and not gap(series, best, v).is_better]
