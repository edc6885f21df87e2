"""What has a sweep cost, how fast does it go, and how long will the rest take?

Pure: from lists of trials, of starts and of ends, and the time at which one asks. A trial costs
the CPUs and GPUs that it asks for, as long as it holds them; what a timing that has its node to
itself keeps idle is not counted.
"""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from suite.journal.rows import Attempt, End
from suite.journal.trial_index import Listed
from suite.schema import FAILURES

LATELY_SECONDS = 600.0
_SHORTEST_SECONDS = 1.0  # of a stretch that a rate is taken over
_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Hours, rate and time left.

    Attributes:
        throughput_per_minute: Trials that left a result, lately; None where none ever did.
        eta_seconds: None where there is nothing to go by; 0 where nothing is left.
        cpu_hours_spent: All that is known, what runs now included.
        cpu_hours_wasted: The part of it that went into failures and results that came too late.
        cpu_hours_left: None where there is nothing to go by.
        num_lost: Attempts that ended with their driver or node and said no time: they are in none
            of the hours.
        lost_cpu_hours_at_most: What those can have taken, since each had ended when the next
            attempt at its trial began; None where one has not been tried again yet.
    """

    throughput_per_minute: float | None = None
    eta_seconds: float | None = None
    cpu_hours_spent: float = 0.0
    cpu_hours_wasted: float = 0.0
    cpu_hours_left: float | None = None
    gpu_hours_spent: float = 0.0
    gpu_hours_wasted: float = 0.0
    gpu_hours_left: float | None = None
    num_lost: int = 0
    lost_cpu_hours_at_most: float | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known of some sweeps at one moment.

    Attributes:
        trials: By id, each once.
        done: Ids of those that need not run any more, and of those that have failed.
        running: trial_id -> when it began, in seconds since 1970.
        starts: Every attempt at these trials.
        ends: How those ended that did.
        now: In seconds since 1970.
        driver_started: When the driver that works now began; None where none does.
    """

    trials: Mapping[str, Listed]
    done: frozenset[str]
    running: Mapping[str, float]
    starts: Sequence[Attempt]
    ends: Sequence[End]
    now: float
    driver_started: float | None

    @cached_property
    def seconds(self) -> Callable[[Listed], float | None]:
        """How long a trial takes: the mean of its kind, else of its probe, else of all."""
        samples: dict[object, list[float]] = defaultdict(list)
        for end in self.ends:
            if end.status not in FAILURES and end.is_kept:
                trial = self.trials[end.trial_id]
                for group in (trial.kind, trial.probe, None):
                    samples[group].append(end.seconds)
        means = {group: statistics.fmean(values) for group, values in samples.items()}

        def expected(trial: Listed) -> float | None:
            found = (means.get(group) for group in (trial.kind, trial.probe, None))
            return next((mean for mean in found if mean is not None), None)

        return expected

    @cached_property
    def left(self) -> dict[str, float]:
        """trial_id -> seconds that it still needs; of a running one what is left of the mean."""
        found = {}
        for trial_id, trial in self.trials.items():
            expected = self.seconds(trial)
            if expected is not None and (trial_id in self.running or trial_id not in self.done):
                gone = self.now - self.running.get(trial_id, self.now)
                found[trial_id] = max(0.0, expected - gone)
        return found

    @property
    def has_left(self) -> bool:
        """Whether anything is to be run."""
        return bool(self.running) or len(self.done) < len(self.trials)

    @cached_property
    def took(self) -> list[tuple[End, float]]:
        """Each end with its seconds: where a crash could not say, from its start to its end."""
        started = {(start.trial_id, start.attempt): start.started_seconds for start in self.starts}
        found = []
        for end in self.ends:
            seconds = end.seconds
            begun = started.get((end.trial_id, end.attempt))
            if not seconds and begun is not None and end.ended_seconds is not None:
                seconds = max(0.0, end.ended_seconds - begun)
            found.append((end, seconds))
        return found


def spending_of(progress: Progress) -> Spending:
    """All of it."""
    lost, at_most = _lost(progress)
    has_basis = bool(progress.left) or not progress.has_left
    return Spending(
        throughput_per_minute=_throughput(progress),
        eta_seconds=_eta(progress) if has_basis else None,
        cpu_hours_spent=_spent(progress, _cpus),
        cpu_hours_wasted=_wasted(progress, _cpus),
        cpu_hours_left=_left(progress, _cpus) if has_basis else None,
        gpu_hours_spent=_spent(progress, _gpus),
        gpu_hours_wasted=_wasted(progress, _gpus),
        gpu_hours_left=_left(progress, _gpus) if has_basis else None,
        num_lost=lost,
        lost_cpu_hours_at_most=at_most,
    )


def _cpus(held: Listed | End) -> float:
    return held.num_cpus


def _gpus(held: Listed | End) -> float:
    return held.num_gpus


_Of = Callable[[Listed | End], float]


def _spent(progress: Progress, of: _Of) -> float:
    running = (
        _hours(progress.trials[trial_id], of, progress.trials, progress.now - begun)
        for trial_id, begun in progress.running.items()
    )
    ended = (_hours(end, of, progress.trials, seconds) for end, seconds in progress.took)
    return sum(ended) + sum(running)


def _wasted(progress: Progress, of: _Of) -> float:
    return sum(
        _hours(end, of, progress.trials, seconds)
        for end, seconds in progress.took
        if end.status in FAILURES or not end.is_kept
    )


def _left(progress: Progress, of: _Of) -> float:
    return sum(
        _hours(progress.trials[trial_id], of, progress.trials, seconds)
        for trial_id, seconds in progress.left.items()
    )


def _hours(held: Listed | End, of: _Of, trials: Mapping[str, Listed], seconds: float) -> float:
    return of(held) * trials[held.trial_id].num_workers * max(0.0, seconds) / _HOUR


def _lost(progress: Progress) -> tuple[int, float | None]:
    """Attempts without an end that run no more, and the CPU-hours that they took at most."""
    ended = {(end.trial_id, end.attempt) for end in progress.ends}
    began = {(start.trial_id, start.attempt): start.started_seconds for start in progress.starts}
    bounds: list[float | None] = []
    for (trial_id, attempt), begun in began.items():
        following = began.get((trial_id, attempt + 1))
        is_newest = following is None
        if (trial_id, attempt) in ended or (is_newest and trial_id in progress.running):
            continue
        trial = progress.trials[trial_id]
        bound = None if following is None else following - begun
        bounds.append(bound and _hours(trial, _cpus, progress.trials, bound))
    known = [bound for bound in bounds if bound is not None]
    return len(bounds), sum(known) if len(known) == len(bounds) else None


def _until(progress: Progress) -> float:
    """The end of what counts as lately: now, or when the last trial ended if no driver works."""
    ended = [end.ended_seconds for end in progress.ends if end.ended_seconds is not None]
    if progress.driver_started is not None:
        return progress.now
    return max(ended, default=progress.now)


def _throughput(progress: Progress) -> float | None:
    until = _until(progress)
    since = max(until - LATELY_SECONDS, progress.driver_started or 0.0)
    stretches = [
        (end.ended_seconds - seconds, end.ended_seconds)
        for end, seconds in progress.took
        if end.ended_seconds is not None and since <= end.ended_seconds <= until
    ]
    if not stretches:
        return None if progress.driver_started is None else 0.0
    begun = [*(begin for begin, _ in stretches), *progress.running.values()]
    seconds = until - max(since, min(begun))
    return 60.0 * len(stretches) / max(_SHORTEST_SECONDS, seconds)


def _eta(progress: Progress) -> float:
    """Packed trials over the slots that were in use lately; then those that run alone."""
    total = 0.0
    for is_alone in (False, True):
        left = {
            trial_id: seconds
            for trial_id, seconds in progress.left.items()
            if progress.trials[trial_id].is_alone == is_alone
        }
        if left:
            slots = _slots(progress, is_alone=is_alone, left=left)
            total += max(sum(left.values()) / slots, max(left.values()))
    return total


def _slots(progress: Progress, *, is_alone: bool, left: Iterable[str]) -> float:
    """How many trials ran at a time lately, on average, pauses between them included."""
    until = _until(progress)
    since = max(until - LATELY_SECONDS, progress.driver_started or 0.0)
    stretches = [
        (end.ended_seconds - seconds, end.ended_seconds)
        for end, seconds in progress.took
        if end.ended_seconds is not None
        and end.ended_seconds > since
        and progress.trials[end.trial_id].is_alone == is_alone
    ]
    stretches += [
        (begun, until)
        for trial_id, begun in progress.running.items()
        if progress.trials[trial_id].is_alone == is_alone
    ]
    busy = [(max(since, begin), end) for begin, end in stretches]
    span = max((end for _, end in busy), default=0.0) - min((b for b, _ in busy), default=0.0)
    if span < _SHORTEST_SECONDS:
        return 1.0 if is_alone else _slots_of_this_machine(progress, left)
    return max(sum(end - begin for begin, end in busy), 1e-3) / span


def _slots_of_this_machine(progress: Progress, left: Iterable[str]) -> float:
    """Where nothing has run lately."""
    cpus = max(progress.trials[trial_id].num_cpus for trial_id in left)
    return max(1.0, (os.cpu_count() or 1) // max(1.0, cpus))
