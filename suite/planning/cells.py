"""Fill a probe's cells with trials: one a seed, a variant or a task, or one for all variants.

The grain of the probe decides; everything else is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from models import ModelSpec, architecture_class, position_class
from models.model_spec import content_hash
from suite.planning.knobs import Impossible
from suite.planning.resolve import Subject, as_trained
from suite.planning.versions import architecture_version, mixer_version
from suite.probes.probe import Probe, at_length
from suite.probes.probe import probe as probe_named
from suite.schema import (
    GREEDY,
    LEARNING_RATE,
    MIXER_ALONE,
    QUALITY,
    USUAL_PENALTY,
    Cell,
    MetricSpec,
    Parallel,
    Precision,
    Trial,
)
from suite.tasks.registry import task_class
from suite.tasks.task import Task
from suite.training import loop as training
from suite.training.engines import sharded

Table = Mapping[str, Subject | Impossible]
Filled = Iterator[tuple[Cell, Trial | None]]


@dataclass(frozen=True, kw_only=True)
class ComparisonGroup:
    """The variants on one task, or, as mixers alone, at one coordinate of a sweep.

    Attributes:
        task: Its name, or `MIXER_ALONE`.
        at: The coordinate; empty outside sweeps.
        baseline: Label of the variant that the others are compared with.
        table: By label, in the order of the page.
    """

    task: str
    at: str = ""
    baseline: str
    table: Table

    @property
    def possible(self) -> Subject:
        """The first possible variant; impossible ones are shown where it is."""
        return next(s for s in self.table.values() if isinstance(s, Subject))


def filled_cells(probe: Probe, group: ComparisonGroup, num_seeds: int) -> Filled:
    """Each cell of the probe in the group, with its trial; None where it is impossible."""
    maker = _CellMaker(probe, group)
    if probe.grain == "task":
        yield from _of_tasks(maker)
        return
    seeds = 1 if probe.grain == "variant" else num_seeds
    table = {label: _measurable(probe, subject) for label, subject in group.table.items()}
    if probe.grain == "comparison":
        yield from _compared(maker, table, seeds)
        return
    for label, subject in table.items():
        for seed in range(seeds):
            if isinstance(subject, Impossible):
                yield maker.skipped(label, seed, str(subject)), None
            else:
                trial = trial_of(probe, (subject,), seed)
                yield maker.cell(trial, label, 0), trial


def search_cells(group: ComparisonGroup) -> Filled:
    """A cell for each variant whose learning rate is searched for, with the search."""
    table = {
        label: subject.search
        for label, subject in group.table.items()
        if isinstance(subject, Subject) and subject.search
    }
    return filled_cells(probe_named(LEARNING_RATE), replace(group, table=table), 1)


def _of_tasks(maker: _CellMaker) -> Filled:
    """One trial a task, as the baseline has its data; where the task is an axis, one for each."""
    subjects = [s for s in maker.group.table.values() if isinstance(s, Subject)]
    subjects.sort(key=lambda subject: subject is not maker.group.table.get(maker.group.baseline))
    of_task: dict[str, Subject] = {}
    for subject in subjects:
        of_task.setdefault(_task_name(subject), subject)
    for subject in of_task.values():
        assert subject.task is not None, "a sweep of mixers alone has no task"
        trial = _trial_of_task(maker.probe, subject.task, subject)
        for index, label in enumerate(maker.probe.labels(subject.task)):
            yield maker.cell(trial, label, index), trial


def _measurable(probe: Probe, subject: Subject | Impossible) -> Subject | Impossible:
    if isinstance(subject, Impossible):
        return subject
    reason = probe.why_not_on(subject.task) if subject.task else ""
    reason = reason or probe.why_not(subject.model, subject.parallel)
    if not reason and (probe.trains or probe.reads_trained) and not probe.may_start:
        if subject.start is not None:
            reason = f"{probe.name} measures what was drawn, and this starts from other weights"
        elif subject.teacher is not None:
            reason = f"{probe.name} has no teacher, and this learns from one"
    return Impossible(reason) if reason else subject


def _compared(maker: _CellMaker, table: Table, num_processes: int) -> Filled:
    """Variants on the same data, at the same length, batch and precision, take turns in a trial."""
    for process in range(num_processes):
        together: dict[tuple[int, int, str, str], dict[str, Subject]] = {}
        for label, subject in table.items():
            if isinstance(subject, Impossible):
                yield maker.skipped(label, process, str(subject)), None
            else:
                precision = _precision(maker.probe, subject)
                footing = (subject.length, subject.batch, _task_name(subject), precision)
                together.setdefault(footing, {})[label] = subject
        for subjects in together.values():
            trial = trial_of(maker.probe, _baseline_first(subjects, maker.group.baseline), process)
            places = {model.spelling: index for index, model in enumerate(trial.subjects)}
            for label, subject in subjects.items():
                yield maker.cell(trial, label, places[subject.model.spelling]), trial


def _baseline_first(subjects: Mapping[str, Subject], baseline: str) -> tuple[Subject, ...]:
    """Each model once, the others in an order that the ablation's has no part in: the id must not.

    An instrument puts its controls beside the first.
    """
    first = [subjects[baseline]] if baseline in subjects else []
    rest = sorted(subjects.values(), key=lambda subject: subject.model.spelling)
    return tuple({subject.model.spelling: subject for subject in (*first, *rest)}.values())


def trial_of(probe: Probe, subjects: tuple[Subject, ...], seed: int) -> Trial:
    """The trial that measures these subjects: only what moves the number is in it."""
    first = subjects[0]
    models = tuple(subject.model for subject in subjects)
    reads = probe.reads_trained or (probe.name == QUALITY and first != as_trained(first))
    trains = probe.trains and not reads
    parallel = first.parallel if probe.is_spread and not reads else None
    return Trial(
        probe=probe.name,
        task=_task_name(first),
        task_digest=first.task.source.digest if first.task else "",
        length=first.length,
        batch=first.batch if probe.is_batched else 1,
        subjects=models,
        training=first.training if trains else None,
        seed=seed,
        versions=_versions(probe, first.task, models, parallel),
        parallel=parallel,
        test_lengths=first.test_lengths if probe.is_tested_at_lengths else (),
        decoding=first.decoding if probe.is_at_decoding else (),
        beam=first.beam if probe.is_at_beam else GREEDY,
        length_penalty=_penalty(probe, first),
        search=trial_of(probe_named(LEARNING_RATE), (first.search,), 0)
        if trains and first.search
        else None,
        threads=first.threads if probe.is_at_loads else None,
        start=_parent(first.start, seed) if probe.may_start else None,
        teacher=_parent(first.teacher, seed) if probe.may_start else None,
        trained=_parent(first, seed) if reads else None,
        num_training_examples=first.num_training_examples if trains or reads else None,
        precision=_precision(probe, first),
    )


def _precision(probe: Probe, subject: Subject) -> Precision:
    """Of what is measured without a training; with DeepSpeed it is in `Parallel`."""
    is_its_own = probe.is_at_precision and subject.parallel is None
    return subject.precision if is_its_own else "float32"


def _penalty(probe: Probe, subject: Subject) -> float:
    """Of a greedy search it moves nothing: then all penalties share a trial."""
    counts = probe.is_at_beam and subject.beam != GREEDY
    return subject.length_penalty if counts else USUAL_PENALTY


def _parent(subject: Subject | None, seed: int) -> Trial | None:
    """The trial that trains what another one uses or looks at, with the same seed."""
    return trial_of(probe_named(QUALITY), (as_trained(subject),), seed) if subject else None


def _trial_of_task(probe: Probe, task: type[Task], subject: Subject) -> Trial:
    """One without subjects: no model, no training and no seed move its numbers."""
    return Trial(
        probe=probe.name,
        task=task.name,
        task_digest=task.source.digest,
        length=subject.length,
        batch=1,
        subjects=(),
        training=None,
        seed=0,
        versions=_versions(probe, task, (), None),
        num_training_examples=subject.num_training_examples,
    )


def _task_name(subject: Subject) -> str:
    return subject.task.name if subject.task else MIXER_ALONE


@dataclass(frozen=True)
class _CellMaker:
    """Makes the cells of one probe in one group."""

    probe: Probe
    group: ComparisonGroup

    def cell(self, trial: Trial, label: str, subject: int) -> Cell:
        """One that the trial fills."""
        return Cell(
            variant=label,
            task=trial.task,
            seed=trial.seed,
            probe=self.probe.name,
            trial_id=trial.trial_id,
            subject=subject,
            at=self.group.at,
            metrics=self._metrics(trial.task, trial),
        )

    def skipped(self, label: str, seed: int, reason: str) -> Cell:
        """One that cannot run; the table has it at the length of the variants that can."""
        said = [self.probe.name, self.group.task, label, seed, reason]
        return Cell(
            variant=label,
            task=self.group.task,
            seed=seed,
            probe=self.probe.name,
            trial_id=content_hash([*said, *filter(None, [self.group.at])]),
            at=self.group.at,
            metrics=self._metrics(self.group.task, self.group.possible),
            reason=reason,
        )

    def _metrics(self, task: str, measured: Trial | Subject) -> tuple[MetricSpec, ...]:
        """Of the probe; at further coordinates the whole ones, and not what has parts."""
        kind = None if task == MIXER_ALONE else task_class(task)
        found = self.probe.metrics(kind, measured.length)
        whole = [m for m in found if m.at in ("", at_length(measured.length))]
        further = self.probe.further_coordinates(measured)
        return (
            *(replace(m, at=self.group.at or m.at) for m in found),
            *(replace(m, at=at) for at in further for m in whole),
        )


def _versions(
    probe: Probe, task: type[Task] | None, models: tuple[ModelSpec, ...], parallel: Parallel | None
) -> dict[str, int | str]:
    versions: dict[str, int | str] = {f"probe {probe.name}": probe.version}
    if task is not None:
        versions[f"task {task.name}"] = task.version
        versions |= probe.definitions(task)
    for model in models:
        # The word is part of ids, so it stays.
        versions[f"skeleton {model.architecture}"] = architecture_version(model.architecture)
        for mixer in architecture_class(model.architecture).mixers_of(model):
            versions[f"mixer {mixer}"] = mixer_version(mixer)
        if model.position:
            versions[f"position {model.position}"] = position_class(model.position).version
    if probe.trains:
        versions["training"] = training.VERSION
    if parallel is not None:
        versions["engine sharded"] = sharded.VERSION
    return versions
