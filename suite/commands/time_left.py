"""Foretell how long the trials that are left will take, from those that have run; pure.

The work of a trial is estimated from its FLOPs; how many seconds a unit of it takes is learnt, from
what is most alike: the same trial with another seed, the same mixer on the same task, the task, all
trainings. Timings learn from timings alone: they last about as long on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from suite.journal.plans import Listed
from suite.journal.sqlite_schema import Attempt, End
from suite.provenance import num_cpus
from suite.schema import FAILURES

_RECENT_SECONDS = 600.0
_LEAST_SHARE = 0.02  # of a trial's steps: before, it has hardly started
_PRIOR_WORK = 5.0  # seconds of work for which the estimates of all trainings count as measured
_PRIOR_SHARE = 0.25  # of a trial, for which what is known of a wider kind counts in a narrower one
_SHORTEST_SECONDS = 1.0  # in which trials ran, for places to be counted
EVERY = "every trial but timings"  # the widest kind
_LEAST_SHARE_OF_TIME = 0.2  # for which so many must have run at a time, to be the places


class Span(NamedTuple):
    """The time for which an attempt held resources; it has not ended where `held` is the trial's.

    `end` is None where another folder's driver ran the trial.
    """

    trial: Listed
    held: Listed | End
    seconds: float
    end: float | None


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What is known of trials before they run, by id; nothing where only the journal is read.

    Attributes:
        work: Estimated seconds, of which the ratios count; 1 of each where there is no estimate.
        kinds: What the trial is like, from the closest to the widest, which is `EVERY` of all but
            timings.
        layers: How many trials come before it, one after the other.
        past: Seconds that trials of these plans took in earlier runs.
        slowness: Seconds that a second of estimated work takes here, before any was measured.
        num_places: How many workers can run at a time; None where that is to be seen.
    """

    work: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)
    layers: Mapping[str, int] = field(default_factory=dict)
    past: Mapping[str, float] = field(default_factory=dict)
    slowness: float = 1.0
    num_places: float | None = None


@dataclass
class _Measured:
    """Sums over the trials of a kind: seconds, and estimated work."""

    seconds: float = 0.0
    work: float = 0.0

    def rate(self, wider: float, prior: float) -> float:
        """Seconds for a unit of work; that of a wider kind counts as so much work."""
        return (self.seconds + prior * wider) / (self.work + prior)


_Sample = tuple[str, float, float]  # trial, seconds, and the share of its work that they did


@dataclass(frozen=True, kw_only=True)
class History:
    """What is known of some sweeps at one moment; all times are of the same clock.

    Attributes:
        trials: By id, each once.
        done: Ids of those that need not run any more, and of those that have failed.
        running: trial_id -> when it began.
        starts: Every attempt at these trials.
        ends: How those ended that did.
        driver_started: When the driver that works now began; None where none does.
        estimates: What is known of the trials beforehand.
        shares: trial_id -> the share of its steps that a running trial has done.
    """

    trials: Mapping[str, Listed]
    done: Collection[str]
    running: Mapping[str, float]
    starts: Sequence[Attempt]
    ends: Sequence[End]
    now: float
    driver_started: float | None
    estimates: Estimates = field(default_factory=Estimates)
    shares: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def left(self) -> list[tuple[Listed, float]]:
        """Trials with the seconds that they still need; those that nothing is known of are not in.

        What runs needs as long as its steps so far foretell, or as others of its kind took.
        """
        found = []
        for key, trial in self.trials.items():
            if key in self.running or key not in self.done:
                expected = self._expected(key, self._measured)
                if expected is not None:
                    found.append((trial, self._rest(key, expected)))
        return found

    @property
    def has_basis(self) -> bool:
        """Whether the rest can be estimated, or there is none."""
        left = self.running.keys() | (self.trials.keys() - set(self.done))
        return len(self.left) == len(left)

    def _rest(self, key: str, expected: float) -> float:
        since, share = self._seconds_since_begin(key), self.shares.get(key, 0.0)
        return since * (1 / share - 1) if share >= _LEAST_SHARE else max(0.0, expected - since)

    def _expected(self, key: str, measured: Mapping[Hashable, _Measured]) -> float | None:
        """Seconds of the whole trial; None where no trial of its kind has run, without estimates.

        From the widest kind to the closest, each corrects the one before by what has run of it: of
        little work, as of trials much shorter than this one, little.
        """
        work = self._work(key)
        kinds = [k for k in reversed(self._kinds(key)) if k in measured and k != EVERY]
        if not self.estimates.work:  # nothing says how kinds compare: the closest one counts
            return measured[kinds[-1]].rate(0.0, 0.0) if kinds else None
        every, least = measured.get(EVERY, _Measured()), max(_PRIOR_WORK, _PRIOR_SHARE * work)
        rate = every.rate(self.estimates.slowness, least)
        if self.trials[key].is_alone:
            rate = max(1.0, math.sqrt(rate))  # half of it takes as long on any machine
        for kind in kinds:
            rate = measured[kind].rate(rate, _PRIOR_SHARE * work)
        return rate * work

    @cached_property
    def _measured(self) -> Mapping[Hashable, _Measured]:
        """What has run; and what has run for longer already than was to be expected."""
        samples = list(self._worked())
        measured = self._sums(samples)
        for key in self.running:
            expected, since = self._expected(key, measured), self._seconds_since_begin(key)
            if expected is not None and since > expected and key not in self.shares:
                samples.append((key, since, 1.0))
        return self._sums(samples)

    def _sums(self, samples: Sequence[_Sample]) -> Mapping[Hashable, _Measured]:
        found: dict[Hashable, _Measured] = {}
        for key, seconds, share in samples:
            for kind in self._kinds(key):
                of_kind = found.setdefault(kind, _Measured())
                of_kind.seconds += seconds
                of_kind.work += share * self._work(key)
        return found

    def _kinds(self, key: str) -> Sequence[Hashable]:
        if key in self.estimates.kinds:
            return self.estimates.kinds[key]
        trial = self.trials[key]
        variant = trial.label.rpartition(", ")[0] or trial.label  # without its seed
        return (*trial.kind, variant), trial.kind, trial.probe, *([] if trial.is_alone else [EVERY])

    def _work(self, key: str) -> float:
        return self.estimates.work.get(key, 1.0)

    def _worked(self) -> Iterator[_Sample]:
        for key, seconds in self.estimates.past.items():
            yield key, seconds, 1.0
        for end in self.ends:
            if end.status not in FAILURES and end.is_kept:
                yield end.trial_id, end.seconds, 1.0
        for key, share in self.shares.items():
            if share >= _LEAST_SHARE and key in self.running:
                yield key, self._seconds_since_begin(key), share

    @cached_property
    def spans(self) -> list[Span]:
        """Of all attempts that have ended or run; a crash took from its start to its end."""
        began = {(start.trial_id, start.attempt): start.started_seconds for start in self.starts}
        found = []
        for end in self.ends:
            seconds, begun = end.seconds, began.get((end.trial_id, end.attempt))
            if not seconds and begun is not None and end.ended_seconds is not None:
                seconds = max(0.0, end.ended_seconds - begun)
            found.append(Span(self.trials[end.trial_id], end, seconds, end.ended_seconds))
        for key in self.running:
            trial = self.trials[key]
            found.append(Span(trial, trial, self._seconds_since_begin(key), self.now))
        return found

    @cached_property
    def recent(self) -> list[tuple[Span, float, float]]:
        """Each recent span with its begin and end."""
        since, until = self.window
        return [
            (span, span.end - span.seconds, span.end)
            for span in self.spans
            if span.end is not None and since <= span.end <= until
        ]

    @cached_property
    def window(self) -> tuple[float, float]:
        """The last ten minutes of this driver, or those before the last end if none works."""
        until = self.now
        if self.driver_started is None:
            ends = (end.ended_seconds for end in self.ends if end.ended_seconds is not None)
            until = max(ends, default=self.now)
        return max(until - _RECENT_SECONDS, self.driver_started or 0.0), until

    def _seconds_since_begin(self, trial_id: str) -> float:
        return max(0.0, self.now - self.running.get(trial_id, self.now))


def time_left(history: History) -> float | None:
    """Seconds until all trials are done; None where there is nothing to go by.

    First what shares the machine, each trial after those that it needs; then the timings.
    """
    if not history.has_basis:
        return None
    layers = history.estimates.layers
    phases: dict[tuple[bool, int], list[tuple[Listed, float]]] = {}
    for trial, seconds in history.left:
        phase = (trial.is_alone, layers.get(trial.trial_id, 0))
        phases.setdefault(phase, []).append((trial, seconds))
    return sum(_phase_seconds(history, left, is_alone) for (is_alone, _), left in phases.items())


def _phase_seconds(history: History, left: Sequence[tuple[Listed, float]], is_alone: bool) -> float:
    """Wall time of trials of one phase, with the pauses before those that do not run yet."""
    held: dict[bool, list[_Held]] = {False: [], True: []}
    for span, begin, end in history.recent:
        begin = max(history.window[0], begin)
        held[span.trial.is_alone].append((begin, end, span.trial.num_workers))
    spans, ends_before = held[is_alone], [end for _, end, _ in held[False] if is_alone]
    places = _places(history, spans, left, is_alone)
    pause = _mean_pause(spans, round(places), ends_before)
    waits = [0.0 if trial.trial_id in history.running else pause for trial, _ in left]
    needed = [seconds + wait for (_, seconds), wait in zip(left, waits, strict=True)]
    total = sum(n * trial.num_workers for n, (trial, _) in zip(needed, left, strict=True))
    return max(total / places, *needed)


_Held = tuple[float, float, int]  # begin, end, and number of workers


def _places(
    history: History, spans: Sequence[_Held], left: Sequence[tuple[Listed, float]], is_alone: bool
) -> float:
    """How many workers run at a time."""
    known = history.estimates.num_places
    if not is_alone and known is not None:
        return known
    if seen := _most_at_a_time(spans):
        return seen
    if is_alone:
        return max(trial.num_workers for trial, _ in left)
    most_cpus = max(trial.num_cpus for trial, _ in left)
    return max(1.0, num_cpus() // max(1.0, most_cpus))


def _most_at_a_time(spans: Sequence[_Held]) -> int:
    """How many workers ran at a time, but for moments; 0 where too little has run."""
    changes = sorted([(b, n) for b, _, n in spans] + [(e, -n) for _, e, n in spans])
    seconds: dict[int, float] = {}
    level = 0
    for (moment, change), (following, _) in pairwise(changes):
        level += change
        seconds[level] = seconds.get(level, 0.0) + following - moment
    busy = sum(length for number, length in seconds.items() if number)
    so_far = 0.0
    for number in sorted(seconds, reverse=True):
        so_far += seconds[number]
        if so_far >= _LEAST_SHARE_OF_TIME * busy:
            return number if _covered(spans) >= _SHORTEST_SECONDS else 0
    return 0


def _covered(spans: Sequence[_Held]) -> float:
    """From the first begin to the last end, in seconds."""
    return max((e for _, e, _ in spans), default=0.0) - min((b for b, _, _ in spans), default=0.0)


def _mean_pause(spans: Sequence[_Held], places: int, ends_before: Sequence[float]) -> float:
    """Seconds between the end of a trial and the begin of the one that takes its place.

    The first one takes the place of the last that ended before this phase, if any did.
    """
    begins, ends = sorted(begin for begin, _, _ in spans), sorted(end for _, end, _ in spans)
    taken = list(zip(begins[places:], ends, strict=False))
    if begins and ends_before:
        taken.append((begins[0], max(ends_before)))
    return sum(max(0.0, begin - end) for begin, end in taken) / max(1, len(taken))
