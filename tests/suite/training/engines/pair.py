"""Run two communicating processes, as Ray Train would start them, but without Ray."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def on_two_workers(function: Callable[..., Any], folder: Path, *arguments: Any) -> Any:
    """Call `function(*arguments)` on two workers and return the result of the first one.

    Warnings are errors in the workers. Both processes have ended on return.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.multiprocessing.spawn(_enter, (function, folder, arguments), nprocs=2)
    return pickle.loads((folder / "said").read_bytes())


def no_pickle(*arguments: Any, **named: Any) -> None:
    """Raise AssertionError; replaces `torch.save` and `torch.load`."""
    raise AssertionError("something is pickled")


def _enter(rank: int, function: Callable[..., Any], folder: Path, arguments: Any) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    said = function(*arguments)
    if rank == 0:
        (folder / "said").write_bytes(pickle.dumps(said))
    dist.barrier()
    dist.destroy_process_group()
