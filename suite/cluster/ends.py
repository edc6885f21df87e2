"""How did a trial end that could not say so itself? Ray's errors -> results."""

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

from suite.cluster.line import Turn
from suite.cluster.retry import MOST_ATTEMPTS, Ending
from suite.events import Remarked
from suite.provenance import provenance
from suite.schema import Result, Status
from suite.timeouts import timeout_reason

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Its node died, or took what it had said with it, or went away before it could begin there.
_LOST_NODE = (NodeDiedError, LocalRayletDiedError, ObjectLostError, TaskUnschedulableError)


def ending_of(error: RayError) -> Ending:
    """What Ray's error says about who is to blame."""
    if isinstance(error, _LOST_NODE):
        return Ending.LOST_NODE
    if isinstance(error, OutOfMemoryError):
        return Ending.HOST_MEMORY
    if isinstance(error, RayTaskError):  # whatever a trial raises is its result, and no error here
        return Ending.BROKEN_WORKER
    return Ending.DEAD_WORKER if isinstance(error, WorkerCrashedError) else Ending.OTHER


def result_of(turn: Turn, error: RayError) -> Result:
    """The result of a trial that Ray ended, or that was lost once too often."""
    ending, status = ending_of(error), Status.CRASHED
    if ending is Ending.HOST_MEMORY:
        status = Status.OUT_OF_MEMORY
    elif isinstance(error, RayTaskError):
        status = Status.ERROR
    reason = _sentence(error)
    if ending not in (Ending.HOST_MEMORY, Ending.OTHER) and turn.attempt >= MOST_ATTEMPTS:
        reason = f"left aside after {turn.attempt} attempts; in the last {ending.value}: {reason}"
    return _result(turn, status, reason, str(error))


def remark_on(again: Turn, error: RayError) -> Remarked:
    """What whoever watches hears of another attempt."""
    more = ", and is given more memory" if again.has_more_memory else ""
    sentence = f"{ending_of(error).value}; it runs again (attempt {again.attempt}{more})"
    return Remarked(again.trial.trial_id, sentence)


def timed_out(turn: Turn, seconds: float) -> Result:
    """The result of a trial that was ended because it took too long."""
    return _result(turn, Status.TIMEOUT, timeout_reason(seconds), "")


def stranded(turn: Turn) -> Result:
    """The result of a trial for which no node is left."""
    reason = "no node is left of the environment in which this sweep's timings are made"
    return _result(turn, Status.CRASHED, reason, "")


def _result(turn: Turn, status: Status, reason: str, traceback: str) -> Result:
    return Result(
        trial_id=turn.trial.trial_id, status=status, provenance=provenance(turn.resources),
        seconds=0.0, reason=reason, traceback=traceback,
    )  # fmt: skip


def _sentence(error: RayError) -> str:
    """The first line; of what was raised in a worker the last, which is that of its traceback."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if isinstance(error, RayTaskError) else 0]
