"""Which trials fill a probe's cells: one a seed, one a variant, or one for all variants together.

The grain of the probe decides; everything else is the same for all.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from models import ModelSpec, mixer_class, position_class, skeleton_class
from suite import training
from suite.engines import sharded
from suite.probes.probe import Probe
from suite.schema import Cell, Parallel, Trial, canonical_json, content_hash
from suite.subjects import Impossible, Subject
from suite.tasks.registry import task_class
from suite.tasks.task import Task

Table = Mapping[str, Subject | Impossible]
Filled = Iterator[tuple[Cell, Trial | None]]


def filled_cells(probe: Probe, task: str, table: Table, num_seeds: int) -> Filled:
    """Each cell of the probe on the task, with its trial; None where the cell is impossible."""
    length = next(subject.length for subject in table.values() if isinstance(subject, Subject))
    table = {label: _measurable(probe, subject) for label, subject in table.items()}
    seeds = 1 if probe.grain == "variant" else num_seeds
    if probe.grain == "comparison":
        yield from _compared(probe, task, table, length, seeds)
        return
    for label, subject in table.items():
        for seed in range(seeds):
            if isinstance(subject, Impossible):
                yield _skipped(probe, task, length, label, seed, str(subject)), None
            else:
                trial = trial_of(probe, (subject,), seed)
                yield _cell(probe, trial, label, 0), trial


def _measurable(probe: Probe, subject: Subject | Impossible) -> Subject | Impossible:
    if isinstance(subject, Impossible):
        return subject
    reason = probe.why_not(subject.model, subject.parallel)
    return Impossible(reason) if reason else subject


def _compared(probe: Probe, task: str, table: Table, length: int, num_processes: int) -> Filled:
    """Variants that meet the same data at the same length and batch take turns in one trial."""
    for process in range(num_processes):
        together: dict[tuple[str, int, int], dict[str, Subject]] = {}
        for label, subject in table.items():
            if isinstance(subject, Impossible):
                yield _skipped(probe, task, length, label, process, str(subject)), None
            else:
                footing = (subject.task.name, subject.length, subject.batch)
                together.setdefault(footing, {})[label] = subject
        for subjects in together.values():
            trial = trial_of(probe, tuple(subjects.values()), process)
            places = {_spelling(model): index for index, model in enumerate(trial.subjects)}
            for label, subject in subjects.items():
                yield _cell(probe, trial, label, places[_spelling(subject.model)]), trial


def trial_of(probe: Probe, subjects: tuple[Subject, ...], seed: int) -> Trial:
    """The trial that measures these subjects: only what moves the number is in it."""
    first = subjects[0]
    models = _in_one_order(subject.model for subject in subjects)
    parallel = first.parallel if probe.is_spread else None
    return Trial(
        probe=probe.name,
        task=first.task.name,
        task_digest=first.task.source.sha256,
        length=first.length,
        batch=first.batch if probe.is_batched else 1,
        subjects=models,
        training=first.training if probe.trains else None,
        seed=seed,
        versions=_versions(probe, first.task, models, parallel),
        parallel=parallel,
    )


def _in_one_order(models: Iterable[ModelSpec]) -> tuple[ModelSpec, ...]:
    """Each once, in an order that the ablation's has no part in: the trial's id must not."""
    by_spelling = {_spelling(model): model for model in models}
    return tuple(by_spelling[spelling] for spelling in sorted(by_spelling))


def _spelling(model: ModelSpec) -> str:
    return canonical_json(asdict(model))


def _cell(probe: Probe, trial: Trial, label: str, subject: int) -> Cell:
    return Cell(
        variant=label, task=trial.task, seed=trial.seed, probe=probe.name,
        trial_id=trial.trial_id, subject=subject,
        metrics=probe.metrics(task_class(trial.task), trial.length),
    )  # fmt: skip


def _skipped(probe: Probe, task: str, length: int, label: str, seed: int, reason: str) -> Cell:
    """Stands in the table at the length of the variants that can be."""
    return Cell(
        variant=label, task=task, seed=seed, probe=probe.name,
        trial_id=content_hash([probe.name, task, label, seed, reason]),
        metrics=probe.metrics(task_class(task), length), reason=reason,
    )  # fmt: skip


def _versions(
    probe: Probe, task: type[Task], models: tuple[ModelSpec, ...], parallel: Parallel | None
) -> dict[str, int | str]:
    versions: dict[str, int | str] = {f"probe {probe.name}": probe.version}
    versions[f"task {task.name}"] = task.version
    for model in models:
        versions[f"skeleton {model.skeleton}"] = skeleton_class(model.skeleton).version
        versions[f"mixer {model.mixer}"] = mixer_version(model.mixer)
        versions[f"position {model.position}"] = position_class(model.position).version
    if probe.trains:
        versions["training"] = training.VERSION
    if parallel is not None:
        versions["engine sharded"] = sharded.VERSION
    return versions


@cache
def mixer_version(name: str) -> int | str:
    """A shipped mixer's own; for a user's mixer the hash of the file that it stands in."""
    kind = mixer_class(name)
    if ":" not in name:
        version: int = kind.version
        return version
    file = inspect.getsourcefile(kind)
    assert file is not None, "a class that was imported from a module has a source file"
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
