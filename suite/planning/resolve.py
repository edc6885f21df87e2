"""Resolve a variant and a task to a model, its training and its data, or to a reason why not.

A wrong name or a value of the wrong type is the author's mistake (SpecError). An incompatible
combination (heads that do not divide the width, a causal FNet) is an impossible cell of the table:
it becomes a skipped row with its reason.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from typing import Any

from models import POSITIONS, Input, Interface, ModelSpec, build_shapes
from models.interface import INPUTS, Answer
from models.model_spec import RUNTIMES, Runtime, without_late_defaults
from models.registry import mixer_pattern, relative_position
from suite.errors import unknown_name
from suite.planning.examination import try_own_architecture, try_own_mixer
from suite.planning.knobs import (
    Impossible,
    checked_knobs,
    checked_settings,
    has_hole,
    in_words,
    knob_names,
    knobs_and_settings,
    knobs_in_training,
    knobs_of,
    load_architecture,
    load_mixers,
    scale_with,
    size_of,
    task_named,
)
from suite.planning.loader import tried
from suite.planning.own_modules import own_versions
from suite.planning.training_examination import why_rows_mixed, why_unsaved, why_unshared
from suite.planning.variants import Baseline, Coordinate, Variant
from suite.probes.probe import probe
from suite.schema import MIXER_ALONE, Parallel, Precision, Training, Trial
from suite.spec import MODEL_FIELDS, SMOKE, TEACHER, TUNED, WHOLE_MODEL, Model, Scale, SpecError
from suite.spec.recipe import NO_DISTILLATION, NO_START
from suite.tasks.data_files import is_absent
from suite.tasks.registry import build_task
from suite.tasks.task import Task, TaskError
from suite.training.augmentation import why_not_augmented
from suite.training.sampling import why_no_sampling


def variant_on(baseline: Baseline, variant: Variant, task_name: str) -> Trial:
    """Return the variant on the task as a trial of no probe yet, with every value filled in.

    It has no seed and no versions; `suite.planning.cells` makes trials of probes from it.

    Raises:
        SpecError: for what is misspelt or mistyped.
        Impossible: for an incompatible combination.
    """
    task = task_named(str(variant.settings.get("task", task_name)))
    model = baseline.model(variant)
    scale = scale_with(baseline.scale, {**model.sizes, **variant.settings})
    length = _length(task, scale)
    test_lengths = _test_lengths(task, scale)
    interface = task.interface(max(length, *test_lengths, 0))
    name = _architecture(model, task, interface)
    spec = _model_spec(_named(model, name), variant, scale, interface)
    if reason := _why_whole(spec, scale) or _why_untrained(name, scale):
        raise Impossible(f"{name}: {reason}")
    if reason := _why_whole_own(spec, scale, task.asks_for):
        raise Impossible(reason)
    training = _training(_at_own_rate(scale, baseline.scale), task, name)
    parallel = _parallel(scale)
    found = Trial(
        probe="",
        task=task.name,
        task_digest=task.source.digest,
        subjects=(spec,),
        training=training,
        length=length,
        batch=scale.batch,
        seed=0,
        versions={},
        parallel=parallel,
        test_lengths=test_lengths,
        start=_start(baseline, variant, scale),
        teacher=_teacher(baseline, variant, scale, task),
        decoding=_decoding(scale),
        precision="float32" if parallel else scale.precision,  # with DeepSpeed `Parallel` has it
        **_writing(baseline, scale),
        num_training_examples=_num_training_examples(task, scale),
    )
    if scale.learning_rate != TUNED or baseline.scale_name == SMOKE:
        return found
    search = dataclasses.replace(
        as_trained(found),
        training=searching(scale, training, baseline.scale.steps),
        parallel=None,
        test_lengths=(),
        decoding=(),
    )
    return dataclasses.replace(found, search=search)


def as_trained(variant: Trial) -> Trial:
    """Return it without knobs that count in reading alone: what differs in them trains once."""
    (model,) = variant.subjects
    if not model.mixer:
        return variant
    knobs = knobs_in_training(model.mixer, model.knobs)
    return dataclasses.replace(variant, subjects=(dataclasses.replace(model, knobs=knobs),))


def _why_whole(spec: ModelSpec, scale: Scale) -> str:
    """Return why it cannot be trained in these parts or with this teacher; empty if it can."""
    num_parts = scale.workers * scale.accumulation
    architecture = load_architecture(spec.architecture)
    if scale.distillation != NO_DISTILLATION and architecture.learns_by_score(spec):
        return "estimator='reinforce' learns from the task's own loss alone, without distillation"
    return architecture.why_whole(spec, num_parts=num_parts, are_parameters_divided=scale.zero == 3)


def _why_whole_own(spec: ModelSpec, scale: Scale, asks_for: Answer) -> str:
    """Return the same of the user's own classes, which say nothing of it: what was seen."""
    num_parts, is_spread = scale.workers * scale.accumulation, _parallel(scale) is not None
    if not spec.is_own or (num_parts == 1 and not is_spread):
        return ""
    if num_parts > 1 and (reason := why_rows_mixed(spec, asks_for)):
        return f"{reason}, and the batch would be cut into {num_parts}"
    if scale.accumulation > 1 and (reason := why_unsaved(spec, asks_for)):
        return f"{reason}; with accumulation={scale.accumulation} each part would change it"
    return why_unshared(spec, asks_for) if is_spread else ""


def _why_untrained(name: str, scale: Scale) -> str:
    """Return why parts that it does not train would stay as drawn; empty if they do not."""
    needed = load_architecture(name).starts_from
    if not needed or (scale.start != NO_START and task_named(scale.start).asks_for == needed):
        return ""
    return f"it does not train all its parts; give start=, a task that asks for an {needed}"


def _decoding(scale: Scale) -> tuple[tuple[int, int], ...]:
    """Return each number of sequences with each beam, less (1, 1), which is always measured."""
    pairs = itertools.product({1, *scale.decode_batches}, {1, *scale.beams})
    return tuple(sorted(set(pairs) - {(1, 1)}))


def _writing(baseline: Baseline, scale: Scale) -> dict[str, Any]:
    """Return how a trained model writes; nothing if no probe asks, so that the axis is refused."""
    if not any("beam" in probe(name).depends_on for name in baseline.ablation.probes):
        return {}
    return {"beam": scale.beam, "length_penalty": float(scale.length_penalty)}


def _start(baseline: Baseline, variant: Variant, scale: Scale) -> Trial | None:
    """Return the same model on the task on which it is trained first.

    Where its architecture cannot serve that task, one whose parts have the same names, or the
    task's own, which has no mixer; with those knobs that both have.
    """
    if scale.start == NO_START:
        return None
    task = task_named(scale.start)
    model = baseline.model(variant)
    instead = _instead(model, task, task.interface(task.fixed_length or scale.length))
    model = instead or model
    knobs = knob_names(load_architecture(model.architecture or task.architecture))
    knobs |= knobs_of(model.mixer) if model.mixer else set()
    try:
        return variant_on(*pretraining_of(baseline, variant, scale, knobs, instead), task.name)
    except Impossible as reason:
        raise Impossible(f"it cannot be trained on {task.name} first: {reason}") from None


def _instead(model: Model, task: type[Task], interface: Interface) -> Model | None:
    """Return what is trained on the task in place of a model that cannot serve it, else None."""
    if not model.architecture:
        return None
    kind = load_architecture(model.architecture)
    if not kind.why_not(interface):
        return None
    if sibling := kind.siblings.get(interface.asks_for):
        return _named(model if has_hole(sibling) else _without_mixer(model), sibling)
    return Model(task.architecture).model_copy(update={"knobs": model.knobs})


def _teacher(baseline: Baseline, variant: Variant, scale: Scale, task: type[Task]) -> Trial | None:
    """Return the model that the variant learns from, on the same task."""
    if scale.distillation == NO_DISTILLATION:
        return None
    asked = f"distillation={scale.distillation!r}"
    model = baseline.teacher(variant)
    if model is None:
        raise SpecError(f"{asked} needs a teacher; give Ablation(teacher=Model(...)).")
    if task.asks_for in {"number", "choice"}:
        raise Impossible(f"{asked} is for classes, and {task.name} asks for a {task.asks_for}")
    try:
        found = variant_on(*teaching_of(baseline, variant, scale, model), task.name)
    except Impossible as reason:
        raise Impossible(f"its teacher cannot be trained on {task.name}: {reason}") from None
    if found != as_trained(found):
        raise Impossible("its teacher has knobs of reading alone, and teaches as it was trained")
    return found


def mixer_at(baseline: Baseline, variant: Variant, coordinate: Coordinate) -> Trial:
    """Return the variant's mixer at the coordinate: one layer, and by default one sequence.

    Raises:
        SpecError: for what is misspelt or mistyped.
        Impossible: for an incompatible combination.
    """
    model = baseline.model(variant)
    settings = {**model.sizes, **variant.settings, **coordinate.changes, "depth": 1}
    scale = scale_with(baseline.scale, settings)
    if model.mixer is None:
        raise Impossible(f"{model.architecture or 'the model'} has no mixer to measure alone")
    if list(load_mixers(model.mixer)) != [model.mixer]:
        raise Impossible(f"{model.mixer} is a pattern, and a mixer is measured alone")
    dim = size_of(scale, "dim", model.mixer)
    vectors = Input(kind="vectors", size=dim, length=scale.length)
    interface = Interface(inputs={INPUTS: vectors}, asks_for="symbols", output_size=dim)
    threads = coordinate.changes.get("threads")
    usual = baseline.scale.threads or baseline.scale.cpus
    return Trial(
        probe="",
        task=MIXER_ALONE,
        task_digest="",
        subjects=(_model_spec(_named(model, MIXER_ALONE), variant, scale, interface),),
        training=None,
        length=scale.length,
        batch=coordinate.changes.get("batch", 1),
        seed=0,
        versions={},
        threads=None if threads == usual else threads,
        precision=checked_precision(scale),
    )


def _without_mixer(model: Model) -> Model:
    return model.model_copy(update={"mixer": None})


def _named(model: Model, architecture: str) -> Model:
    return model.model_copy(update={"architecture": architecture})


def _length(task: type[Task], scale: Scale) -> int:
    length = task.fixed_length or scale.length
    try:
        task(length)
    except TaskError as error:
        raise Impossible(str(error)) from None
    return length


def _test_lengths(task: type[Task], scale: Scale) -> tuple[int, ...]:
    """Return the lengths to be tested at; raise Impossible if the task cannot have them."""
    if scale.test_lengths and _parallel(scale) is not None:
        raise Impossible("test_lengths are for trials of one process, without DeepSpeed")
    if task.fixed_length and scale.test_lengths:
        raise Impossible(f"{task.name} is {task.fixed_length} tokens long: no other test_lengths")
    for length in scale.test_lengths:
        _length(task, scale.model_copy(update={"length": length}))
    return tuple(scale.test_lengths)


def _num_training_examples(task: type[Task], scale: Scale) -> int | None:
    """Return the number of examples to train on; raise Impossible if the task has fewer.

    Of data that are not here yet the trial will say.
    """
    count = scale.num_training_examples
    if count is None or is_absent(task.source):
        return count
    try:
        build_task(task.name, task.fixed_length or scale.length, count)
    except TaskError as error:
        raise Impossible(str(error)) from None
    return count


def _at_own_rate(scale: Scale, usual: Scale) -> Scale:
    """Return the scale with the rate of its width, if the recipe says how that falls."""
    if not scale.width_power:
        return scale
    if isinstance(scale.learning_rate, str):
        raise SpecError(
            f"width_power={scale.width_power} goes with a learning rate that is a number; "
            f"learning_rate={scale.learning_rate!r} finds one for each variant."
        )
    factor = ((usual.dim or 1) / (scale.dim or 1)) ** scale.width_power
    return scale.model_copy(update={"learning_rate": float(f"{scale.learning_rate * factor:.6g}")})


def _training(scale: Scale, task: type[Task], architecture: str) -> Training:
    """Return the training; a learning rate that is tuned begins as the first one to be tried."""
    rate = scale.learning_rate
    is_fine_tuned = scale.start != NO_START and not load_architecture(architecture).starts_from
    return Training(
        steps=scale.steps,
        learning_rate=first_rate(scale, is_fine_tuned) if rate == TUNED else float(rate),
        warmup_steps=scale.warmup_steps,
        num_evaluations=scale.num_evaluations,
        **checked_recipe(scale, task, is_spread=_parallel(scale) is not None),
    )


def _parallel(scale: Scale) -> Parallel | None:
    """Return how DeepSpeed spreads a step; None if it is not asked for."""
    parts = scale.workers * scale.accumulation
    if scale.batch % parts:
        raise Impossible(
            f"a batch of {scale.batch} cannot be cut into {parts} equal parts "
            f"(workers={scale.workers} x accumulation={scale.accumulation})"
        )
    if scale.zero is None and scale.workers == 1:
        return None
    return Parallel(
        workers=scale.workers,
        zero=scale.zero or 0,
        precision=scale.precision,
        accumulation=scale.accumulation,
    )


def _architecture(model: Model, task: type[Task], interface: Interface) -> str:
    """Return the model's architecture, or the task's if the model names none.

    Raises:
        SpecError: for an architecture or a mixer that is not known.
        Impossible: where it cannot serve the task, or hold the mixer.
    """
    name = model.architecture or task.architecture
    kind = load_architecture(name)
    if reason := kind.why_not(interface):
        raise Impossible(
            f"{task.name} asks for {interface.asks_for}, and {name} {reason} (leave the "
            "architecture out to take each task's own)"
        )
    if has_hole(name) != (model.mixer is not None):
        has = "needs a mixer" if has_hole(name) else f"has no hole for the mixer {model.mixer}"
        raise Impossible(f'{name} {has}; to compare the two, name whole models: vary("model", ...)')
    for mixer, each in load_mixers(model.mixer or "").items():
        if kind.is_causal and not each.supports_causal:
            hint = " (set supports_causal in its class if it can)" if ":" in mixer else ""
            raise Impossible(f"{mixer} cannot be causal{hint}, and {_with_article(name)} must be")
    return name


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _model_spec(model: Model, variant: Variant, scale: Scale, interface: Interface) -> ModelSpec:
    """Return the whole model, tried without memory; the architecture of `model` is filled in."""
    name, mixer = str(model.architecture), model.mixer or ""
    takes = load_architecture(name).takes
    knobs, settings = knobs_and_settings(model.knobs, variant, mixer, name)
    others = {key: value for key, value in interface.inputs.items() if key != INPUTS}
    first = interface.inputs[INPUTS]
    spec = ModelSpec(
        architecture=name,
        mixer=mixer,
        knobs=checked_knobs(mixer, size_of(scale, "dim", mixer), knobs) if mixer else {},
        position=_position(model.position, name) if "position" in takes else "",
        dim=size_of(scale, "dim", name) if "dim" in takes else 0,
        depth=size_of(scale, "depth", name) if "depth" in takes else 0,
        length=first.length,
        input_kind=first.kind,
        input_size=first.size,
        grid=first.grid,
        others=others,
        output_size=interface.output_size,
        settings=without_late_defaults(
            load_architecture(name).Config, checked_settings(name, settings)
        ),
        runtime=_runtime(model, scale),
    )
    _refuse_elsewhere(spec, scale, is_masked=interface.is_padded)
    period = len(mixer_pattern(mixer)) or 1  # these blocks represent all
    flat = spec if ":" in name else dataclasses.replace(spec, depth=min(spec.depth, period))
    if reason := _why_unbuildable(
        flat.spelling,
        interface.asks_for,
        is_padded=interface.is_padded and spec.is_own,
        versions=own_versions(spec),
    ):
        raise Impossible(reason)
    return spec


def _refuse_elsewhere(spec: ModelSpec, scale: Scale, *, is_masked: bool) -> None:
    """Refuse what could not run with these knobs where, or as, the scale runs it."""
    for kind in load_mixers(spec.mixer).values():
        config = kind.Config(**{k: v for k, v in spec.knobs.items() if k in knob_names(kind)})
        if reason := kind.why_not_on(
            config, on_gpu=bool(scale.gpus), precision=scale.precision, is_masked=is_masked
        ):
            raise Impossible(reason)
    if spec.runtime == "cuda_graph" and (drawing := _draws_anew(spec)):
        raise Impossible(f"{drawing} draws anew as it trains, and a CUDA graph only replays")


def _draws_anew(spec: ModelSpec) -> str:
    """Return the part of the model that draws random numbers in training; empty if none does."""
    architecture = load_architecture(spec.architecture)
    if architecture.is_stochastic:
        return spec.architecture
    mixers = load_mixers(spec.mixer)
    drawing = next((name for name, kind in mixers.items() if kind.is_stochastic), "")
    return drawing or (spec.architecture if architecture.learns_by_score(spec) else "")


def _position(name: str, architecture: str) -> str:
    """Return the position encoding; of a mixer alone only one that acts inside it."""
    if name not in POSITIONS:
        raise SpecError(unknown_name("position", name, POSITIONS))
    return name if architecture != MIXER_ALONE or relative_position(name) else "none"


def _runtime(model: Model, scale: Scale) -> Runtime:
    """Return the runtime, if the mixer can be run by it at that scale."""
    name = model.runtime
    runtime = next((each for each in RUNTIMES if each == name), None)
    if runtime is None:
        raise SpecError(unknown_name("runtime", name, RUNTIMES))
    if runtime != "eager" and _parallel(scale) is not None:
        raise Impossible(f"DeepSpeed runs eagerly, not by runtime={name!r}")
    if runtime == "cuda_graph" and not scale.gpus:
        raise Impossible(f"runtime={name!r} needs a GPU, and the scale has gpus=0")
    return runtime


def _is_own(name: str) -> bool:
    return ":" in name


@cache
def _why_unbuildable(
    spec_json: str, asks_for: Answer, *, is_padded: bool, versions: tuple[int | str, ...]
) -> str:
    """Say why the model cannot be built, tried without memory; empty where it can be.

    The versions only tell models apart that have one name.
    """
    spec = ModelSpec.of_spelling(spec_json)
    try:
        if not spec.is_own:
            build_shapes(spec)
            return ""
        with tried():
            for mixer in filter(_is_own, dict.fromkeys(mixer_pattern(spec.mixer))):
                knobs = {k: v for k, v in spec.knobs.items() if k in knobs_of(mixer)}
                alone = dataclasses.replace(spec, mixer=mixer, knobs=knobs)
                try_own_mixer(alone, is_padded=is_padded)
            if _is_own(spec.architecture):
                try_own_architecture(spec, asks_for, is_padded=is_padded)
    except Exception as error:  # torch, at absurd sizes, and a user's class may raise anything
        own = (part for part in (spec.mixer, spec.architecture) if ":" in part)
        return in_words(next(own, spec.mixer or spec.architecture), error)
    return ""


def checked_recipe(scale: Scale, task: type[Task], *, is_spread: bool) -> dict[str, Any]:
    """Return the fields of `Training`; one without effect keeps its default, and so does the id.

    Args:
        scale: With the variant's changes.
        task: What is trained on.
        is_spread: Whether DeepSpeed runs the step; precision and parts are then in `Parallel`.

    Raises:
        Impossible: for what DeepSpeed, a CPU, or a model of that task cannot do.
    """
    if is_spread:
        _refuse_on_workers(scale)
    checked_precision(scale)
    if scale.is_start_frozen and scale.start == NO_START:
        raise Impossible("is_start_frozen=True needs a start, whose weights it keeps")
    if scale.scheduled_sampling and (why := why_no_sampling(task)):
        raise Impossible(f"scheduled_sampling={scale.scheduled_sampling} is impossible: {why}")
    recipe = scale.in_training()
    if why := why_not_augmented(task, recipe, scale.batch):
        raise Impossible(why)
    in_parallel = ("precision", "accumulation") if is_spread else ()
    return {k: value for k, value in recipe.items() if k not in in_parallel}


def checked_precision(scale: Scale) -> Precision:
    """Return the scale's precision.

    Raises:
        Impossible: it is one of GPUs, and there is none.
    """
    if scale.precision == "tf32" and not scale.gpus:
        raise Impossible("precision='tf32' needs a GPU, and the scale has gpus=0")
    return scale.precision


def _refuse_on_workers(scale: Scale) -> None:
    asked = {
        f"optimizer={scale.optimizer!r}": scale.optimizer != Training.optimizer,
        f"ema={scale.ema}": bool(scale.ema),
        f"adversarial_steps={scale.adversarial_steps}": bool(scale.adversarial_steps),
        f"precision={scale.precision!r}": scale.precision == "tf32",
        f"is_start_frozen={scale.is_start_frozen}": scale.is_start_frozen,
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise Impossible(f"{what} is for trials of one process, without DeepSpeed")


# Where the search for a learning rate begins, of a new model; it goes as far as it must.
_FIRST_RATES = {"adamw": 5e-3, "sgd": 0.1, "adafactor": 1e-2}
_SEARCH_SHARE = 3  # of the steps, the trainings of a search take one in so many


def first_rate(scale: Scale, is_fine_tuned: bool) -> float:
    """Return the learning rate that the search tries first, and that of a scale without a search.

    A model that is trained already is changed at lower rates than a new one learns at (Devlin et
    al. 2019, arXiv:1810.04805: 1e-4, then 2e-5 to 5e-5). From the rates of a new one the search can
    end at a lower peak of high rates.
    """
    return _FIRST_RATES[scale.optimizer] / (10 if is_fine_tuned else 1)


def searching(scale: Scale, training: Training, usual_steps: int) -> Training:
    """Return the training that the search for the learning rate of `training` runs.

    Args:
        scale: With the variant's changes.
        training: The variant's.
        usual_steps: Of the scale, which `search_steps` is for. A variant of more steps or fewer
            takes the same share of its own: a rate of far shorter trainings would not suit it.
    """
    steps = -(-scale.steps // _SEARCH_SHARE)
    if scale.search_steps:
        steps = -(-scale.search_steps * scale.steps // usual_steps)
    return replace(
        training,
        steps=steps,
        warmup_steps=round(training.warmup_steps * steps / scale.steps),
        num_evaluations=1,
    )


# Fields of a scale that shape the model; the others are how it is trained, or where.
_OF_THE_MODEL = frozenset({"dim", "depth", "length"})


def pretraining_of(
    baseline: Baseline,
    variant: Variant,
    scale: Scale,
    knobs: Collection[str],
    instead: Model | None,
) -> tuple[Baseline, Variant]:
    """Return what the training on the task `scale.start` is planned from.

    The model is the variant's; its training is the baseline's. So variants that differ only in
    their own training share it.

    Args:
        baseline: The ablation's.
        variant: That which starts from it.
        scale: With the variant's changes.
        knobs: Those that its model may have on that task; the others are left out.
        instead: The model that is trained there, where it is another one.
    """
    kept = _OF_THE_MODEL if instead else _OF_THE_MODEL | MODEL_FIELDS | {WHOLE_MODEL}
    own = {n: value for n, value in variant.changes.items() if n in kept or n in knobs}
    changed = _before_others(
        baseline.scale,
        scale.pretraining_steps,
        scale.pretraining_learning_rate,
        scheduled_sampling=0.0,
        num_training_examples=None,
    )
    if instead:
        ablation = baseline.ablation.model_copy(update={"baseline": instead})
        baseline = replace(baseline, ablation=ablation)
    return replace(baseline, scale=changed), Variant(label=variant.label, changes=own)


def teaching_of(
    baseline: Baseline, variant: Variant, scale: Scale, teacher: Model
) -> tuple[Baseline, Variant]:
    """Return what the training of the teacher is planned from.

    Its data are the variant's; its training, and the sizes that the scale does not give it, are the
    baseline's. So variants on the same data share it.

    Args:
        baseline: The ablation's.
        variant: That which learns from it.
        scale: With the variant's changes.
        teacher: The model.
    """
    of_data = ("task", "length", "num_training_examples")
    own = {name: value for name, value in variant.changes.items() if name in of_data}
    changed = _before_others(
        baseline.scale,
        scale.teacher_steps,
        scale.teacher_learning_rate,
        dim=scale.teacher_dim or baseline.scale.dim,
        depth=scale.teacher_depth or baseline.scale.depth,
    )
    ablation = baseline.ablation.model_copy(update={"baseline": teacher})
    taught = replace(baseline, ablation=ablation, scale=changed)
    return taught, Variant(label=f"{TEACHER} of {variant.label}", changes=own)


def _before_others(
    before: Scale, steps: int | None, learning_rate: float | str | None, **changes: Any
) -> Scale:
    """Return the scale of a training that others start or learn from; it does neither itself."""
    steps = steps or before.steps
    asked: dict[str, Any] = {
        "steps": steps,
        "start": NO_START,
        "is_start_frozen": False,
        "distillation": NO_DISTILLATION,
        "test_lengths": (),
        "learning_rate": learning_rate or before.learning_rate,
        **changes,
    }
    for name in {"warmup_steps", "num_evaluations"} & before.model_fields_set:
        asked[name] = min(steps, getattr(before, name))
    return Scale(**{**before.model_dump(exclude_unset=True), **asked})
