"""Decide whether a failed attempt at a trial is retried, and with what; else create its result.

A failure from outside the trial is retried elsewhere, up to three attempts in all. A failure of the
trial itself (an exception, divergence, a timeout, not enough GPU memory) would happen again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

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

from bakeoff.suite.cluster.capacity import NodeShape, asked_of_a_node, slots
from bakeoff.suite.cluster.trial_queue import TrialAttempt
from bakeoff.suite.events import Remarked
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources, Result, Status
from bakeoff.suite.timeouts import timeout_reason

MOST_ATTEMPTS = 3
_MOST_CRASHES_OF_A_NODE = 3  # crashes of different trials, one after the other
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The node died, lost the trial's output, or left before the trial could start there.
_LOST_NODE = (NodeDiedError, LocalRayletDiedError, ObjectLostError, TaskUnschedulableError)


class FailureKind(Enum):
    """The cause of an attempt without a result."""

    LOST_NODE = "its node was lost"
    DEAD_WORKER = "its process died"
    HOST_MEMORY = "its node ran out of memory"
    BROKEN_WORKER = "its process could not run it"
    OTHER = "something else"


def kind_of(error: RayError) -> FailureKind:
    """Return the cause of Ray's error."""
    if isinstance(error, _LOST_NODE):
        return FailureKind.LOST_NODE
    if isinstance(error, OutOfMemoryError):
        return FailureKind.HOST_MEMORY
    # Exceptions of a trial are part of its result, and do not get here.
    if isinstance(error, RayTaskError):
        return FailureKind.BROKEN_WORKER
    is_dead = isinstance(error, WorkerCrashedError)
    return FailureKind.DEAD_WORKER if is_dead else FailureKind.OTHER


def next_attempt(
    attempt: TrialAttempt, kind: FailureKind, node: str, nodes: Sequence[NodeShape]
) -> TrialAttempt | None:
    """Return the next attempt, or None if the trial is not retried.

    Args:
        attempt: The attempt that failed.
        kind: The cause of its failure.
        node: The node on which it ran; empty if it had not started.
        nodes: The live nodes.
    """
    if kind is FailureKind.HOST_MEMORY:
        resources = None if attempt.has_more_memory else _with_more_memory(attempt, nodes)
        more = resources and replace(attempt, resources=resources, has_more_memory=True)
        return replace(more, number=more.number + 1, node=None) if more else None
    if kind is FailureKind.OTHER or attempt.number >= MOST_ATTEMPTS:
        return None
    is_avoided = bool(node) and kind is not FailureKind.LOST_NODE
    avoided = (*attempt.avoided, node) if is_avoided else attempt.avoided
    return replace(attempt, number=attempt.number + 1, node=None, avoided=avoided)


def _with_more_memory(attempt: TrialAttempt, nodes: Sequence[NodeShape]) -> Resources | None:
    """Return twice the request, at least half a node, or None if no node has more memory.

    A node without the CPUs or GPUs does not count, however much memory it has: Ray would let a
    request that fits no node wait forever.
    """
    asked = asked_of_a_node(replace(attempt.resources, memory_bytes=0))
    fitting = [node for node in nodes if slots(asked, [node])]
    largest = int(max((node.resources.get("memory", 0.0) for node in fitting), default=0.0))
    wanted = min(largest, max(2 * attempt.resources.memory_bytes, largest // 2))
    more = replace(attempt.resources, memory_bytes=wanted)
    has_room = slots(asked_of_a_node(more), fitting) >= attempt.trial.num_workers
    return more if wanted > attempt.resources.memory_bytes and has_room else None


@dataclass
class FailingNodes:
    """The nodes on which the workers of several trials in a row die; they are excluded.

    A trial that dies everywhere does not count against a node, nor does one on a node that
    succeeded since.
    """

    _crashed_on: dict[str, set[str]] = field(default_factory=dict)

    def record_crash(self, node: str, trial_id: str) -> None:
        """Count a worker that died on the node."""
        if node:
            self._crashed_on.setdefault(node, set()).add(trial_id)

    def record_result(self, node: str) -> None:
        """Reset the count of a node that has returned a result."""
        self._crashed_on.pop(node, None)

    def excluded(self, nodes: Sequence[NodeShape]) -> tuple[str, ...]:
        """Return prefixes of the ids of nodes that fail; empty if all of them do."""
        found = tuple(
            failing
            for failing, trial_ids in self._crashed_on.items()
            if len(trial_ids) >= _MOST_CRASHES_OF_A_NODE
            and any(node.name.startswith(failing) for node in nodes)
        )
        return found if len(found) < len(nodes) else ()


def failed_result(attempt: TrialAttempt, error: RayError) -> Result:
    """Return the result of a trial that Ray ended, or that was lost too often."""
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
    """Return the message about another attempt."""
    more = ", and is given more memory" if again.has_more_memory else ""
    sentence = f"{kind_of(error).value}; it runs again (attempt {again.number}{more})"
    return Remarked(again.trial.trial_id, sentence)


def timeout_result(attempt: TrialAttempt, seconds: float) -> Result:
    """Return the result of a trial that was ended because it took too long."""
    return _result(attempt, Status.TIMEOUT, timeout_reason(seconds))


def no_node_result(attempt: TrialAttempt) -> Result:
    """Return the result of a trial for which no node is left."""
    reason = "no node is left of the environment in which this sweep's timings are made"
    return _result(attempt, Status.CRASHED, reason)


def _result(attempt: TrialAttempt, status: Status, reason: str, traceback: str = "") -> Result:
    """Return a result with the worker's provenance, so that a later success there replaces it.

    A trial that never started gets the provenance of this process.
    """
    return Result(
        trial_id=attempt.trial.trial_id,
        status=status,
        seconds=0.0,
        reason=reason,
        traceback=traceback,
        provenance=attempt.provenance or provenance(attempt.resources),
    )


def _sentence(error: RayError) -> str:
    """Return the first line, or the last line of a worker's traceback."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if isinstance(error, RayTaskError) else 0]
