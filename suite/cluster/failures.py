"""Turn Ray's errors into results, for trials that could not report how they ended."""

from __future__ import annotations

import re

from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    TaskUnschedulableError,
    WorkerCrashedError,
)

from suite.cluster.retry import MOST_ATTEMPTS, FailureKind
from suite.cluster.task_queue import TrialAttempt
from suite.events import Remarked
from suite.provenance import provenance
from suite.schema import Result, Status
from suite.timeouts import timeout_reason

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Its node died, or took its output with it, or went away before the trial could begin there.
_LOST_NODE = (NodeDiedError, LocalRayletDiedError, ObjectLostError, TaskUnschedulableError)


def kind_of(error: RayError) -> FailureKind:
    """What Ray's error says about the cause."""
    if isinstance(error, _LOST_NODE):
        return FailureKind.LOST_NODE
    if isinstance(error, OutOfMemoryError):
        return FailureKind.HOST_MEMORY
    if isinstance(error, RayTaskError):  # whatever a trial raises is its result, and no error here
        return FailureKind.BROKEN_WORKER
    is_dead = isinstance(error, WorkerCrashedError)
    return FailureKind.DEAD_WORKER if is_dead else FailureKind.OTHER


def failed_result(attempt: TrialAttempt, error: RayError) -> Result:
    """The result of a trial that Ray ended, or that was lost once too often."""
    kind, status = kind_of(error), Status.CRASHED
    if kind is FailureKind.HOST_MEMORY:
        status = Status.OUT_OF_MEMORY
    elif isinstance(error, RayTaskError):
        status = Status.ERROR
    reason = _sentence(error)
    is_retried = kind not in (FailureKind.HOST_MEMORY, FailureKind.OTHER)
    if is_retried and attempt.number >= MOST_ATTEMPTS:
        reason = f"given up after {attempt.number} attempts; in the last {kind.value}: {reason}"
    return _result(attempt, status, reason, str(error))


def retry_remark(again: TrialAttempt, error: RayError) -> Remarked:
    """The message about another attempt."""
    more = ", and is given more memory" if again.has_more_memory else ""
    sentence = f"{kind_of(error).value}; it runs again (attempt {again.number}{more})"
    return Remarked(again.trial.trial_id, sentence)


def timeout_result(attempt: TrialAttempt, seconds: float) -> Result:
    """The result of a trial that was ended because it took too long."""
    return _result(attempt, Status.TIMEOUT, timeout_reason(seconds))


def no_node_result(attempt: TrialAttempt) -> Result:
    """The result of a trial for which no node is left."""
    reason = "no node is left of the environment in which this sweep's timings are made"
    return _result(attempt, Status.CRASHED, reason)


def _result(attempt: TrialAttempt, status: Status, reason: str, traceback: str = "") -> Result:
    """With the provenance of the worker: a later success there must replace the failure.

    A trial that never began has that of this process.
    """
    return Result(
        trial_id=attempt.trial.trial_id, status=status, seconds=0.0, reason=reason,
        traceback=traceback, provenance=attempt.provenance or provenance(attempt.resources),
    )  # fmt: skip


def _sentence(error: RayError) -> str:
    """The first line; of what was raised in a worker the last, which is that of its traceback."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if isinstance(error, RayTaskError) else 0]
