"""Names the points where a sweep can fail, and wraps their functions to inject faults, count, time.

A step is a function of the product that is wrapped in the process under test; the product itself
has no code for this. A test fails if a function is renamed (tests/tools/test_faults.py). To watch
one or more faults:

    python -m tools.chaos.faults "kill:before:journal: commit:2" -- run FILE --out DIR
"""

from __future__ import annotations

import errno
import functools
import importlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

When = Literal["before", "after"]
Kind = Literal["kill", "no-space", "io-error"]

# Every step between plan and report, in the order of a sweep: its name, and its function as
# ``module:qualified.name``. Each step is two points, before it and after it.
STEPS: dict[str, str] = {
    "the folder is locked": "bakeoff.suite.sweep.driver:lock_folder",
    "the journal is opened": "bakeoff.suite.journal.journal:opened",
    "the plan is noted": "bakeoff.suite.journal.journal:Journal.keep_plan",
    "the writer starts": "bakeoff.suite.sweep.mlflow_sync:MlflowSync.start",
    "the writer connects": "bakeoff.suite.tracking.write:RunWriter.__init__",
    "the store's tables are made": "bakeoff.suite.tracking.connect:_create_database",
    "the sweep is opened in the store": "bakeoff.suite.tracking.write:RunWriter.open_sweep",
    "store: find experiments": "bakeoff.suite.tracking.client:MlflowStore.ablations",
    "store: create experiment": "bakeoff.suite.tracking.client:MlflowStore.new_experiment",
    "store: search": "bakeoff.suite.tracking.client:MlflowStore.runs",
    "store: create run": "bakeoff.suite.tracking.client:MlflowStore.create",
    "store: log inputs": "bakeoff.suite.tracking.client:MlflowStore.log_data_sets",
    "store: log batch": "bakeoff.suite.tracking.client:MlflowStore.log",
    "store: put files": "bakeoff.suite.tracking.client:MlflowStore.put_files",
    "store: end run": "bakeoff.suite.tracking.client:MlflowStore.end",
    "what is missing is found": "bakeoff.suite.sweep.driver:pending_work",
    "journal: begin": "bakeoff.suite.journal.journal:Journal.begin",
    "a step of training": "bakeoff.suite.training.engines.local:LocalEngine.step",
    "a validation": "bakeoff.suite.training.engines.local:LocalEngine.evaluate",
    "checkpoint: look for one": "bakeoff.suite.training.checkpoint:Checkpointer.latest",
    "checkpoint: write a file": "bakeoff.suite.training.tensor_io:create",
    "checkpoint: bytes": "os:write",
    "checkpoint: sync": "os:fsync",
    "checkpoint: publish": "bakeoff.suite.training.checkpoint:Checkpointer.publish",
    "checkpoint: manifest": "bakeoff.suite.training.checkpoint:write_manifest",
    "checkpoint: the folder takes its name": "os:rename",
    "checkpoint: sync the folder": "bakeoff.suite.training.tensor_io:fsync_folder",
    "checkpoint: remove an old one": "bakeoff.suite.training.tensor_io:remove_folder",
    "the test split is scored": "bakeoff.suite.probes.quality:evaluate_in_parts",
    "samples are taken": "bakeoff.suite.probes.quality:samples_of",
    "journal: commit": "bakeoff.suite.journal.journal:Journal.commit",
    "the writer is told": "bakeoff.suite.sweep.mlflow_sync:MlflowSync.send",
    "the trial is begun in the store": "bakeoff.suite.tracking.write:RunWriter.start_trial",
    "points are sent": "bakeoff.suite.tracking.write:RunWriter.log_points",
    "the result is shown": "bakeoff.suite.tracking.write:RunWriter.finish_trial",
    "frames are made": "bakeoff.suite.reporting.frames:sweep_files",
    "frames are published": "bakeoff.suite.tracking.write:RunWriter.publish",
    "the writer ends": "bakeoff.suite.sweep.mlflow_sync:MlflowSync.close",
    "the rows are read": "bakeoff.suite.reporting.build:sweeps_to_report",
    "the report is written": "bakeoff.suite.reporting.build:render",
    "the report is published": "bakeoff.suite.tracking.write:RunWriter.publish_report",
    "findings are published": "bakeoff.suite.tracking.write:RunWriter.publish_findings",
    "parents are closed": "bakeoff.suite.sweep.finish:close_parents",
    "the sweep is closed in the store": "bakeoff.suite.tracking.write:RunWriter.close_sweep",
}


# Journal, fsync and checkpoints; a function that calls another of them is timed once.
SAFETY = (
    "bakeoff.suite.journal.journal:Journal.keep_plan",
    "bakeoff.suite.journal.journal:Journal.begin",
    "bakeoff.suite.journal.journal:Journal.commit",
    "bakeoff.suite.training.checkpoint:Checkpointer.latest",
    "bakeoff.suite.training.loop:_write_own",
    "bakeoff.suite.training.engines.local:LocalEngine.save",
    "bakeoff.suite.training.checkpoint:Checkpointer.publish",
    "bakeoff.suite.training.engines.local:LocalEngine.state_sha256",
    "os:fsync",
)
_inside = threading.local()


@dataclass(frozen=True)
class Point:
    """A moment in a sweep: before or after the n-th time that it takes a step."""

    step: str
    when: When
    occurrence: int = 1

    def __str__(self) -> str:
        return f"{self.when} '{self.step}' ({self.occurrence})"


@dataclass(frozen=True)
class Fault:
    """An event at a point."""

    point: Point
    kind: Kind = "kill"


def parsed(text: str) -> Fault:
    """Parse a fault such as ``kill:before:journal: begin:3``; the number is optional.

    Raises:
        ValueError: for an unknown kind, moment or step.
    """
    kind, when, rest = text.split(":", 2)
    step, _, number = rest.rpartition(":")
    if not number.isdecimal():
        step, number = rest, "1"
    if kind not in get_args(Kind) or when not in get_args(When) or step not in STEPS:
        raise ValueError(f"{text!r}: no such fault; as in kill:before:journal: commit:2")
    return Fault(Point(step, when, int(number)), kind)  # type: ignore[arg-type]


def install(faults: Sequence[Fault], steps: Mapping[str, str] = STEPS) -> None:
    """Install the faults in this process."""
    for step in {fault.point.step for fault in faults}:
        of_step = [fault for fault in faults if fault.point.step == step]
        _wrap(steps[step], functools.partial(_struck, of_step, itertools.count(1)))


def count_into(counts: MutableSequence[int], steps: Mapping[str, str] = STEPS) -> None:
    """Count how often this process takes each step, in the order of `steps`."""

    @contextmanager
    def counted(index: int) -> Iterator[None]:
        counts[index] += 1
        yield

    for index, target in enumerate(steps.values()):
        _wrap(target, functools.partial(counted, index))


def time_into(seconds: MutableSequence[float], targets: Sequence[str] = SAFETY) -> None:
    """Add up in `seconds`, which has a place for each target, the time that each takes.

    Time inside a target that another target has called counts for the outer one.
    """
    for index, target in enumerate(targets):
        _wrap(target, functools.partial(_timed, index, seconds))


def located(target: str) -> tuple[Any, str]:
    """Return the module or class that holds the function, and the function's name in it.

    Raises:
        AttributeError: if it does not exist.
    """
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    getattr(owner, name)
    return owner, name


def _wrap(target: str, around: Callable[[], AbstractContextManager[None]]) -> None:
    """Replace a function, in the module or class that holds it, by one that runs in a context."""
    owner, name = located(target)
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        with around():
            return original(*args, **kwargs)

    setattr(owner, name, call)


@contextmanager
def _timed(index: int, seconds: MutableSequence[float]) -> Iterator[None]:
    if getattr(_inside, "is_timed", False):
        yield
        return
    _inside.is_timed, start = True, time.perf_counter()
    try:
        yield
    finally:
        seconds[index] += time.perf_counter() - start
        _inside.is_timed = False


@contextmanager
def _struck(faults: Sequence[Fault], calls: Iterator[int]) -> Iterator[None]:
    number = next(calls)  # before the call: the function may call itself
    for when in get_args(When):
        for fault in faults:
            if (fault.point.when, fault.point.occurrence) == (when, number):
                _strike(fault.kind)
        if when == "before":
            yield


def _strike(kind: Kind) -> None:
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    number = errno.ENOSPC if kind == "no-space" else errno.EIO
    raise OSError(number, os.strerror(number))


def main() -> None:
    """Install the faults that stand before `--`, and run the command after it."""
    at = sys.argv.index("--")
    install([parsed(text) for text in sys.argv[1:at]])
    sys.argv[1 : at + 1] = []
    from bakeoff.suite.cli import main as bakeoff

    bakeoff()


if __name__ == "__main__":
    main()
