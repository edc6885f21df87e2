"""Resolve a variant and a task to a model, its training and its data; or say why that cannot be.

A wrong name or a value of the wrong type is the author's mistake (SpecError). An incompatible
combination (heads that do not divide the width, a causal FNet) is an impossible cell of the table:
it becomes a skipped row with its reason.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from models import POSITIONS, SKELETONS, Knob, ModelSpec, build_shapes, skeleton_class
from models.model_spec import RUNTIMES, Runtime
from models.registry import relative_position
from suite.errors import unknown_name
from suite.planning.examination import try_own_mixer
from suite.planning.knobs import (
    Impossible,
    checked_knobs,
    checked_settings,
    in_words,
    knob_names,
    knobs_and_settings,
    load_mixer,
    task_named,
)
from suite.planning.learning_rates import tuned_rate
from suite.planning.loader import tried
from suite.planning.recipes import checked_recipe, pretraining_of
from suite.planning.variants import Baseline, Coordinate, Variant
from suite.schema import Parallel, Training
from suite.spec import TUNED, Model, Scale, SpecError
from suite.spec.recipe import NO_START
from suite.tasks.task import Task, TaskError

_ALONE = "mixer_alone"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a variant comes to on one task; where the mixer stands alone, no task, no training."""

    task: type[Task] | None
    model: ModelSpec
    training: Training | None
    length: int
    batch: int
    parallel: Parallel | None
    test_lengths: tuple[int, ...] = ()
    start: Subject | None = None  # whose final weights its training starts from


def subject_of(baseline: Baseline, variant: Variant, task_name: str) -> Subject:
    """The variant on the task, every value filled in.

    Raises:
        SpecError: for what is misspelt or mistyped.
        Impossible: for an incompatible combination.
    """
    task = task_named(str(variant.settings.get("task", task_name)))
    scale = _scale_of(baseline.scale, variant.settings)
    length = _length(task, scale)
    test_lengths = _test_lengths(task, scale)
    model = baseline.model(variant)
    frame = partial(
        ModelSpec, skeleton=_skeleton(model, task), depth=scale.depth,
        length=max(length, *test_lengths, 0), input_kind=task.input_kind,
        input_size=task.input_size, output_size=task.output_size,
    )  # fmt: skip
    spec = _model_spec(model, variant, scale, frame, is_padded=task.is_padded)
    return Subject(
        task=task, model=spec, training=_training(baseline, scale, task, spec.mixer), length=length,
        batch=scale.batch, parallel=_parallel(scale), test_lengths=test_lengths,
        start=_start(baseline, variant, scale),
    )  # fmt: skip


def _start(baseline: Baseline, variant: Variant, scale: Scale) -> Subject | None:
    """The same model on the task on which it is trained first."""
    if scale.start == NO_START:
        return None
    task = task_named(scale.start)
    mixer, skeleton = load_mixer(baseline.model(variant).mixer), skeleton_class(task.skeleton)
    knobs = knob_names(mixer) | knob_names(skeleton)
    try:
        return subject_of(*pretraining_of(baseline, variant, scale, knobs), task.name)
    except Impossible as reason:
        raise Impossible(f"it cannot be trained on {task.name} first: {reason}") from None


def mixer_subject_of(baseline: Baseline, variant: Variant, coordinate: Coordinate) -> Subject:
    """The variant's mixer at the coordinate: one layer, one sequence of vectors a batch.

    Raises:
        SpecError: for what is misspelt or mistyped.
        Impossible: for an incompatible combination.
    """
    scale = _scale_of(baseline.scale, {**variant.settings, **coordinate.changes})
    frame = partial(
        ModelSpec, skeleton=_ALONE, depth=1, length=scale.length, input_kind="vectors",
        input_size=scale.dim, output_size=scale.dim,
    )  # fmt: skip
    return Subject(
        task=None, model=_model_spec(baseline.model(variant), variant, scale, frame),
        training=None, length=scale.length, batch=1, parallel=None,
    )  # fmt: skip


def _length(task: type[Task], scale: Scale) -> int:
    length = task.fixed_length or scale.length
    try:
        task(length)
    except TaskError as error:
        raise Impossible(str(error)) from None
    return length


def _test_lengths(task: type[Task], scale: Scale) -> tuple[int, ...]:
    """The lengths to be tested at; Impossible where the task has one length, or not that one."""
    if scale.test_lengths and _parallel(scale) is not None:
        raise Impossible("test_lengths are for trials of one process, without DeepSpeed")
    if task.fixed_length and scale.test_lengths:
        raise Impossible(f"{task.name} is {task.fixed_length} tokens long: no other test_lengths")
    for length in scale.test_lengths:
        _length(task, scale.model_copy(update={"length": length}))
    return tuple(scale.test_lengths)


def _scale_of(scale: Scale, settings: Mapping[str, Knob]) -> Scale:
    """The scale with what the variant changes of it."""
    changed = {name: value for name, value in settings.items() if name in Scale.model_fields}
    if not changed:
        return scale
    before = scale.model_dump(exclude_unset=True) | {"warmup_steps": scale.warmup_steps}
    return Scale(**{**before, **changed})


def _training(baseline: Baseline, scale: Scale, task: type[Task], mixer: str) -> Training:
    """How the scale says to train; a tuned learning rate by its table."""
    rate = scale.learning_rate
    return Training(
        steps=scale.steps,
        learning_rate=(
            tuned_rate(baseline.scale_name, task.name, mixer) if rate == TUNED else float(rate)
        ),
        warmup_steps=scale.warmup_steps, weight_decay=scale.weight_decay + 0.0,  # no -0.0
        num_evaluations=scale.num_evaluations, label_smoothing=scale.label_smoothing + 0.0,
        **checked_recipe(scale, is_spread=_parallel(scale) is not None),
    )  # fmt: skip


def _parallel(scale: Scale) -> Parallel | None:
    """None where nothing is asked for that DeepSpeed would do."""
    parts = scale.workers * scale.accumulation
    if scale.batch % parts:
        raise Impossible(
            f"a batch of {scale.batch} cannot be cut into {parts} equal parts "
            f"(workers={scale.workers} x accumulation={scale.accumulation})"
        )
    if scale.zero is None and scale.workers == 1:
        return None
    return Parallel(
        workers=scale.workers, zero=scale.zero or 0, precision=scale.precision,
        accumulation=scale.accumulation,
    )  # fmt: skip


def _skeleton(model: Model, task: type[Task]) -> str:
    """The task's, which the model may name too."""
    asked, own = model.skeleton, task.skeleton
    if asked is not None and asked not in SKELETONS:
        raise SpecError(unknown_name("skeleton", str(asked), SKELETONS))
    if asked is not None and asked != own:
        raise Impossible(
            f"{task.name} asks for {_with_article(own)}, not {_with_article(asked)} (leave the "
            "skeleton out to take each task's own)"
        )
    if skeleton_class(own).is_causal and not load_mixer(model.mixer).supports_causal:
        hint = " (set supports_causal in its class if it can)" if ":" in model.mixer else ""
        raise Impossible(f"{model.mixer} cannot be causal{hint}, and {_with_article(own)} must be")
    return own


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _model_spec(
    model: Model,
    variant: Variant,
    scale: Scale,
    frame: partial[ModelSpec],
    *,
    is_padded: bool = False,
) -> ModelSpec:
    """The whole model, tried without memory; `frame` has what surrounds the mixer."""
    skeleton = frame.keywords["skeleton"]
    knobs, settings = knobs_and_settings(model.knobs, variant, model.mixer, skeleton)
    spec = frame(
        mixer=model.mixer, knobs=checked_knobs(model.mixer, scale.dim, knobs),
        position=_position(model.position, skeleton), dim=scale.dim,
        settings=checked_settings(skeleton, settings), runtime=_runtime(model, scale),
    )  # fmt: skip
    flat = dataclasses.replace(spec, depth=min(spec.depth, 1))  # one block represents all
    if reason := _why_unbuildable(flat.spelling, is_padded=is_padded and ":" in spec.mixer):
        raise Impossible(reason)
    return spec


def _position(name: str, skeleton: str) -> str:
    """The position encoding; of a mixer alone only what acts inside it."""
    if name not in POSITIONS:
        raise SpecError(unknown_name("position", name, POSITIONS))
    return name if skeleton != _ALONE or relative_position(name) else "none"


def _runtime(model: Model, scale: Scale) -> Runtime:
    """The runtime, if the mixer can be run by it at that scale."""
    name = model.runtime
    runtime = next((each for each in RUNTIMES if each == name), None)
    if runtime is None:
        raise SpecError(unknown_name("runtime", name, RUNTIMES))
    if runtime != "eager" and _parallel(scale) is not None:
        raise Impossible(f"DeepSpeed runs eagerly, not by runtime={name!r}")
    if runtime == "cuda_graph" and not scale.gpus:
        raise Impossible(f"runtime={name!r} needs a GPU, and the scale has gpus=0")
    if runtime == "cuda_graph" and scale.precision == "bf16":
        raise Impossible(f"runtime={name!r} records no autocast, and precision is 'bf16'")
    if runtime == "cuda_graph" and load_mixer(model.mixer).is_stochastic:
        raise Impossible(f"{model.mixer} draws anew as it trains, and a CUDA graph only replays")
    return runtime


@cache
def _why_unbuildable(spec_json: str, *, is_padded: bool) -> str:
    """Why the model cannot be built, tried without memory; empty where it can."""
    spec = ModelSpec(**json.loads(spec_json))
    try:
        if ":" not in spec.mixer:
            build_shapes(spec)
            return ""
        with tried():
            try_own_mixer(spec, is_padded=is_padded)
    except Exception as error:  # torch, at absurd sizes, and a user's mixer may raise anything
        return in_words(spec.mixer, error)
    return ""
