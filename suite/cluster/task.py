"""A trial's turn -> a Ray task that streams what the trial says.

Ray retries nothing (`max_retries=0`): a hidden retry would log twice and mix timings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray._private.worker import global_worker
from ray.util.placement_group import NODE_ID_LABEL_KEY
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from suite.cluster.capacity import accelerator
from suite.cluster.line import Turn
from suite.cluster.nodes import TIMING
from suite.events import Event, ExecutorSettings
from suite.schema import Resources, Trial


def submit(
    turn: Turn, luggage: ExecutorSettings, elsewhere: Sequence[str] = ()
) -> ray.ObjectRefGenerator:
    """Hand the trial to Ray; never to the nodes of those ids, however long it then waits.

    A trial that has a node to itself, or a GPU, gets a fresh process: what an earlier trial left
    in caches or on the card would be in its number. An environment of its own keeps Ray from
    handing it a used one, and `max_calls=1` from using it again.
    """
    if turn.trial.parallel is not None:
        task = _stream_of_workers.options(num_cpus=0, runtime_env=_own_environment(turn))
    elif turn.node is not None:
        task = _stream_once.options(**_whole(turn), runtime_env=_own_environment(turn))
    elif turn.resources.num_gpus:
        asked = {**_share(turn), **_away_from(elsewhere)}
        task = _stream_once.options(**asked, runtime_env=_own_environment(turn))
    else:
        task = _stream.options(**_share(turn), **_away_from(elsewhere))
    return task.remote(turn.trial, turn.resources, luggage)


def _share(turn: Turn) -> dict[str, Any]:
    """As much of a node as it asks for."""
    options: dict[str, Any] = {
        "num_cpus": turn.resources.num_cpus,
        "num_gpus": turn.resources.num_gpus,
    }
    if turn.resources.memory_bytes:
        options["memory"] = turn.resources.memory_bytes
    if turn.resources.gpu_model:
        options["resources"] = {accelerator(turn.resources.gpu_model): 0.001}
    return options


def _away_from(nodes: Sequence[str]) -> dict[str, Any]:
    """No wish, since Ray would leave it at that as soon as the other nodes are busy."""
    return {"label_selector": {NODE_ID_LABEL_KEY: f"!in({', '.join(nodes)})"}} if nodes else {}


def _whole(turn: Turn) -> dict[str, Any]:
    """All CPUs of its node, so that nothing else, of whatever job, runs there; and whole GPUs."""
    assert turn.node is not None, "only a trial with a node of its own takes all of it"
    options = _share(turn)
    options["num_cpus"] = turn.node.resources["CPU"]
    options["num_gpus"] = -(-turn.resources.num_gpus // 1)
    if turn.node.resources.get(TIMING):
        options["resources"] = {**options.get("resources", {}), TIMING: 1}
    options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(turn.node.name, soft=False)
    return options


def _own_environment(turn: Turn) -> dict[str, Any]:
    """Without the second variable Ray would set it to the CPUs that it hands out."""
    return {
        "env_vars": {
            "BAKEOFF_TRIAL": f"{turn.trial.trial_id}.{turn.attempt}",
            "OMP_NUM_THREADS": str(turn.resources.num_threads),
        }
    }


def _stream_trial(trial: Trial, resources: Resources, luggage: ExecutorSettings) -> Iterator[Event]:
    from suite.execution.trial import run_trial
    from suite.timeouts import limited
    from suite.training.checkpoint import checkpointer_for

    _find_own_modules(luggage)
    if not resources.num_gpus:  # Ray shows them to everybody
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    checkpointer = checkpointer_for(trial, luggage.checkpoints)
    events = run_trial(trial, resources, _place(), checkpointer)
    yield from limited(events, luggage.trial_seconds)


def _stream_trial_of_workers(
    trial: Trial, resources: Resources, luggage: ExecutorSettings
) -> Iterator[Event]:
    from suite.cluster.multi_worker import run_trial_of_workers

    _find_own_modules(luggage)
    yield from run_trial_of_workers(trial, resources, _place(), luggage.checkpoints)


def _find_own_modules(luggage: ExecutorSettings) -> None:
    sys.path[:0] = [path for path in luggage.source_paths if path not in sys.path]


def _place() -> str:
    """As ``node 1a2b3c4d at 10.0.0.7, process 4711``."""
    node = ray.get_runtime_context().get_node_id()[:8]
    return f"node {node} at {global_worker.node_ip_address}, process {os.getpid()}"


def node_of(place: str) -> str:
    """The beginning of the id of the node that a place names."""
    return place.split()[1] if place.startswith("node ") else ""


_stream = ray.remote(max_retries=0, num_returns="streaming")(_stream_trial)
_stream_once = ray.remote(max_retries=0, max_calls=1, num_returns="streaming")(_stream_trial)
_stream_of_workers = ray.remote(max_retries=0, max_calls=1, num_returns="streaming")(
    _stream_trial_of_workers
)
