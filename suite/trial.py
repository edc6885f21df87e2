"""Trial -> Result, in this process: no Ray, no MLflow.

Arrow: the work itself, the same under every executor. Whatever happens inside, a result comes
out: an exception is a row with its reason, and the traceback is kept.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from suite.checkpoints import Keeper
from suite.events import Event, Finished, Progressed, Remarked, Started
from suite.probes.probe import Said
from suite.probes.registry import probe
from suite.provenance import provenance
from suite.schema import (
    Measurement,
    Point,
    Remark,
    Resources,
    Result,
    Specimen,
    Status,
    TrainedState,
    Trial,
)
from suite.training.loop import Diverged
from suite.trial_limit import TrialTimeout

Measure = Callable[[], Iterator[Said]]

_SECONDS_BETWEEN_REPORTS = 0.5
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")


@dataclass
class _Notes:
    """What the trial has said so far; survives the exception that ends it."""

    measurements: list[Measurement] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    specimens: list[Specimen] = field(default_factory=list)
    state_sha256: str = ""
    num_reported: int = 0

    def take(self, said: Said) -> None:
        """Put it where it belongs; a remark belongs nowhere.

        Raises:
            Diverged: for a number that is none. It could be written into no book.
        """
        if isinstance(said, (Point, Measurement)) and not math.isfinite(said.value or 0.0):
            raise Diverged(f"{said.metric} is {said.value}")
        match said:
            case Point():
                self.points.append(said)
            case Measurement():
                self.measurements.append(said)
            case Specimen():
                self.specimens.append(said)
            case TrainedState(sha256=sha256):
                self.state_sha256 = sha256

    def unreported(self) -> tuple[Point, ...]:
        new = tuple(self.points[self.num_reported :])
        self.num_reported = len(self.points)
        return new


def run_trial(
    trial: Trial, resources: Resources, place: str, keeper: Keeper | None = None
) -> Iterator[Event]:
    """Run one trial; its points as they come, its result last.

    With a keeper it goes on from its newest checkpoint, and leaves others.
    """

    def measure() -> Iterator[Said]:
        kind, device = probe(trial.probe), device_of(resources)
        if keeper is None:
            return kind.measure(trial, device)
        return kind.measure_resuming(trial, device, keeper)

    return run_measuring(trial, resources, place, measure)


def device_of(resources: Resources) -> str:
    """Where a worker with these resources computes, as torch names it."""
    return "cuda" if resources.num_gpus else "cpu"


def run_measuring(
    trial: Trial, resources: Resources, place: str, measure: Measure
) -> Iterator[Event]:
    """What `measure` says of the trial, as events; whatever it raises is in the result."""
    here = provenance(resources)
    yield Started(trial.trial_id, place, here)
    start = time.perf_counter()
    notes, status, reason, trace = _Notes(), Status.OK, "", ""
    try:
        torch.set_num_threads(resources.num_threads)
        yield from _noted(trial.trial_id, measure(), notes)
    except BaseException as error:  # a mixer may do anything
        if _ends_more_than_the_trial(error):
            raise
        status, reason = classified(error)
        trace = "".join(traceback.format_exception(error))
    yield Finished(
        Result(
            trial_id=trial.trial_id, status=status, reason=reason, traceback=trace,
            provenance=here, seconds=time.perf_counter() - start,
            measurements=tuple(notes.measurements) if status is Status.OK else (),
            points=tuple(notes.points),
            specimens=tuple(notes.specimens) if status is Status.OK else (),
            state_sha256=notes.state_sha256 if status is Status.OK else "",
        )
    )  # fmt: skip


def _noted(trial_id: str, saying: Iterator[Said], notes: _Notes) -> Iterator[Progressed | Remarked]:
    """What the probe says is noted; remarks are passed on at once, points twice a second."""
    last = time.monotonic()
    for said in saying:
        notes.take(said)
        if isinstance(said, Remark):
            yield Remarked(trial_id, said.sentence)
        is_due = time.monotonic() - last > _SECONDS_BETWEEN_REPORTS
        if is_due and notes.num_reported < len(notes.points):
            last = time.monotonic()
            yield Progressed(trial_id, notes.unreported())


def _ends_more_than_the_trial(error: BaseException) -> bool:
    """The user's Ctrl-C, a generator that is closed, and what the suite itself breaks in with.

    The latter is known by where it is defined, such as `TimeIsUp` and what a worker raises that
    has lost another; a panic of an extension in Rust is no Exception either, and the trial's.
    """
    if isinstance(error, (Exception, SystemExit, TrialTimeout)):
        return False
    is_ours = type(error).__module__.startswith("suite.")
    return is_ours or isinstance(error, (KeyboardInterrupt, GeneratorExit))


def classified(error: BaseException) -> tuple[Status, str]:
    """What an exception says about the trial, in one sentence."""
    sentence = f"{type(error).__name__}: {error}".splitlines()[0]
    if isinstance(error, Diverged):
        return Status.DIVERGED, str(error)
    if isinstance(error, TrialTimeout):
        return Status.TIMEOUT, str(error)
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _OUT_OF_MEMORY):
        return Status.OUT_OF_MEMORY, sentence
    return Status.ERROR, sentence
