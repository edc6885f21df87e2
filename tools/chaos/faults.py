"""Names the points where a sweep can fail, and wraps their functions to inject faults, count, time.

The product has no line for any of it: a point is one of its functions, wrapped from outside in the
process under test. So a point costs nothing where no fault is asked for, and a point whose
function is renamed is a test that fails (tests/tools/test_faults.py). To watch one or more faults:

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

# Every step between plan and report, in the order in which a sweep comes past: a name, and the
# function as ``module:qualified.name``. Each is two points, before it and after it.
STEPS: dict[str, str] = {
    "the folder is locked": "suite.sweep.driver:held",
    "the journal is opened": "suite.journal.journal:opened",
    "the plan is noted": "suite.journal.journal:Journal.keep_plan",
    "the writer starts": "suite.outbox:Outbox.start",
    "the store's tables are made": "suite.new_store:_make",
    "the writer connects": "suite.new_store:Recorder.__init__",
    "the sweep is opened in the store": "suite.recorder:Recorder.open_sweep",
    "store: find or create experiment": "suite.mlflow_store:Store.experiment",
    "store: search": "suite.mlflow_store:Store.runs",
    "store: create run": "suite.mlflow_store:Store.create",
    "store: log inputs": "suite.mlflow_store:Store.log_inputs",
    "store: log batch": "suite.mlflow_store:Store.log",
    "store: put files": "suite.mlflow_store:Store.put_files",
    "store: end run": "suite.mlflow_store:Store.end",
    "what is missing is found": "suite.sweep.driver:missing_work",
    "journal: begin": "suite.journal.journal:Journal.begin",
    "a step of training": "suite.training.engines.local:LocalEngine.step",
    "a validation": "suite.training.engines.local:LocalEngine.evaluate",
    "checkpoint: look for one": "suite.checkpoint_folder:FolderKeeper.latest",
    "checkpoint: write a file": "suite.durable:create",
    "checkpoint: bytes": "os:write",
    "checkpoint: sync": "os:fsync",
    "checkpoint: publish": "suite.checkpoint_folder:FolderKeeper.publish",
    "checkpoint: manifest": "suite.durable:write",
    "checkpoint: a file takes its name": "os:replace",
    "checkpoint: the folder takes its name": "os:rename",
    "checkpoint: sync the folder": "suite.durable:fsync_folder",
    "checkpoint: remove an old one": "suite.durable:remove_folder",
    "the test split is scored": "suite.probes.quality:evaluate_in_parts",
    "specimens are taken": "suite.probes.quality:specimens_of",
    "journal: commit": "suite.journal.journal:Journal.commit",
    "the writer is told": "suite.outbox:Outbox.tell",
    "the trial is begun in the store": "suite.recorder:Recorder.start_trial",
    "points are sent": "suite.recorder:Recorder.log_points",
    "the result is shown": "suite.recorder:Recorder.finish_trial",
    "frames are made": "suite.frames:sweep_files",
    "frames are published": "suite.recorder:Recorder.publish",
    "the writer ends": "suite.outbox:Outbox.close",
    "frames are fetched": "suite.answers:load_all_artifacts",
    "the report is written": "suite.answers:render",
    "the report is published": "suite.recorder:Recorder.publish_report",
    "findings are published": "suite.recorder:Recorder.publish_findings",
    "parents are closed": "suite.conclusion:close_parents",
    "the sweep is closed in the store": "suite.recorder:Recorder.close_sweep",
}


# Journal, fsync and checkpoints; what calls another of them is timed once.
SAFETY = (
    "suite.journal.journal:Journal.keep_plan",
    "suite.journal.journal:Journal.begin",
    "suite.journal.journal:Journal.commit",
    "suite.checkpoint_folder:FolderKeeper.latest",
    "suite.resuming:_write_own",
    "suite.training.engines.local:LocalEngine.save",
    "suite.checkpoint_folder:FolderKeeper.publish",
    "suite.training.engines.local:LocalEngine.state_sha256",
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
    """What happens at a point."""

    point: Point
    kind: Kind = "kill"


def parsed(text: str) -> Fault:
    """A fault as a command line gives it: ``kill:before:journal: begin:3``; the number is optional.

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
    """Put the faults into this process."""
    for step in {fault.point.step for fault in faults}:
        of_step = [fault for fault in faults if fault.point.step == step]
        _wrap(steps[step], functools.partial(_struck, of_step, itertools.count(1)))


def count_into(counts: MutableSequence[int], steps: Mapping[str, str] = STEPS) -> None:
    """Have this process count how often it takes each step, in the order of `steps`."""
    for index, target in enumerate(steps.values()):
        _wrap(target, functools.partial(_counted, index, counts))


def time_into(seconds: MutableSequence[float], targets: Sequence[str] = SAFETY) -> None:
    """Have this process add up in `seconds`, a place for each target, how long each takes.

    Time inside a target that another one has called counts for the outer one.
    """
    for index, target in enumerate(targets):
        _wrap(target, functools.partial(_timed, index, seconds))


def located(target: str) -> tuple[Any, str]:
    """The module or class that holds the function, and the function's name in it.

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
def _counted(index: int, counts: MutableSequence[int]) -> Iterator[None]:
    counts[index] += 1
    yield


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
    _strike(faults, "before", number)
    yield
    _strike(faults, "after", number)


def _strike(faults: Sequence[Fault], when: When, occurrence: int) -> None:
    for fault in faults:
        if (fault.point.when, fault.point.occurrence) != (when, occurrence):
            continue
        if fault.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = errno.ENOSPC if fault.kind == "no-space" else errno.EIO
        raise OSError(number, os.strerror(number))


def main() -> None:
    """Install the faults that stand before `--`, and run the command after it."""
    at = sys.argv.index("--")
    install([parsed(text) for text in sys.argv[1:at]])
    sys.argv[1 : at + 1] = []
    from suite.cli import main as bakeoff

    bakeoff()


if __name__ == "__main__":
    main()
