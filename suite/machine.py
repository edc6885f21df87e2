"""What does this machine have? Trials that ask for more are refused before anything runs."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

from suite.events import Unavailable, Work

_GIB = 2**30


def refuse_too_large(work: Work) -> None:
    """Refuse trials that can never run here.

    Raises:
        Unavailable: with what a trial asks for, and what there is.
    """
    if any(trial.parallel for trial, _ in work) and find_spec("deepspeed") is None:
        raise Unavailable("trials with workers or zero need DeepSpeed, which is not installed.")
    has = _has()
    for resources, num_workers in {(asked, trial.num_workers) for trial, asked in work}:
        wanted = {
            "CPU": num_workers * float(resources.num_cpus),
            "GPU": num_workers * resources.num_gpus,
            "GiB of memory": num_workers * resources.memory_bytes / _GIB,
        }
        for kind, number in wanted.items():
            if number > has[kind]:
                raise Unavailable(
                    f"a trial asks for {number:g} {kind}, and this machine has {has[kind]:.4g}; "
                    "use a smaller --scale, or --address HOST:PORT of a Ray cluster that has them."
                )


def _has() -> dict[str, float]:
    pages, bytes_of_a_page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "CPU": float(os.cpu_count() or 1),
        "GPU": float(torch.cuda.device_count()),
        "GiB of memory": pages * bytes_of_a_page / _GIB,
    }
