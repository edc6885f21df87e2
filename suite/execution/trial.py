"""Run one trial in this process, without Ray or MLflow, and yield its events and result.

Every executor calls this. An exception inside the trial becomes the status and reason of its
result, with the traceback.
"""

from __future__ import annotations

import math
import os
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from bakeoff.suite.errors import CaptureFailed, Diverged, TrialTimeout, classified
from bakeoff.suite.events import (
    Condition,
    Event,
    Finished,
    Progressed,
    Remarked,
    RunAgainEagerly,
    Started,
    TrainedState,
    TrialRemark,
    runs_own_code,
    writable_event,
)
from bakeoff.suite.execution.planned_code import planned_folders, refuse_changed_files
from bakeoff.suite.places import PACKAGE
from bakeoff.suite.probes.probe import Said, probe
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import (
    BYTES_OF_A_CONTEXT,
    Measurement,
    Point,
    Provenance,
    Resources,
    Result,
    Sample,
    Status,
    Trial,
)
from bakeoff.suite.timing.gpu_state import joules_since
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.compiled_code import keeping_compiled_code
from bakeoff.suite.training.recipes import float32_products

Measure = Callable[[], Iterator[Said]]

_SECONDS_BETWEEN_REPORTS = 0.5
_NOT_OWN = (
    *(f"{PACKAGE / room}{os.sep}" for room in ("suite", "models", "reports")),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


@dataclass
class _Collected:
    """The output of the probe so far, which outlives an exception that ends the trial."""

    measurements: list[Measurement] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    state_sha256: str = ""
    conditions: dict[str, str] = field(default_factory=dict)
    num_reported: int = 0

    def add(self, said: Said) -> None:
        """Store the value for the result; remarks are not part of it.

        Raises:
            Diverged: For a NaN or infinite value, which JSON cannot store.
        """
        if isinstance(said, (Point, Measurement)) and not math.isfinite(said.value or 0.0):
            raise Diverged(f"{said.metric} is {said.value}")
        match said:
            case Point():
                self.points.append(said)
            case Measurement():
                self.measurements.append(said)
            case Sample():
                self.samples.append(said)
            case TrainedState(sha256=sha256):
                self.state_sha256 = sha256
            case Condition(name=name, text=text):
                self.conditions[name] = text

    def unreported(self) -> tuple[Point, ...]:
        new = tuple(self.points[self.num_reported :])
        self.num_reported = len(self.points)
        return new


def run_trial(
    trial: Trial,
    resources: Resources,
    place: str,
    checkpointer: Checkpointer | None = None,
    *,
    why_eager: str = "",
) -> Iterator[Event]:
    """Run one trial; yield its points as they are measured, and its result last.

    With a checkpointer the trial resumes from its newest checkpoint, and writes others. If a GPU
    cannot capture its steps, `RunAgainEagerly` is yielded in place of the result: run the trial
    again in another process then, and pass its reason as `why_eager`, which holds for the rest of
    the process.
    """
    if why_eager:
        from bakeoff.suite.training.engines.recording import record_nothing

        record_nothing(why_eager)

    def measure() -> Iterator[Said]:
        with keeping_compiled_code(checkpointer):
            yield from probe(trial.probe).measure_resuming(
                trial, device_of(resources), checkpointer
            )

    return run_measuring(trial, resources, place, measure)


def device_of(resources: Resources) -> str:
    """Return the device of a worker with these resources, as torch names it."""
    return "cuda" if resources.num_gpus else "cpu"


def run_measuring(
    trial: Trial, resources: Resources, place: str, measure: Measure
) -> Iterator[Event]:
    """Yield the output of `measure` as events; its exceptions become part of the result."""
    precision = trial.settled_precision
    here = _with_products(provenance(resources), precision, resources)
    yield Started(trial.trial_id, place, here)
    start = time.perf_counter()
    use: Callable[[], dict[str, Any]] = dict
    collected, status, reason, trace = _Collected(), Status.OK, "", ""
    try:
        torch.set_num_threads(resources.num_threads)
        use = _gpu_use(trial, resources)
        with float32_products(precision) if resources.num_gpus else nullcontext():
            yield from _events(trial.trial_id, _unchanged(measure), collected)
    except CaptureFailed as error:
        yield writable_event(RunAgainEagerly(trial.trial_id, str(error)))
        return
    except BaseException as error:  # a mixer may raise anything
        if _ends_more_than_the_trial(error):
            raise
        status, reason = classified(error)
        reason += own_frame(error) if runs_own_code(trial) else ""
        reason += _wanted_more(resources) if status is Status.OUT_OF_MEMORY else ""
        trace = "".join(traceback.format_exception(error))
    is_ok = status is Status.OK
    result = Result(
        trial_id=trial.trial_id,
        status=status,
        reason=reason,
        traceback=trace,
        provenance=_under(here, collected.conditions),
        seconds=time.perf_counter() - start,
        measurements=tuple(collected.measurements) if is_ok else (),
        points=tuple(collected.points),
        samples=tuple(collected.samples) if is_ok else (),
        state_sha256=collected.state_sha256 if is_ok else "",
        **use(),
    )
    # This is applied here too, because the event may leave this process as JSON.
    yield writable_event(Finished(result))


def _unchanged(measure: Measure) -> Iterator[Said]:
    """Yield what `measure` yields; raise if a file that the user's code declares is changed."""
    refuse_changed_files()
    yield from measure()
    refuse_changed_files()


def _gpu_use(trial: Trial, resources: Resources) -> Callable[[], dict[str, Any]]:
    """Limit this process to its share of a GPU's memory; return a function that measures its use.

    The function returns fields of `Result`. The memory is that reserved by torch's allocator; the
    GPU's context and the libraries are not part of it, and each share leaves room for them. The
    energy counter is that of the whole card: a trial on a share of a card is assigned the same
    share of the card's joules, whatever its neighbours did; a timing has its card to itself. For a
    trial of several workers the energy is None, because the first worker only measures its own
    card.
    """
    if not resources.num_gpus:
        return dict
    share = min(1.0, resources.for_trial(trial).num_gpus)
    has_card = torch.cuda.is_available()
    if has_card:  # a trial that needs more runs out of memory, but its neighbours do not
        context = BYTES_OF_A_CONTEXT / torch.cuda.get_device_properties(0).total_memory
        fraction = share if share == 1.0 else max(0.0, share - context)
        torch.cuda.set_per_process_memory_fraction(fraction)
        torch.cuda.reset_peak_memory_stats()
    is_one = trial.num_workers == 1
    joules = joules_since(torch.device("cuda"), share) if is_one else lambda: None
    return lambda: {
        "gpu_bytes": torch.cuda.max_memory_reserved() if has_card else None,
        "joules": joules(),
    }


def _wanted_more(resources: Resources) -> str:
    """Return advice for a trial on part of a GPU that ran out of memory."""
    if not resources.is_shared:
        return ""
    more = min(1.0, 2 * resources.num_gpus)
    return f" It had {resources.num_gpus:.3g} of a GPU; --set gpus={more:g} gives it more."


def _with_products(made: Provenance, precision: str, resources: Resources) -> Provenance:
    """Add how a GPU multiplies float32, which affects numbers and times."""
    if not resources.num_gpus:
        return made
    return _under(made, {"float32 products": "in TF32" if precision == "tf32" else "exact"})


def _under(made: Provenance, conditions: Mapping[str, str]) -> Provenance:
    return replace(made, conditions={**made.conditions, **conditions})


def _events(
    trial_id: str, saying: Iterator[Said], collected: _Collected
) -> Iterator[Progressed | Remarked]:
    """Collect what the probe yields; pass on remarks at once, points twice a second."""
    last = time.monotonic()
    for said in saying:
        collected.add(said)
        if isinstance(said, TrialRemark):
            yield Remarked(trial_id, said.sentence)
        is_due = time.monotonic() - last > _SECONDS_BETWEEN_REPORTS
        if is_due and collected.num_reported < len(collected.points):
            last = time.monotonic()
            yield Progressed(trial_id, collected.unreported())


def own_frame(error: BaseException) -> str:
    """Return the last line of the user's code, as `` (at mine.py, line 7: return x / 0)``."""
    passed = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in passed if not frame.filename.startswith((*_NOT_OWN, "<"))]
    if not own:
        return ""
    folders = sorted(filter(None, [*sys.path, *planned_folders()]), key=len, reverse=True)
    within = (path for path in folders if own[-1].filename.startswith(path + os.sep))
    file = os.path.relpath(own[-1].filename, next(within, os.path.dirname(own[-1].filename)))
    return f" (at {file}, line {own[-1].lineno}: {own[-1].line})"


def _ends_more_than_the_trial(error: BaseException) -> bool:
    """Return True for Ctrl-C, a closed generator, or an interruption by the suite itself.

    The latter, such as `TimeIsUp` and the error of a worker that has lost another, are recognized
    by the module that defines them. A panic of an extension in Rust is not an Exception either, but
    only ends the trial.
    """
    if isinstance(error, (Exception, SystemExit, TrialTimeout)):
        return False
    is_ours = type(error).__module__.startswith("bakeoff.")
    return is_ours or isinstance(error, (KeyboardInterrupt, GeneratorExit))
