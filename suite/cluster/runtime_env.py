"""How does Ray bring a parcel to where it runs? As the `runtime_env` of a job.

py_modules are our packages, which come before whatever the cluster has installed; working_dir is
the user's own files, where the driver stands and from which every worker imports. Dependencies are
the cluster's affair. All of it can be read by whoever sees the cluster, so nothing in it is secret.
"""

from __future__ import annotations

from typing import Any

from suite.errors import QUIET
from suite.parcel import Parcel
from suite.provenance import COMMIT, commit

_SECONDS_TO_CLOSE_THE_BOOKS = (
    120  # the job's supervisor, which reads this, kills after 3 by default
)


def runtime_env(parcel: Parcel) -> dict[str, Any]:
    """For Ray's `submit_job` or `init`, both of which upload the folders."""
    return {
        "py_modules": [str(folder) for folder in parcel.packages],
        "working_dir": str(parcel.files),
        "env_vars": {
            COMMIT: commit(),
            **QUIET,
            "RAY_JOB_STOP_WAIT_TIME_S": str(_SECONDS_TO_CLOSE_THE_BOOKS),
        },
    }
