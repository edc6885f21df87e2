"""The interface between the driver and its executors: work, settings, events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bakeoff.suite.errors import MOST_OF_A_REASON, UnavailableError, one_line, writable
from bakeoff.suite.schema import Measurement, Point, Provenance, Resources, Result, Sample, Trial
from bakeoff.suite.schema.task_names import is_own_class

Assignments = Sequence[tuple[Trial, Resources]]
SECONDS_BETWEEN = 300.0


@dataclass(frozen=True)
class Started:
    """The event that a trial has started at that place (a process, a node).

    Attributes:
        provenance: The provenance of the process, for the result of a trial that cannot return one
            itself.
    """

    trial_id: str
    place: str
    provenance: Provenance | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Progressed:
    """Curve points of a running trial."""

    trial_id: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Remarked:
    """A sentence about a running trial, to be displayed."""

    trial_id: str
    sentence: str


@dataclass(frozen=True)
class Finished:
    """The event that a trial has ended with this result, whatever its status."""

    result: Result

    @property
    def trial_id(self) -> str:
        """The id of the result's trial."""
        return self.result.trial_id


@dataclass(frozen=True)
class RunAgainEagerly:
    """The event that a trial has ended without a result, as a GPU could not capture its steps.

    Only the executor receives this event; it runs the trial again in another process.
    """

    trial_id: str
    why: str


@dataclass(frozen=True)
class Waiting:
    """The number of trials that wait for resources; the reason is that of the next one."""

    num_trials: int
    reason: str


def writable_event(event: Event) -> Event:
    """Return the event with texts that every store can hold, see `bakeoff.suite.errors.writable`.

    A new result passes here before anything else gets it. A result in the journal is not changed,
    because its hash must stay.
    """
    if isinstance(event, Remarked):
        return replace(event, sentence=_sentence(event.sentence))
    if isinstance(event, RunAgainEagerly):
        return replace(event, why=_sentence(event.why))
    if not isinstance(event, Finished):
        return event
    result = event.result
    return Finished(
        replace(
            result,
            reason=_sentence(result.reason),
            traceback=writable(result.traceback),
            output=writable(result.output),
            measurements=tuple(map(_writable_measurement, result.measurements)),
            samples=tuple(map(_writable_sample, result.samples)),
        )
    )


def _sentence(text: str) -> str:
    return one_line(writable(text, MOST_OF_A_REASON))


def _writable_measurement(measured: Measurement) -> Measurement:
    return replace(measured, reason=_sentence(measured.reason)) if measured.reason else measured


def _writable_sample(sample: Sample) -> Sample:
    """Return the sample with encodable texts; control characters stay, as part of the finding."""

    def kept(text: str) -> str:
        return text.encode(errors="backslashreplace").decode()

    return replace(
        sample,
        text=kept(sample.text),
        source=kept(sample.source),
        reference=kept(sample.reference),
        row_words=tuple(map(kept, sample.row_words)),
        column_words=tuple(map(kept, sample.column_words)),
    )


TrialEvent = Started | Progressed | Remarked | Finished
Event = TrialEvent | RunAgainEagerly | Waiting


def eagerly_remark(event: RunAgainEagerly) -> Remarked:
    """Return the message to display for the event."""
    sentence = f"its steps could not be captured ({event.why}); it runs again, eagerly"
    return Remarked(event.trial_id, sentence)


@dataclass(frozen=True)
class TrialRemark:
    """A message about a running trial to display: one sentence.

    Messages are not part of the result.
    """

    sentence: str


@dataclass(frozen=True)
class TrainedState:
    """SHA-256 over the parameters and the optimizer's state at the end of a training.

    Two trainings of one trial in one environment must have the same hash, however often they were
    interrupted.
    """

    sha256: str


@dataclass(frozen=True)
class Condition:
    """A condition of the run that a trial has found, which affects its times; kept in its result.

    It becomes one of `bakeoff.suite.schema.Provenance.conditions`.
    """

    name: str
    text: str


def runs_own_code(trial: Trial) -> bool:
    """Return True if the trial, or a trial that it needs, uses a user's class.

    Such a class may change anything in its process.
    """
    is_own = any(subject.is_own for subject in trial.subjects)
    is_own = is_own or is_own_class(trial.task) or is_own_class(trial.probe)
    return is_own or any(map(runs_own_code, trial.parents.values()))


@dataclass(frozen=True, kw_only=True)
class PlannedModule:
    """A user's module, as it was when the sweep was planned.

    Attributes:
        file: The path from which it was read, which stays its `__file__`. Empty for a folder
            without `__init__.py`.
        source: Its source, or None for a compiled module.
        folders: The search path of a package, or None if it is not a package.
    """

    file: str
    source: str | None
    folders: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedCode:
    """The user's code that the trials of a sweep run, by value.

    Trials import it from here and never from the user's folder, where it may be edited meanwhile.

    Attributes:
        modules: The modules by their names in Python.
        digests: The SHA-256 of each other file that the classes declare, by its path. These files
            are read from their original location, so a trial checks them before and after.
        folders: The user's folders, which are not on the import path of a trial.
        data: The absolute path and the SHA-256 of the user's own data, by the text that makes them.
    """

    modules: Mapping[str, PlannedModule] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    data: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def code_for(trial: Trial, code: PlannedCode | None) -> PlannedCode | None:
    """Return what of the user's code and data a trial needs, or None if it needs nothing."""
    if code is None or runs_own_code(trial):
        return code
    return PlannedCode(data=code.data) if trial.has_own_data else None


class Unavailable(UnavailableError):
    """Raised if Ray is missing, or no cluster answers or can run the trials; one sentence."""


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """A folder, which all hosts of a trial must share, and the time between two checkpoints.

    Attributes:
        folder: Holds one folder per trial, named by its id, until the trial has a result.
        seconds_between: The minimum time; a shorter trial writes no checkpoint.
        kept: Ids of the trials whose final weights are kept, because others start from them.
        unused: Ids of the trials that write and read no checkpoint, because it would not hold all
            of their state.
    """

    folder: Path
    seconds_between: float = SECONDS_BETWEEN
    kept: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """The settings of every trial besides its specification.

    Attributes:
        checkpoints: The place of the checkpoints.
        code: The user's code that the trials run, or None if it is on their import path.
        trial_seconds: Time limit of a trial; unlimited by default.
    """

    checkpoints: Checkpoints
    code: PlannedCode | None = None
    trial_seconds: float | None = None


class TrialExecutor(Protocol):
    """An executor, which runs trials and reports their events."""

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run all trials, packed; yield the events in the order in which they happen."""

    def execute_alone(self, work: Assignments, environment_id: str) -> Iterator[Event]:
        """Run each trial with nothing else on its machine, all of them in that one environment."""

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """Return the environment for timings; the preferred one if it is available."""

    def refuse_infeasible(self, work: Assignments) -> None:
        """Raise if a trial can never run.

        Raises:
            Unavailable: The message states the requested and the available resources.
        """
