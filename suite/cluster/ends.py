"""How did a trial end that could not say so itself? Ray's errors -> results."""

from __future__ import annotations

from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    TaskUnschedulableError,
)

from suite.cluster.line import Turn
from suite.provenance import provenance
from suite.schema import Result, Status

# Its node died, or took what it had said with it, or went away before it could begin there.
_LOST_NODE = (NodeDiedError, LocalRayletDiedError, ObjectLostError, TaskUnschedulableError)


def is_lost_node(error: RayError) -> bool:
    """Whether the trial is innocent: another node may well finish it."""
    return isinstance(error, _LOST_NODE)


def result_of(turn: Turn, error: RayError) -> Result:
    """The result of a trial that Ray ended, or that was lost once too often."""
    status = Status.CRASHED
    if isinstance(error, OutOfMemoryError):
        status = Status.OUT_OF_MEMORY
    elif isinstance(error, RayTaskError):
        status = Status.ERROR
    lost = f"its node was lost, {turn.attempt} times: " if is_lost_node(error) else ""
    return _result(turn, status, lost + _sentence(error), str(error))


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
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
