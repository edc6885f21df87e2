"""Compute what sweeps have cost and how fast they run; pure.

A trial costs the CPUs and GPUs that it asks for, as long as it holds them, and a timing whole GPUs;
what a timing that has its node to itself keeps idle is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.commands.time_left import History, Span, time_left
from suite.journal.plans import Listed
from suite.journal.sqlite_schema import End
from suite.schema import FAILURES, Resources, Trial

if TYPE_CHECKING:
    from suite.planning.cards import Card

_SHORTEST_SECONDS = 1.0  # that a rate is taken over
_SECONDS_TO_START = 8.0  # the cluster, the imports of its workers, the store
_HOUR = 3600.0


def resource_usage(history: History) -> dict[str, Any]:
    """Hours, rate and time left, as the fields of `suite.journal.status_message.SweepStatus`."""
    num_lost, at_most = _lost(history)
    hours: dict[str, float | None] = {}
    for kind in ("cpu", "gpu"):
        held = [(s, _hours(kind, s.held, s.trial, s.seconds)) for s in history.spans]
        left = [_hours(kind, trial, trial, seconds) for trial, seconds in history.left]
        hours[f"{kind}_hours_spent"] = sum(hours for _, hours in held)
        hours[f"{kind}_hours_wasted"] = sum(hours for span, hours in held if _is_wasted(span))
        hours[f"{kind}_hours_left"] = sum(left) if history.has_basis else None
    told = [end.joules for end in history.ends if end.joules is not None]
    return {
        "joules_spent": sum(told) if told else None,
        "throughput_per_minute": _throughput(history),
        "eta_seconds": time_left(history),
        "num_lost": num_lost,
        "lost_cpu_hours_at_most": at_most,
        **hours,
    }


def _hours(kind: str, held: Listed | End, trial: Listed, seconds: float) -> float:
    """Of all workers of the trial; a timing shares no GPU."""
    num: float = getattr(held, f"num_{kind}s")
    return (math.ceil(num) if trial.is_alone else num) * trial.num_workers * seconds / _HOUR


@dataclass(frozen=True, kw_only=True)
class PlannedWork:
    """What trials none of which has run ask for, so that their time follows for any machine.

    Attributes:
        num_cpus: That one worker asks for; so is `num_gpus`.
        packed_seconds: Of all workers of the trials that share a machine, one after the other; of
            those that share a GPU, as much of them as the GPU is theirs.
        longest_seconds: Of the longest of these trials, if nothing else runs.
        alone_seconds: Of the trials that have a machine to themselves.
    """

    num_trials: int
    num_cpus: int
    num_gpus: float
    packed_seconds: float
    longest_seconds: float
    alone_seconds: float

    def seconds(self, num_cpus: int) -> float:
        """Rough wall time on a machine with so many CPUs: packed first, then timings in turn.

        Trials that ask for a GPU have one card, or as many as one asks for.
        """
        slots = 1 if self.num_gpus else max(1, num_cpus // self.num_cpus)
        packed = max(self.packed_seconds / slots, self.longest_seconds)
        return _SECONDS_TO_START + packed + self.alone_seconds


def planned_work(
    trials: Sequence[Trial], resources: Resources, card: Card | None = None
) -> PlannedWork:
    """The work of these trials, by the FLOPs of their models; on an H100 without another card."""
    from suite.planning.estimate import H100, seconds_of  # takes torch: `status` does without

    gpu = card.flops_per_second if card else H100
    asked = [(trial, resources.for_trial(trial)) for trial in trials]
    timed = [(trial, own, seconds_of(trial, own, gpu)) for trial, own in asked]
    packed = [(trial, own, seconds) for trial, own, seconds in timed if not trial.is_timing]
    return PlannedWork(
        num_trials=len(trials),
        num_cpus=resources.num_cpus,
        num_gpus=resources.num_gpus,
        packed_seconds=sum(s * t.num_workers * own.share for t, own, s in packed),
        longest_seconds=max((seconds_of(t, own.alone, gpu) for t, own, _ in packed), default=0.0),
        alone_seconds=sum(seconds for trial, _, seconds in timed if trial.is_timing),
    )


def _throughput(history: History) -> float | None:
    num_ended = sum(isinstance(span.held, End) for span, _, _ in history.recent)
    if not num_ended:
        return None if history.driver_started is None else 0.0
    since, until = history.window
    if history.driver_started is None:
        since = max(since, min(begin for _, begin, _ in history.recent))
    seconds = until - since
    return 60.0 * num_ended / max(_SHORTEST_SECONDS, seconds)


def _is_wasted(span: Span) -> bool:
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
