"""What does a trial of workers leave behind when its task is killed? Room that nobody uses.

The workers end with the task, but the placement group that Ray Train made for them stays until the
whole job ends: its maker is gone, and Ray asks for the job to be gone too (ray-project/ray issue
65881). Train's own cleaner asks the dashboard, which an embedded Ray does not have.
"""

from __future__ import annotations

import ray
from ray._private.state import state
from ray.core.generated import gcs_pb2
from ray.util.placement_group import PlacementGroup, remove_placement_group


def remove_orphaned_groups() -> int:
    """Give back what groups of this job hold whose maker has died; returns how many there were."""
    job = ray.get_runtime_context().get_job_id()
    accessor = state._connect_and_get_accessor()
    orphans = [
        group
        for group in map(_parsed, accessor.get_placement_group_table())
        if group.creator_actor_dead
        and group.creator_job_id.hex() == job
        and group.state != gcs_pb2.PlacementGroupTableData.REMOVED
    ]
    for orphan in orphans:
        remove_placement_group(PlacementGroup(ray.PlacementGroupID(orphan.placement_group_id)))
    return len(orphans)


def _parsed(serialised: bytes) -> gcs_pb2.PlacementGroupTableData:
    return gcs_pb2.PlacementGroupTableData.FromString(serialised)
