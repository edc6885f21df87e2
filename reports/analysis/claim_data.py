"""The data of a claim: its paired differences, or why there are none.

A run that diverged is a finding, and one that was lost is none: the first is told, and keeps its
seed in the denominator; the second leaves the claim without a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.analysis.time_comparison import log_ratios
from reports.results.readings import coverage, is_noisy
from reports.results.series import Series, num_expected
from reports.stats.intervals import Estimate, paired_differences
from reports.stats.number_format import Notation, for_quantities, for_scores
from suite.schema import About, ClaimSpec, Status


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """How many of a variant's seeds diverged."""

    variant: str
    num: int
    num_total: int

    def __str__(self) -> str:
        return f"{self.variant} in {self.num} of {self.num_total}"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured of a claim's two sides.

    Attributes:
        trouble: Why the claim cannot be judged; empty where it can.
        series: None where nothing was measured.
        differences: Advantage of `a`, seed by seed, where both have a number: positive is better.
            In the metric's unit, or natural logarithms where `is_ratio`.
        is_ratio: Times of a claim that asks for no least difference: what disturbs a process
            lengthens both by a factor.
        ordered: The same with the seeds that diverged: a run without an end is worse than any
            score, so infinite where one side has none, zero where neither has.
        diverged: Both sides, where any seed of either diverged; else empty.
        is_restless: Times of which most processes of a side were noisy: never called alike.
    """

    claim: ClaimSpec
    trouble: str = ""
    series: Series | None = None
    differences: tuple[float, ...] = ()
    is_ratio: bool = False
    ordered: tuple[float, ...] = ()
    diverged: tuple[Divergence, ...] = ()
    is_restless: bool = False

    @property
    def num_pairs(self) -> int:
        """Seeds that both sides have, a diverged one among them."""
        return len(self.ordered)

    @property
    def is_whole(self) -> bool:
        """Whether every seed gave a difference."""
        return not self.trouble and not self.diverged

    def count(self, n: int | str, word: str = "") -> str:
        """That many seeds, or processes: ``3 paired seeds``."""
        noun = "process" if self.series and self.series.is_bound_to_environment else "seed"
        plural = "" if n == 1 else "es" if noun == "process" else "s"
        return " ".join(part for part in (str(n), word, noun + plural) if part)

    def notation(self, advantage: Estimate) -> Notation:
        """How an advantage and its interval are written."""
        assert self.series is not None, "what has an advantage was measured"
        sizes = [abs(x) for x in (advantage.point, advantage.low, advantage.high) if x is not None]
        if self.series.is_bound_to_environment or self.series.unit == "B":
            return for_quantities(self.series.unit, sizes)
        width = advantage.half_width
        return for_scores(self.series.unit, [] if width is None else [width], sizes)


def evidence(about: About, measured: Sequence[Series]) -> Evidence | None:
    """What the ablation's claim rests on; None where it makes none."""
    claim = about.claim
    if claim is None:
        return None
    candidates = _candidates(claim, measured)
    pairs = [_ordered(claim, series) for series in candidates]
    if not pairs:
        return Evidence(claim=claim, trouble=f"{claim.metric} was not measured on {claim.task}")
    ordered = max(pairs, key=len)
    series = candidates[pairs.index(ordered)]
    trouble = _apart(about, claim, candidates) or _trouble(about, claim, series, ordered)
    if trouble:
        return Evidence(claim=claim, series=series, trouble=trouble)
    is_ratio = _is_ratio(claim, series)
    return Evidence(
        claim=claim,
        series=series,
        differences=_ratios(claim, series) if is_ratio else _differences(claim, series),
        is_ratio=is_ratio,
        ordered=ordered,
        diverged=_diverged(claim, series, num_expected(series, about)),
        is_restless=any(is_noisy(series.of(variant)) for variant in (claim.a, claim.b)),
    )


def _candidates(claim: ClaimSpec, measured: Sequence[Series]) -> list[Series]:
    """What the claim may be about: without a coordinate the whole, where there is a whole."""
    named = [s for s in measured if (s.task, s.metric) == (claim.task, claim.metric)]
    there = [series for series in named if series.at == claim.at]
    return there if there or claim.at else [s for s in named if not s.is_score]


def _differences(claim: ClaimSpec, series: Series) -> tuple[float, ...]:
    a, b = series.values(claim.a), series.values(claim.b)
    return paired_differences(b, a) if series.better == "lower" else paired_differences(a, b)


def _ratios(claim: ClaimSpec, series: Series) -> tuple[float, ...]:
    a, b = series.values(claim.a), series.values(claim.b)
    return tuple((log_ratios(b, a) if series.better == "lower" else log_ratios(a, b)).values())


def _is_ratio(claim: ClaimSpec, series: Series) -> bool:
    values = (x for variant in (claim.a, claim.b) for x in series.values(variant).values())
    return series.unit == "s" and claim.by == 0 and all(value > 0 for value in values)


def _ordered(claim: ClaimSpec, series: Series) -> tuple[float, ...]:
    sign = -1.0 if series.better == "lower" else 1.0
    a, b = (
        {seed: sign * value for seed, value in series.values(variant).items()}
        | dict.fromkeys(_seeds_diverged(series, variant), -math.inf)
        for variant in (claim.a, claim.b)
    )
    both = sorted(a.keys() & b.keys())
    return tuple(0.0 if a[seed] == b[seed] else a[seed] - b[seed] for seed in both)


def _seeds_diverged(series: Series, variant: str) -> list[int]:
    return [r.seed for r in series.of(variant) if r.status is Status.DIVERGED]


def _diverged(claim: ClaimSpec, series: Series, expected: int) -> tuple[Divergence, ...]:
    sides = tuple(
        Divergence(
            variant=variant,
            num=len(_seeds_diverged(series, variant)),
            num_total=max(expected, len(series.of(variant))),
        )
        for variant in (claim.a, claim.b)
    )
    return sides if any(side.num for side in sides) else ()


def _apart(about: About, claim: ClaimSpec, candidates: Sequence[Series]) -> str:
    """Why the two cannot meet, where no environment has measured both; else empty."""
    seen = [
        {
            series.environment_id
            for series in candidates
            if series.is_bound_to_environment and any(r.has_number for r in series.of(variant))
        }
        for variant in (claim.a, claim.b)
    ]
    if not all(seen) or seen[0] & seen[1]:
        return ""
    of_a, of_b = (" and ".join(_place(about, name) for name in sorted(ids)) for ids in seen)
    return (
        f"{claim.a} was measured on {of_a} and {claim.b} on {of_b}; times of different devices, "
        "thread counts or torch versions are never compared"
    )


def _place(about: About, environment_id: str) -> str:
    """An environment by what tells it from others."""
    made = about.provenances.get(environment_id)
    if made is None:
        return environment_id
    threads = f"{made.num_threads} thread{'' if made.num_threads == 1 else 's'}"
    return f"{made.device} ({threads}, torch {made.versions.get('torch', 'unknown')})"


def _trouble(about: About, claim: ClaimSpec, series: Series, ordered: Sequence[float]) -> str:
    """Why the claim cannot be judged; empty where it can."""
    if series.better == "none":
        return f"{series.metric} has no better direction"
    expected = num_expected(series, about)
    for variant in (claim.a, claim.b):
        cover = coverage(series.of(variant), expected)
        num_told = len(series.usable(variant)) + len(_seeds_diverged(series, variant))
        if num_told < max(expected, cover.num_total):
            return f"{variant} has {series.metric.replace('_', ' ')} for {cover}"
    return "" if ordered else f"no seed has both {claim.a} and {claim.b}"
