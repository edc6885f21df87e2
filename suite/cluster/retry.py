"""Decide whether a failed attempt at a trial is retried, and with what; pure.

What happened to a trial from outside is retried elsewhere, up to three attempts in all. What the
trial did itself (it raised, diverged, ran out of time or of a card's memory) would happen again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from suite.cluster.capacity import NodeShape, asked_of_a_node, slots
from suite.cluster.task_queue import TrialAttempt
from suite.schema import Resources

MOST_ATTEMPTS = 3
_MOST_CRASHES_OF_A_NODE = 3  # of different trials, one after the other


class FailureKind(Enum):
    """How an attempt ended that left no result."""

    LOST_NODE = "its node was lost"
    DEAD_WORKER = "its process died"
    HOST_MEMORY = "its node ran out of memory"
    BROKEN_WORKER = "its process could not run it"
    OTHER = "something else"


def next_attempt(
    attempt: TrialAttempt, kind: FailureKind, node: str, nodes: Sequence[NodeShape]
) -> TrialAttempt | None:
    """The next attempt; None where there is none.

    Args:
        attempt: The one that failed.
        kind: How it failed.
        node: Where it ran; empty if it had not begun.
        nodes: Those that are alive.
    """
    if kind is FailureKind.HOST_MEMORY:
        resources = None if attempt.has_more_memory else _with_more_memory(attempt, nodes)
        more = resources and replace(attempt, resources=resources, has_more_memory=True)
        return _again(more, "") if more else None
    if kind is FailureKind.OTHER or attempt.number >= MOST_ATTEMPTS:
        return None
    return _again(attempt, "" if kind is FailureKind.LOST_NODE else node)


def _again(attempt: TrialAttempt, to_avoid: str) -> TrialAttempt:
    avoided = (*attempt.avoided, to_avoid) if to_avoid else attempt.avoided
    return replace(attempt, number=attempt.number + 1, node=None, avoided=avoided)


def _with_more_memory(attempt: TrialAttempt, nodes: Sequence[NodeShape]) -> Resources | None:
    """Twice what it asked for, half a node at least; None where no node has more to give.

    A node without its CPUs or GPUs does not count, however much memory it has: Ray would let a
    request that fits no node wait for ever.
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
    """The nodes on which the workers of one trial after the other die: they are excluded.

    A trial that dies everywhere says nothing about a node, nor does one that succeeded before.
    """

    _crashed_on: dict[str, set[str]] = field(default_factory=dict)

    def record_crash(self, node: str, trial_id: str) -> None:
        """A worker died there."""
        if node:
            self._crashed_on.setdefault(node, set()).add(trial_id)

    def record_result(self, node: str) -> None:
        """A trial has left a result there."""
        self._crashed_on.pop(node, None)

    def excluded(self, nodes: Sequence[NodeShape]) -> tuple[str, ...]:
        """Prefixes of the ids of those among the nodes that fail; empty if all of them do."""
        found = tuple(
            failing
            for failing, trial_ids in self._crashed_on.items()
            if len(trial_ids) >= _MOST_CRASHES_OF_A_NODE
            and any(node.name.startswith(failing) for node in nodes)
        )
        return found if len(found) < len(nodes) else ()
