"""Estimate the remaining time of sweeps from finished trials, and sum up their cost. No I/O.

The estimated cost of a trial is multiplied by a rate, which is measured on finished trials: on the
same trial with another seed, on the same mixer and task, on the task, on all trainings. Without
estimates, when only the journal is read, a trial is expected to take the mean of its kind.

A trial costs the CPUs and GPUs that it requests, for the time that it holds them; a timing costs
whole GPUs. Resources that a timing keeps idle on its node are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from bakeoff.suite.journal.plans import Listed
from bakeoff.suite.journal.sqlite_schema import Attempt, End
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import FAILURES

_RECENT_SECONDS = 600.0
_SHORTEST_SECONDS = 1.0  # minimum time over which a rate or a number of places is measured
_LEAST_SHARE = 0.02  # share of a trial's steps: before that, it has hardly started
_PRIOR_SHARE = 0.25  # share of a trial: the weight of a wider kind's rate in a narrower one's
# Minimum share of the busy time for which that many workers must have run at once.
_LEAST_SHARE_OF_TIME = 0.2
_HOUR = 3600.0
PACKED = "packed"  # the widest kind of trials: all but timings


class Span(NamedTuple):
    """The time for which an attempt held resources.

    Attributes:
        trial: The trial.
        held: The end of the attempt, or the trial itself if the attempt has not ended.
        seconds: The length of the time.
        end: Its end, or None if the driver of another folder ran the trial.
    """

    trial: Listed
    held: Listed | End
    seconds: float
    end: float | None


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Facts about trials before they run, by id; empty if only the journal is read.

    Attributes:
        work: Seconds by the cost model.
        kinds: The kinds of trials to which the trial belongs, from the narrowest to the widest,
            which is `PACKED` for all but timings.
        layers: The number of trials that come before it, one after the other.
        past: Seconds that trials of these plans took in earlier runs.
        num_places: How many workers can run at a time, or None if that has to be observed.
    """

    work: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)
    layers: Mapping[str, int] = field(default_factory=dict)
    past: Mapping[str, float] = field(default_factory=dict)
    num_places: float | None = None


@dataclass(frozen=True, kw_only=True)
class History:
    """The state of some sweeps at one moment; all times are of the same clock.

    Attributes:
        trials: The trials by id, each once.
        done: Ids of trials that need not run any more, and of those that have failed.
        running: trial_id -> its start time.
        starts: Every attempt at these trials.
        ends: The attempts that have ended.
        now: The present time.
        driver_started: The start time of the running driver, or None if there is none.
        estimates: Facts about the trials before they run.
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
        """The open trials with their remaining seconds, without those that cannot be estimated."""
        return [
            (self.trials[key], self._rest(key, expected))
            for key in self._open
            if (expected := self._expected(key)) is not None
        ]

    @property
    def has_basis(self) -> bool:
        """True if the time of every trial that is left can be estimated."""
        return len(self.left) == len(self._open)

    @cached_property
    def _open(self) -> list[str]:
        return [key for key in self.trials if key in self.running or key not in self.done]

    def _rest(self, key: str, expected: float) -> float:
        since, share = self._seconds_since_begin(key), self.shares.get(key, 0.0)
        return since * (1 / share - 1) if share >= _LEAST_SHARE else max(0.0, expected - since)

    def _expected(self, key: str) -> float | None:
        """Return the seconds of the whole trial, or None without estimates and finished trials.

        From the widest kind to the narrowest, each kind corrects the rate of the one before. The
        correction is weighted by the work of the kind that has run, so it is small if its trials
        are few or much shorter than this one.
        """
        work = self._work(key)
        kinds = [kind for kind in self._kinds(key) if kind in self._measured]
        # Kinds cannot be compared without estimates, so the narrowest counts.
        if not self.estimates.work:
            seconds, num = self._measured[kinds[0]] if kinds and kinds[0] != PACKED else (0.0, 0.0)
            return seconds / num if num else None
        rate, prior = 1.0, _PRIOR_SHARE * work
        if self.trials[key].is_alone and PACKED in self._measured:
            seconds, work_done = self._measured[PACKED]
            # Damp the rate: about half the cost does not depend on the machine.
            rate = max(1.0, math.sqrt(seconds / work_done))
        for seconds, work_done in (self._measured[kind] for kind in reversed(kinds)):
            rate = (seconds + prior * rate) / (work_done + prior)
        return rate * work

    @cached_property
    def _measured(self) -> Mapping[Hashable, tuple[float, float]]:
        """Kind -> seconds and work of its trials that have run, also earlier or partially."""
        found: dict[Hashable, tuple[float, float]] = {}
        for key, seconds, share in self._worked():
            for kind in self._kinds(key):
                so_far, work = found.get(kind, (0.0, 0.0))
                found[kind] = so_far + seconds, work + share * self._work(key)
        return found

    def _kinds(self, key: str) -> Sequence[Hashable]:
        if key in self.estimates.kinds:
            return self.estimates.kinds[key]
        trial = self.trials[key]
        variant = trial.label.rpartition(", ")[0] or trial.label  # without its seed
        packed = [] if trial.is_alone else [PACKED]
        return (*trial.kind, variant), trial.kind, trial.probe, *packed

    def _work(self, key: str) -> float:
        return self.estimates.work.get(key, 1.0)

    def _worked(self) -> Iterator[tuple[str, float, float]]:
        """Yield trials with their seconds, and the share of the trial done in that time."""
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
        """The spans of all ended and running attempts; a crash counts from its start to its end."""
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
        """The recent spans, each with its begin and end."""
        since, until = self.window
        return [
            (span, span.end - span.seconds, span.end)
            for span in self.spans
            if span.end is not None and since <= span.end <= until
        ]

    @cached_property
    def window(self) -> tuple[float, float]:
        """The last ten minutes of the running driver; without one, those before the last end."""
        until = self.now
        if self.driver_started is None:
            ends = (end.ended_seconds for end in self.ends if end.ended_seconds is not None)
            until = max(ends, default=self.now)
        return max(until - _RECENT_SECONDS, self.driver_started or 0.0), until

    def _seconds_since_begin(self, trial_id: str) -> float:
        return max(0.0, self.now - self.running.get(trial_id, self.now))


def time_left(history: History) -> float | None:
    """Return the seconds until all trials are done, or None if they cannot be estimated.

    The trials that share the machine run first, each after those that it depends on; then the
    timings.
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
    """Return the wall time of the trials of one phase, including pauses before trials to come."""
    held: dict[bool, list[_Held]] = {False: [], True: []}
    for span, begin, end in history.recent:
        begin = max(history.window[0], begin)
        held[span.trial.is_alone].append((begin, end, span.trial.num_workers))
    places = _places(history, held[is_alone], left, is_alone)
    before = max((end for _, end, _ in held[False]), default=None) if is_alone else None
    pause = _mean_pause(held[is_alone], round(places), before)
    needed = [s + pause * (trial.trial_id not in history.running) for trial, s in left]
    total = sum(n * trial.num_workers for n, (trial, _) in zip(needed, left, strict=True))
    return max(total / places, *needed)


_Held = tuple[float, float, int]  # begin, end, and number of workers


def _places(
    history: History, spans: Sequence[_Held], left: Sequence[tuple[Listed, float]], is_alone: bool
) -> float:
    """Return how many workers run at a time."""
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
    """Return how many workers ran at once for a relevant time; 0 if too little has run."""
    changes = sorted([(b, n) for b, _, n in spans] + [(e, -n) for _, e, n in spans])
    if not changes or changes[-1][0] - changes[0][0] < _SHORTEST_SECONDS:
        return 0
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
            return number
    return 0


def _mean_pause(spans: Sequence[_Held], places: int, before: float | None) -> float:
    """Return the mean seconds between the end of a trial and the begin of its successor.

    The first trial follows the one that ended at `before`, in the phase before this one.
    """
    begins, ends = sorted(begin for begin, _, _ in spans), sorted(end for _, end, _ in spans)
    pairs = list(zip(begins[places:], ends, strict=False))
    if begins and before is not None:
        pairs.append((begins[0], before))
    return sum(max(0.0, begin - end) for begin, end in pairs) / max(1, len(pairs))


def resource_usage(history: History) -> dict[str, Any]:
    """Return hours, rate and time left, as the fields of `SweepStatus`."""
    num_lost, at_most = _lost(history)
    hours: dict[str, float | None] = {}
    for kind in ("cpu", "gpu"):
        held = [(s, _hours(kind, s.held, s.trial, s.seconds)) for s in history.spans]
        left = [_hours(kind, trial, trial, seconds) for trial, seconds in history.left]
        hours[f"{kind}_hours_spent"] = sum(hours for _, hours in held)
        hours[f"{kind}_hours_wasted"] = sum(hours for span, hours in held if _is_wasted(span))
        hours[f"{kind}_hours_left"] = sum(left) if history.has_basis else None
    joules = [end.joules for end in history.ends if end.joules is not None]
    return {
        "joules_spent": sum(joules) if joules else None,
        "throughput_per_minute": _throughput(history),
        "eta_seconds": time_left(history),
        "num_lost": num_lost,
        "lost_cpu_hours_at_most": at_most,
        **hours,
    }


def _hours(kind: str, held: Listed | End, trial: Listed, seconds: float) -> float:
    """Return the hours of all workers of the trial; a timing shares no GPU."""
    num: float = getattr(held, f"num_{kind}s")
    return (math.ceil(num) if trial.is_alone else num) * trial.num_workers * seconds / _HOUR


def _throughput(history: History) -> float | None:
    num_ended = sum(isinstance(span.held, End) for span, _, _ in history.recent)
    if not num_ended:
        return None if history.driver_started is None else 0.0
    since, until = history.window
    if history.driver_started is None:
        since = max(since, min(begin for _, begin, _ in history.recent))
    return 60.0 * num_ended / max(_SHORTEST_SECONDS, until - since)


def _is_wasted(span: Span) -> bool:
    end = span.held
    return isinstance(end, End) and (end.status in FAILURES or not end.is_kept)


def _lost(history: History) -> tuple[int, float | None]:
    """Return the number of attempts without a recorded end, and a bound on their CPU-hours."""
    ended = {(end.trial_id, end.attempt) for end in history.ends}
    began = {(start.trial_id, start.attempt): start.started_seconds for start in history.starts}
    bounds: list[float | None] = []
    for (trial_id, attempt), begun in began.items():
        following = began.get((trial_id, attempt + 1))
        is_running = following is None and trial_id in history.running
        if (trial_id, attempt) not in ended and not is_running:
            trial = history.trials[trial_id]
            cpus = trial.num_cpus * trial.num_workers
            bounds.append(None if following is None else cpus * (following - begun) / _HOUR)
    known = [bound for bound in bounds if bound is not None]
    return len(bounds), sum(known) if len(known) == len(bounds) else None
