"""Run a trial on one of its several workers, and send its events to the waiting task.

The first worker reports for all; a worker that fails reports its failure, and ends the others.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from bakeoff.suite.events import (
    Checkpoints,
    Event,
    Finished,
    PlannedCode,
    Progressed,
    Remarked,
    Started,
)
from bakeoff.suite.schema import Resources, Status, Trial
from bakeoff.suite.stopping import TrainingStopped
from bakeoff.suite.training.checkpoint import checkpointer_for

if TYPE_CHECKING:
    from bakeoff.suite.probes.probe import Said

_LOST_CONNECTION = re.compile(
    r"gloo.*(connection closed|connection reset|broken pipe)|nccl (error|communicator|watchdog)",
    re.IGNORECASE | re.DOTALL,
)
MARK = "shared"  # a file that shows the workers that they share the folder


class _LostOther(BaseException):
    """Raised if another worker has gone; an Exception would become the trial's result."""


class NotShared(RuntimeError):
    """Raised if the folder of checkpoints is not the same one on all hosts."""


@dataclass(frozen=True)
class WorkerConfig:
    """The arguments of a worker."""

    trial: Trial
    resources: Resources
    place: str
    checkpoints: Checkpoints
    import_paths: tuple[str, ...]
    mailbox: Any  # a handle of `Mailbox`
    code: PlannedCode | None = None

    @property
    def folder(self) -> Path:
        """The folder of this trial's checkpoints."""
        return self.checkpoints.folder / self.trial.trial_id


class Mailbox:
    """An actor that keeps the workers' events until they are fetched."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._is_over = False

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.append(event)
        self._is_over = self._is_over or isinstance(event, Finished)

    def take(self) -> list[Event]:
        """Return all events since the last call."""
        events, self._events = self._events, []
        return events

    def is_over(self) -> bool:
        """Return True if there was a result."""
        return self._is_over


def work(loop_config: dict[str, WorkerConfig]) -> None:
    """Run the trial on this worker, as Ray Train's `train_loop_per_worker`.

    Raises:
        RuntimeError: If the trial failed, so that Train ends the other workers.
    """
    config = loop_config["config"]
    if ray.get(config.mailbox.is_over.remote()):
        return
    sys.path += [path for path in config.import_paths if path not in sys.path]
    from bakeoff.suite.execution.output import captured_output, with_output
    from bakeoff.suite.execution.planned_code import import_only
    from bakeoff.suite.execution.trial import run_measuring

    import_only(config.code)
    rank, measure = ray.train.get_context().get_world_rank(), partial(_measure, config)
    with captured_output(config.checkpoints, config.trial.trial_id, rank) as output:
        try:
            for event in run_measuring(config.trial, config.resources, config.place, measure):
                _pass_on(with_output(event, output), rank, config)
        except TrainingStopped:  # on all workers alike; the driver is about to end Ray
            return
        except _LostOther as error:
            raise RuntimeError(f"another worker ended: {error}") from error


def _pass_on(event: Event, rank: int, config: WorkerConfig) -> None:
    """Report for all workers from the first; a worker that fails reports, and ends the others."""
    if isinstance(event, Started | Progressed | Remarked) and rank == 0:
        config.mailbox.put.remote(event)
    if not isinstance(event, Finished):
        return
    status = event.result.status
    if rank == 0 or status is not Status.OK:
        ray.get(config.mailbox.put.remote(event))
    if status not in (Status.OK, Status.DIVERGED):  # all workers diverge alike
        raise RuntimeError(f"the trial ended: {event.result.reason}")


def _measure(config: WorkerConfig) -> Iterator[Said]:
    """Yield what the trial's probe measures on this worker."""
    from bakeoff.suite.execution.trial import device_of
    from bakeoff.suite.probes.probe import SpreadProbe, probe

    if not (config.folder / MARK).exists():
        raise NotShared(
            f"{config.checkpoints.folder} is not the same folder on host {os.uname().nodename} as "
            "on the others; a trial of workers on several hosts needs an --out that all share."
        )
    device = device_of(config.resources)
    if device != "cpu":
        import torch

        torch.cuda.set_device(ray.train.torch.get_device())
    kind = probe(config.trial.probe)
    assert isinstance(kind, SpreadProbe), "only such a probe's trials have workers"
    is_first = ray.train.get_context().get_world_rank() == 0
    checkpointer = checkpointer_for(config.trial, config.checkpoints, is_first=is_first)
    assert checkpointer is not None, "the folder is there: see above"
    try:
        yield from kind.measure_on_workers(config.trial, device, checkpointer)
    except Exception as error:
        if _is_lost_connection(error):
            raise _LostOther(str(error)) from error
        raise


def _is_lost_connection(error: Exception) -> bool:
    """Return True if the error was raised because the connection to another worker was lost.

    ZeRO-3 receives data from other workers inside DeepSpeed's functions, which raise errors of
    their own too.
    """
    from torch.distributed import DistBackendError

    innermost = list(traceback.walk_tb(error.__traceback__))[-1][0]
    module = str(innermost.f_globals.get("__name__", ""))
    if isinstance(error, DistBackendError) or module.startswith("torch.distributed."):
        return True
    is_of_deepspeed = isinstance(error, RuntimeError) and module.startswith("deepspeed.")
    return is_of_deepspeed and bool(_LOST_CONNECTION.search(str(error)))
