"""Plan an ablation in three steps: load it at a scale, expand it to trials, check its claim.

An impossible variant becomes a row with its reason. Floors are added if a score is claimed
(`bakeoff.suite.planning.claims`). Pure: no clock, no randomness, no store; the same ablation
always gives the same ids.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

from bakeoff.models import Cost
from bakeoff.models.model_spec import Knob, without_late_defaults
from bakeoff.suite.errors import unknown_name
from bakeoff.suite.planning.budgets import on_equal_terms
from bakeoff.suite.planning.cells import ComparisonGroup, Table, filled_cells, settling_cells
from bakeoff.suite.planning.claims import checked_claim, refuse_unfit_law, with_floors
from bakeoff.suite.planning.knobs import (
    Impossible,
    architectures_of,
    knob_names,
    knobs_of,
    load_architecture,
    load_mixers,
    probe_named,
    refuse_foreign_axes,
    refuse_impossible_teachers,
    with_defaults,
)
from bakeoff.suite.planning.loader import (
    VALUE,
    LoadedAblation,
    find,
    find_all,
    find_every,
    of_value,
)
from bakeoff.suite.planning.overrides import Setting, as_options, edited, parsed
from bakeoff.suite.planning.own_modules import forget_changed, forget_versions
from bakeoff.suite.planning.resolve import mixer_at
from bakeoff.suite.planning.same_values import with_distinct_values
from bakeoff.suite.planning.variants import (
    Baseline,
    Coordinate,
    Variant,
    coordinates,
    described,
    value_text,
    variants_of,
)
from bakeoff.suite.probes.probe import Probe, probe
from bakeoff.suite.schema import (
    FINDERS,
    FLOORS,
    LEARNING_RATE,
    MIXER_ALONE,
    PACE_OF_STEPS,
    QUALITY,
    About,
    Cell,
    ClaimSpec,
    DataSet,
    MetricSpec,
    MixerFacts,
    Plan,
    Resources,
    Trial,
)
from bakeoff.suite.schema.task_names import is_own_data, task_label
from bakeoff.suite.spec import (
    EQUAL,
    SCALES,
    SEEDS,
    SMOKE,
    TEACHER,
    TUNED,
    WHOLE_MODEL,
    Ablation,
    Model,
    Scale,
    SpecError,
)
from bakeoff.suite.tasks.own.data import looked_for_in
from bakeoff.suite.tasks.registry import TASKS, task_class
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.text import IN_FILE

MOST_TRIALS = 100_000
Filled = Sequence[tuple[Cell, Trial | None]]  # every cell with its trial
_Fact = TypeVar("_Fact")


def plan(
    ablation: Ablation | LoadedAblation | str,
    *,
    scale: str = "quick",
    seeds: int | None = None,
    settings: Mapping[str, Setting] | None = None,
) -> Plan:
    """Return the plan of an ablation: the trials that would run.

    Args:
        ablation: An ablation, or the name or path of one.
        scale: ``smoke``, ``quick``, ``standard`` or ``paper``.
        seeds: Number of seeds, instead of the scale's.
        settings: Changes to apply to the ablation first, by field; see
            `bakeoff.suite.planning.overrides`.

    Raises:
        SpecError: If anything is misspelt, has the wrong type or is too large, or if the baseline
            is impossible.
    """
    entry = _entry(ablation)
    forget_versions()
    try:
        with looked_for_in(entry.source_paths):
            return _expanded(edited(entry, scale, settings) if settings else entry, scale, seeds)
    except SpecError as error:
        changed = f" with{as_options(settings)}" if settings else ""
        raise SpecError(f"{entry.file}{changed}: {error}") from None


def plans_of(
    names: Sequence[str], *, scale: str, seeds: int | None, options: Sequence[str] = ()
) -> list[Plan]:
    """Return the plans of the ablations that a command names, each changed by the `--set` options.

    Raises:
        SpecError: In the same cases as `plan` and `find_all`.
    """
    settings = parsed(options) if options else None
    return [plan(each, scale=scale, seeds=seeds, settings=settings) for each in find_all(names)]


def distinct_plans(
    ablations: Iterable[Ablation | str | Sequence[Ablation | str]],
    *,
    scale: str,
    seeds: int | None,
    settings: Mapping[str, Setting] | None,
) -> list[Plan]:
    """Return the plans of the ablations of one call, each once.

    Raises:
        SpecError: In the same cases as `plan`; or if two different ablations have the same name,
            under which both would be recorded.
    """
    found: dict[str, Plan] = {}
    for ablation in _flat(ablations):
        each = plan(ablation, scale=scale, seeds=seeds, settings=settings)
        if found.setdefault(each.about.ablation, each) != each:
            raise SpecError(
                f"two ablations are called {each.about.ablation!r}, so their records would clash; "
                "give one of them another Ablation(name=...)."
            )
    return list(found.values())


def _flat(
    ablations: Iterable[Ablation | str | Sequence[Ablation | str]],
) -> Iterator[Ablation | LoadedAblation]:
    """Yield each ablation of a call, and each one in a file."""
    for one in ablations:
        if isinstance(one, str):
            yield from find_every(one)
        elif isinstance(one, list | tuple):
            yield from _flat(one)
        else:
            yield one  # type: ignore[misc]  # anything else is refused by `plan`


def _entry(ablation: Ablation | LoadedAblation | str) -> LoadedAblation:
    if isinstance(ablation, str):
        return find(ablation)
    if isinstance(ablation, LoadedAblation):
        return ablation
    if not isinstance(ablation, Ablation):
        raise SpecError(
            f"{reprlib.repr(ablation)} is not an ablation; give one, its name, or the path of its "
            "file."
        )
    forget_changed()
    return of_value(ablation)


def _expanded(entry: LoadedAblation, scale_name: str, seeds: int | None) -> Plan:
    for name in entry.ablation.probes:
        probe_named(name)
    entry = replace(entry, ablation=with_floors(entry.ablation.at_scale(scale_name)))
    scale = _scale(entry.ablation, scale_name)
    num_seeds = _num_seeds(scale, scale_name, seeds)
    baseline = Baseline(
        ablation=entry.ablation,
        scale=scale,
        knobs=with_defaults(entry.ablation, scale),
        scale_name=scale_name,
    )
    _refuse_unfit_probes(entry.ablation)
    refuse_foreign_axes(baseline)
    refuse_impossible_teachers(entry.ablation, scale)
    baseline = with_distinct_values(baseline)
    reference, variants = variants_of(baseline)
    _refuse_too_many(entry.ablation, scale, variants, num_seeds)
    tables = {
        task: _table(variants, partial(on_equal_terms, baseline, task_name=task))
        for task in entry.ablation.tasks
    }
    groups = _Groups(baseline, reference, variants, tables)
    _refuse_impossible_baseline(groups)
    _refuse_idle_axes(groups)
    filled = [
        each
        for name in entry.ablation.probes
        for group in groups.of(probe(name))
        for each in filled_cells(probe(name), group, num_seeds)
    ]
    filled += _settling(groups, [trial for _, trial in filled if trial])
    claim = checked_claim(baseline, reference, variants, [cell for cell, _ in filled])
    return Plan(
        about=_about(entry, groups, filled, claim, num_seeds),
        cells=tuple(cell for cell, _ in filled),
        trials=tuple({t.trial_id: t for _, t in filled if t for t in _lineage(t)}.values()),
        resources=_resources(scale),
        source_paths=entry.source_paths,
        shared_module=entry.shared_module,
    )


def _refuse_unfit_probes(ablation: Ablation) -> None:
    """Raise for floors without a score, a lone `pace`, and a law that cannot be fitted."""
    refuse_unfit_law(ablation)
    if PACE_OF_STEPS in ablation.probes:
        raise SpecError(
            f"probes: {PACE_OF_STEPS!r} runs by itself where equal='seconds'; leave it out."
        )
    if FLOORS in ablation.probes and QUALITY not in ablation.probes:
        raise SpecError(f"probes: {FLOORS!r} is shown beside a score; name {QUALITY!r} too.")


def _settling(groups: _Groups, trials: Sequence[Trial]) -> list[tuple[Cell, Trial | None]]:
    """Return the cells of the trials that find a learning rate or steps for one of these."""
    needed = [t.parents.get(role) for t in trials for role in FINDERS]
    wanted = {each.trial_id for each in needed if each is not None}
    found = (each for group in groups.of(probe(LEARNING_RATE)) for each in settling_cells(group))
    return [(cell, trial) for cell, trial in found if cell.trial_id in wanted]


def _lineage(trial: Trial) -> Iterator[Trial]:
    """Yield the trials that must run before the trial, then the trial."""
    for parent in trial.parents.values():
        yield from _lineage(parent)
    yield trial


def _resources(scale: Scale) -> Resources:
    return Resources(
        num_cpus=scale.cpus,
        num_threads=scale.threads or scale.cpus,
        num_gpus=float(scale.gpus),
        memory_bytes=round(scale.memory_gib * 2**30),
        gpu_model=scale.gpu_model,
    )


def _scale(ablation: Ablation, name: str) -> Scale:
    if name not in SCALES:
        raise SpecError(unknown_name("scale", str(name), SCALES))
    if name not in ablation.scales:
        raise SpecError(
            f"this ablation declares no scale {name!r}; it has {', '.join(ablation.scales)}."
        )
    return ablation.scale(name)


def _num_seeds(scale: Scale, scale_name: str, seeds: int | None) -> int:
    if seeds is not None and not (type(seeds) is int and 1 <= seeds <= 10_000):
        raise SpecError(f"seeds={reprlib.repr(seeds)} must lie between 1 and 10000.")
    return seeds or scale.seeds or SEEDS[scale_name]


def _refuse_too_many(
    ablation: Ablation, scale: Scale, variants: tuple[Variant, ...], num_seeds: int
) -> None:
    is_swept = any(probe(name).is_swept for name in ablation.probes)
    swept = (scale.lengths, scale.dims, scale.batches, scale.thread_counts)
    num_places = sum(map(len, swept)) if is_swept else 0
    count = len(variants) * (len(ablation.tasks) + num_places) * num_seeds
    if count > MOST_TRIALS:
        places = f" and {num_places} places of a sweep" if num_places else ""
        raise SpecError(
            f"{len(variants)} variants x {len(ablation.tasks)} tasks{places} x {num_seeds} seeds "
            f"are {count} trials; at most {MOST_TRIALS} are allowed."
        )


def _table(variants: Iterable[Variant], resolve: Callable[[Variant], Trial]) -> Table:
    found: dict[str, Trial | Impossible] = {}
    for variant in variants:
        try:
            found[variant.label] = resolve(variant)
        except Impossible as reason:
            found[variant.label] = reason
    return found


def _refuse_impossible_baseline(groups: _Groups) -> None:
    for task, table in groups.tables.items():
        subject = table[groups.reference.label]
        if isinstance(subject, Impossible):
            raise SpecError(f"the baseline is impossible on {task_label(task)}: {subject}.")


def _refuse_idle_axes(groups: _Groups) -> None:
    """Raise for an axis without any effect, and for a teacher that no model learns from."""
    reference, tables = groups.reference.label, groups.tables.values()
    subjects = [each for table in tables for each in table.values()]
    if groups.baseline.ablation.teacher and not any(
        isinstance(each, Impossible) or each.teacher for each in subjects
    ):
        raise SpecError("no variant uses the teacher; set distillation='soft' or 'hard'.")
    for axis in groups.baseline.ablation.axes:
        if axis.name == EQUAL and groups.baseline.ablation.combine != "one_at_a_time":
            continue  # the baseline alone is the same at each budget
        changed = [v.label for v in groups.variants if set(v.changes) == {axis.name}]
        same = [all(table[label] == table[reference] for table in tables) for label in changed]
        if changed and all(same):
            raise SpecError(f"the axis {axis.name!r} has no effect on training.")


@dataclass(frozen=True)
class _Groups:
    """The variants of an ablation, grouped as its probes compare them."""

    baseline: Baseline
    reference: Variant
    variants: tuple[Variant, ...]
    tables: Mapping[str, Table]

    @cached_property
    def of_mixers(self) -> tuple[tuple[Coordinate, ComparisonGroup], ...]:
        """The mixers alone, at each coordinate."""
        return tuple(
            (
                place,
                ComparisonGroup(
                    task=MIXER_ALONE,
                    at=place.at,
                    baseline=self.reference.label,
                    table=self._alone(place),
                ),
            )
            for place in coordinates(self.baseline.scale)
        )

    def of(self, probe: Probe) -> Iterator[ComparisonGroup]:
        """Yield the groups that the probe measures."""
        if not probe.is_swept:
            for task, table in self.tables.items():
                yield ComparisonGroup(task=task, baseline=self.reference.label, table=table)
            return
        for place, group in self.of_mixers:
            if place.is_load and "threads" not in probe.depends_on:
                continue
            if probe.measures_at(
                place.changes["length"], is_along_lengths="dim" not in place.changes
            ):
                yield group

    def _alone(self, coordinate: Coordinate) -> Table:
        resolve = partial(mixer_at, self.baseline, coordinate=coordinate)
        table = _table(self.variants, resolve)
        if all(isinstance(subject, Impossible) for subject in table.values()):
            reason = next(iter(table.values()))
            raise SpecError(f"no mixer can be measured alone at {coordinate.at}: {reason}.")
        return table


def _about(
    entry: LoadedAblation, groups: _Groups, filled: Filled, claim: ClaimSpec | None, num_seeds: int
) -> About:
    """Return the content of a report besides its numbers."""
    baseline, variants = groups.baseline, groups.variants
    ablation, scale_name = entry.ablation, baseline.scale_name
    cells = [cell for cell, _ in filled]
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    trials = [trial for _, trial in filled if trial is not None]
    before = [parent.task for trial in trials for parent in trial.parents.values()]
    classes = _classes([*groups.tables, *(trial.task for trial in trials), *before])
    sources = dict.fromkeys((*tasks, *map(task_label, before)))
    of_tasks = partial(_of_tasks, classes)
    return About(
        ablation=entry.name,
        scale=scale_name,
        question=ablation.question,
        note=entry.note,
        baseline=groups.reference.label,
        variants=tuple(each.label for each in variants),
        tasks=tasks,
        probes=tuple(ablation.probes),
        num_seeds=num_seeds,
        settings=_settings(baseline, trials),
        model=_model(baseline),
        claim=claim,
        metrics=_metrics(cells),
        data_sets=of_tasks(sources, _data_set),
        subjects={variant.label: _facts(baseline, variant) for variant in variants},
        floors=_floors(cells),
        signatures=of_tasks(tasks, lambda task: task.metric.signature),
        part_titles=of_tasks(tasks, lambda task: dict(task.part_titles)),
        opens_with=ablation.opens_with,
        words=dict(ablation.words),
        held_out=dict(ablation.scaling_law.held_out) if ablation.scaling_law else {},
        axis_values={v.label: _axis_values(baseline, v) for v in variants},
        named_axes={v.label: tuple(v.values) for v in variants},
        num_test_examples=of_tasks(tasks, lambda task: task.num_test_examples()),
        training_steps=_training_steps(groups),
        is_indicative=scale_name in (SMOKE, "quick"),
        regenerate=_command(entry, scale_name, num_seeds),
    )


def _training_steps(groups: _Groups) -> dict[str, dict[str, int]]:
    """Return task -> variant -> training steps; empty if they are those of the scale or an axis."""
    budgets = {v.settings.get(EQUAL, groups.baseline.scale.equal) for v in groups.variants}
    if budgets == {"steps"}:
        return {}
    found: dict[str, dict[str, int]] = {}
    for table in groups.tables.values():
        for label, trial in table.items():
            if isinstance(trial, Trial) and trial.training and not trial.pace:
                found.setdefault(trial.task_label, {})[label] = trial.training.steps
    return found


def _axis_values(baseline: Baseline, variant: Variant) -> dict[str, Knob]:
    """Return axis -> the variant's value, by default that of its model or of the baseline."""
    names = [axis.name for axis in baseline.ablation.axes]
    unnamed = [name for name in names if name not in variant.values]
    own = _with_model_of(baseline, variant) if unnamed else baseline
    values = {name: variant.values.get(name) for name in names}
    values |= {name: own.value(name) for name in unnamed if name != WHOLE_MODEL}
    if WHOLE_MODEL in unnamed:
        values[WHOLE_MODEL] = baseline.ablation.baseline
    named = {name: task_label(str(values[name])) for name in {"task", "start"} & values.keys()}
    return {n: value_text(v) if isinstance(v, Model) else v for n, v in {**values, **named}.items()}


def _with_model_of(baseline: Baseline, variant: Variant) -> Baseline:
    """Return the baseline with the variant's model; a knob that this model lacks has no value."""
    ablation, model = baseline.ablation, baseline.model(variant)
    if model == ablation.baseline:
        return baseline
    owners = [knobs_of(model.mixer)] if model.mixer else []
    owners += [knob_names(load_architecture(name)) for name in architectures_of(ablation)]
    known = {name: v for name, v in model.knobs.items() if any(name in each for each in owners)}
    changed = ablation.model_copy(update={"baseline": model.model_copy(update={"knobs": known})})
    try:
        knobs = with_defaults(changed, baseline.scale)
    except SpecError:  # a model that cannot be built has only the values that it sets
        knobs = known
    return replace(baseline, ablation=changed, knobs=knobs)


def _model(baseline: Baseline) -> dict[str, Knob]:
    """Return the fields of the baseline's model that a report shows.

    Late knobs are only included if they are set, so that a new knob does not change the edition.
    """
    model, knobs = baseline.ablation.baseline, dict(baseline.knobs)
    for name in architectures_of(baseline.ablation):
        knobs = without_late_defaults(load_architecture(name).Config, knobs)
    for mixer in load_mixers(model.mixer).values() if model.mixer else ():
        knobs = without_late_defaults(mixer.Config, knobs)
    parts = ("architecture", "mixer", "position") if model.mixer else ("architecture",)
    found: dict[str, Knob] = {part: getattr(model, part) for part in parts} | model.sizes
    return {**found, **knobs}


def _floors(cells: list[Cell]) -> dict[str, tuple[str, ...]]:
    """Return task -> the labels of its floors."""
    floors = [cell for cell in cells if cell.probe == FLOORS]
    return {
        task: tuple(cell.variant for cell in floors if cell.task == task)
        for task in dict.fromkeys(cell.task for cell in floors)
    }


def _classes(names: Iterable[str]) -> dict[str, type[Task]]:
    """Return label -> class of tasks.

    Raises:
        SpecError: If two tasks have one label.
    """
    found: dict[str, str] = {}
    for name in names:
        label = task_label(name)
        other = found.setdefault(label, name)
        if other != name or (is_own_data(name) and label in (*TASKS, MIXER_ALONE)):
            what = f"{other} and {name}" if other != name else f"{name} and a shipped task"
            raise SpecError(f"{what} would both be called {label!r}; give one of your own a name=.")
    return {label: task_class(name) for label, name in found.items() if name != MIXER_ALONE}


def _of_tasks(
    classes: Mapping[str, type[Task]],
    labels: Iterable[str],
    read: Callable[[type[Task]], _Fact | None],
) -> dict[str, _Fact]:
    """Return label -> the result of `read` on the task, without tasks for which it is empty."""
    found = {label: read(classes[label]) for label in labels if label in classes}
    return {label: fact for label, fact in found.items() if fact}


def _settings(baseline: Baseline, trials: Sequence[Trial]) -> dict[str, Knob]:
    """Return the settings that a report shows, including how learning rates are tuned."""
    settings = baseline.scale.settings()
    if baseline.ablation.teacher:
        settings["teacher"] = value_text(baseline.value(TEACHER))
    if baseline.scale.learning_rate == TUNED:
        settings["learning_rate"] = _searched(trials)
    return settings | _labelled(baseline.ablation)


def _labelled(ablation: Ablation) -> dict[str, Knob]:
    """Return label -> a description of the model, for models on axes."""
    axes = (axis for axis in ablation.axes if axis.name in (WHOLE_MODEL, TEACHER))
    models = [value for axis in axes for value in axis.values if isinstance(value, Model)]
    return {each.label: described(each) for each in models if each.label}


def _searched(trials: Sequence[Trial]) -> str:
    """Return a text like ``tuned: searched for each variant, in trainings of 500 steps``."""
    searches = [trial.search.training for trial in trials if trial.search]
    steps = sorted({each.steps for each in searches if each})
    if not steps:
        return TUNED
    numbers = " and ".join(f"{each:,}" for each in steps)
    return f"{TUNED}: searched for each variant, in trainings of {numbers} steps"


def _facts(baseline: Baseline, variant: Variant) -> MixerFacts:
    name = baseline.model(variant).mixer
    if name is None:
        return MixerFacts(mixer="")
    mixers = load_mixers(name).values()
    cost = next(mixer.cost for mixer in mixers) if len(mixers) == 1 else Cost()
    proven = all(mixer.is_proven() for mixer in mixers)
    return MixerFacts(mixer=name, **asdict(cost), is_proven=proven)


def _command(entry: LoadedAblation, scale_name: str, num_seeds: int) -> str:
    """Return the command that runs this again; a user's file is given by its name alone.

    For an ablation that a Python program defines, return the call of `bakeoff.run`.
    """
    name = entry.file.name if entry.source_paths else entry.name
    name += f"{IN_FILE}{entry.name}" if entry.shared_module else ""
    asked = entry.ablation.scale(scale_name).seeds or SEEDS[scale_name]
    if entry.file == VALUE:
        in_python = f", seeds={num_seeds}" if num_seeds != asked else ""
        return f'bakeoff.run(ABLATION, scale="{scale_name}"{in_python}{entry.options})'
    seeds = f" --seeds {num_seeds}" if num_seeds != asked else ""
    return f"bakeoff run {name} --scale {scale_name}{seeds}{entry.options}"


def _metrics(cells: list[Cell]) -> dict[str, dict[str, tuple[MetricSpec, ...]]]:
    """Return task -> probe -> metrics, each once even if it is measured at several lengths."""
    found: dict[str, dict[str, tuple[MetricSpec, ...]]] = {}
    for cell in cells:
        of_task = found.setdefault(cell.task, {})
        of_task[cell.probe] = tuple(dict.fromkeys((*of_task.get(cell.probe, ()), *cell.metrics)))
    return found


def _data_set(task: type[Task]) -> DataSet:
    source = task.source
    return DataSet(
        title=source.title,
        licence=source.licence,
        origin=source.origin,
        sha256=source.sha256 or source.digest,
    )
