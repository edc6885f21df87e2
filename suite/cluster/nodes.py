"""Ask the cluster for its nodes, their free resources, and the environment of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bakeoff.suite.cluster import ray_private
from bakeoff.suite.cluster.capacity import MANY, NodeShape, asked_of_a_node, slots
from bakeoff.suite.cluster.trial_queue import TrialAttempt
from bakeoff.suite.events import Unavailable
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources

TIMING = "timing"  # a resource that nodes may declare: then only these run timings, one trial each
_SECONDS_TO_TRUST = 0.25
_SECONDS_TO_ANSWER = 60.0
_SECONDS_BETWEEN_REQUESTS = 30.0  # to a node that did not answer
_SECONDS_TO_START_A_NODE = 900.0


def live_nodes() -> list[NodeShape]:
    """Return the nodes that are alive."""
    return [NodeShape(node["NodeID"], node["Resources"]) for node in ray.nodes() if node["Alive"]]


@dataclass
class RecentNodes:
    """A short-lived cache of the live nodes: a query takes milliseconds, like a small trial."""

    _known: list[NodeShape] = field(default_factory=list)
    _asked_again_at: float = 0.0

    def __call__(self) -> list[NodeShape]:
        """Return the live nodes; ask the head a few times per second at most."""
        if time.monotonic() >= self._asked_again_at:
            self._known = live_nodes()
            self._asked_again_at = time.monotonic() + _SECONDS_TO_TRUST
        return self._known


def free_nodes() -> list[NodeShape]:
    """Return the free resources of the live nodes, as far as the head knows."""
    return [NodeShape(name, has) for name, has in ray_private.free_resources().items()]


def possible_nodes() -> list[NodeShape]:
    """Return the most that the cluster may ever have: live nodes, or those of its autoscaler."""
    return [
        NodeShape(
            group.name, dict(group.resources), group.max_count if group.max_count >= 0 else MANY
        )
        for group in ray_private.node_groups()
    ] or live_nodes()


def nodes_to_avoid(attempt: TrialAttempt, excluded: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of nodes where a trial should not run; empty if no other has room.

    Args:
        attempt: The attempt at the trial; one that has a node already keeps it.
        excluded: Prefixes of the ids of nodes that fail.
    """
    prefixes = (*attempt.avoided, *excluded)
    if not prefixes or attempt.node is not None or attempt.trial.parallel:
        return ()
    nodes = live_nodes()
    others = [node for node in nodes if not node.name.startswith(prefixes)]
    found = tuple(node.name for node in nodes if node.name.startswith(prefixes))
    return found if slots(attempt.asked, others) else ()


@dataclass
class _EnvironmentRequest:
    """A request to a node for its environment.

    A node that does not answer may only be busy with another job, so it is asked again after a
    pause. Its answer is awaited only once, because no events of trials are read meanwhile.
    """

    node: str
    resources: Resources
    _environment_id: str = ""
    _answer: ray.ObjectRef | None = None
    _ends_at: float = 0.0  # the request, or the pause after it
    _was_silent: bool = False

    def ask(self) -> None:
        """Ask the node, unless it has answered, is being asked, or has just failed to answer."""
        is_pausing = time.monotonic() < self._ends_at
        if not self._environment_id and self._answer is None and not is_pausing:
            self._answer = _ask(self.resources, self.node)
            self._ends_at = time.monotonic() + _SECONDS_TO_ANSWER

    def answer(self, *, is_awaited: bool) -> str:
        """Return the environment; empty as long as the node has not answered."""
        if self._answer is not None:
            left = self._ends_at - time.monotonic() if is_awaited and not self._was_silent else 0.0
            self._environment_id = _answered(self._answer, max(0.0, left))
            if self._environment_id:
                self._answer = None
            elif time.monotonic() >= self._ends_at:
                ray.cancel(self._answer, force=True)
                self._answer, self._was_silent = None, True
                self._ends_at = time.monotonic() + _SECONDS_BETWEEN_REQUESTS
        return self._environment_id


class TimingNodes:
    """The nodes by the environment that they offer; each is asked until it answers."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, Resources], _EnvironmentRequest] = {}

    def environment(self, resources: Resources, preferred: str) -> str:
        """Return the preferred environment if a node offers it, else that of most nodes.

        If no fitting node is alive, one is requested and awaited.

        Raises:
            Unavailable: If no node answers.
        """
        offers = self._offers(resources, are_awaited=True)
        offered = [name for name in offers.values() if name]
        if not offered:
            offered = [_environment_of_any(resources)]
        return preferred if preferred in offered else max(sorted(set(offered)), key=offered.count)

    def nodes(self, resources: Resources, environment_id: str) -> list[NodeShape]:
        """Return live nodes that have answered with this environment; do not wait."""
        offers = self._offers(resources, are_awaited=False)
        return [node for node in _fitting(resources) if offers.get(node.name) == environment_id]

    def _offers(self, resources: Resources, *, are_awaited: bool) -> dict[str, str]:
        """Ask all nodes before waiting for any, so that their times to answer overlap."""
        requests = [
            self._requests.setdefault(
                (node.name, resources), _EnvironmentRequest(node.name, resources)
            )
            for node in _fitting(resources)
        ]
        for request in requests:
            request.ask()
        return {each.node: each.answer(is_awaited=are_awaited) for each in requests}


def _fitting(resources: Resources) -> list[NodeShape]:
    """Return the nodes that can run the timing; those that declare `TIMING`, if any do."""
    nodes = live_nodes()
    if any(node.resources.get(TIMING) for node in nodes):
        nodes = [node for node in nodes if node.resources.get(TIMING)]
    return [node for node in nodes if slots(asked_of_a_node(resources), [node])]


def _ask(resources: Resources, node: str) -> ray.ObjectRef:
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return _environment_task.options(
        num_cpus=resources.num_cpus, num_gpus=resources.num_gpus, scheduling_strategy=there
    ).remote(resources)


def _answered(answer: ray.ObjectRef, seconds: float) -> str:
    """Return the answer; empty if the node is gone, or busy for longer."""
    try:
        environment_id: str = ray.get(answer, timeout=seconds)
    except RayError:  # this includes a timeout
        return ""
    return environment_id


def _environment_of_any(resources: Resources) -> str:
    """Request a node that fits, and return its environment; an autoscaler may start the node."""
    has_timing = any(node.resources.get(TIMING) for node in possible_nodes())
    asked = {**asked_of_a_node(resources), **({TIMING: 1.0} if has_timing else {})}
    cpus, gpus = asked.pop("CPU", 0), asked.pop("GPU", 0)
    asked.pop("memory", None)
    task = _environment_task.options(num_cpus=cpus, num_gpus=gpus, resources=asked)
    answer = task.remote(resources)
    found = _answered(answer, _SECONDS_TO_START_A_NODE)
    if not found:
        ray.cancel(answer, force=True)
        raise Unavailable("no node of the cluster became free for timings; run again later.")
    return found


def _environment_here(resources: Resources) -> str:
    return provenance(resources).environment_id


_environment_task = ray.remote(max_retries=0, max_calls=1)(_environment_here)
