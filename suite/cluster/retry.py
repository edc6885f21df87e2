"""Does a trial whose attempt ended badly get another one, and with what? Pure.

What the world did to it, it may try again elsewhere, three times in all: a trial that has lost its
worker or node so often is left aside, so that the sweep goes on. What the trial did itself (it
raised, diverged, ran out of time or of a card's memory) would only happen again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from suite.cluster.capacity import NodeShape, asked_of_a_node, slots
from suite.cluster.line import Turn
from suite.schema import Resources

MOST_ATTEMPTS = 3
_MOST_DEATHS_OF_A_NODE = 3  # of different trials, one after the other


class Ending(Enum):
    """How an attempt ended that left no result."""

    LOST_NODE = "its node was lost"
    DEAD_WORKER = "its process died"
    HOST_MEMORY = "its node ran out of memory"
    BROKEN_WORKER = "its process could not run it"
    OTHER = "something else"


def next_turn(turn: Turn, ending: Ending, node: str, nodes: Sequence[NodeShape]) -> Turn | None:
    """The turn of its next attempt; None where there is none.

    Args:
        turn: Of the attempt that ended.
        ending: How.
        node: Where it ran; empty if it had not begun.
        nodes: Those that stand.
    """
    if ending is Ending.HOST_MEMORY:
        resources = None if turn.has_more_memory else _with_more_memory(turn, nodes)
        more = resources and replace(turn, resources=resources, has_more_memory=True)
        return _again(more, "") if more else None
    if ending is Ending.OTHER or turn.attempt >= MOST_ATTEMPTS:
        return None
    return _again(turn, "" if ending is Ending.LOST_NODE else node)


def _again(turn: Turn, shunned: str) -> Turn:
    shuns = (*turn.shuns, shunned) if shunned else turn.shuns
    return replace(turn, attempt=turn.attempt + 1, node=None, shuns=shuns)


def _with_more_memory(turn: Turn, nodes: Sequence[NodeShape]) -> Resources | None:
    """Twice what it asked for, half a node at least; None where no node has more to give.

    A node without its CPUs or GPUs does not count, however much memory it has: Ray would let a
    request that fits no node wait for ever.
    """
    fitting = _with_all_but_memory(turn.resources, nodes)
    largest = int(max((node.resources.get("memory", 0.0) for node in fitting), default=0.0))
    wanted = min(largest, max(2 * turn.resources.memory_bytes, largest // 2))
    more = replace(turn.resources, memory_bytes=wanted)
    has_room = slots(asked_of_a_node(more), fitting) >= turn.trial.num_workers
    return more if wanted > turn.resources.memory_bytes and has_room else None


def _with_all_but_memory(resources: Resources, nodes: Sequence[NodeShape]) -> list[NodeShape]:
    asked = asked_of_a_node(replace(resources, memory_bytes=0))
    return [node for node in nodes if slots(asked, [node])]


@dataclass
class FailingNodes:
    """Which nodes end the workers of one trial after the other? They are left out.

    A trial that dies everywhere says nothing about a node, nor does one that ended well before.
    """

    _dead_on: dict[str, set[str]] = field(default_factory=dict)

    def note_death(self, node: str, trial_id: str) -> None:
        """A worker died there."""
        if node:
            self._dead_on.setdefault(node, set()).add(trial_id)

    def note_result(self, node: str) -> None:
        """A trial has left a result there."""
        self._dead_on.pop(node, None)

    def left_out(self, nodes: Sequence[NodeShape]) -> tuple[str, ...]:
        """Beginnings of the ids of those among the nodes that fail; none if all of them do."""
        failing = [
            node for node, dead in self._dead_on.items() if len(dead) >= _MOST_DEATHS_OF_A_NODE
        ]
        found = [n for n in failing if any(node.name.startswith(n) for node in nodes)]
        return tuple(found) if len(found) < len(nodes) else ()
