"""Lets processes compute on a GPU at the same time, by NVIDIA's MPS, where the machine has it.

Without it their kernels take turns: each has the whole GPU for a slice of time, so that small
kernels leave most of it idle. The daemon is started for a sweep's trainings and ended before its
timings. Where it cannot be started, or a process cannot compute through it (as in many containers),
the GPU is shared by time.

Source: NVIDIA, "Multi-Process Service" (docs.nvidia.com/deploy/mps).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from suite.events import Assignments

PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_CONTROL = "nvidia-cuda-mps-control"
_A_CLIENT = "import torch; torch.ones(1, device='cuda').sum().item()"
_SECONDS = 60.0  # for the daemon to start or to end, and for its first client


@contextmanager
def shared_gpus(work: Assignments) -> Iterator[Mapping[str, str]]:
    """What the environment of processes that share a GPU needs; nothing without MPS.

    A daemon that runs already, as the environment says, is used and left running.
    """
    is_asked = any(resources.is_shared for _, resources in work)
    if not is_asked or PIPES in os.environ or shutil.which(_CONTROL) is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="bakeoff-mps-") as folder:
        variables = {PIPES: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        # The daemon sees all GPUs: then their numbers mean the same to its clients.
        given = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"} | variables
        is_served = _succeeds([_CONTROL, "-d"], given) and _succeeds(
            [sys.executable, "-c", _A_CLIENT], os.environ | variables
        )
        try:
            yield variables if is_served else {}
        finally:
            _succeeds([_CONTROL], given, said="quit\n")


def _succeeds(command: list[str], environment: Mapping[str, str], said: str = "") -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            env=environment,
            input=said.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
        return done.returncode == 0
    return False
