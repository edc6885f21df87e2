"""Say what a plan is about: what a report needs besides its numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from models import Cost
from models.model_spec import Knob, without_late_defaults
from suite.planning.knobs import (
    architectures_of,
    knob_names,
    knobs_of,
    load_architecture,
    load_mixers,
    with_defaults,
)
from suite.planning.loader import VALUE, LoadedAblation
from suite.planning.variants import Baseline, Variant, described, value_text
from suite.schema import (
    FLOORS,
    MIXER_ALONE,
    About,
    Cell,
    ClaimSpec,
    DataSet,
    MetricSpec,
    MixerFacts,
    Trial,
)
from suite.spec import SEEDS, SMOKE, TEACHER, TUNED, WHOLE_MODEL, Ablation, Model, SpecError
from suite.tasks.registry import task_class


@dataclass(frozen=True, kw_only=True)
class Expanded:
    """An ablation as far as it is planned: what `about_of` says it of.

    Attributes:
        reference: The baseline, as a variant.
        filled: Every cell with its trial.
    """

    entry: LoadedAblation
    baseline: Baseline
    reference: Variant
    variants: tuple[Variant, ...]
    filled: Sequence[tuple[Cell, Trial | None]]
    num_seeds: int


def about_of(expanded: Expanded, claim: ClaimSpec | None) -> About:
    """What a report must say besides its numbers."""
    entry, baseline = expanded.entry, expanded.baseline
    ablation, scale_name = entry.ablation, baseline.scale_name
    cells = [cell for cell, _ in expanded.filled]
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    trials = [trial for _, trial in expanded.filled if trial is not None]
    before = (parent.task for trial in trials for parent in trial.parents.values())
    sources = dict.fromkeys((*tasks, *before))
    return About(
        ablation=entry.name,
        scale=scale_name,
        question=ablation.question,
        # Without the line breaks that only the ablation's file needs.
        note="\n\n".join(" ".join(part.split()) for part in entry.note.split("\n\n")),
        baseline=expanded.reference.label,
        variants=tuple(each.label for each in expanded.variants),
        tasks=tasks,
        probes=tuple(ablation.probes),
        num_seeds=expanded.num_seeds,
        settings=_settings(baseline, trials),
        model=_model(baseline),
        claim=claim,
        metrics=_metrics(cells),
        data_sets={task: _data_set(task) for task in sources if task != MIXER_ALONE},
        subjects={variant.label: _facts(baseline, variant) for variant in expanded.variants},
        floors=_floors(cells),
        signatures=_signatures(tasks),
        part_titles=_part_titles(tasks),
        opens_with=ablation.opens_with,
        held_out=dict(ablation.scaling_law.held_out) if ablation.scaling_law else {},
        axis_values={v.label: _axis_values(baseline, v) for v in expanded.variants},
        named_axes={v.label: tuple(v.values) for v in expanded.variants},
        num_test_examples=_num_test_examples(tasks),
        is_indicative=scale_name in (SMOKE, "quick"),
        regenerate=_command(entry, scale_name, expanded.num_seeds),
    )


def _axis_values(baseline: Baseline, variant: Variant) -> dict[str, Knob]:
    """Axis -> the variant's value; what it does not set is as in its model, or in the baseline."""
    names = [axis.name for axis in baseline.ablation.axes]
    unnamed = [name for name in names if name not in variant.values]
    own = _with_model_of(baseline, variant) if unnamed else baseline
    values = {name: variant.values.get(name) for name in names}
    values |= {name: own.value(name) for name in unnamed if name != WHOLE_MODEL}
    if WHOLE_MODEL in unnamed:
        values[WHOLE_MODEL] = baseline.ablation.baseline
    return {n: value_text(v) if isinstance(v, Model) else v for n, v in values.items()}


def _with_model_of(baseline: Baseline, variant: Variant) -> Baseline:
    """The baseline whose model is the variant's; a knob that this model lacks has no value."""
    ablation, model = baseline.ablation, baseline.model(variant)
    if model == ablation.baseline:
        return baseline
    owners = [knobs_of(model.mixer)] if model.mixer else []
    owners += [knob_names(load_architecture(name)) for name in architectures_of(ablation)]
    known = {name: v for name, v in model.knobs.items() if any(name in each for each in owners)}
    changed = ablation.model_copy(update={"baseline": model.model_copy(update={"knobs": known})})
    try:
        knobs = with_defaults(changed, baseline.scale)
    except SpecError:  # a model that cannot be built has the values that it sets
        knobs = known
    return replace(baseline, ablation=changed, knobs=knobs)


def _model(baseline: Baseline) -> dict[str, Knob]:
    """What a report says of the baseline's model; of its parts those that it has.

    Of late knobs those that are set: they are new, and the same model stays the same edition.
    """
    model, knobs = baseline.ablation.baseline, dict(baseline.knobs)
    for name in architectures_of(baseline.ablation):
        knobs = without_late_defaults(load_architecture(name).Config, knobs)
    for mixer in load_mixers(model.mixer).values() if model.mixer else ():
        knobs = without_late_defaults(mixer.Config, knobs)
    parts = ("architecture", "mixer", "position") if model.mixer else ("architecture",)
    found: dict[str, Knob] = {part: getattr(model, part) for part in parts} | model.sizes
    runtime = {} if model.runtime == "eager" else {"runtime": model.runtime}
    return {**found, **runtime, **knobs}


def _floors(cells: list[Cell]) -> dict[str, tuple[str, ...]]:
    """Task -> the labels of its floors."""
    floors = [cell for cell in cells if cell.probe == FLOORS]
    return {
        task: tuple(cell.variant for cell in floors if cell.task == task)
        for task in dict.fromkeys(cell.task for cell in floors)
    }


def _signatures(tasks: Iterable[str]) -> dict[str, str]:
    """As `About.signatures`."""
    found = {task: task_class(task).metric.signature for task in tasks if task != MIXER_ALONE}
    return {task: signature for task, signature in found.items() if signature}


def _part_titles(tasks: Iterable[str]) -> dict[str, dict[str, str]]:
    """As `About.part_titles`."""
    found = {task: dict(task_class(task).part_titles) for task in tasks if task != MIXER_ALONE}
    return {task: titles for task, titles in found.items() if titles}


def _num_test_examples(tasks: Iterable[str]) -> dict[str, int]:
    """As `About.num_test_examples`."""
    found = {task: task_class(task).num_test_examples() for task in tasks if task != MIXER_ALONE}
    return {task: count for task, count in found.items() if count is not None}


def _settings(baseline: Baseline, trials: Sequence[Trial]) -> dict[str, Knob]:
    """What a report says of the scale; of tuned learning rates, how they are searched for."""
    settings = baseline.scale.settings()
    if baseline.ablation.teacher:
        settings["teacher"] = value_text(baseline.value(TEACHER))
    if baseline.scale.learning_rate == TUNED:
        settings["learning_rate"] = _searched(trials)
    return settings | _labelled(baseline.ablation)


def _labelled(ablation: Ablation) -> dict[str, Knob]:
    """What stands behind the labels of models."""
    axes = (axis for axis in ablation.axes if axis.name in (WHOLE_MODEL, TEACHER))
    models = [value for axis in axes for value in axis.values if isinstance(value, Model)]
    return {each.label: described(each) for each in models if each.label}


def _searched(trials: Sequence[Trial]) -> str:
    """As ``tuned: searched for each variant, in trainings of 500 steps``."""
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
    """What runs this again; a user's file by its name, since its folder differs by machine.

    An ablation that a Python program holds is run by such a program.
    """
    name = entry.file.name if entry.source_paths else entry.name
    asked = entry.ablation.scale(scale_name).seeds or SEEDS[scale_name]
    if entry.file == VALUE:
        in_python = f", seeds={num_seeds}" if num_seeds != asked else ""
        return f'suite.run(ABLATION, scale="{scale_name}"{in_python}{entry.options})'
    seeds = f" --seeds {num_seeds}" if num_seeds != asked else ""
    return f"bakeoff run {name} --scale {scale_name}{seeds}{entry.options}"


def _metrics(cells: list[Cell]) -> dict[str, dict[str, tuple[MetricSpec, ...]]]:
    """Task -> probe -> metrics, each once however many lengths it is measured at."""
    found: dict[str, dict[str, tuple[MetricSpec, ...]]] = {}
    for cell in cells:
        of_task = found.setdefault(cell.task, {})
        of_task[cell.probe] = tuple(dict.fromkeys((*of_task.get(cell.probe, ()), *cell.metrics)))
    return found


def _data_set(task: str) -> DataSet:
    source = task_class(task).source
    return DataSet(
        title=source.title,
        licence=source.licence,
        origin=source.origin,
        sha256=source.sha256 or source.digest,
    )
