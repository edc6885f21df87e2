"""Use parts of Ray that have no public interface; no other module imports `ray._private`.

Written for Ray 2.60; `pyproject.toml` excludes later minor releases, because any may change them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import services, worker
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray._private.state import state
from ray.core.generated import gcs_pb2
from ray.job_config import JobConfig
from ray.util.placement_group import PlacementGroup, remove_placement_group

from bakeoff.suite.places import PACKAGE, program_folder

_SECONDS_TO_START_A_NODE = 60.0


def is_job() -> bool:
    """Return True if Ray started this process as a job, with its code in place."""
    return bool(os.environ.get(RAY_JOB_CONFIG_JSON_ENV_VAR))


def print_nothing() -> None:
    """Keep Ray from printing ten lines for each dead worker, which the executor reports in one.

    `log_to_driver` and the logging level do not affect these messages.
    """
    worker.print_to_stdstream = lambda *what, **how: None


class InstalledFirst(JobConfig):  # type: ignore[misc]
    """A job whose workers do not import from the driver's folders before the installed packages.

    Ray puts the folder of the program and the current one first on their path, unless the job has a
    working directory. These entries stay only if our own package is in those folders.
    """

    def __init__(self) -> None:
        above = str(PACKAGE.parent)
        super().__init__(
            _py_driver_sys_path=[above] if above in (os.getcwd(), program_folder()) else []
        )

    def _runtime_env_has_working_dir(self) -> bool:
        return True


@contextmanager
def waiting_longer_for_a_node() -> Iterator[None]:
    """Give a node of this machine a minute to start, which it may need on a busy machine.

    Ray gives up after 30 seconds, by a constant (`raylet_start_wait_time_s` in
    `ray/_private/node.py`); but it sets no limit on each look-up of the node.
    """
    look_up = services.get_node

    def look_up_patiently(*arguments: Any) -> Any:
        until = time.monotonic() + _SECONDS_TO_START_A_NODE
        while True:
            try:
                return look_up(*arguments)
            except RuntimeError:  # the node has not registered yet
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    services.get_node = look_up_patiently
    try:
        yield
    finally:
        services.get_node = look_up


def end_process_after_this_task(most_calls: int) -> None:
    """Let the worker process end once its task is over and all its output was sent.

    Ray does this after the last of `max_calls`; a process that exits by itself may lose a result.
    Every count is set to the last call but one; Ray adds this call at its end.
    """
    counts = worker.global_worker.function_actor_manager._num_task_executions
    for function in counts:
        counts[function] = most_calls - 1


def free_resources() -> Mapping[str, Mapping[str, float]]:
    """Return the free resources of each node; `ray.available_resources` has only the sum."""
    found: Mapping[str, Mapping[str, float]] = state.available_resources_per_node()
    return found


def node_groups() -> list[Any]:
    """Return the node types of the autoscaler; empty without one. This has no public API."""
    config = state.get_cluster_config()
    return list(config.node_group_configs) if config is not None else []


def remove_orphaned_groups() -> int:
    """Remove the placement groups of this job whose creator has died; return their number.

    If the task of a trial of several workers is killed, the workers end with it, but the group that
    Ray Train made for them holds its resources until the whole job ends (ray-project/ray issue
    65881). Train's own cleaner asks the dashboard, which a Ray of this machine does not have; and
    `ray.util.placement_group_table` does not tell whether the creator is alive.
    """
    job = ray.get_runtime_context().get_job_id()
    table = state._connect_and_get_accessor().get_placement_group_table()
    orphans = [
        group
        for group in map(gcs_pb2.PlacementGroupTableData.FromString, table)
        if group.creator_actor_dead
        and group.creator_job_id.hex() == job
        and group.state != gcs_pb2.PlacementGroupTableData.REMOVED
    ]
    for orphan in orphans:
        remove_placement_group(PlacementGroup(ray.PlacementGroupID(orphan.placement_group_id)))
    return len(orphans)
