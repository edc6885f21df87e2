"""Judge, number by number, what changed between two selections.

Scores are paired by seed: B less A, with Student's t of the differences. Times are ratios, B over
A, by the rule of `reports.analysis.time_comparison`; a rate is judged as the time that it stands
for. Counts are compared to the last digit. Equal numbers are identical, which is no test.

Holm's procedure (Holm, Scand. J. Statist. 6, 1979) corrects for the number of comparisons: it goes
over all scores that differ, and over all times that differ. A change that does not survive it is
called possible, not certain. The p of a score is that of its paired t; the p of a time is the least
level at which its interval would leave the 0.5 % about 1, which is what the rule asks for.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scipy.special import stdtrit

from reports.analysis.time_comparison import (
    CLEAR_GAP,
    TimeOutcome,
    compare,
    exponential,
    log_ratios,
)
from reports.compare.pairs import MetricPair, MetricRows, Selection, UnpairedMetric, pair_metrics
from reports.results.reading import reading_of
from reports.results.series import QUALITY, is_share
from reports.stats.intervals import (
    CONFIDENCE,
    Estimate,
    mean_interval,
    paired_differences,
    smallest_level,
)
from reports.stats.significance import SmallestLevels, holm

MIN_PAIRS = 3
_RATE_UNITS = ("/s", "_per_second")


class NumberKind(StrEnum):
    """How numbers are compared."""

    SCORE = "score"
    TIME = "time"
    COUNT = "count"


class ChangeOutcome(StrEnum):
    """What can be said of a change; the values stand in moved.csv."""

    CHANGED = "moved"  # a score whose interval excludes zero, a count that differs
    SLOWER = "slower"
    FASTER = "faster"
    ENDED_DIFFERENTLY = "ended differently"  # a seed has a number in one selection only
    POSSIBLE = "perhaps moved"  # significant on its own, but not after Holm's correction
    OPEN = "open"
    AMBIGUOUS = "ambiguous"
    NOISY = "noisy"
    OTHER_DEVICE = "other device"
    SAME = "same"
    IDENTICAL = "identical"
    NO_NUMBER = "no number"


_DIRECTED = {ChangeOutcome.CHANGED, ChangeOutcome.SLOWER, ChangeOutcome.FASTER}
CERTAIN = frozenset({*_DIRECTED, ChangeOutcome.ENDED_DIFFERENTLY})


@dataclass(frozen=True, kw_only=True)
class Change:
    """One metric in both selections, and what can be said of its change.

    Attributes:
        estimate: B less A of a score, in its unit; B over A of a time or a count.
        p: Of the test against no change; None where nothing is tested.
        reason: Why the outcome is not certain; empty where it is.
    """

    pair: MetricPair
    kind: NumberKind
    estimate: Estimate
    outcome: ChangeOutcome = ChangeOutcome.OPEN
    p: float | None = None
    reason: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether there is a change, for certain."""
        return self.outcome in CERTAIN

    @property
    def size(self) -> float:
        """The change as a share of the larger number; infinite where a seed lacks one."""
        if self.outcome is ChangeOutcome.ENDED_DIFFERENTLY:
            return math.inf
        a, b = (summary(self.kind, rows) or 0.0 for rows in (self.pair.a, self.pair.b))
        difference = b - a
        if self.kind is NumberKind.SCORE:
            difference = self.estimate.point or 0.0
        elif self.estimate.point:
            return 1 - min(self.estimate.point, 1 / self.estimate.point)
        largest = max(abs(a), abs(b))
        return abs(difference) / largest if largest else 0.0

    @property
    def tone(self) -> str:
        """``better`` or ``worse`` for B, of a certain or possible change; else empty."""
        change, better = self.estimate.point, self.pair.key.better
        is_directed = self.outcome in {*_DIRECTED, ChangeOutcome.POSSIBLE}
        if not is_directed or better == "none" or change is None:
            return ""
        is_up = change > (0.0 if self.kind is NumberKind.SCORE else 1.0)
        return "better" if is_up == (better == "higher") else "worse"

    @property
    def finding(self) -> str:
        """The outcome in a word or two, with its direction: ``worse``, ``perhaps slower``."""
        word = self.tone or "moved"
        if self.kind is NumberKind.TIME and self.tone:
            word = "faster" if self.tone == "better" else "slower"
        if self.outcome is ChangeOutcome.CHANGED:
            return word
        return f"perhaps {word}" if self.outcome is ChangeOutcome.POSSIBLE else str(self.outcome)


def compare_selections(a: Selection, b: Selection) -> tuple[list[Change], list[UnpairedMetric]]:
    """Compare B with A; the same for the same rows in any order.

    Returns:
        The changes of what both have, and what only one has, in the order of tasks and variants.
    """
    found = list(pair_metrics(a, b))
    changes = [judge(pair) for pair in found if isinstance(pair, MetricPair)]
    unpaired = [metric for metric in found if isinstance(metric, UnpairedMetric)]
    return _correct(changes), unpaired


def judge(pair: MetricPair) -> Change:
    """The change of one metric, as if it were the only one."""
    kind = _kind(pair)
    judge_score_or_count = _judge_score if kind is NumberKind.SCORE else _judge_count
    found = _judge_time(pair) if kind is NumberKind.TIME else judge_score_or_count(pair)
    if not pair.a.values and not pair.b.values:
        return replace(found, outcome=ChangeOutcome.NO_NUMBER, reason=pair.b.fates)
    endings = "; ".join(_different_endings(pair))
    if endings:
        return replace(found, outcome=ChangeOutcome.ENDED_DIFFERENTLY, reason=endings, p=None)
    return found


def summary(kind: NumberKind, rows: MetricRows) -> float | None:
    """The number shown for one selection: mean of scores, else the median; None without any."""
    values = list(rows.values.values())
    if not values:
        return None
    if kind is NumberKind.SCORE:
        return math.fsum(values) / len(values)
    return statistics.median(values)


def level_beyond_gap(logs: Sequence[float]) -> float:
    """The least level at which the interval of the mean lies beyond 0.5 % of a ratio of 1.

    Args:
        logs: Natural logarithms of ratios, one a process.
    """
    mean, gap = math.fsum(logs) / len(logs), math.log(CLEAR_GAP)
    return smallest_level(logs, math.copysign(gap, mean)) if abs(mean) > gap else 1.0


def _kind(pair: MetricPair) -> NumberKind:
    """How the numbers are compared: by what was measured, and in which unit."""
    key = pair.key
    if key.probe == QUALITY:
        return NumberKind.SCORE
    if key.unit == "s" or key.unit.endswith(_RATE_UNITS):
        return NumberKind.TIME
    # A share of times, as a scaling efficiency, is no count.
    values = [*pair.a.values.values(), *pair.b.values.values()]
    is_share = key.unit == "1" and key.better != "none"
    is_score = is_share and not all(value.is_integer() for value in values)
    return NumberKind.SCORE if is_score else NumberKind.COUNT


def _different_endings(pair: MetricPair) -> Iterator[str]:
    """Each seed that has a number in one selection only, with what became of it."""
    a, b = pair.a, pair.b
    for seed in sorted(a.by_seed.keys() & b.by_seed.keys()):
        if (seed in a.values) != (seed in b.values):
            readings = (reading_of(rows.by_seed[seed]) for rows in (a, b))
            in_a, in_b = (f"{r.fate} ({r.reason})" if r.reason else r.fate for r in readings)
            yield f"seed {seed}: {in_a} in A, {in_b} in B"


def _judge_score(pair: MetricPair) -> Change:
    differences = paired_differences(pair.b.values, pair.a.values)
    estimate = mean_interval(differences)
    if is_share(pair.key.metric, pair.key.unit):
        estimate = estimate.within(-1.0, 1.0)
    found = Change(pair=pair, kind=NumberKind.SCORE, estimate=estimate)
    if pair.is_identical:
        return replace(found, outcome=ChangeOutcome.IDENTICAL)
    num_pairs = len(differences)
    if num_pairs < MIN_PAIRS:
        some = f"{num_pairs} paired seed{'' if num_pairs == 1 else 's'}, and at least {MIN_PAIRS}"
        return replace(found, reason=f"{some} are needed" if num_pairs else "no seed in common")
    found = replace(found, p=smallest_level(differences))
    if found.estimate.excludes_zero:
        return replace(found, outcome=ChangeOutcome.CHANGED)
    return replace(found, reason="the interval of the difference holds zero")


def _judge_time(pair: MetricPair) -> Change:
    a, b = pair.a, pair.b
    found = Change(pair=pair, kind=NumberKind.TIME, estimate=Estimate(n=0))
    if a.environment_id != b.environment_id:
        ratio = unpaired_ratio(a.values.values(), b.values.values())
        return replace(found, estimate=ratio, outcome=ChangeOutcome.OTHER_DEVICE)
    is_rate = pair.key.unit.endswith(_RATE_UNITS)  # the inverse of a rate is a time
    timed = compare(a.readings, b.readings) if is_rate else compare(b.readings, a.readings)
    found = replace(found, estimate=_inverse(timed.ratio) if is_rate else timed.ratio)
    if pair.is_identical:
        return replace(found, outcome=ChangeOutcome.IDENTICAL)
    found = replace(found, outcome=ChangeOutcome(timed.outcome), reason=timed.reason)
    if timed.outcome is TimeOutcome.NOISY:
        return found
    return replace(found, p=level_beyond_gap(tuple(log_ratios(b.values, a.values).values())))


def _judge_count(pair: MetricPair) -> Change:
    a, b = (summary(NumberKind.COUNT, rows) for rows in (pair.a, pair.b))
    common = pair.a.values.keys() & pair.b.values.keys()
    ratio = b / a if a and b and b / a > 0 else None
    estimate = Estimate(n=len(common), point=ratio)
    found = Change(pair=pair, kind=NumberKind.COUNT, estimate=estimate)
    if pair.a.environment_id != pair.b.environment_id:
        return replace(found, outcome=ChangeOutcome.OTHER_DEVICE)
    if not common:
        return replace(found, reason="no seed in common")
    outcome = ChangeOutcome.IDENTICAL if pair.is_identical else ChangeOutcome.CHANGED
    return replace(found, outcome=outcome)


def _inverse(ratio: Estimate) -> Estimate:
    ends = (ratio.point, ratio.high, ratio.low)
    point, low, high = (None if end is None else 1 / end for end in ends)
    return Estimate(n=ratio.n, point=point, low=low, high=high)


def _correct(changes: list[Change]) -> list[Change]:
    """Holm's procedure over each kind: what does not survive it is only possible."""
    corrected = list(changes)
    for kind in NumberKind:
        tested = {i: c.p for i, c in enumerate(changes) if c.kind is kind and c.p is not None}
        families = holm(
            {str(i): SmallestLevels(decides=p, excludes_zero=p) for i, p in tested.items()}
        )
        reason = f"certain on its own, and not among {len(tested)} that were tested"
        for i, p in tested.items():
            if changes[i].is_certain and p >= families[str(i)].level:
                corrected[i] = replace(changes[i], outcome=ChangeOutcome.POSSIBLE, reason=reason)
    return corrected


def unpaired_ratio(a: Collection[float], b: Collection[float]) -> Estimate:
    """Geometric mean of `b` over that of `a`, with the interval between processes.

    Welch's t on the logarithms (Welch, Biometrika 34, 1947): the two may differ in their spread
    and in their number. Nothing is paired.

    Args:
        a: One positive number a process.
        b: Likewise.

    Returns:
        `n` counts the processes of both. No interval where one has a single process; no ratio
        where one has none.
    """
    logs = [[math.log(value) for value in values if value > 0] for values in (a, b)]
    n = sum(map(len, logs))
    if not all(logs):
        return Estimate(n=n)
    means = [math.fsum(some) / len(some) for some in logs]
    centre = means[1] - means[0]
    degrees = [len(some) - 1 for some in logs]
    if not all(degrees):
        return Estimate(n=n, point=math.exp(centre))
    squares = [  # of the standard errors
        math.fsum((x - mean) ** 2 for x in some) / degree / len(some)
        for some, mean, degree in zip(logs, means, degrees, strict=True)
    ]
    half = 0.0
    if sum(squares):  # the degrees of freedom are Welch's and Satterthwaite's
        freedom = sum(squares) ** 2 / sum(s**2 / d for s, d in zip(squares, degrees, strict=True))
        half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * math.sqrt(sum(squares))
    return exponential(Estimate(n=n, point=centre, low=centre - half, high=centre + half))
