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

from bakeoff.models import POSITIONS, Input, Interface, ModelSpec, build_shapes
from bakeoff.models.interface import INPUTS, Answer
from bakeoff.models.model_spec import without_late_defaults
from bakeoff.models.registry import mixer_pattern, relative_position
from bakeoff.suite.errors import unknown_name
from bakeoff.suite.execution.trial import own_frame
from bakeoff.suite.planning.examination import try_own_architecture, try_own_mixer
from bakeoff.suite.planning.knobs import (
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
from bakeoff.suite.planning.loader import tried
from bakeoff.suite.planning.own_modules import own_versions, task_version
from bakeoff.suite.planning.task_examination import examine_own_task
from bakeoff.suite.planning.training_examination import why_rows_mixed, why_unsaved, why_unshared
from bakeoff.suite.planning.variants import Baseline, Coordinate, Variant
from bakeoff.suite.probes.probe import probe
from bakeoff.suite.schema import MIXER_ALONE, Parallel, Precision, Training, Trial
from bakeoff.suite.schema.task_names import is_own_class
from bakeoff.suite.spec import (
    MODEL_FIELDS,
    SMOKE,
    TEACHER,
    TUNED,
    WHOLE_MODEL,
    Model,
    Scale,
    SpecError,
)
from bakeoff.suite.spec.recipe import NO_DISTILLATION, NO_START
from bakeoff.suite.tasks.data_files import is_absent
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Task, TaskError
from bakeoff.suite.training.augmentation import why_not_augmented
from bakeoff.suite.training.sampling import why_no_sampling

_NOT_EAGER = ("graph", "compiled")  # values of `runtime`


def variant_on(baseline: Baseline, variant: Variant, task_name: str) -> Trial:
    """Return the variant on the task as a trial without a probe, with every value filled in.

    The trial has no seed and no versions; `bakeoff.suite.planning.cells` makes the trials of
    probes from it.

    Raises:
        SpecError: For a misspelt name or a value of the wrong type.
        Impossible: For an incompatible combination.
    """
    task_name = str(variant.settings.get("task", task_name))
    task = task_named(task_name)
    model = baseline.model(variant)
    scale = scale_with(baseline.scale, {**model.sizes, **variant.settings})
    length = _length(task, scale)
    _refuse_broken(task_name, length)
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
        task=task_name,
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
        teacher=_teacher(baseline, variant, scale, task_name),
        decoding=_decoding(scale),
        precision="float32" if parallel else scale.precision,  # with DeepSpeed, `Parallel` holds it
        **_writing(baseline, scale),
        num_training_examples=_num_training_examples(task, task_name, scale),
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
    """Return the variant without evaluation-only knobs, so that such variants share a training."""
    (model,) = variant.subjects
    knobs = knobs_in_training(model.mixer, model.knobs) if model.mixer else model.knobs
    trained = dataclasses.replace(model, knobs=knobs, runtime="eager")
    return dataclasses.replace(variant, subjects=(trained,))


def not_compiled(variant: Trial) -> Trial:
    """Return the variant with its model run as it is written, as by all but some timings."""
    if all(each.runtime == "eager" for each in variant.subjects):
        return variant
    subjects = tuple(dataclasses.replace(each, runtime="eager") for each in variant.subjects)
    return dataclasses.replace(variant, subjects=subjects)


def _why_whole(spec: ModelSpec, scale: Scale) -> str:
    """Return why it cannot be trained in these parts or with this teacher; empty if it can."""
    num_parts = scale.workers * scale.accumulation
    architecture = load_architecture(spec.architecture)
    if scale.distillation != NO_DISTILLATION and architecture.learns_by_score(spec):
        return "estimator='reinforce' learns from the task's own loss alone, without distillation"
    return architecture.why_whole(spec, num_parts=num_parts, are_parameters_divided=scale.zero == 3)


def _why_whole_own(spec: ModelSpec, scale: Scale, asks_for: Answer) -> str:
    """Return the same for the user's own classes, which are examined as they do not declare it."""
    num_parts, is_spread = scale.workers * scale.accumulation, _parallel(scale) is not None
    if not spec.is_own or (num_parts == 1 and not is_spread):
        return ""
    if num_parts > 1 and (reason := why_rows_mixed(spec, asks_for)):
        return f"{reason}, and the batch would be cut into {num_parts}"
    if scale.accumulation > 1 and (reason := why_unsaved(spec, asks_for)):
        return f"{reason}; with accumulation={scale.accumulation} each part would change it"
    return why_unshared(spec, asks_for) if is_spread else ""


def _why_untrained(name: str, scale: Scale) -> str:
    """Return why untrained parts would keep random weights; empty if there are no such parts."""
    needed = load_architecture(name).starts_from
    if not needed or (scale.start != NO_START and task_named(scale.start).asks_for == needed):
        return ""
    return f"it does not train all its parts; give start=, a task that asks for an {needed}"


def _decoding(scale: Scale) -> tuple[tuple[int, int], ...]:
    """Return each batch size with each beam, without (1, 1), which is always measured."""
    pairs = itertools.product({1, *scale.decode_batches}, {1, *scale.beams})
    return tuple(sorted(set(pairs) - {(1, 1)}))


def _writing(baseline: Baseline, scale: Scale) -> dict[str, Any]:
    """Return the search settings; empty if no probe uses them, so that such an axis is rejected."""
    if not any("beam" in probe(name).depends_on for name in baseline.ablation.probes):
        return {}
    return {"beam": scale.beam, "length_penalty": float(scale.length_penalty)}


def _start(baseline: Baseline, variant: Variant, scale: Scale) -> Trial | None:
    """Return the pre-training: the same model on the task `scale.start`.

    If its architecture does not support that task, the result is a sibling with parts of the same
    names, or the task's default architecture without a mixer. Knobs are kept if both architectures
    have them.
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
        return variant_on(*pretraining_of(baseline, variant, scale, knobs, instead), scale.start)
    except Impossible as reason:
        raise Impossible(f"it cannot be trained on {task.name} first: {reason}") from None


def _instead(model: Model, task: type[Task], interface: Interface) -> Model | None:
    """Return the model to pre-train in place of one that does not support the task, or None."""
    if not model.architecture:
        return None
    kind = load_architecture(model.architecture)
    if not kind.why_not(interface):
        return None
    if sibling := kind.siblings.get(interface.asks_for):
        return _named(model if has_hole(sibling) else _without_mixer(model), sibling)
    return Model(task.architecture).model_copy(update={"knobs": model.knobs})


def _teacher(baseline: Baseline, variant: Variant, scale: Scale, task_name: str) -> Trial | None:
    """Return the teacher of the variant, on the same task, or None without distillation."""
    if scale.distillation == NO_DISTILLATION:
        return None
    asked = f"distillation={scale.distillation!r}"
    model = baseline.teacher(variant)
    if model is None:
        raise SpecError(f"{asked} needs a teacher; give Ablation(teacher=Model(...)).")
    task = task_named(task_name)
    if task.asks_for in {"number", "choice"}:
        raise Impossible(f"{asked} is for classes, and {task.name} asks for a {task.asks_for}")
    try:
        found = variant_on(*teaching_of(baseline, variant, scale, model), task_name)
    except Impossible as reason:
        raise Impossible(f"its teacher cannot be trained on {task.name}: {reason}") from None
    if found != as_trained(found):
        raise Impossible(
            "its teacher has knobs that apply only to decoding, which do not affect teaching"
        )
    return found


def mixer_at(baseline: Baseline, variant: Variant, coordinate: Coordinate) -> Trial:
    """Return the variant's mixer at the coordinate: one layer, and by default one sequence.

    Raises:
        SpecError: For a misspelt name or a value of the wrong type.
        Impossible: For an incompatible combination.
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


def _refuse_broken(task_name: str, length: int) -> None:
    """Raise SpecError if the user's own task breaks its contract."""
    if is_own_class(task_name) and (why := _why_broken(task_name, length, task_version(task_name))):
        raise SpecError(f"{why}.")


@cache
def _why_broken(task_name: str, length: int, version: int | str) -> str:
    """Return why the user's task cannot be used; the version only distinguishes editions of it."""
    try:
        with tried():
            examine_own_task(task_name, length)
    except TaskError as error:
        return str(error)
    except Exception as error:  # the user's code may raise anything
        return in_words(task_name, error) + own_frame(error)
    return ""


def _test_lengths(task: type[Task], scale: Scale) -> tuple[int, ...]:
    """Return the lengths to be tested at; raise Impossible if the task does not support them."""
    if scale.test_lengths and _parallel(scale) is not None:
        raise Impossible("test_lengths are for trials of one process, without DeepSpeed")
    if task.fixed_length and scale.test_lengths:
        raise Impossible(f"{task.name} is {task.fixed_length} tokens long: no other test_lengths")
    for length in scale.test_lengths:
        _length(task, scale.model_copy(update={"length": length}))
    return tuple(scale.test_lengths)


def _num_training_examples(task: type[Task], task_name: str, scale: Scale) -> int | None:
    """Return the number of examples to train on; raise Impossible if the task has fewer.

    If the data have not been downloaded, the trial checks it instead.
    """
    count = scale.num_training_examples
    if count is None or is_absent(task.source):
        return count
    try:
        build_task(task_name, task.fixed_length or scale.length, count)
    except TaskError as error:
        raise Impossible(str(error)) from None
    return count


def _at_own_rate(scale: Scale, usual: Scale) -> Scale:
    """Return the scale with the learning rate for its width, if `width_power` is set."""
    if not scale.width_power:
        return scale
    if isinstance(scale.learning_rate, str):
        raise SpecError(
            f"width_power={scale.width_power} requires a numeric learning rate; "
            f"learning_rate={scale.learning_rate!r} searches for one for each variant."
        )
    factor = ((usual.dim or 1) / (scale.dim or 1)) ** scale.width_power
    return scale.model_copy(update={"learning_rate": float(f"{scale.learning_rate * factor:.6g}")})


def _training(scale: Scale, task: type[Task], architecture: str) -> Training:
    """Return the training; for a tuned learning rate, with the first rate that the search tries."""
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
    """Return how DeepSpeed distributes a step, or None without DeepSpeed."""
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
        SpecError: For an unknown architecture or mixer.
        Impossible: If it does not support the task or the mixer.
    """
    name = model.architecture or task.architecture
    kind = load_architecture(name)
    if reason := kind.why_not(interface):
        raise Impossible(
            f"{task.name} asks for {interface.asks_for}, and {name} {reason} (omit the "
            "architecture to use the default of each task)"
        )
    if has_hole(name) != (model.mixer is not None):
        has = "needs a mixer" if has_hole(name) else f"has no slot for the mixer {model.mixer}"
        raise Impossible(f'{name} {has}; to compare the two, name whole models: vary("model", ...)')
    for mixer, each in load_mixers(model.mixer or "").items():
        if kind.is_causal and not each.supports_causal:
            hint = " (set supports_causal in its class if it can)" if ":" in mixer else ""
            raise Impossible(f"{mixer} cannot be causal{hint}, and {_with_article(name)} must be")
    return name


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _model_spec(model: Model, variant: Variant, scale: Scale, interface: Interface) -> ModelSpec:
    """Return the complete model, which is built without memory as a check."""
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
        runtime="compiled" if scale.runtime == "compiled" else "eager",
    )
    _refuse_elsewhere(spec, scale, is_masked=interface.is_padded)
    period = len(mixer_pattern(mixer)) or 1  # the first `period` blocks represent all
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
    """Raise if the model cannot run with these knobs by the scale's device, precision, runtime."""
    if scale.runtime == "graph" and not scale.gpus:
        raise Impossible("runtime='graph' needs a GPU, and the scale has gpus=0")
    if spec.runtime == "compiled" and spec.settings.get("residual") == "reversible":
        raise Impossible("residual='reversible' runs eagerly, not by runtime='compiled'")
    for kind in load_mixers(spec.mixer).values():
        config = kind.Config(**{k: v for k, v in spec.knobs.items() if k in knob_names(kind)})
        if reason := kind.why_not_on(
            config, on_gpu=bool(scale.gpus), precision=scale.precision, is_masked=is_masked
        ):
            raise Impossible(reason)


def _position(name: str, architecture: str) -> str:
    """Return the position encoding; for a mixer alone only if it acts inside the mixer."""
    if name not in POSITIONS:
        raise SpecError(unknown_name("position", name, POSITIONS))
    return name if architecture != MIXER_ALONE or relative_position(name) else "none"


def _is_own(name: str) -> bool:
    return ":" in name


@cache
def _why_unbuildable(
    spec_json: str, asks_for: Answer, *, is_padded: bool, versions: tuple[int | str, ...]
) -> str:
    """Return why the model cannot be built, tested without memory; empty if it can be.

    The versions only distinguish models of the same name in the cache.
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
        scale: The scale with the variant's changes.
        task: The task to train on.
        is_spread: Whether DeepSpeed runs the step; precision and accumulation are then in
            `Parallel`.

    Raises:
        Impossible: If DeepSpeed, a CPU, or a model of that task does not support the recipe.
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
        Impossible: If the precision needs a GPU, and the scale has none.
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
        f"runtime={scale.runtime!r}": scale.runtime in _NOT_EAGER,
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise Impossible(f"{what} is for trials of one process, without DeepSpeed")


# The first learning rate of a search for a new model; the search extends its range as needed.
_FIRST_RATES = {"adamw": 5e-3, "sgd": 0.1, "adafactor": 1e-2}
_SEARCH_SHARE = 3  # a training of a search takes 1 / 3 of the steps


def first_rate(scale: Scale, is_fine_tuned: bool) -> float:
    """Return the learning rate that a search tries first; at smoke, the rate without a search.

    A pre-trained model needs lower rates than a new one (Devlin et al. 2019, arXiv:1810.04805:
    1e-4, then 2e-5 to 5e-5). A search that starts at the rates of a new model can end at a local
    optimum at high rates.
    """
    return _FIRST_RATES[scale.optimizer] / (10 if is_fine_tuned else 1)


def searching(scale: Scale, training: Training, usual_steps: int) -> Training:
    """Return the training that the search for the learning rate of `training` runs.

    Args:
        scale: The scale with the variant's changes.
        training: The variant's training.
        usual_steps: The steps of the scale that `search_steps` refers to. A variant with more or
            fewer steps scales `search_steps` in proportion, because the best rate depends on the
            number of steps.
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


# Fields of a scale that define the model; the others define its training, or the place of
# execution.
_OF_THE_MODEL = frozenset({"dim", "depth", "length"})


def pretraining_of(
    baseline: Baseline,
    variant: Variant,
    scale: Scale,
    knobs: Collection[str],
    instead: Model | None,
) -> tuple[Baseline, Variant]:
    """Return the baseline and the variant from which the pre-training on `scale.start` is planned.

    The model is the variant's; the training is the baseline's. So variants that differ only in
    their own training share the pre-training.

    Args:
        baseline: The ablation's baseline.
        variant: The variant that starts from the pre-trained weights.
        scale: The scale with the variant's changes.
        knobs: The knobs that the model may have on that task; the others are left out.
        instead: The model that is pre-trained, if it is not the variant's.
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
    """Return the baseline and the variant from which the training of the teacher is planned.

    Its data are the variant's; its training, and the sizes that the scale does not set, are the
    baseline's. So variants on the same data share the teacher.

    Args:
        baseline: The ablation's baseline.
        variant: The variant that learns from the teacher.
        scale: The scale with the variant's changes.
        teacher: The teacher model.
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
    """Return the scale of a pre-training or a teacher, which has neither of them itself."""
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
