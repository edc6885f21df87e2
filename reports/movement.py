"""What moved between two selections of rows? Every number beside its counterpart, judged.

Scores are paired by seed: B less A, with Student's t of the differences. Times are ratios, B over
A, by the rule of `time_comparison`; a rate is judged as the time that it stands for. Counts are
held against each other to the last digit. Equal numbers are identical, which is no test.

Many comparisons make chance findings certain. So Holm's procedure (Holm, Scand. J. Statist. 6,
1979) goes over all scores that differ, and over all times that differ: what does not survive it
has moved *perhaps*. The p of a score is that of its paired t; the p of a time is the least level
at which its interval would leave the 0.5 % about 1, which is what the rule asks for.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reports.analysis.time_comparison import CLEAR_GAP, compare, log_ratios
from reports.analysis.time_comparison import Outcome as Timed
from reports.results.readings import Reading
from reports.results.series import QUALITY
from reports.sides import Held, OneSided, Pair, Place, Side, paired
from reports.stats.intervals import Estimate, mean_interval, paired_differences, smallest_level
from reports.stats.significance import SmallestLevels, holm
from reports.unpaired import unpaired_ratio

MIN_PAIRS = 3


class Kind(StrEnum):
    """How numbers are compared."""

    SCORE = "score"
    TIME = "time"
    COUNT = "count"


class Outcome(StrEnum):
    """What can be said of a place."""

    MOVED = "moved"  # a score whose interval excludes zero, a count that differs
    FASTER = "faster"
    SLOWER = "slower"
    FARED = "ended differently"  # a seed has a number on one side only
    PERHAPS = "perhaps moved"  # on its own, and not beside so many others
    OPEN = "open"
    AMBIGUOUS = "ambiguous"
    NOISY = "noisy"
    ELSEWHERE = "other device"
    SAME = "same"
    IDENTICAL = "identical"
    ABSENT = "no number"


HAS_MOVED = frozenset({Outcome.MOVED, Outcome.FASTER, Outcome.SLOWER, Outcome.FARED})
_TIMED = {
    Timed.FASTER: Outcome.FASTER, Timed.SLOWER: Outcome.SLOWER, Timed.SAME: Outcome.SAME,
    Timed.AMBIGUOUS: Outcome.AMBIGUOUS, Timed.NOISY: Outcome.NOISY,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Movement:
    """One place: what both sides have, and what became of it.

    Attributes:
        a: What A has.
        b: What B has.
        change: B less A of a score, in its unit; B over A of a time or a count.
        p: How likely so much would be by chance; None where nothing is tested.
        reason: Why it is no certain verdict; empty where it is one.
        differs: What is recorded and differs: ``trial``, ``commit``, ``environment``.
    """

    place: Place
    kind: Kind
    a: Held
    b: Held
    change: Estimate
    outcome: Outcome
    p: float | None = None
    reason: str = ""
    differs: tuple[str, ...] = ()

    @property
    def has_moved(self) -> bool:
        """Whether that is certain."""
        return self.outcome in HAS_MOVED

    @property
    def size(self) -> float:
        """The share of the larger side by which they differ; infinite where one has no number."""
        if self.outcome is Outcome.FARED:
            return math.inf
        a, b = point(self.kind, self.a), point(self.kind, self.b)
        if self.kind is not Kind.SCORE and self.change.point:
            return 1 - min(self.change.point, 1 / self.change.point)
        largest = max(abs(a or 0.0), abs(b or 0.0))
        moved = self.change.point if self.kind is Kind.SCORE else (b or 0.0) - (a or 0.0)
        return abs(moved or 0.0) / largest if largest else 0.0

    @property
    def tone(self) -> str:
        """``better`` or ``worse`` for B, where it moved or may have; else empty."""
        if self.outcome not in HAS_MOVED | {Outcome.PERHAPS} or self.outcome is Outcome.FARED:
            return ""
        if self.place.better == "none" or self.change.point is None:
            return ""
        is_up = self.change.point > (0.0 if self.kind is Kind.SCORE else 1.0)
        return "better" if is_up == (self.place.better == "higher") else "worse"

    @property
    def finding(self) -> str:
        """The outcome in a word or two, with its direction: ``worse``, ``perhaps slower``."""
        word = self.tone or "moved"
        if self.kind is Kind.TIME and self.tone:
            word = "faster" if self.tone == "better" else "slower"
        if self.outcome is Outcome.MOVED:
            return word
        return f"perhaps {word}" if self.outcome is Outcome.PERHAPS else str(self.outcome)


@dataclass(frozen=True, kw_only=True)
class Movements:
    """Every place of two selections.

    Attributes:
        every: Of what both have, in the order of tasks and variants.
        one_sided: What only one has.
    """

    every: tuple[Movement, ...]
    one_sided: tuple[OneSided, ...]

    @property
    def has_common(self) -> bool:
        """Whether anything could be compared at all."""
        return any(m.change.n or m.outcome is Outcome.FARED for m in self.every)

    @property
    def moved(self) -> tuple[Movement, ...]:
        """What moved for certain, the largest first."""
        return _by_size(m for m in self.every if m.has_moved)

    @property
    def perhaps(self) -> tuple[Movement, ...]:
        """What moved on its own and not beside the others, the largest first."""
        return _by_size(m for m in self.every if m.outcome is Outcome.PERHAPS)

    @property
    def elsewhere(self) -> tuple[Movement, ...]:
        """What was measured on different devices, in the order of tasks and variants."""
        return tuple(m for m in self.every if m.outcome is Outcome.ELSEWHERE)

    def still(self, kind: Kind) -> tuple[Movement, ...]:
        """The rest of a kind, in the order of tasks and variants."""
        shown = HAS_MOVED | {Outcome.PERHAPS, Outcome.ELSEWHERE}
        return tuple(m for m in self.every if m.kind is kind and m.outcome not in shown)

    def counts(self, kind: Kind) -> Mapping[Outcome, int]:
        """How many of a kind had each outcome."""
        return Counter(m.outcome for m in self.every if m.kind is kind)

    def num_tested(self, kind: Kind) -> int:
        """The size of the family that Holm's procedure went over."""
        return sum(m.p is not None for m in self.every if m.kind is kind)


def movements(a: Side, b: Side) -> Movements:
    """Hold B against A; pure, and the same for the same rows in any order."""
    pairing = paired(a, b)
    alone = [judged(pair) for pair in pairing.pairs]
    found: dict[int, Movement] = {}
    for kind in Kind:
        found |= _after_holm({i: m for i, m in enumerate(alone) if m.kind is kind})
    return Movements(
        every=tuple(found[index] for index in range(len(alone))), one_sided=pairing.one_sided
    )


def judged(pair: Pair) -> Movement:
    """What became of one place, as if it were the only one."""
    kind = kind_of(pair)
    movement = Movement(
        place=pair.place, kind=kind, a=pair.a, b=pair.b, change=Estimate(n=0),
        outcome=Outcome.OPEN, differs=tuple(_differs(pair)),
    )  # fmt: skip
    if not pair.a.values and not pair.b.values and not _fared(pair):
        fates = dict.fromkeys(reading.fate for reading in pair.b.readings)
        return replace(movement, outcome=Outcome.ABSENT, reason=", ".join(fates))
    judge = {Kind.SCORE: _of_scores, Kind.TIME: _of_times, Kind.COUNT: _of_counts}[kind]
    found = judge(movement)
    fared = _fared(pair)
    return replace(found, outcome=Outcome.FARED, reason=fared, p=None) if fared else found


def kind_of(pair: Pair) -> Kind:
    """How the numbers of a place are compared: by what was measured, and in which unit."""
    place = pair.place
    if place.probe == QUALITY:
        return Kind.SCORE
    if place.unit == "s" or _is_rate(place):
        return Kind.TIME
    values = [*pair.a.values.values(), *pair.b.values.values()]
    is_share = place.unit == "1" and place.better != "none"  # of times, as a scaling efficiency
    return Kind.SCORE if is_share and not all(v.is_integer() for v in values) else Kind.COUNT


def point(kind: Kind, held: Held) -> float | None:
    """The number that stands for one side: mean of scores, else the median; None without any."""
    values = list(held.values.values())
    if not values:
        return None
    return math.fsum(values) / len(values) if kind is Kind.SCORE else statistics.median(values)


def _is_rate(place: Place) -> bool:
    return place.is_bound_to_environment and place.unit.endswith(("/s", "_per_second"))


def _differs(pair: Pair) -> Iterable[str]:
    """What is recorded beside the numbers and is not the same."""
    both = pair.a.seeds & pair.b.seeds
    if any(pair.a.trial_ids[seed] != pair.b.trial_ids[seed] for seed in both):
        yield "trial"
    if pair.a.commits != pair.b.commits:
        yield "commit"
    if pair.a.environments != pair.b.environments:
        yield "environment"


def _fared(pair: Pair) -> str:
    """Seeds that have a number on one side only, with what became of them; empty without any."""
    of_a = {reading.seed: reading for reading in pair.a.readings}
    of_b = {reading.seed: reading for reading in pair.b.readings}
    stories = (
        f"seed {seed}: {_fate(of_a[seed])} in A, {_fate(of_b[seed])} in B"
        for seed in sorted(of_a.keys() & of_b.keys())
        if (seed in pair.a.values) != (seed in pair.b.values)
    )
    return "; ".join(stories)


def _fate(reading: Reading) -> str:
    return f"{reading.fate} ({reading.reason})" if reading.reason else reading.fate


def _is_identical(movement: Movement) -> bool:
    a, b = movement.a.values, movement.b.values
    both = a.keys() & b.keys()
    return bool(both) and all(a[seed] == b[seed] for seed in both)


def _of_scores(movement: Movement) -> Movement:
    differences = paired_differences(movement.b.values, movement.a.values)
    change = mean_interval(differences)
    found = replace(movement, change=change)
    if _is_identical(movement):
        return replace(found, outcome=Outcome.IDENTICAL)
    if change.n < MIN_PAIRS:
        return replace(found, reason=_too_few(change.n, "seed"))
    found = replace(found, p=smallest_level(differences))
    if change.excludes_zero:
        return replace(found, outcome=Outcome.MOVED)
    return replace(found, reason="the interval of the difference holds zero")


def _of_times(movement: Movement) -> Movement:
    a, b = movement.a, movement.b
    if a.environment_id != b.environment_id:
        ratio = unpaired_ratio(a.values.values(), b.values.values())
        return replace(movement, change=ratio, outcome=Outcome.ELSEWHERE)
    is_rate = _is_rate(movement.place)
    first, second = (a, b) if is_rate else (b, a)  # a rate's inverse is a time
    timed = compare(first.readings, second.readings)
    change = _inverse(timed.ratio) if is_rate else timed.ratio
    found = replace(movement, change=change, outcome=_TIMED[timed.outcome], reason=timed.reason)
    if _is_identical(movement):
        return replace(found, outcome=Outcome.IDENTICAL, reason="")
    if timed.outcome is Timed.NOISY:
        return found
    logs = log_ratios(b.values, a.values)  # of a rate the same, with the other sign
    return replace(found, p=level_beyond_gap(tuple(logs.values())))


def _of_counts(movement: Movement) -> Movement:
    a, b = point(Kind.COUNT, movement.a), point(Kind.COUNT, movement.b)
    both = movement.a.values.keys() & movement.b.values.keys()
    ratio = b / a if a and b and b / a > 0 else None
    found = replace(movement, change=Estimate(n=len(both), point=ratio))
    if movement.a.environment_id != movement.b.environment_id:
        return replace(found, outcome=Outcome.ELSEWHERE)
    if _is_identical(movement):
        return replace(found, outcome=Outcome.IDENTICAL)
    if not both:
        return replace(found, reason=_too_few(0, "seed"))
    return replace(found, outcome=Outcome.MOVED)


def _too_few(n: int, noun: str) -> str:
    if not n:
        return f"no {noun} in common"
    return f"{n} paired {noun}{'' if n == 1 else 's'}, and at least {MIN_PAIRS} are needed"


def level_beyond_gap(logs: Sequence[float]) -> float:
    """The least level at which the interval of the mean lies beyond 0.5 % of a ratio of 1.

    Args:
        logs: Natural logarithms of ratios, one a process.
    """
    mean, gap = math.fsum(logs) / len(logs), math.log(CLEAR_GAP)
    return smallest_level(logs, math.copysign(gap, mean)) if abs(mean) > gap else 1.0


def _inverse(ratio: Estimate) -> Estimate:
    ends = (ratio.point, ratio.high, ratio.low)
    point_, low, high = (None if end is None else 1 / end for end in ends)
    return Estimate(n=ratio.n, point=point_, low=low, high=high)


def _after_holm(alone: Mapping[int, Movement]) -> dict[int, Movement]:
    """One family: what moved and does not survive Holm's procedure moved only perhaps."""
    tested = {index: m.p for index, m in alone.items() if m.p is not None}
    survivors = _survivors(tested)
    reason = f"certain on its own, and not among {len(tested)} that were tested"
    return {
        index: replace(m, outcome=Outcome.PERHAPS, reason=reason)
        if index in tested and index not in survivors and m.has_moved
        else m
        for index, m in alone.items()
    }


def _survivors(tested: Mapping[int, float]) -> frozenset[int]:
    levels = holm({str(i): SmallestLevels(decides=p, excludes_zero=p) for i, p in tested.items()})
    return frozenset(index for index, p in tested.items() if p < levels[str(index)].level)


def _by_size(some: Iterable[Movement]) -> tuple[Movement, ...]:
    """The largest first; the sort is stable, so equals keep their order."""
    ordered: Sequence[Movement] = sorted(some, key=lambda movement: -movement.size)
    return tuple(ordered)
