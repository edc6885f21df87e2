"""What does each worker of a trial do? It runs the trial, as every other does, and tells of it.

The first worker speaks for all; a worker that fails says so itself, and takes the others down.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from suite.events import Checkpoints, Event, Finished, Progressed, Remarked
from suite.schema import Resources, Status, Trial
from suite.training.checkpoint import Checkpointer

if TYPE_CHECKING:
    from suite.probes.probe import Said

_LOST_CONNECTION = re.compile(
    r"gloo.*(connection closed|connection reset|broken pipe)|nccl (error|communicator|watchdog)",
    re.IGNORECASE | re.DOTALL,
)
MARK = "shared"  # a file by which workers see that they stand in the same folder


class _LostOther(BaseException):
    """Another worker has gone. No Exception, since that would become the trial's result."""


class NotShared(RuntimeError):
    """The folder of checkpoints is not the same one on all hosts: one sentence."""


@dataclass(frozen=True)
class Order:
    """What a worker is told."""

    trial: Trial
    resources: Resources
    place: str
    checkpoints: Checkpoints
    import_paths: tuple[str, ...]
    mailbox: Any  # a handle of `Mailbox`

    @property
    def folder(self) -> Path:
        """Of this trial's checkpoints."""
        return self.checkpoints.folder / self.trial.trial_id


class Mailbox:
    """An actor: what the workers say, until somebody fetches it; and whether the trial is over."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._is_over = False

    def put(self, event: Event) -> None:
        """A worker says this."""
        self._events.append(event)
        self._is_over = self._is_over or isinstance(event, Finished)

    def take(self) -> list[Event]:
        """Everything since the last time."""
        events, self._events = self._events, []
        return events

    def is_over(self) -> bool:
        """Whether a result has come."""
        return self._is_over


def work(config: dict[str, Order]) -> None:
    """For Ray Train's `train_loop_per_worker`.

    Raises:
        RuntimeError: where the trial did, so that Train ends the others; what it says is told.
    """
    order = config["order"]
    if ray.get(order.mailbox.is_over.remote()):
        return
    sys.path[:0] = [path for path in order.import_paths if path not in sys.path]
    from suite.execution.trial import run_measuring

    rank = ray.train.get_context().get_world_rank()
    try:
        for event in run_measuring(order.trial, order.resources, order.place, _measuring(order)):
            _pass_on(event, rank, order)
    except _LostOther as error:
        raise RuntimeError(f"another worker has gone: {error}") from error


def _pass_on(event: Event, rank: int, order: Order) -> None:
    """The first worker speaks for all; whoever fails says so, and takes the others down."""
    if isinstance(event, Progressed | Remarked) and rank == 0:
        order.mailbox.put.remote(event)
    if not isinstance(event, Finished):
        return
    status = event.result.status
    if rank == 0 or status is not Status.OK:
        ray.get(order.mailbox.put.remote(event))
    if status not in (Status.OK, Status.DIVERGED):  # divergence all have seen alike
        raise RuntimeError(f"the trial ended: {event.result.reason}")


def _measuring(order: Order) -> Callable[[], Iterator[Said]]:
    """What the trial's probe says on this worker."""

    def measure() -> Iterator[Said]:
        from suite.execution.trial import device_of
        from suite.probes.registry import probe
        from suite.probes.spread import SpreadProbe

        _refuse_unshared(order)
        device = device_of(order.resources)
        if device != "cpu":
            import torch

            torch.cuda.set_device(ray.train.torch.get_device())
        kind = probe(order.trial.probe)
        assert isinstance(kind, SpreadProbe), "only such a probe's trials have workers"
        is_first = ray.train.get_context().get_world_rank() == 0
        seconds_between = order.checkpoints.seconds_between
        checkpointer = Checkpointer(order.folder, seconds_between, is_first=is_first)
        try:
            yield from kind.measure_on_workers(order.trial, device, checkpointer)
        except Exception as error:
            if _is_of_speaking(error):
                raise _LostOther(str(error)) from error
            raise

    return measure


def _is_of_speaking(error: Exception) -> bool:
    """Whether it was raised while workers spoke to each other, and by that alone.

    ZeRO-3 waits for what others send in frames of DeepSpeed, which raise errors of their own too.
    """
    from torch.distributed import DistBackendError

    innermost = list(traceback.walk_tb(error.__traceback__))[-1][0]
    module = str(innermost.f_globals.get("__name__", ""))
    if isinstance(error, DistBackendError) or module.startswith("torch.distributed."):
        return True
    is_of_deepspeed = isinstance(error, RuntimeError) and module.startswith("deepspeed.")
    return is_of_deepspeed and bool(_LOST_CONNECTION.search(str(error)))


def _refuse_unshared(order: Order) -> None:
    if not (order.folder / MARK).exists():
        raise NotShared(
            f"{order.checkpoints.folder} is not the same folder on host {os.uname().nodename} as "
            "on the others; a trial of workers on several hosts needs an --out that all share."
        )
