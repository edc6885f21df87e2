"""Defines what crosses between the driver and its executors: work, settings, events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from suite.errors import MOST_OF_A_REASON, UnavailableError, one_line, writable
from suite.schema import Measurement, Point, Provenance, Resources, Result, Sample, Trial

Assignments = Sequence[tuple[Trial, Resources]]
SECONDS_BETWEEN = 300.0


@dataclass(frozen=True)
class Started:
    """A trial has started at that place (a process, a node).

    Attributes:
        provenance: Of the process, for the result of a trial that cannot leave one itself.
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
    """A sentence about a running trial for whoever watches it."""

    trial_id: str
    sentence: str


@dataclass(frozen=True)
class Finished:
    """A trial has ended with this result, whatever its status."""

    result: Result

    @property
    def trial_id(self) -> str:
        """Of the result's trial."""
        return self.result.trial_id


@dataclass(frozen=True)
class RunAgainEagerly:
    """A trial has left its process without a result, since a GPU could not capture its steps.

    Its executor, which alone hears this, runs it again in another process.
    """

    trial_id: str
    why: str


@dataclass(frozen=True)
class Waiting:
    """So many trials wait for resources; the reason is that of the next one."""

    num_trials: int
    reason: str


def writable_event(event: Event) -> Event:
    """The event with texts that journal, store and reports can hold: see `suite.errors.writable`.

    A new result passes here before anything else gets it. One that the journal holds stays as it
    is, since its hash must stay.
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
    """A model of bytes writes control characters: they are what it found, and part of its hash."""

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
    """Return what somebody who watches hears of it."""
    sentence = f"its steps could not be captured ({event.why}); it runs again, eagerly"
    return Remarked(event.trial_id, sentence)


@dataclass(frozen=True)
class TrialRemark:
    """What somebody who watches should hear of a running trial: one sentence.

    It is no finding: what a trial remarked is not in its result.
    """

    sentence: str


@dataclass(frozen=True)
class TrainedState:
    """SHA-256 over the parameters and the optimiser's state at the end of a training.

    Two trainings of one trial in one environment must come to the same, however often they were
    interrupted.
    """

    sha256: str


@dataclass(frozen=True)
class Condition:
    """What a trial found out about how it is run, and what moves its times; kept in its result.

    It becomes one of `suite.schema.Provenance.conditions`.
    """

    name: str
    text: str


def runs_own_code(trial: Trial) -> bool:
    """Return True if it, or a trial that it needs, has a class of the user's.

    Such a class may change anything in its process.
    """
    is_own = any(subject.is_own for subject in trial.subjects)
    return is_own or any(map(runs_own_code, trial.parents.values()))


@dataclass(frozen=True, kw_only=True)
class PlannedModule:
    """A module of the user's, as it was when the sweep was planned.

    Attributes:
        file: Where it was read; it stays its `__file__`. Empty for a folder without `__init__.py`.
        source: Its text; None for a compiled module.
        folders: Where a package looks for its modules; None if it is not a package.
    """

    file: str
    source: str | None
    folders: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedCode:
    """The user's code that the trials of a sweep run, by value.

    Trials import it from here and never from the user's folder, where it may be edited meanwhile.

    Attributes:
        modules: By their names in Python.
        digests: The SHA-256 of each other file that the classes declare, by its path. These are
            read where they lie, so a trial checks them before and after.
        folders: The user's folders, which are not on the import path of a trial.
    """

    modules: Mapping[str, PlannedModule] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


class Unavailable(UnavailableError):
    """Ray is not installed, no cluster answers, or it can never run the trials: one sentence."""


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """A folder, which all hosts of a trial must share, and the time between two checkpoints.

    Attributes:
        folder: Holds one folder per trial, named by its id, until the trial has a result.
        seconds_between: The least time; a shorter trial writes no checkpoint.
        kept: Ids of the trials whose final weights are kept, since others start from them.
        unused: Ids of the trials that write and read no checkpoint: they hold state that none has.
    """

    folder: Path
    seconds_between: float = SECONDS_BETWEEN
    kept: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """What every trial needs besides its specification.

    Attributes:
        checkpoints: Where trials write their checkpoints.
        code: The user's code that they run; None where it lies on their import path.
        trial_seconds: How long one may run; None sets no limit.
    """

    checkpoints: Checkpoints
    code: PlannedCode | None = None
    trial_seconds: float | None = None


class TrialExecutor(Protocol):
    """Runs trials and reports their events."""

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run all of it, packed; events in the order in which they happen."""

    def execute_alone(self, work: Assignments, environment_id: str) -> Iterator[Event]:
        """Run it with nothing beside it, all of it in that one environment."""

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """The environment for timings; the preferred one if it is available."""

    def refuse_infeasible(self, work: Assignments) -> None:
        """Refuse what can never run.

        Raises:
            Unavailable: with what is asked for, and what there is.
        """
