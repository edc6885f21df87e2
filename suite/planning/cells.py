"""Fill a probe's cells with trials: one per seed, variant or task, or one for all variants.

The grain of the probe determines how many trials there are, and `Probe.depends_on` their content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bakeoff.models import ModelSpec, architecture_class, position_class
from bakeoff.models.model_spec import content_hash
from bakeoff.suite.planning.knobs import Impossible
from bakeoff.suite.planning.own_modules import (
    architecture_version,
    mixer_version,
    probe_version,
    task_version,
)
from bakeoff.suite.planning.resolve import as_trained, not_compiled
from bakeoff.suite.probes.probe import Probe, at_length
from bakeoff.suite.probes.probe import probe as probe_named
from bakeoff.suite.schema import (
    FINDERS,
    GREEDY,
    LEARNING_RATE,
    MIXER_ALONE,
    PACE_OF_STEPS,
    QUALITY,
    USUAL_PENALTY,
    Cell,
    MetricSpec,
    Parallel,
    Trial,
)
from bakeoff.suite.schema.task_names import is_own_class, is_own_data, task_identity, task_label
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training import loop as training
from bakeoff.suite.training.engines import sharded

# Label -> the variant on a task: a trial without a probe, with everything that any probe may depend
# on; or the reason why it is impossible.
Table = Mapping[str, Trial | Impossible]
Filled = Iterator[tuple[Cell, Trial | None]]
# Fields of a trial that describe a training; a trial that examines a trained model has none of
# them.
_OF_SEED_0 = {"search": LEARNING_RATE, "pace": PACE_OF_STEPS, "reference": QUALITY}  # their probes
_OF_A_TRAINING = frozenset({"training", "search", "pace", "parallel"})


@dataclass(frozen=True, kw_only=True)
class ComparisonGroup:
    """The variants on one task or, for mixers alone, at one coordinate of a sweep.

    Attributes:
        task: The name of the task, or `MIXER_ALONE`.
        at: The coordinate; empty outside sweeps.
        baseline: The label of the variant that the others are compared with.
        table: The variants by label, in the order of the page.
    """

    task: str
    at: str = ""
    baseline: str
    table: Table

    @property
    def possible(self) -> dict[str, Trial]:
        """The variants that can run, the baseline first if it can."""
        found = {k: v for k, v in self.table.items() if not isinstance(v, Impossible)}
        return {label: found[label] for label in sorted(found, key=lambda k: k != self.baseline)}


def filled_cells(probe: Probe, group: ComparisonGroup, num_seeds: int) -> Filled:
    """Yield each cell of the probe in the group with its trial, or None if it is impossible."""
    maker = _CellMaker(probe, group)
    if probe.grain == "task":
        yield from _of_tasks(maker)
        return
    seeds = 1 if probe.grain == "variant" else num_seeds
    table = {label: _measurable(probe, found) for label, found in group.table.items()}
    if probe.grain == "comparison":
        yield from _compared(maker, table, seeds)
        return
    for label, found in table.items():
        for seed in range(seeds):
            if isinstance(found, Impossible):
                yield maker.skipped(label, seed, str(found)), None
            else:
                trial = trial_of(probe, (found,), seed)
                yield maker.cell(trial, label, 0), trial


def settling_cells(group: ComparisonGroup) -> Filled:
    """Yield cells and trials that find the learning rates and the numbers of steps of others."""
    possible = [(label, t) for label, t in group.table.items() if isinstance(t, Trial)]
    for role, name in FINDERS.items():
        needed = {label: found.parents.get(role) for label, found in possible}
        table = {label: found for label, found in needed.items() if found is not None}
        yield from filled_cells(probe_named(name), replace(group, table=table), 1)


def _of_tasks(maker: _CellMaker) -> Filled:
    """Yield the cells of one trial per task, on the baseline's data if it has the task."""
    of_task: dict[str, Trial] = {}
    for found in maker.group.possible.values():
        of_task.setdefault(found.task, found)
    for task, found in of_task.items():
        trial = trial_of(maker.probe, (found,), 0)
        for index, label in enumerate(maker.probe.labels(task_class(task))):
            yield maker.cell(trial, label, index), trial


def _measurable(probe: Probe, found: Trial | Impossible) -> Trial | Impossible:
    if isinstance(found, Impossible):
        return found
    if not probe.compiles_as_asked:
        found = not_compiled(found)
    reason = "" if found.task == MIXER_ALONE else probe.why_not_on(task_class(found.task))
    reason = reason or probe.why_not(found.subjects[0], found.parallel)
    is_of_trained = not probe.depends_on.isdisjoint(("training", "trained"))
    if not reason and is_of_trained and "start" not in probe.depends_on:
        if found.start is not None:
            reason = (
                f"{probe.name} measures newly initialised weights, and this starts from other "
                "weights"
            )
        elif found.teacher is not None:
            reason = f"{probe.name} is not supported with a teacher"
    return Impossible(reason) if reason else found


def _compared(maker: _CellMaker, table: Table, num_processes: int) -> Filled:
    """Yield cells of trials that variants of one task, length, batch and precision share."""
    for process in range(num_processes):
        together: dict[tuple[int, int, str, str], dict[str, Trial]] = {}
        for label, found in table.items():
            if isinstance(found, Impossible):
                yield maker.skipped(label, process, str(found)), None
            else:
                precision = found.precision if "precision" in maker.probe.depends_on else ""
                footing = (found.length, found.batch, found.task, precision)
                together.setdefault(footing, {})[label] = found
        for variants in together.values():
            trial = trial_of(maker.probe, _baseline_first(variants, maker.group.baseline), process)
            indices = {model.spelling: index for index, model in enumerate(trial.subjects)}
            for label, found in variants.items():
                yield maker.cell(trial, label, indices[found.subjects[0].spelling]), trial


def _baseline_first(variants: Mapping[str, Trial], baseline: str) -> tuple[Trial, ...]:
    """Return each model once, sorted, so that the id does not depend on the ablation's order.

    The baseline comes first, because the timing harness compares its controls with the first model.
    """
    first = [variants[baseline]] if baseline in variants else []
    rest = sorted(variants.values(), key=lambda found: found.subjects[0].spelling)
    return tuple({found.subjects[0].spelling: found for found in (*first, *rest)}.values())


def trial_of(probe: Probe, variants: tuple[Trial, ...], seed: int) -> Trial:
    """Return the trial that measures these variants; it has only what the number depends on."""
    first = variants[0]
    models = tuple(each.subjects[0] for each in variants) if probe.grain != "task" else ()
    is_read_otherwise = probe.name == QUALITY and first != as_trained(first)
    reads = "trained" in probe.depends_on or is_read_otherwise
    needed = probe.depends_on - _OF_A_TRAINING if reads else probe.depends_on
    values = {name: getattr(first, name) for name in needed}
    if values.get("beam") == GREEDY:
        # The penalty has no effect in greedy search: all penalties share a trial.
        values["length_penalty"] = USUAL_PENALTY
    for part, name in _OF_SEED_0.items():
        if values.get(part):
            values[part] = trial_of(probe_named(name), (values[part],), 0)
    for name in {"start", "teacher"} & values.keys():
        values[name] = _parent(values[name], seed)
    if reads:
        values["trained"] = _parent(first, seed)
    fixed = {"batch": 1, "training": None}
    return Trial(
        probe=probe.name,
        task=first.task,
        task_digest=first.task_digest,
        length=first.length,
        subjects=models,
        seed=seed,
        versions=_versions(probe, first.task, models, values.get("parallel")),
        **{**fixed, **values},
    )


def _parent(variant: Trial | None, seed: int) -> Trial | None:
    """Return the training that another trial uses or examines, with the same seed."""
    return trial_of(probe_named(QUALITY), (as_trained(variant),), seed) if variant else None


@dataclass(frozen=True)
class _CellMaker:
    """A factory of the cells of one probe in one group."""

    probe: Probe
    group: ComparisonGroup

    def cell(self, trial: Trial, label: str, subject: int) -> Cell:
        """Return the cell that the trial fills."""
        return Cell(
            variant=label,
            task=trial.task_label,
            seed=trial.seed,
            probe=self.probe.name,
            trial_id=trial.trial_id,
            subject=subject,
            at=self.group.at,
            metrics=self._metrics(trial.task, trial),
        )

    def skipped(self, label: str, seed: int, reason: str) -> Cell:
        """Return a cell that cannot run, with the metrics of the first variant that can."""
        content = [self.probe.name, self.group.task, label, seed, reason]
        first = next(found for found in self.group.table.values() if isinstance(found, Trial))
        return Cell(
            variant=label,
            task=task_label(self.group.task),
            seed=seed,
            probe=self.probe.name,
            trial_id=content_hash([*content, *filter(None, [self.group.at])]),
            at=self.group.at,
            metrics=self._metrics(self.group.task, first),
            reason=reason,
        )

    def _metrics(self, task: str, trial: Trial) -> tuple[MetricSpec, ...]:
        """Return the probe's metrics; at further coordinates only those of the whole task."""
        found = self.probe.metrics(_class_of(task), trial.length)
        whole = [m for m in found if m.at in ("", at_length(trial.length))]
        further = self.probe.further_coordinates(trial)
        return (
            *(replace(m, at=self.group.at or m.at) for m in found),
            *(replace(m, at=at) for at in further for m in whole),
        )


def _class_of(task: str) -> type[Task] | None:
    return None if task == MIXER_ALONE else task_class(task)


def _versions(
    probe: Probe, task_name: str, models: tuple[ModelSpec, ...], parallel: Parallel | None
) -> dict[str, int | str]:
    versions: dict[str, int | str] = {f"probe {probe.name}": probe_version(probe.name)}
    if task := _class_of(task_name):
        is_own = is_own_class(task_name) or is_own_data(task_name)
        versions[f"task {task_identity(task_name) if is_own else task.name}"] = task_version(
            task_name
        )
        versions |= probe.definitions(task)
    for model in models:
        # The word "skeleton" is part of ids, so it stays.
        versions[f"skeleton {model.architecture}"] = architecture_version(model.architecture)
        for mixer in architecture_class(model.architecture).mixers_of(model):
            versions[f"mixer {mixer}"] = mixer_version(mixer)
        if model.position:
            versions[f"position {model.position}"] = position_class(model.position).version
    if "training" in probe.depends_on:
        versions["training"] = training.VERSION
    if parallel is not None:
        versions["engine sharded"] = sharded.VERSION
    return versions
