"""Does the claim hold? The paired interval of `a` over `b`, turned into one word and a sentence.

Rules: the interval is that of paired differences by seed, signed so that positive is better.
"No significant difference" is never "the same": equality needs an interval inside the margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.notation import Notation, for_quantities, for_scores
from reports.readings import coverage
from reports.series import Series, num_expected
from reports.statistics import Estimate, mean_interval, paired_differences
from suite.schema import About, ClaimSpec

MIN_PAIRS = 3


class Outcome(StrEnum):
    """What can be said of a claim."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    UNDERPOWERED = "underpowered"
    INVALID = "invalid"

    @property
    def meaning(self) -> str:
        """The rule behind the word, in a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Outcome.SUPPORTED: "The whole interval of the advantage lies above zero, and its middle "
    "reaches the claimed size.",
    Outcome.REFUTED: "The whole interval of the advantage stays below what the claim needs.",
    Outcome.EQUIVALENT: "The whole interval of the difference is smaller than the least that "
    "matters, on either side of zero.",
    Outcome.INCONCLUSIVE: "The interval leaves it open; that is not to say that the two are equal.",
    Outcome.UNDERPOWERED: "There are too few pairs for a verdict.",
    Outcome.INVALID: "A measurement that the claim rests on is missing, failed, or cannot be "
    "judged.",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a claim.

    Attributes:
        advantage: How much better `a` is than `b`, in the metric's unit.
        statement: The claim, without a full stop.
        kind: The outcome in words, with ``indicative`` where the scale is small.
        finding: What was found, without a full stop.
    """

    outcome: Outcome
    advantage: Estimate
    statement: str
    kind: str
    finding: str

    @property
    def sentence(self) -> str:
        """The whole answer, for a reader."""
        return f"{self.statement}: {self.kind}; {self.finding}."


def verdict(about: About, measured: Sequence[Series]) -> Verdict | None:
    """The verdict on the ablation's claim; None where it makes none."""
    claim = about.claim
    if claim is None:
        return None
    candidates = [
        series
        for series in measured
        if (series.task, series.metric) == (claim.task, claim.metric)
        and (not claim.at or series.at == claim.at)
    ]
    series = max(candidates, key=lambda s: len(_pairs(claim, s)), default=None)
    if series is None:
        return _invalid(about, claim, f"{claim.metric} was not measured on {claim.task}")
    trouble = _apart(about, claim, candidates) or _trouble(about, claim, series)
    if trouble:
        return _invalid(about, claim, trouble)
    advantage = mean_interval(_pairs(claim, series))
    outcome = judge(advantage, claim.by)
    finding = f"{_comparison(claim, series, advantage)}{_remark(outcome, claim, series)}"
    return _answer(about, claim, outcome, advantage, finding)


def judge(advantage: Estimate, by: float) -> Outcome:
    """The outcome for an interval of the advantage, and the smallest one that matters.

    Args:
        advantage: Signed so that positive is better.
        by: At least this much is claimed; not negative.
    """
    low, high, point = advantage.low, advantage.high, advantage.point
    if advantage.n < MIN_PAIRS or low is None or high is None or point is None:
        return Outcome.UNDERPOWERED
    if low > 0 and point >= by:
        return Outcome.SUPPORTED
    if high < 0:
        return Outcome.REFUTED
    if -by < low and high < by:
        return Outcome.EQUIVALENT
    return Outcome.REFUTED if high < by else Outcome.INCONCLUSIVE


def _pairs(claim: ClaimSpec, series: Series) -> tuple[float, ...]:
    """Advantage of `a`, seed by seed."""
    a, b = series.values(claim.a), series.values(claim.b)
    return paired_differences(b, a) if series.better == "lower" else paired_differences(a, b)


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


def _trouble(about: About, claim: ClaimSpec, series: Series) -> str:
    """Why the claim cannot be judged; empty where it can."""
    if series.better == "none":
        return f"{series.metric} has no better direction"
    expected = num_expected(series, about)
    for variant in (claim.a, claim.b):
        cover = coverage(series.of(variant), expected)
        if len(series.usable(variant)) < max(expected, cover.num_total):
            return f"{variant} has {_name(series)} for {cover}"
    return ""


def _name(series: Series) -> str:
    return series.metric.replace("_", " ")


def _invalid(about: About, claim: ClaimSpec, why: str) -> Verdict:
    return _answer(about, claim, Outcome.INVALID, Estimate(n=0), f"no verdict, since {why}")


def _answer(
    about: About, claim: ClaimSpec, outcome: Outcome, advantage: Estimate, finding: str
) -> Verdict:
    kind = f"{outcome}, indicative" if about.is_indicative else str(outcome)
    return Verdict(
        outcome=outcome,
        advantage=advantage,
        statement=claim.statement.strip().rstrip("."),
        kind=kind,
        finding=finding,
    )


def _notation(series: Series, advantage: Estimate) -> Notation:
    sizes = [abs(x) for x in (advantage.point, advantage.low, advantage.high) if x is not None]
    if series.is_bound_to_environment or series.unit == "B":
        return for_quantities(series.unit, sizes)
    width = advantage.half_width
    return for_scores(series.unit, [] if width is None else [width], sizes)


def _comparison(claim: ClaimSpec, series: Series, advantage: Estimate) -> str:
    assert advantage.point is not None, "a claim with no pair is invalid"
    notation = _notation(series, advantage)
    sign = -1 if advantage.point < 0 else 1
    size = notation.with_unit(notation.write(abs(advantage.point)))
    word = "worse" if sign < 0 else "better"
    verb = "is" if advantage.excludes_zero else "came out"
    text = f"{claim.a} {verb} {word} than {claim.b} by {size}"
    if advantage.low is None or advantage.high is None:
        return f"{text} ({_pair_count(series, advantage.n)})"
    ends = sorted((sign * advantage.low, sign * advantage.high))
    interval = f"95 % interval {notation.write(ends[0])} to {notation.write(ends[1])}"
    return f"{text} ({interval}, {_pair_count(series, advantage.n)})"


def _pair_count(series: Series, n: int) -> str:
    noun = "process" if series.is_bound_to_environment else "seed"
    plural = "" if n == 1 else "es" if noun == "process" else "s"
    return f"{n} paired {noun}{plural}"


def _remark(outcome: Outcome, claim: ClaimSpec, series: Series) -> str:
    unit = "" if series.unit == "1" else f" {series.unit}"
    match outcome:
        case Outcome.UNDERPOWERED:
            return f"; at least {MIN_PAIRS} pairs are needed for a verdict"
        case Outcome.EQUIVALENT:
            return f"; the interval lies within ±{claim.by:g}{unit}, the least that matters"
        case Outcome.REFUTED | Outcome.INCONCLUSIVE:
            return f"; the claim needs at least {claim.by:g}{unit}" if claim.by else ""
        case _:
            return ""
