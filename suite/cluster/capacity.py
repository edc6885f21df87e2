"""Compute whether a cluster can ever run a trial, how many at once, and what one waits for.

Ray itself would let a request that no node can ever satisfy wait forever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bakeoff.suite.schema import Resources

MANY = 10_000  # nodes of a type without an upper limit
_GIB = 2**30
_SHOWN = {"CPU": "CPU", "GPU": "GPU", "memory": "GiB of memory"}


@dataclass(frozen=True)
class NodeShape:
    """The resources of a node, or of a type of node that may still be started.

    Attributes:
        name: The name of the node or type.
        resources: Resources in Ray's units: ``CPU``, ``GPU``, ``memory`` in bytes, and custom ones.
        count: Nodes of this shape, 1 for a live node.
    """

    name: str
    resources: Mapping[str, float]
    count: int = 1


def asked_of_a_node(resources: Resources) -> dict[str, float]:
    """Return the request of one worker, as Ray names the resources."""
    asked = {
        "CPU": float(resources.num_cpus),
        "GPU": resources.num_gpus,
        "memory": float(resources.memory_bytes),
    }
    if resources.gpu_model:
        asked[accelerator(resources.gpu_model)] = 0.001
    return {kind: number for kind, number in asked.items() if number}


def accelerator(gpu_model: str) -> str:
    """Return the resource that Ray gives to nodes with GPUs of that model."""
    return f"accelerator_type:{gpu_model}"


def slots(asked: Mapping[str, float], nodes: Sequence[NodeShape]) -> int:
    """Return how many workers the nodes hold at once."""
    return sum(_slots_of(asked, node.resources) * node.count for node in nodes)


def infeasible_reason(resources: Resources, num_workers: int, nodes: Sequence[NodeShape]) -> str:
    """Return one sentence on why the cluster can never run such a trial; empty if it can."""
    asked = asked_of_a_node(resources)
    fit = slots(asked, nodes)
    if fit >= num_workers:
        return ""
    wants = (
        f"{num_workers} workers with {format_request(asked)} each"
        if num_workers > 1
        else (format_request(asked))
    )
    room = (
        f"the cluster has room for {fit} of them; it has"
        if fit
        else ("no node has that; the cluster has")
    )
    return f"a trial asks for {wants}, and {room} {_nodes_in_words(nodes)}"


def waiting_reason(
    asked: Mapping[str, float], nodes: Sequence[NodeShape], free: Sequence[NodeShape]
) -> str:
    """Return what a feasible trial waits for."""
    if not slots(asked, nodes):
        return f"no node has {format_request(asked)} yet; the cluster must start one"
    if slots(asked, free):
        return "a worker process is starting"
    fitting = [node for node in nodes if _slots_of(asked, node.resources)]
    return f"asks for {format_request(asked)}; {_busy(fitting, free)}"


def format_request(asked: Mapping[str, float]) -> str:
    """Format a request, for example ``2 CPU, 1 GPU (A100)``."""
    model = next((k.partition(":")[2] for k in asked if k.startswith("accelerator_type:")), "")
    parts = [
        f"{_number(kind, number)} {_SHOWN.get(kind, kind)}"
        + (f" ({model})" if kind == "GPU" and model else "")
        for kind, number in asked.items()
        if not kind.startswith("accelerator_type:")
    ]
    return ", ".join(parts) or "nothing"


def _busy(fitting: Sequence[NodeShape], free: Sequence[NodeShape]) -> str:
    """Format the free resources, for example ``1 of 8 CPU free on 2 nodes``."""
    names = {node.name for node in fitting}
    parts = []
    for kind in ("CPU", "GPU"):
        total = sum(node.resources.get(kind, 0.0) for node in fitting)
        idle = sum(node.resources.get(kind, 0.0) for node in free if node.name in names)
        if total:
            parts.append(f"{idle:g} of {total:g} {kind}")
    return f"{', '.join(parts)} free on {_count(len(fitting), 'node')}"


def _slots_of(asked: Mapping[str, float], has: Mapping[str, float]) -> int:
    if any(number > has.get(kind, 0.0) for kind, number in asked.items()):
        return 0
    # Rounded first, because 1.0 / 0.1 must be ten.
    return min((int(round(has[kind] / number, 6)) for kind, number in asked.items()), default=1)


def _nodes_in_words(nodes: Sequence[NodeShape]) -> str:
    """Format nodes that run trials, for example ``2 nodes with 4 CPU and 1 node with 8 CPU``."""
    counts: Counter[str] = Counter()
    for node in sorted(nodes, key=lambda node: -node.resources.get("CPU", 0.0)):
        has = {
            kind: number
            for kind, number in node.resources.items()
            if kind in _SHOWN or kind.startswith("accelerator_type:")
        }
        if has.get("CPU") or has.get("GPU"):
            spelt = format_request({kind: has[kind] for kind in (*_SHOWN, *has) if kind in has})
            counts[spelt] += node.count
    parts = [f"{_count(number, 'node')} with {spelt}" for spelt, number in counts.items()]
    return " and ".join(parts) + "." if parts else "no node that runs trials."


def _count(number: int, noun: str) -> str:
    if number >= MANY:
        return f"any number of {noun}s"
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _number(kind: str, number: float) -> str:
    return f"{round(number / _GIB, 1):.12g}" if kind == "memory" else f"{number:g}"
