"""Variant and task -> the model, its training and its data, complete; or why that cannot be.

A wrong name or a value of the wrong type is the author's mistake (SpecError). A combination that
has no sense (heads that do not divide the width, a causal FNet) is an impossible cell of the
table: it becomes a skipped row with its reason.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

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
from suite.nearest import unknown_name
from suite.own_mixers import load_mixer, try_own_mixer
from suite.schema import Parallel, Training, canonical_json
from suite.spec import Model, Scale, SpecError
from suite.tasks.registry import task_class
from suite.tasks.task import Task, TaskError
from suite.variants import Baseline, Variant

_IN_ONE_PROCESS = Parallel(workers=1, zero=0, precision="float32", accumulation=1)
_MODEL_FIELDS = frozenset({"skeleton", "mixer", "position"})


class Impossible(Exception):
    """A cell that cannot be; the message is the reason in its row."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a variant comes to on one task."""

    task: type[Task]
    model: ModelSpec
    training: Training
    length: int
    batch: int
    parallel: Parallel | None


def with_defaults(model: Model, scale: Scale) -> dict[str, Knob]:
    """The knobs of the baseline, the defaults of its mixer filled in.

    Raises:
        SpecError: if the mixer, or a knob, is not known, or the combination cannot be.
    """
    try:
        return _checked_knobs(model.mixer, scale.dim, model.knobs)
    except Impossible as reason:
        raise SpecError(f"the baseline is impossible: {reason}.") from None


def refuse_foreign_axes(baseline: Baseline) -> None:
    """Refuse an axis that is no field of anything, and no knob of any mixer that it meets.

    Raises:
        SpecError: with the nearest names.
    """
    axes = {axis.name: axis.values for axis in baseline.ablation.axes}
    mixers = {baseline.ablation.baseline.mixer}
    if baseline.ablation.combine == "cross":
        mixers.update(str(value) for value in axes.get("mixer", ()))
    knobs = {name for mixer in mixers for name in _knob_names(mixer)}
    allowed = knobs | _MODEL_FIELDS | set(Scale.model_fields) | {"task"}
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
    scale = _scale(baseline.scale, variant.changes)
    length = _length(task, scale)
    spec = _model_spec(baseline, variant, task, scale, length)
    _refuse_unbuildable(spec)
    return Subject(
        task=task, model=spec, training=_training(scale), length=length, batch=scale.batch,
        parallel=_parallel(scale),
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


def _scale(scale: Scale, changes: Mapping[str, Knob]) -> Scale:
    changed = {name: value for name, value in changes.items() if name in Scale.model_fields}
    return Scale(**{**scale.model_dump(), **changed}) if changed else scale


def _training(scale: Scale) -> Training:
    return Training(
        steps=scale.steps, learning_rate=float(scale.learning_rate),
        warmup_steps=scale.warmup_steps, weight_decay=scale.weight_decay + 0.0,  # no -0.0
        num_evaluations=scale.num_evaluations,
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
    return ModelSpec(
        skeleton=_skeleton(variant.changes.get("skeleton", model.skeleton), task, mixer),
        mixer=mixer,
        knobs=_knobs(baseline, variant, mixer, scale.dim),
        position=_position(str(variant.changes.get("position", model.position))),
        dim=scale.dim,
        depth=scale.depth,
        length=length,
        input_kind=task.input_kind,
        input_size=task.input_size,
        output_size=task.output_size,
    )


def _position(name: str) -> str:
    if name not in POSITIONS:
        raise SpecError(unknown_name("position", name, POSITIONS))
    return name


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


def _knobs(baseline: Baseline, variant: Variant, mixer: str, dim: int) -> dict[str, Knob]:
    """What the baseline says and the mixer has, then what the variant sets."""
    allowed = _knob_names(mixer)
    of_baseline = baseline.ablation.baseline.knobs
    inherited = {name: value for name, value in of_baseline.items() if name in allowed}
    own = {
        name: value
        for name, value in variant.changes.items()
        if name not in _MODEL_FIELDS and name not in Scale.model_fields and name != "task"
    }
    for name in sorted(own.keys() - allowed):
        raise Impossible(f"{mixer} has no knob {name!r}")
    return _checked_knobs(mixer, dim, {**inherited, **own})


def _knob_names(mixer: str) -> set[str]:
    return {field.name for field in dataclasses.fields(load_mixer(mixer).Config)}


def _checked_knobs(mixer: str, dim: int, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Each knob by itself must be one; together with the width they may have no sense."""
    kind = load_mixer(mixer)
    try:
        config = config_from_knobs(kind.Config, knobs, owner=mixer)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    except Exception as error:  # a user's own Config may refuse a value in its own way
        raise Impossible(_in_words(mixer, error)) from None
    try:
        kind.check_config(config, dim=dim)
    except Exception as error:
        raise Impossible(_in_words(mixer, error)) from None
    return dict(vars(config))


def _refuse_unbuildable(spec: ModelSpec) -> None:
    reason = _why_unbuildable(canonical_json(dataclasses.asdict(spec)))
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
    first_line = str(error).partition("\n")[0]
    return (
        f"{mixer} cannot be built and called as a block would: {type(error).__name__}: {first_line}"
    )
