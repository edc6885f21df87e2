"""Run a trial of several workers: processes of Ray Train, with DeepSpeed inside.

Every worker runs the same trial; the points and the result are those of the first one, an error may
come from any. If a worker dies the others end too, and all continue from the newest checkpoint, at
most twice. An exception is a finding: workers that Train restarts after it detect that the trial
has ended.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# Read by the trainer: how soon it detects that a worker has ended (2 s by default), and whether a
# worker starts in the folder that the user's relative paths refer to. Read by the workers: whether
# `print` goes to a log of Train instead of the output that is kept with a failure.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")

import ray
from ray.exceptions import OutOfMemoryError

from bakeoff.suite.cluster.capacity import asked_of_a_node
from bakeoff.suite.cluster.worker import MARK, Mailbox, WorkerConfig, work
from bakeoff.suite.events import (
    Event,
    ExecutorSettings,
    Finished,
    Progressed,
    Started,
    code_for,
)
from bakeoff.suite.execution.output import with_left_output
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Point, Provenance, Resources, Result, Status, Trial

_MOST_DEATHS = 2  # lost workers after which the trial still continues from its checkpoint
_SECONDS_BETWEEN_LOOKS = 0.3


def run_trial_of_workers(
    trial: Trial, resources: Resources, place: str, settings: ExecutorSettings
) -> Iterator[Event]:
    """Run the trial from its newest checkpoint; yield its points, and its result last.

    This is called by a Ray task of no CPUs: the workers have the resources of the trial. When the
    result is yielded they have ended and their resources are free. Checkpoints stay until the
    result is committed.

    `Started` is yielded once here, and again, with the provenance of the workers, whenever they
    start.
    """
    yield Started(trial.trial_id, place)
    checkpoints = settings.checkpoints
    absolute = replace(checkpoints, folder=checkpoints.folder.resolve())
    mailbox = ray.remote(num_cpus=0)(Mailbox).remote()
    import_paths = tuple(str(Path(path).resolve()) for path in sys.path)
    code = code_for(trial, settings.code)
    config = WorkerConfig(trial, resources, place, absolute, import_paths, mailbox, code)
    trainer, events = _TrainerThread(config), _NewEvents(trial.trial_id)
    trainer.start()
    while trainer.is_alive():
        trainer.join(_SECONDS_BETWEEN_LOOKS)
        yield from events.among(ray.get(mailbox.take.remote()))
    yield from events.among(ray.get(mailbox.take.remote()))
    yield Finished(events.result or _crashed(config, trainer.error, events))


@dataclass
class _NewEvents:
    """A filter of events that drops points which a worker repeats after a restart."""

    trial_id: str
    known: set[tuple[str, int]] = field(default_factory=set)
    points: list[Point] = field(default_factory=list)
    provenance: Provenance | None = None
    result: Result | None = None

    def among(self, events: list[Event]) -> Iterator[Event]:
        """Yield the events to pass on; hold back the result until the workers are gone."""
        for event in events:
            if isinstance(event, Finished):
                self.result = self.result or event.result
            elif isinstance(event, Progressed):
                new = tuple(p for p in event.points if (p.metric, p.step) not in self.known)
                self.known.update((point.metric, point.step) for point in new)
                self.points.extend(new)
                if new:
                    yield Progressed(self.trial_id, new)
            else:
                if isinstance(event, Started):
                    self.provenance = event.provenance
                yield event


class _TrainerThread(threading.Thread):
    """A thread of Ray Train, whose `fit` returns when the workers are gone."""

    def __init__(self, config: WorkerConfig) -> None:
        super().__init__(daemon=True)
        self.error: BaseException | None = None
        self._config = config

    def run(self) -> None:
        try:
            self._config.folder.mkdir(parents=True, exist_ok=True)
            (self._config.folder / MARK).touch()
            _trainer(self._config).fit()
        except Exception as error:  # otherwise the thread would end unnoticed
            self.error = error


def _trainer(config: WorkerConfig) -> Any:
    from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    has_gpus = bool(config.resources.num_gpus)
    return TorchTrainer(
        work,
        train_loop_config={"config": config},
        torch_config=TorchConfig(backend="nccl" if has_gpus else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=config.trial.num_workers,
            use_gpu=has_gpus,
            resources_per_worker=asked_of_a_node(config.resources),
        ),
        run_config=RunConfig(
            name=config.trial.trial_id,
            storage_path=str(config.checkpoints.folder),
            failure_config=FailureConfig(max_failures=_MOST_DEATHS),
            logging_config=LoggingConfig(log_level="ERROR"),
        ),
    )


def _crashed(config: WorkerConfig, error: BaseException | None, events: _NewEvents) -> Result:
    """Return the failure of a trial whose workers left no result, with their output."""
    failures = list(getattr(error, "worker_failures", {}).values())
    is_memory = any(isinstance(failure, OutOfMemoryError) for failure in failures)
    cause = _sentence(failures[0] if failures else error)
    result = Result(
        trial_id=config.trial.trial_id,
        seconds=0.0,
        points=tuple(events.points),
        provenance=events.provenance or provenance(config.resources),
        status=Status.OUT_OF_MEMORY if is_memory else Status.CRASHED,
        reason=f"its workers died {_MOST_DEATHS + 1} times: {cause}" if failures else cause,
        traceback=str(error),
    )
    return with_left_output(result, config.checkpoints)


def _sentence(error: BaseException | None) -> str:
    lines = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    return lines[0] if lines else f"its workers ended without a result ({type(error).__name__})"
