"""Compute what sweeps have cost, how fast they run, and how much time is left; pure.

A trial costs the CPUs and GPUs that it asks for, as long as it holds them; what a timing that has
its node to itself keeps idle is not counted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from suite.journal.plans import Listed
from suite.journal.sqlite_schema import Attempt, End
from suite.schema import FAILURES, Resources, Trial

_RECENT_SECONDS = 600.0
_SHORTEST_SECONDS = 1.0  # that a rate is taken over
_SECONDS_TO_START = 8.0  # the cluster, the imports of its workers, the store
_LEAST_SHARE = 0.02  # of a trial's steps: before, it has hardly started
_PRIOR_WORK = 5.0  # seconds of work for which the estimates count as measured
_EVERY = "every trial"
_HOUR = 3600.0


class _Span(NamedTuple):
    """The time for which an attempt held resources; it has not ended where `held` is the trial's.

    `end` is None where another folder's driver ran the trial.
    """

    trial: Listed
    held: Listed | End
    seconds: float
    end: float | None


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
        weights: trial_id -> its work, estimated in seconds; 1 of each where there is no estimate.
        shares: trial_id -> the share of its steps that a running trial has done.
    """

    trials: Mapping[str, Listed]
    done: Collection[str]
    running: Mapping[str, float]
    starts: Sequence[Attempt]
    ends: Sequence[End]
    now: float
    driver_started: float | None
    weights: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def left(self) -> list[tuple[Listed, float]]:
        """Trials with the seconds that they still need; those that nothing is known of are not in.

        What runs needs as long as its steps so far foretell, or as others of its kind took.
        """
        found = []
        for key, trial in self.trials.items():
            rate = next((self._rates[each] for each in _groups(trial) if each in self._rates), None)
            if rate is not None and (key in self.running or key not in self.done):
                found.append((trial, self._rest(key, rate * self.weights.get(key, 1.0))))
        return found

    def _rest(self, key: str, expected: float) -> float:
        since, share = self._seconds_since_begin(key), self.shares.get(key, 0.0)
        return since * (1 / share - 1) if share >= _LEAST_SHARE else max(0.0, expected - since)

    @cached_property
    def _rates(self) -> dict[object, float]:
        """Seconds for a unit of work, by group.

        Where the work was estimated, in seconds, little work moves the rate of a group little:
        trials of milliseconds say nothing of those of minutes.
        """
        totals: dict[object, tuple[float, float]] = {}
        for key, seconds, share in self._worked():
            for group in _groups(self.trials[key]):
                so_far, work = totals.get(group, (0.0, 0.0))
                work += share * self.weights.get(key, 1.0)
                totals[group] = so_far + seconds, work
        if not self.weights:
            return {each: s / work for each, (s, work) in totals.items() if each != _EVERY}
        seconds, work = totals.pop(_EVERY, (0.0, 0.0))
        rates: dict[object, float] = {_EVERY: (seconds + _PRIOR_WORK) / (work + _PRIOR_WORK)}
        for group in sorted(totals, key=lambda each: isinstance(each, tuple)):  # probes first
            (seconds, work), outer = totals[group], group[2] if isinstance(group, tuple) else _EVERY
            rates[group] = (seconds + rates[outer]) / (work + 1.0)
        return rates

    def _worked(self) -> Iterator[tuple[str, float, float]]:
        """Trial, seconds, and the share of its work that they did."""
        for end in self.ends:
            if end.status not in FAILURES and end.is_kept:
                yield end.trial_id, end.seconds, 1.0
        for key, share in self.shares.items():
            if share >= _LEAST_SHARE and key in self.running:
                yield key, self._seconds_since_begin(key), share

    @cached_property
    def spans(self) -> list[_Span]:
        """Of all attempts that have ended or run; a crash took from its start to its end."""
        began = {(start.trial_id, start.attempt): start.started_seconds for start in self.starts}
        found = []
        for end in self.ends:
            seconds, begun = end.seconds, began.get((end.trial_id, end.attempt))
            if not seconds and begun is not None and end.ended_seconds is not None:
                seconds = max(0.0, end.ended_seconds - begun)
            found.append(_Span(self.trials[end.trial_id], end, seconds, end.ended_seconds))
        for key in self.running:
            trial = self.trials[key]
            found.append(_Span(trial, trial, self._seconds_since_begin(key), self.now))
        return found

    @cached_property
    def recent(self) -> list[tuple[_Span, float, float]]:
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

    @property
    def has_basis(self) -> bool:
        """Whether the rest can be estimated, or there is none."""
        left = self.running.keys() | (self.trials.keys() - set(self.done))
        return len(self.left) == len(left)

    def _seconds_since_begin(self, trial_id: str) -> float:
        return max(0.0, self.now - self.running.get(trial_id, self.now))


def _groups(trial: Listed) -> tuple[object, ...]:
    """Trials of one kind take about the same time; if none has ended, those of a probe, or all."""
    return trial.kind, trial.probe, _EVERY


def resource_usage(history: History) -> dict[str, Any]:
    """Hours, rate and time left, as the fields of `suite.journal.status_message.SweepStatus`."""
    num_lost, at_most = _lost(history)
    hours: dict[str, float | None] = {}
    for kind in ("cpu", "gpu"):
        of = attrgetter(f"num_{kind}s")
        held = [(s, of(s.held) * s.trial.num_workers * s.seconds / _HOUR) for s in history.spans]
        left = [of(trial) * trial.num_workers * s / _HOUR for trial, s in history.left]
        hours[f"{kind}_hours_spent"] = sum(hours for _, hours in held)
        hours[f"{kind}_hours_wasted"] = sum(hours for span, hours in held if _is_wasted(span))
        hours[f"{kind}_hours_left"] = sum(left) if history.has_basis else None
    return {
        "throughput_per_minute": _throughput(history), "eta_seconds": time_left(history),
        "num_lost": num_lost, "lost_cpu_hours_at_most": at_most, **hours,
    }  # fmt: skip


def time_left(history: History) -> float | None:
    """Seconds until all trials are done; None where there is nothing to go by."""
    if not history.has_basis:
        return None
    total = 0.0
    for is_alone in (False, True):
        left = [(trial, s) for trial, s in history.left if trial.is_alone == is_alone]
        slots = _recent_slots(history, is_alone=is_alone)
        if not slots and is_alone:
            slots = max((trial.num_workers for trial, _ in left), default=1)
        elif not slots:  # nothing has run lately
            most_cpus = max((trial.num_cpus for trial, _ in left), default=1.0)
            slots = max(1.0, (os.cpu_count() or 1) // max(1.0, most_cpus))
        total += _phase_seconds([(s, trial.num_workers) for trial, s in left], slots)
    return total


@dataclass(frozen=True, kw_only=True)
class PlannedWork:
    """What trials none of which has run ask for, so that their time follows for any machine.

    Attributes:
        num_cpus: That one worker asks for; so is `num_gpus`.
        packed_seconds: Of all workers of the trials that share a machine, one after the other.
        longest_seconds: Of the longest of these trials.
        alone_seconds: Of the trials that have a machine to themselves.
    """

    num_trials: int
    num_cpus: int
    num_gpus: float
    packed_seconds: float
    longest_seconds: float
    alone_seconds: float

    def seconds(self, num_cpus: int) -> float:
        """Rough wall time on a machine with so many CPUs: packed first, then timings in turn."""
        slots = max(1, num_cpus // self.num_cpus)
        packed = max(self.packed_seconds / slots, self.longest_seconds)
        return _SECONDS_TO_START + packed + self.alone_seconds


def planned_work(trials: Sequence[Trial], resources: Resources) -> PlannedWork:
    """The work of these trials, by the FLOPs of their models."""
    from suite.planning.estimate import seconds_of  # takes torch, which `status` does without

    packed = [(t, seconds_of(t, resources)) for t in trials if not t.is_timing]
    return PlannedWork(
        num_trials=len(trials), num_cpus=resources.num_cpus, num_gpus=resources.num_gpus,
        packed_seconds=sum(seconds * t.num_workers for t, seconds in packed),
        longest_seconds=max((seconds for _, seconds in packed), default=0.0),
        alone_seconds=sum(seconds_of(t, resources) for t in trials if t.is_timing),
    )  # fmt: skip


def _phase_seconds(trials: Sequence[tuple[float, int]], slots: float) -> float:
    """Wall time of trials, each given by its seconds and workers; so many workers run at a time."""
    total = sum(seconds * num_workers for seconds, num_workers in trials)
    return max(total / slots, max((seconds for seconds, _ in trials), default=0.0))


def _recent_slots(history: History, *, is_alone: bool) -> float:
    """How many workers ran at a time, pauses between them included; 0 where too little is known."""
    busy = [
        (max(history.window[0], begin), end, span.trial.num_workers)
        for span, begin, end in history.recent
        if span.trial.is_alone == is_alone
    ]
    begins, ends = [begin for begin, _, _ in busy], [end for _, end, _ in busy]
    seconds = max(ends, default=0.0) - min(begins, default=0.0)
    worked = sum((end - begin) * num_workers for begin, end, num_workers in busy)
    return max(worked, 1e-3) / seconds if seconds >= _SHORTEST_SECONDS else 0.0


def _throughput(history: History) -> float | None:
    num_ended = sum(isinstance(span.held, End) for span, _, _ in history.recent)
    if not num_ended:
        return None if history.driver_started is None else 0.0
    since, until = history.window
    if history.driver_started is None:
        since = max(since, min(begin for _, begin, _ in history.recent))
    seconds = until - since
    return 60.0 * num_ended / max(_SHORTEST_SECONDS, seconds)


def _is_wasted(span: _Span) -> bool:
    end = span.held
    return isinstance(end, End) and (end.status in FAILURES or not end.is_kept)


def _lost(history: History) -> tuple[int, float | None]:
    """Attempts without an end that run no more, and the CPU-hours that they took at most."""
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
