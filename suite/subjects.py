"""Variant and task -> the model, its training and its data, complete; or why that cannot be.

A wrong name or a value of the wrong type is the author's mistake (SpecError). A combination that
has no sense (heads that do not divide the width, a causal FNet) is an impossible cell of the
table: it becomes a skipped row with its reason.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from models import (
    POSITIONS,
    SKELETONS,
    Knob,
    ModelError,
    ModelSpec,
    check_model,
    skeleton_class,
)
from models.knobs import config_from_knobs
from models.model_spec import RUNTIMES, Runtime
from suite.errors import unknown_name, words_of
from suite.learning_rates import tuned_rate
from suite.own_mixers import knob_names, load_mixer, skeleton_knob_names, try_own_mixer
from suite.schema import Parallel, Training
from suite.spec import MODEL_FIELDS, SWEEPS, TUNED, Ablation, Scale, SpecError
from suite.tasks.registry import task_class
from suite.tasks.task import Task, TaskError
from suite.variants import Baseline, Variant

_IN_ONE_PROCESS = Parallel(workers=1, zero=0, precision="float32", accumulation=1)


class Impossible(Exception):
    """A cell that cannot be; the message is the reason in its row."""


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


def with_defaults(ablation: Ablation, scale: Scale) -> dict[str, Knob]:
    """The baseline's knobs, the defaults of its mixer and of its tasks' skeletons filled in.

    Raises:
        SpecError: if the mixer, a task or a knob is not known, or the combination cannot be.
    """
    model = ablation.baseline
    owners = {model.mixer: knob_names(load_mixer(model.mixer))} | {
        name: knob_names(skeleton_class(name)) for name in _skeletons(ablation)
    }
    for name in model.knobs:
        if not any(name in names for names in owners.values()):
            raise SpecError(_no_such_knob(name, owners))
    try:
        found = checked_knobs(model.mixer, scale.dim, _only(model.knobs, owners[model.mixer]))
        for skeleton in _skeletons(ablation):
            found |= _checked_settings(skeleton, _only(model.knobs, owners[skeleton]))
    except Impossible as reason:
        raise SpecError(f"the baseline is impossible: {reason}.") from None
    return found


def _no_such_knob(name: str, owners: Mapping[str, set[str]]) -> str:
    known = set().union(*owners.values())
    return unknown_name(f"knob of {' or '.join(owners)} is called", name, known)


def _skeletons(ablation: Ablation) -> tuple[str, ...]:
    """Of the tasks that the ablation meets, and the one that it asks for; each once."""
    varied = [axis.values for axis in ablation.axes if axis.name == "task"]
    tasks = [*ablation.tasks, *(str(task) for values in varied for task in values)]
    names = [_task(task).skeleton for task in tasks]
    names += [name for name in SKELETONS if name == ablation.baseline.skeleton]
    return tuple(dict.fromkeys(names))


def refuse_foreign_axes(baseline: Baseline) -> None:
    """Refuse an axis that is no field of anything, and no knob of what it meets.

    It meets the baseline's mixer, in a cross those of an axis ``mixer`` too, and the skeletons of
    all tasks.

    Raises:
        SpecError: with the nearest names.
    """
    axes = {axis.name: axis.values for axis in baseline.ablation.axes}
    mixers = {baseline.ablation.baseline.mixer}
    if baseline.ablation.combine != "one_at_a_time":
        mixers.update(str(value) for value in axes.get("mixer", ()))
    kinds = [load_mixer(mixer) for mixer in mixers]
    knobs = {name for kind in kinds for name in knob_names(kind)}
    for skeleton in _skeletons(baseline.ablation):
        knobs |= knob_names(skeleton_class(skeleton))
    allowed = knobs | MODEL_FIELDS | (set(Scale.model_fields) - SWEEPS) | {"task"}
    for name in axes:
        if name not in allowed:
            raise SpecError(unknown_name("axis", name, allowed))


def subject_of(baseline: Baseline, variant: Variant, task_name: str) -> Subject:
    """The variant on the task, every value filled in.

    Raises:
        SpecError: for what is misspelt or mistyped.
        Impossible: for what has no sense.
    """
    task = _task(str(variant.changes.get("task", task_name)))
    scale = scale_of(baseline.scale, variant.changes)
    length = _length(task, scale)
    test_lengths = _test_lengths(task, scale)
    spec = _model_spec(baseline, variant, task, scale, max(length, *test_lengths, 0))
    refuse_unbuildable(spec)
    return Subject(
        task=task, model=spec, training=_training(baseline, scale, task, spec.mixer), length=length,
        batch=scale.batch, parallel=_parallel(scale), test_lengths=test_lengths,
    )  # fmt: skip


def _task(name: str) -> type[Task]:
    try:
        return task_class(name)
    except TaskError as error:
        raise SpecError(str(error)) from None


def _length(task: type[Task], scale: Scale) -> int:
    length = task.fixed_length or scale.length
    try:
        task(length)
    except TaskError as error:
        raise Impossible(str(error)) from None
    return length


def _test_lengths(task: type[Task], scale: Scale) -> tuple[int, ...]:
    """The lengths to be tested at.

    Raises:
        Impossible: where the task has one length, or not that one; of several workers.
    """
    if scale.test_lengths and _parallel(scale) is not None:
        raise Impossible("test_lengths are for trials of one process, without DeepSpeed")
    if task.fixed_length and scale.test_lengths:
        raise Impossible(f"{task.name} is {task.fixed_length} tokens long: no other test_lengths")
    for length in scale.test_lengths:
        _length(task, scale.model_copy(update={"length": length}))
    return tuple(scale.test_lengths)


def scale_of(scale: Scale, changes: Mapping[str, Knob]) -> Scale:
    """The scale with what the variant changes of it."""
    changed = {name: value for name, value in changes.items() if name in Scale.model_fields}
    return Scale(**{**scale.model_dump(), **changed}) if changed else scale


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
    )  # fmt: skip


def _parallel(scale: Scale) -> Parallel | None:
    """None where nothing is asked for that DeepSpeed would do."""
    parallel = Parallel(
        workers=scale.workers, zero=scale.zero or 0, precision=scale.precision,
        accumulation=scale.accumulation,
    )  # fmt: skip
    if scale.zero is None and parallel == _IN_ONE_PROCESS:
        return None
    parts = scale.workers * scale.accumulation
    if scale.batch % parts:
        raise Impossible(
            f"a batch of {scale.batch} cannot be cut into {parts} equal parts "
            f"(workers={scale.workers} x accumulation={scale.accumulation})"
        )
    return parallel


def _model_spec(
    baseline: Baseline, variant: Variant, task: type[Task], scale: Scale, length: int
) -> ModelSpec:
    model = baseline.ablation.baseline
    mixer = str(variant.changes.get("mixer", model.mixer))
    skeleton = _skeleton(variant.changes.get("skeleton", model.skeleton), task, mixer)
    knobs, settings = knobs_and_settings(model.knobs, variant, mixer, skeleton)
    return ModelSpec(
        skeleton=skeleton,
        mixer=mixer,
        knobs=checked_knobs(mixer, scale.dim, knobs),
        position=position_of(str(variant.changes.get("position", model.position))),
        dim=scale.dim,
        depth=scale.depth,
        length=length,
        input_kind=task.input_kind,
        input_size=task.input_size,
        output_size=task.output_size,
        settings=_checked_settings(skeleton, settings),
        runtime=runtime_of(str(variant.changes.get("runtime", model.runtime)), mixer, scale),
    )


def position_of(name: str) -> str:
    """The name, if there is such a position encoding.

    Raises:
        SpecError: with the nearest names.
    """
    if name not in POSITIONS:
        raise SpecError(unknown_name("position", name, POSITIONS))
    return name


def runtime_of(name: str, mixer: str, scale: Scale) -> Runtime:
    """The name, if there is such a runtime, and the mixer can be run by it at that scale.

    Raises:
        SpecError: with the nearest names.
        Impossible: workers, a graph without a GPU, or of what must not be replayed.
    """
    runtime = next((each for each in RUNTIMES if each == name), None)
    if runtime is None:
        raise SpecError(unknown_name("runtime", name, RUNTIMES))
    if runtime != "eager" and _parallel(scale) is not None:
        raise Impossible(f"DeepSpeed runs eagerly, not by runtime={name!r}")
    if runtime == "cuda_graph" and not scale.gpus:
        raise Impossible(f"runtime={name!r} needs a GPU, and the scale has gpus=0")
    if runtime == "cuda_graph" and load_mixer(mixer).is_stochastic:
        raise Impossible(f"{mixer} draws anew as it trains, and a CUDA graph only replays")
    return runtime


def _skeleton(asked: Knob, task: type[Task], mixer: str) -> str:
    if asked is not None and asked not in SKELETONS:
        raise SpecError(unknown_name("skeleton", str(asked), SKELETONS))
    if asked is not None and asked != task.skeleton:
        raise Impossible(
            f"{task.name} asks for a {task.skeleton}, not a {asked} (leave the skeleton out to "
            "take each task's own)"
        )
    is_causal = skeleton_class(task.skeleton).is_causal
    if is_causal and not load_mixer(mixer).supports_causal:
        raise Impossible(f"{mixer} cannot be causal, and a {task.skeleton} must be")
    return task.skeleton


def knobs_and_settings(
    of_baseline: Mapping[str, Knob], variant: Variant, mixer: str, skeleton: str
) -> tuple[dict[str, Knob], dict[str, Knob]]:
    """The mixer's and the skeleton's: what the baseline says and they have, then the variant's.

    Raises:
        Impossible: for a knob of the variant's that neither has.
    """
    of_mixer, of_skeleton = knob_names(load_mixer(mixer)), knob_names(skeleton_class(skeleton))
    no_knobs = MODEL_FIELDS | set(Scale.model_fields) | {"task"}
    own = {name: value for name, value in variant.changes.items() if name not in no_knobs}
    for name in sorted(own.keys() - of_mixer - of_skeleton):
        owner = skeleton if name in skeleton_knob_names() else mixer
        raise Impossible(f"{owner} has no knob {name!r}")
    asked = {**of_baseline, **own}
    return _only(asked, of_mixer), _only(asked, of_skeleton)


def _only(knobs: Mapping[str, Knob], names: set[str]) -> dict[str, Knob]:
    return {name: value for name, value in knobs.items() if name in names}


def checked_knobs(mixer: str, dim: int, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """The mixer's knobs, complete.

    Raises:
        SpecError: for a knob that is none by itself.
        Impossible: where together with the width they have no sense.
    """
    kind = load_mixer(mixer)
    return _checked(mixer, kind.Config, knobs, lambda config: kind.check_config(config, dim=dim))


def _checked_settings(skeleton: str, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    kind = skeleton_class(skeleton)
    return _checked(skeleton, kind.Config, knobs, kind.check_config)


def _checked(
    owner: str, kind: type[Any], knobs: Mapping[str, Knob], check: Callable[[Any], None]
) -> dict[str, Knob]:
    """The `Config`, field by field, complete."""
    try:
        config = config_from_knobs(kind, knobs, owner=owner)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    except Exception as error:  # a user's own Config may refuse a value in its own way
        raise Impossible(_in_words(owner, error)) from None
    try:
        check(config)
    except Exception as error:
        raise Impossible(_in_words(owner, error)) from None
    return dict(vars(config))


def refuse_unbuildable(spec: ModelSpec) -> None:
    """Try it without memory, once for each model.

    Raises:
        Impossible: with what stands against building it.
    """
    flat = dataclasses.replace(spec, depth=min(spec.depth, 1))  # one block stands for all
    reason = _why_unbuildable(flat.spelling)
    if reason:
        raise Impossible(reason)


@cache
def _why_unbuildable(spec_json: str) -> str:
    """The sentence of what stands against building the model; empty where nothing does."""
    spec = ModelSpec(**json.loads(spec_json))
    try:
        check_model(spec)
        if ":" in spec.mixer:
            try_own_mixer(spec)
    except Exception as error:  # torch, at absurd sizes, and a user's mixer may raise anything
        return _in_words(spec.mixer, error)
    return ""


def _in_words(mixer: str, error: Exception) -> str:
    if isinstance(error, ModelError):
        return str(error)
    first_line = words_of(error).partition("\n")[0]
    return f"{mixer} cannot be built and called as a block would: {first_line}"
