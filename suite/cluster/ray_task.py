"""Submit a trial as a Ray task that streams the trial's events.

Ray must not retry (`max_retries=0`): a hidden retry would log twice and mix timings.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import psutil
import ray
from ray.util import get_node_ip_address
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bakeoff.suite.cluster.capacity import accelerator
from bakeoff.suite.cluster.nodes import TIMING, live_nodes
from bakeoff.suite.cluster.ray_private import end_process_after_this_task
from bakeoff.suite.cluster.trial_queue import TrialAttempt
from bakeoff.suite.events import Event, ExecutorSettings, Remarked, code_for, runs_own_code
from bakeoff.suite.schema import Resources, Trial
from bakeoff.suite.stopping import TrainingStopped

_SECONDS_TO_KILL = 5.0
_MOST_CALLS = 1_000_000  # calls of a shared process
_NODE_ID_LABEL = "ray.io/node-id"  # set by Ray on every node


def submit(
    attempt: TrialAttempt, settings: ExecutorSettings, avoided: Sequence[str] = ()
) -> ray.ObjectRefGenerator:
    """Submit the trial to Ray; it never runs on the avoided nodes, even if it then has to wait.

    A trial with a node to itself, a GPU, or user code, gets a new process: otherwise leftovers of
    an earlier trial in caches or on the card would affect its number, and changes that user code
    makes in its process would affect that of a later one. An environment of its own prevents Ray
    from assigning a used process, and `max_calls=1` from reusing it. The other trials share guarded
    processes.
    """
    if attempt.trial.parallel is not None:
        task = _stream_of_workers.options(num_cpus=0, runtime_env=_own_environment(attempt))
    elif attempt.node is not None:
        task = _stream_once.options(**_whole(attempt), runtime_env=_own_environment(attempt))
    elif attempt.resources.num_gpus or runs_own_code(attempt.trial):
        asked = {**_share(attempt), **_away_from(avoided)}
        task = _stream_once.options(**asked, runtime_env=_own_environment(attempt))
    else:
        task = _stream.options(**_share(attempt), **_away_from(avoided))
    given = (attempt.trial, attempt.resources, settings)
    return task.remote(*given, attempt.why_eager) if attempt.why_eager else task.remote(*given)


def _share(attempt: TrialAttempt) -> dict[str, Any]:
    """Return the options for the share of a node that the trial requests."""
    options: dict[str, Any] = {
        "num_cpus": attempt.resources.num_cpus,
        "num_gpus": attempt.resources.num_gpus,
    }
    if attempt.resources.memory_bytes:
        options["memory"] = attempt.resources.memory_bytes
    if attempt.resources.gpu_model:
        options["resources"] = {accelerator(attempt.resources.gpu_model): 0.001}
    return options


def _away_from(nodes: Sequence[str]) -> dict[str, Any]:
    """Return a hard constraint, because Ray ignores a soft one once the other nodes are busy."""
    return {"label_selector": {_NODE_ID_LABEL: f"!in({', '.join(nodes)})"}} if nodes else {}


def _whole(attempt: TrialAttempt) -> dict[str, Any]:
    """Return options for all CPUs of a node, so that no other job runs there; whole GPUs."""
    assert attempt.node is not None, "only a trial with a node of its own takes all of it"
    options = _share(attempt)
    options["num_cpus"] = attempt.node.resources["CPU"]
    options["num_gpus"] = -(-attempt.resources.num_gpus // 1)
    if attempt.node.resources.get(TIMING):
        options["resources"] = {**options.get("resources", {}), TIMING: 1}
    options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(attempt.node.name, soft=False)
    return options


def _own_environment(attempt: TrialAttempt) -> dict[str, Any]:
    """Return a unique environment, which also sets the threads that Ray would set otherwise."""
    again = ".eagerly" if attempt.why_eager else ""
    return {
        "env_vars": {
            "BAKEOFF_TRIAL": f"{attempt.trial.trial_id}.{attempt.number}{again}",
            "OMP_NUM_THREADS": str(attempt.resources.num_threads),
        }
    }


def _stream_trial(
    trial: Trial, resources: Resources, settings: ExecutorSettings, why_eager: str = ""
) -> Iterator[Event]:
    from bakeoff.suite.execution.output import captured_output, with_output
    from bakeoff.suite.execution.planned_code import import_only
    from bakeoff.suite.execution.trial import run_trial
    from bakeoff.suite.timeouts import limited
    from bakeoff.suite.training.checkpoint import checkpointer_for

    if code := code_for(trial, settings.code):
        import_only(code)
    if not resources.num_gpus:  # Ray makes them visible to every process
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    checkpointer = checkpointer_for(trial, settings.checkpoints)
    events = run_trial(trial, resources, _place(), checkpointer, why_eager=why_eager)
    # The stream ends without a result if the driver requested a stop; the driver waits for the end.
    with (
        suppress(TrainingStopped),
        captured_output(settings.checkpoints, trial.trial_id) as output,
    ):
        for event in limited(events, settings.trial_seconds):
            yield with_output(event, output)


def _stream_trial_guarded(
    trial: Trial, resources: Resources, settings: ExecutorSettings
) -> Iterator[Event]:
    """Stream a trial in a shared process; end the process if the trial changed it."""
    import torch

    import bakeoff.suite.execution.trial  # noqa: F401 - first, so that nothing of ours is imported between
    from bakeoff.suite.timing.global_state import GlobalState

    torch.set_num_threads(resources.num_threads)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    before = GlobalState()
    yield from _stream_trial(trial, resources, settings)
    if changes := before.changes():
        end_process_after_this_task(_MOST_CALLS)
        yield Remarked(trial.trial_id, f"it changed {changes}, so its process was ended")


def _stream_trial_of_workers(
    trial: Trial, resources: Resources, settings: ExecutorSettings
) -> Iterator[Event]:
    from bakeoff.suite.cluster.multi_worker import run_trial_of_workers

    yield from run_trial_of_workers(trial, resources, _place(), settings)


def _place() -> str:
    """Return the place of this process, for example ``node 1a2b3c4d at 10.0.0.7, process 4711``."""
    node = ray.get_runtime_context().get_node_id()[:8]
    return f"node {node} at {get_node_ip_address()}, process {os.getpid()}"


def node_of(place: str) -> str:
    """Return the prefix of the id of the node that a place names."""
    return place.split()[1] if place.startswith("node ") else ""


def kill(stream: ray.ObjectRefGenerator, place: str) -> None:
    """End a trial that does not end itself, on its node.

    The node kills the process with a task that requests no resources, because a process that hangs
    in C, or was stopped by a signal, does not respond to Ray. This waits for the task, because the
    driver may end next.
    """
    ray.cancel(stream, force=True)
    node = next((n.name for n in live_nodes() if n.name.startswith(node_of(place))), None)
    if node is not None:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        pid = int(place.rpartition(" ")[2])  # 4711 in "node 1a2b3c4d at 10.0.0.7, process 4711"
        killed = _kill.options(scheduling_strategy=there).remote(pid)
        ray.wait([killed], timeout=_SECONDS_TO_KILL)


def _kill_family(pid: int) -> None:
    """Kill a worker of Ray, its children, and its process group if it leads one."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid)
        if not any(part.startswith("ray::") for part in process.cmdline()):
            return  # the process id belongs to another process by now
        family = [process, *process.children(recursive=True)]
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()


_kill = ray.remote(num_cpus=0, max_retries=0)(_kill_family)
_stream = ray.remote(max_retries=0, max_calls=_MOST_CALLS, num_returns="streaming")(
    _stream_trial_guarded
)
_stream_once = ray.remote(max_retries=0, max_calls=1, num_returns="streaming")(_stream_trial)
_stream_of_workers = ray.remote(max_retries=0, max_calls=1, num_returns="streaming")(
    _stream_trial_of_workers
)
