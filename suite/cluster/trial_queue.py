"""Queue trials and choose which of them Ray gets next; tested without Ray.

Ray has no priorities, and long backlogs slow it down: so trials are submitted in the order of the
work, and never many more than the cluster holds at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bakeoff.suite.cluster.capacity import NodeShape, asked_of_a_node, slots
from bakeoff.suite.events import Assignments
from bakeoff.suite.schema import Provenance, Resources, Trial

MOST_IN_FLIGHT = 1_000  # per shape of request; more would only fill Ray's queues
_ATTEMPTS_PER_SLOT = 2  # one runs and the next one waits, so that no slot is idle

Nodes = Callable[[], Sequence[NodeShape]]


@dataclass(frozen=True)
class TrialAttempt:
    """An attempt to run a trial.

    Attributes:
        trial: The trial.
        resources: The resources of one worker.
        node: The node where it has to run, alone, or None if Ray may choose.
        number: 1 for the first attempt; one more each time that its worker or node was lost.
        avoided: Prefixes of the ids of nodes where it should not run, if there are others.
        has_more_memory: Whether it has more memory than it requested, after it ran out of memory.
        provenance: The provenance of the process that last started the trial, or None if there is
            none.
        why_eager: The reason to run eagerly, see `bakeoff.suite.execution.trial.run_trial`;
            usually empty.
    """

    trial: Trial
    resources: Resources
    node: NodeShape | None = None
    number: int = 1
    avoided: tuple[str, ...] = ()
    has_more_memory: bool = False
    provenance: Provenance | None = None
    why_eager: str = ""

    @property
    def asked(self) -> dict[str, float]:
        """The request of one of its workers."""
        return asked_of_a_node(self.resources)

    @property
    def shape(self) -> tuple[object, ...]:
        """A key that is equal for all trials with the same request."""
        return (self.resources, self.trial.num_workers)


class TrialQueue(ABC):
    """A queue of trials that are not submitted to Ray yet, in the order of the work."""

    def __init__(self, work: Assignments, nodes: Nodes) -> None:
        self._nodes = nodes
        self._waiting: dict[object, deque[TrialAttempt]] = {}
        for trial, resources in work:
            attempt = TrialAttempt(trial, resources)
            self._waiting.setdefault(self._group(attempt), deque()).append(attempt)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @abstractmethod
    def take(self, in_flight: Sequence[TrialAttempt]) -> list[TrialAttempt]:
        """Take the attempts to submit now, given those that Ray has."""

    def put_back(self, attempt: TrialAttempt) -> None:
        """Put an attempt to the front."""
        self._waiting.setdefault(self._group(attempt), deque()).appendleft(attempt)

    def drain(self) -> list[TrialAttempt]:
        """Remove all attempts, and return them."""
        drained = [attempt for waiting in self._waiting.values() for attempt in waiting]
        self._waiting.clear()
        return drained

    def _group(self, attempt: TrialAttempt) -> object:
        """Return the group within which the order is kept; by default one for all."""
        return None


class PackedQueue(TrialQueue):
    """A queue for any nodes with room; trials of one shape of request keep their order."""

    def take(self, in_flight: Sequence[TrialAttempt]) -> list[TrialAttempt]:
        """Take enough of every shape to keep all places busy, and as many in reserve."""
        if not len(self):
            return []
        counts: Counter[object] = Counter(attempt.shape for attempt in in_flight)
        nodes = self._nodes()
        return [
            waiting.popleft()
            for shape, waiting in self._waiting.items()
            for _ in range(min(len(waiting), _window(waiting, nodes) - counts[shape]))
        ]

    def _group(self, attempt: TrialAttempt) -> object:
        return attempt.shape


def _window(waiting: Sequence[TrialAttempt], nodes: Sequence[NodeShape]) -> int:
    """Return how many trials Ray may have; trials of several workers have no reserve."""
    if not waiting:
        return 0
    num_places = slots(waiting[0].asked, nodes) // waiting[0].trial.num_workers
    per_slot = 1 if waiting[0].trial.parallel else _ATTEMPTS_PER_SLOT
    return max(1, min(MOST_IN_FLIGHT, per_slot * num_places))


class ExclusiveQueue(TrialQueue):
    """A queue for idle nodes, one trial each; one of several workers gets the whole cluster."""

    def take(self, in_flight: Sequence[TrialAttempt]) -> list[TrialAttempt]:
        """Take a trial for each idle node, if possible one that need not avoid it."""
        (waiting,) = self._waiting.values() or (deque(),)
        if not waiting or any(attempt.trial.parallel for attempt in in_flight):
            return []
        if waiting[0].trial.parallel:
            return [] if in_flight else [waiting.popleft()]
        busy = {attempt.node.name for attempt in in_flight if attempt.node is not None}
        nodes = self._nodes()
        free = [node for node in nodes if node.name not in busy]
        taken: list[TrialAttempt] = []
        while waiting and not waiting[0].trial.parallel:
            node = _best(free, waiting[0], nodes)
            if node is None:
                break
            free.remove(node)
            taken.append(replace(waiting.popleft(), node=node))
        return taken


def _best(
    free: Sequence[NodeShape], attempt: TrialAttempt, nodes: Sequence[NodeShape]
) -> NodeShape | None:
    """Return a free node with room, if possible not an avoided one; else None.

    After its host ran out of memory, a trial requests more than the others in its queue.
    """
    with_room = [node for node in nodes if slots(attempt.asked, [node])] or nodes
    return min(
        (node for node in free if node in with_room),
        key=lambda node: node.name.startswith(attempt.avoided),
        default=None,
    )
