"""Collect the data of a claim: its paired differences, their strength, or why there are none.

A diverged seed is a finding: it is reported and stays in the denominator. A lost seed is not: it
leaves the claim without a verdict. The strength includes how many more seeds would settle the
claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bakeoff.reports.analysis.cost import timed_steps
from bakeoff.reports.analysis.gate import what_no_floor_shows, why_not_tested
from bakeoff.reports.analysis.speedup import (
    COUNTED,
    STEP_TIME,
    NoCurve,
    Reach,
    Speedup,
    speedup_in_words,
    speedup_of,
)
from bakeoff.reports.analysis.time_comparison import log_ratios
from bakeoff.reports.document import capitalized
from bakeoff.reports.results.reading import coverage, is_noisy
from bakeoff.reports.results.series import Series, advantages, num_expected
from bakeoff.reports.results.spoken_names import shown_name, shown_names
from bakeoff.reports.stats.aggregate import Improvement, improvement
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_ratio,
    for_scores,
    mean_interval,
    paired_differences,
    smallest_level,
    standard_deviation,
)
from bakeoff.reports.stats.significance import (
    MIN_PAIRS,
    MOST_SEEDS,
    SignFlip,
    num_seeds_to_settle,
    sign_flip,
    smallest_effect,
)
from bakeoff.suite.schema import About, ClaimSpec

_UNITS_OF_LOSSES = ("bit", "nat")


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The number of a variant's seeds that diverged."""

    name: str
    num: int
    num_total: int

    def __str__(self) -> str:
        return f"{self.name} in {self.num} of {self.num_total}"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The measurements of a claim's two sides.

    Attributes:
        claim: The claim.
        why_invalid: Why the claim cannot be judged; empty if it can.
        why_not_tested: A clause on the model that did not learn the task; see
            `bakeoff.reports.analysis.gate`.
        beyond_floors: A sentence on the part of the claim that no floor covers; empty if there is
            none.
        series: The series that the claim is judged by, or None if nothing was measured.
        differences: Advantage of `a` for each seed of which both sides have a number: positive is
            better. In the metric's unit, or for times natural logarithms of ratios if `is_ratio`.
            For a speedup `b` is interpolated at the budget of `a`.
        is_ratio: True for a speedup, and for times if the claim requires no minimum difference:
            disturbances of a process scale both times by a common factor.
        speedup: The effective speedup if the claim is about one that could be computed, or None. It
            is not tested if the score of `a` is outside the scores of the budgets of `b`.
        ordered: The advantages including diverged seeds, which rank below any score: infinite if
            one side diverged, zero if both did.
        diverged: The counts of both sides if any seed of either diverged; else empty.
        is_same_computation: True if losses that are bitwise equal for every seed show that both
            sides computed the same.
        is_mostly_noisy: True if most processes of a side were noisy; the verdict is then never
            "equivalent".
        is_unresolved: True if the ratio of times does not exceed the ratio that the baseline showed
            against itself.
        resolution: The logarithm of that ratio; 0 for metrics other than times and rates.
        names: The names of `a` and `b` on a page.
    """

    claim: ClaimSpec
    why_invalid: str = ""
    why_not_tested: str = ""
    beyond_floors: str = ""
    series: Series | None = None
    differences: tuple[float, ...] = ()
    is_ratio: bool = False
    speedup: Speedup | None = None
    ordered: tuple[float, ...] = ()
    diverged: tuple[Divergence, ...] = ()
    is_same_computation: bool = False
    is_mostly_noisy: bool = False
    is_unresolved: bool = False
    resolution: float = 0.0
    names: tuple[str, str] = ("", "")

    @property
    def by(self) -> float:
        """The claimed size in the unit of the advantage."""
        return math.log(max(self.claim.by, 1.0)) if self.claim.counted_by else self.claim.by

    @property
    def num_pairs(self) -> int:
        """The number of seeds that both sides have, diverged ones included."""
        return len(self.ordered)

    @property
    def is_equal(self) -> bool:
        """True if both sides have the same number in every pair, and pairs are enough."""
        is_enough = len(self.differences) >= (1 if self.is_exact else MIN_PAIRS)
        return is_enough and not self.is_ratio and not any(self.differences)

    @property
    def is_exact(self) -> bool:
        """True if both sides are counts, of which one reading is exact."""
        return self.series is not None and self.series.is_count

    @property
    def is_whole(self) -> bool:
        """True if every seed gave a difference that may be judged."""
        return not (self.why_invalid or self.why_not_tested or self.diverged)

    @property
    def advantage(self) -> Estimate:
        """The advantage with its interval; empty if a seed is lost or diverged.

        It is the mean difference, or the logarithm of a speedup.
        """
        if self.speedup is not None:
            found = self.speedup.log_ratio
            return found if self.speedup.reach is Reach.BETWEEN else Estimate(n=found.n)
        differences = () if self.why_invalid or self.diverged else self.differences
        if self.series is None or self.is_ratio:
            return mean_interval(differences)
        return self.series.mean_difference(differences)

    def differences_from(self, size: float) -> tuple[float, ...]:
        """Return the differences whose mean is zero if the advantage has this size."""
        if self.speedup is not None:
            return self.speedup.comparison.advantages(size)
        return tuple(difference - size for difference in self.differences)

    def count(self, n: int | str, word: str = "") -> str:
        """Return a number of seeds or processes as text: ``3 paired seeds``."""
        noun = "process" if self.series and self.series.is_bound_to_environment else "seed"
        plural = "" if n == 1 else "es" if noun == "process" else "s"
        return " ".join(part for part in (str(n), word, noun + plural) if part)

    def notation(self, advantage: Estimate) -> Notation:
        """Return the notation in which an advantage and its interval are written."""
        assert self.series is not None, "what has an advantage was measured"
        return self.series.notation(advantage)


def evidence(about: About, measured: Sequence[Series]) -> Evidence | None:
    """Return the evidence for the ablation's claim, or None if it makes no claim."""
    if about.claim is None:
        return None
    found = _evidence(about, about.claim, measured)
    return replace(found, names=_names(about, about.claim))


def _names(about: About, claim: ClaimSpec) -> tuple[str, str]:
    return shown_name(about, claim.a), shown_name(about, claim.b)


def _evidence(about: About, claim: ClaimSpec, measured: Sequence[Series]) -> Evidence:
    candidates = _candidates(claim, measured)
    pairs = [advantages(series, claim.a, claim.b) for series in candidates]
    if not pairs:
        return Evidence(claim=claim, why_invalid=f"{claim.metric} was not measured on {claim.task}")
    ordered = max(pairs, key=len)
    series = candidates[pairs.index(ordered)]
    why_invalid = _apart(about, claim, candidates) or _why_invalid(about, claim, series, ordered)
    if why_invalid:
        return Evidence(claim=claim, series=series, why_invalid=why_invalid)
    if claim.counted_by:
        return _of_speedup(about, claim, series, measured)
    differences, is_ratio = _differences(claim, series)
    is_enough = len(ordered) >= MIN_PAIRS
    return Evidence(
        claim=claim,
        why_not_tested=why_not_tested(about, claim, measured) if is_enough else "",
        beyond_floors=what_no_floor_shows(about, claim, measured),
        series=series,
        differences=differences,
        is_ratio=is_ratio,
        ordered=ordered,
        diverged=_diverged(about, claim, series),
        is_same_computation=_is_same_computation(claim, measured),
        is_mostly_noisy=any(is_noisy(series.of(variant)) for variant in (claim.a, claim.b)),
        is_unresolved=_is_unresolved(claim, series),
        resolution=series.resolution,
    )


def _of_speedup(
    about: About, claim: ClaimSpec, score: Series, measured: Sequence[Series]
) -> Evidence:
    """Return the evidence for a claim about a speedup, whose seeds are all there or diverged."""
    said = Evidence(
        claim=claim,
        beyond_floors=what_no_floor_shows(about, claim, measured),
        series=score,
        is_ratio=True,
        diverged=_diverged(about, claim, score),
    )
    if said.diverged:
        return replace(said, ordered=(0.0,) * len(score.of(claim.a)))
    try:
        found = speedup_of(about, measured, score, (claim.a, claim.b), claim.counted_by)
    except NoCurve as reason:
        return replace(said, why_invalid=str(reason))
    differences = found.comparison.advantages(0.0)
    said = replace(said, speedup=found, differences=differences, ordered=differences)
    is_enough = len(differences) >= MIN_PAIRS
    why_not = why_not_tested(about, claim, measured) if is_enough else ""
    if found.reach is not Reach.BETWEEN:
        return replace(said, why_not_tested=why_not or what_is_needed(said, *_names(about, claim)))
    timed = timed_steps(measured, claim.task) if claim.counted_by == STEP_TIME else None
    resolution = timed.resolution if timed else 0.0
    return replace(
        said,
        why_not_tested=why_not,
        is_mostly_noisy=timed is not None
        and any(is_noisy(timed.of(variant)) for variant in (claim.a, claim.b)),
        is_unresolved=bool(resolution) and abs(found.log_ratio.point or 0.0) <= resolution,
        resolution=resolution,
    )


def _differences(claim: ClaimSpec, series: Series) -> tuple[tuple[float, ...], bool]:
    """Return the advantage of each pair, and whether these are logarithms of ratios."""
    a, b = series.values(claim.a), series.values(claim.b)
    better, worse = (b, a) if series.better == "lower" else (a, b)
    is_positive = all(value > 0 for value in (*a.values(), *b.values()))
    if series.unit == "s" and claim.by == 0 and is_positive:
        return tuple(log_ratios(better, worse).values()), True
    return paired_differences(better, worse), False


def _is_same_computation(claim: ClaimSpec, measured: Sequence[Series]) -> bool:
    """Return True if both sides have losses and these are equal; equal accuracies prove little."""
    losses = [s for s in measured if s.task == claim.task and s.unit in _UNITS_OF_LOSSES]
    pairs = [advantages(series, claim.a, claim.b) for series in losses]
    return any(pairs) and not any(any(some) for some in pairs)


def _is_unresolved(claim: ClaimSpec, series: Series) -> bool:
    """Return True if a ratio of times does not exceed the baseline's ratio to itself.

    It is always False for metrics other than times and rates, or if the baseline was timed once.
    """
    logs = log_ratios(series.values(claim.a), series.values(claim.b)).values()
    return bool(series.resolution and logs) and (
        abs(math.fsum(logs) / len(logs)) <= series.resolution
    )


def pairs_so_far(about: About, measured: Sequence[Series]) -> Evidence | None:
    """Return the pairs of a claim measured so far, or None if there is no claim or no measurement.

    A plan uses them to predict what further seeds would find; they do not support a verdict.
    """
    claim = about.claim
    if claim is None or claim.counted_by:  # a size of a speedup depends on the whole curve
        return None
    series = max(
        _candidates(claim, measured),
        key=lambda each: len(advantages(each, claim.a, claim.b)),
        default=None,
    )
    if series is None:
        return None
    differences, is_ratio = _differences(claim, series)
    return Evidence(claim=claim, series=series, differences=differences, is_ratio=is_ratio)


def _candidates(claim: ClaimSpec, measured: Sequence[Series]) -> list[Series]:
    """Return the series of the claim's metric at its coordinate.

    If a claim names no coordinate and no series lacks one, return all series of the metric except
    scores.
    """
    named = [s for s in measured if (s.task, s.metric) == (claim.task, claim.metric)]
    there = [series for series in named if series.at == claim.at]
    return there if there or claim.at else [s for s in named if not s.is_score]


def _diverged(about: About, claim: ClaimSpec, series: Series) -> tuple[Divergence, ...]:
    expected, names = num_expected(series, about), shown_names(about)
    sides = tuple(
        Divergence(
            name=names.get(variant, variant),
            num=len(series.seeds_diverged(variant)),
            num_total=max(expected, len(series.of(variant))),
        )
        for variant in claim.compared
    )
    return sides if any(side.num for side in sides) else ()


def _apart(about: About, claim: ClaimSpec, candidates: Sequence[Series]) -> str:
    """Return why the sides cannot be compared if no environment measured both; else empty."""
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
    a, b = _names(about, claim)
    return (
        f"{a} was measured on {of_a} and {b} on {of_b}; times of different devices, "
        "thread counts or torch versions are never compared"
    )


def _place(about: About, environment_id: str) -> str:
    """Return a description of an environment: device, threads and torch version."""
    made = about.provenances.get(environment_id)
    if made is None:
        return environment_id
    threads = f"{made.num_threads} thread{'' if made.num_threads == 1 else 's'}"
    return f"{made.device} ({threads}, torch {made.versions.get('torch', 'unknown')})"


def _why_invalid(about: About, claim: ClaimSpec, series: Series, ordered: Sequence[float]) -> str:
    """Return why the claim cannot be judged; empty if it can."""
    if series.better == "none":
        return f"{series.metric} has no better direction"
    expected = num_expected(series, about)
    for variant in claim.compared:
        cover = coverage(series.of(variant), expected)
        num_counted = len(series.usable(variant)) + len(series.seeds_diverged(variant))
        if num_counted < max(expected, cover.num_total):
            name = shown_name(about, variant)
            return f"{name} has {series.metric.replace('_', ' ')} for {cover}"
    return "" if ordered else f"no seed has both {' and '.join(_names(about, claim))}"


@dataclass(frozen=True, kw_only=True)
class Strength:
    """The statistics reported with a claim's verdict.

    Attributes:
        sign_flip: Test against no difference, or None if a seed is lost or diverged.
        improvement: How often `a` was better than `b`, diverged seeds counted, or None if a seed is
            lost.
        spread: Standard deviation of the paired differences; NaN for fewer than two.
        num_seeds_to_settle: The number of seeds that would decide the claim, or None if more than
            1,000.
        smallest_effect: The effect that the same number of seeds detects four times in five; it
            allows for the spread being an estimate.
    """

    sign_flip: SignFlip | None = None
    improvement: Improvement | None = None
    spread: float = math.nan
    num_seeds_to_settle: int | None = None
    smallest_effect: float | None = None


def p_of_no_difference(found: Evidence) -> float | None:
    """Return the two-sided p of the paired t test, or None if a seed is lost or pairs are few."""
    if not found.is_whole or found.num_pairs < MIN_PAIRS:
        return None
    if found.speedup is not None:
        return found.speedup.comparison.p_value(0.0)
    return smallest_level(found.differences)


def strength(found: Evidence) -> Strength:
    """Return the strength of the evidence."""
    if found.why_invalid or found.why_not_tested:
        return Strength()
    if found.diverged:
        is_paired = not found.claim.counted_by  # a curve without some of its seeds has no score
        return Strength(improvement=improvement(found.ordered) if is_paired else None)
    spread, n = standard_deviation(found.differences), len(found.differences)
    is_known = not math.isnan(spread)
    from_boundary = found.differences_from(_boundary(found))
    return Strength(
        sign_flip=sign_flip(found.differences),
        improvement=improvement(found.ordered),
        spread=spread,
        num_seeds_to_settle=num_seeds_to_settle(
            abs(math.fsum(from_boundary) / n), standard_deviation(from_boundary)
        )
        if is_known
        else None,
        smallest_effect=smallest_effect(spread, n, num_pairs=n) if is_known else None,
    )


_FIELLER = (
    "The interval of the speedup holds the budgets around the estimate at which Student's t test "
    "of the paired differences, at the 5 % level, does not tell the two apart (Fieller's method), "
    "which assumes approximately normal errors. Scores between the {} budgets of {} are "
    "interpolated. The verdict applies only to the claim of this ablation; every other comparison "
    "is exploratory."
)
_BASIS = (
    "The verdict uses Student's t interval of the paired differences at the 5 % level, which "
    "assumes approximately normal errors. It applies only to the claim of this ablation; every "
    "other comparison is exploratory."
)


def details(found: Evidence, strong: Strength, *, is_open: bool) -> Iterator[str]:
    """Yield whole sentences on a claim, the most informative first.

    Args:
        found: The evidence for the claim.
        strong: Its strength.
        is_open: Whether more seeds could still settle it.
    """
    if strong.improvement:
        yield _improvement(found, strong.improvement)
    if strong.sign_flip:
        yield from _sign_flip(found, strong.sign_flip)
    if is_open and found.is_whole:
        yield _to_settle(found, strong)
    if found.is_whole and found.num_pairs >= MIN_PAIRS:
        said = _FIELLER.format(len(found.claim.curve), found.names[1])
        yield said if found.speedup else _BASIS
    if found.beyond_floors and not found.why_not_tested:
        yield found.beyond_floors


def what_is_needed(found: Evidence, a: str, b: str) -> str:
    """Return a clause on the budget that `b` needs for the score of `a`; needs a speedup."""
    assert found.series is not None, "what has a speedup was measured"
    assert found.speedup is not None, "it has a speedup"
    size, _ = speedup_in_words(found.speedup)
    least, where = _OUTSIDE.get(found.speedup.reach, ("", ""))
    return (
        f"{b} needs {least}{size} times the {COUNTED[found.claim.counted_by]} of {a} for the same "
        f"{found.series.metric.replace('_', ' ')}{where}"
    )


_OUTSIDE = {
    Reach.BEYOND: ("more than ", ", which is beyond its largest budget"),
    Reach.BELOW: ("less than ", ", which is below its smallest budget"),
}


def what_was_equal(found: Evidence) -> str:
    """Return a clause on numbers equal for every seed, and on the difference they may hide."""
    series = found.series
    assert series is not None, "what is equal was measured"
    values = tuple(series.values(found.claim.a).values())
    notation, count = for_scores(series.unit, [], values), found.count(found.num_pairs)
    if len(set(values)) > 1:
        text = f"both gave the same number with each of {count}"
    else:
        text = f"both gave {notation.with_unit(notation.write(values[0]))} with each of {count}"
    if not series.is_share:
        return text
    if not any(0 < value < 1 for value in values):
        text += ", a bound of the score"
    n = series.num_examples
    if n is None:
        return f"{text}; a difference may not be visible on a finite test set"
    return f"{text}; {n:,} test examples leave it open by {_hidden(values, n):.2g} (95 %)"


def _hidden(values: Sequence[float], n: int) -> float:
    """Return how far from an observed share the true one may lie, by the binomial error.

    If all examples are right, or all wrong, that is the rule of three: at most 3 / n.
    """
    share = math.fsum(values) / len(values)
    return max(3 / n, 1.96 * math.sqrt(max(0.0, share * (1 - share)) / n))


def _boundary(found: Evidence) -> float:
    """Return the value to be excluded: zero or the claimed size, the one farther from the mean."""
    point = found.advantage.point
    assert point is not None, "a claim with no pair is invalid"
    return 0.0 if point >= found.by / 2 else found.by


def _improvement(found: Evidence, made: Improvement) -> str:
    chance = made.probability
    equal = f", equal in {made.num_equal}" if made.num_equal else ""
    where = "At the same budget, or the nearest one of the curve, " if found.speedup else ""
    text = (
        f"{where}{found.names[0]} was better in {made.num_better} of "
        f"{found.count(chance.n)}{equal}: probability of improvement {chance.point:.2f} "
        f"(95 % interval {chance.low:.2f} to {chance.high:.2f})."
    )
    rule = "A diverged seed counted as worse than any score, "
    return rule + text if found.diverged else capitalized(text)


def _sign_flip(found: Evidence, test: SignFlip) -> Iterator[str]:
    if test.p is not None:
        yield (
            "An exact sign-flip test, which does not assume a normal distribution, gives p = "
            f"{test.p:.2g} (two-sided, {found.count(test.n)})."
        )
    elif test.n < test.num_pairs_needed:
        yield (
            f"The smallest possible p-value of an exact sign-flip test is {test.least_p:.2g} with "
            f"{found.count(test.n)}; it takes {test.num_pairs_needed} to reach {test.alpha:.3g}."
        )


def _to_settle(found: Evidence, strong: Strength) -> str:
    n = found.num_pairs
    if math.isnan(strong.spread):
        return (
            "The spread cannot be estimated from one pair, so the number of pairs needed is "
            "unknown."
        )
    needed = strong.num_seeds_to_settle
    about = f"more than {MOST_SEEDS:,}" if needed is None else f"about {needed:,}"
    text = (
        f"If the mean and the spread stay the same, {found.count(about)} would be enough for a "
        "verdict"
    )
    if n < MIN_PAIRS or not strong.smallest_effect:
        return f"{text}."
    effect = _size(found, strong.smallest_effect)
    where = " at the same budget" if found.speedup else ""
    return f"{text}; these {n} detect a true difference of {effect}{where} in four of five cases."


def _size(found: Evidence, effect: float) -> str:
    """Return a difference as text, in the notation of the advantage."""
    if found.is_ratio and found.speedup is None:
        return f"a factor of {as_ratio(math.exp(min(effect, 700.0)))}"
    written = found.notation(mean_interval(found.differences))
    return written.with_unit(written.write(effect))
