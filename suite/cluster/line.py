"""Whose turn is it? Trials in line for a place; pure, so that packing is tested without Ray.

Ray has no priorities, and long backlogs slow it down: so trials are handed over the largest
first, and never many more than the cluster holds at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from suite.cluster.capacity import NodeShape, asked_of_a_node, slots
from suite.events import Assignments
from suite.schema import Resources, Trial

MOST_IN_FLIGHT = 1_000  # of one shape of request; more would only fill Ray's queues
_TURNS_PER_SLOT = 2  # one runs, the next one waits beside it: no slot is ever idle

Nodes = Callable[[], Sequence[NodeShape]]


@dataclass(frozen=True)
class Turn:
    """A trial's turn to run.

    Attributes:
        node: Where it has to run, alone; None where Ray may choose.
        attempt: 1 for the first; one more each time that its worker or node was lost under it.
        shuns: Beginnings of the ids of nodes where it should not run, if there are others.
        has_more_memory: Whether it has more than it asked for, after it ran out of it.
    """

    trial: Trial
    resources: Resources
    node: NodeShape | None = None
    attempt: int = 1
    shuns: tuple[str, ...] = ()
    has_more_memory: bool = False

    @property
    def asked(self) -> dict[str, float]:
        """What one of its workers asks of a node."""
        return asked_of_a_node(self.resources)

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for all trials that ask for the same."""
        return (self.resources, self.trial.num_workers)


class Line(Protocol):
    """Trials in line."""

    def __len__(self) -> int:
        """How many stand in it."""

    def take(self, in_flight: Sequence[Turn]) -> list[Turn]:
        """Those whose turn has come, given what runs or waits at Ray's already."""

    def put_back(self, turn: Turn) -> None:
        """To the front: its next attempt."""

    def drain(self) -> list[Turn]:
        """All who stand in it; nobody does any more."""


class PackedLine:
    """Any node that has room; a queue for each shape of request, the largest trial first."""

    def __init__(self, work: Assignments, nodes: Nodes) -> None:
        self._nodes = nodes
        self._queues: dict[tuple[object, ...], deque[Turn]] = {}
        for trial, resources in work:
            turn = Turn(trial, resources)
            self._queues.setdefault(turn.shape, deque()).append(turn)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def take(self, in_flight: Sequence[Turn]) -> list[Turn]:
        """Of every shape as many as keep all places busy, and as many again in reserve."""
        if not len(self):
            return []
        counts = Counter(turn.shape for turn in in_flight)
        nodes = self._nodes()
        return [
            queue.popleft()
            for shape, queue in self._queues.items()
            for _ in range(min(len(queue), _window(queue, nodes) - counts[shape]))
        ]

    def put_back(self, turn: Turn) -> None:
        """See `Line.put_back`."""
        self._queues.setdefault(turn.shape, deque()).appendleft(turn)

    def drain(self) -> list[Turn]:
        """All who stand in it."""
        left = [turn for queue in self._queues.values() for turn in queue]
        self._queues.clear()
        return left


def _window(queue: Sequence[Turn], nodes: Sequence[NodeShape]) -> int:
    """Trials of several workers hold none in reserve: each is a process or two by itself."""
    if not queue:
        return 0
    held = slots(queue[0].asked, nodes) // queue[0].trial.num_workers
    per_slot = 1 if queue[0].trial.parallel else _TURNS_PER_SLOT
    return max(1, min(MOST_IN_FLIGHT, per_slot * held))


class AloneLine:
    """One trial a node, with nothing beside it; a trial of several workers has all to itself."""

    def __init__(self, work: Assignments, nodes: Nodes) -> None:
        self._nodes = nodes
        self._queue = deque(Turn(trial, resources) for trial, resources in work)

    def __len__(self) -> int:
        return len(self._queue)

    def take(self, in_flight: Sequence[Turn]) -> list[Turn]:
        """A trial for each node that has none."""
        if not self._queue or any(turn.trial.parallel for turn in in_flight):
            return []
        if self._queue[0].trial.parallel:
            return [] if in_flight else [self._queue.popleft()]
        busy = {turn.node.name for turn in in_flight if turn.node is not None}
        nodes = self._nodes()
        free = [node for node in nodes if node.name not in busy]
        taken: list[Turn] = []
        while self._queue and not self._queue[0].trial.parallel:
            node = _best(free, self._queue[0], nodes)
            if node is None:
                break
            free.remove(node)
            taken.append(replace(self._queue.popleft(), node=node))
        return taken

    def put_back(self, turn: Turn) -> None:
        """See `Line.put_back`; any node may take it that it does not shun."""
        self._queue.appendleft(turn)

    def drain(self) -> list[Turn]:
        """All who stand in it."""
        left = list(self._queue)
        self._queue.clear()
        return left


def _best(free: Sequence[NodeShape], turn: Turn, nodes: Sequence[NodeShape]) -> NodeShape | None:
    """One with room for what it asks, if possible unshunned; None while only busy ones have room.

    After its host ran out of memory it asks for more than the others in its line.
    """
    with_room = [node for node in nodes if slots(turn.asked, [node])] or nodes
    return min(
        (node for node in free if node in with_room),
        key=lambda node: node.name.startswith(turn.shuns),
        default=None,
    )
