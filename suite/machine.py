"""What does this machine have? Trials that ask for more are refused before anything runs."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch

from suite.executor import Unavailable
from suite.schema import Resources


def refuse_too_large(asked: Iterable[Resources]) -> None:
    """Refuse trials that can never run here.

    Raises:
        Unavailable: with what a trial asks for, and what there is.
    """
    has = {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}
    for resources in asked:
        wanted = {"CPU": float(resources.num_cpus), "GPU": resources.num_gpus}
        for kind, number in wanted.items():
            if number > has[kind]:
                raise Unavailable(
                    f"a trial asks for {number:g} {kind}, and this machine has {has[kind]:g}; use "
                    "a smaller --scale, or --address HOST:PORT of a Ray cluster that has them."
                )
