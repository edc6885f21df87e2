"""Expand an ablation into variants, and a scale's sweeps into coordinates. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from bakeoff.models.model_spec import Knob
from bakeoff.suite.schema.task_names import task_label
from bakeoff.suite.spec import (
    MODEL_FIELDS,
    TEACHER,
    WHOLE_MODEL,
    Ablation,
    Axis,
    Model,
    Scale,
    SpecError,
)
from bakeoff.suite.spec.model import is_alike

MOST_VARIANTS = 10_000
_MAY_LACK = ("architecture", "mixer")  # fields of a model that may be None


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A row of the comparison: a label, and the values that it sets.

    Attributes:
        label: The label in tables and figures.
        changes: The values that differ from the baseline.
        values: Axis -> its value, for the axes that the label names.
    """

    label: str
    changes: Mapping[str, Knob | Model]
    values: Mapping[str, Knob | Model] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Knob]:
        """The values that it sets, without whole models."""
        return {n: value for n, value in self.changes.items() if not isinstance(value, Model)}


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An ablation's baseline at one scale.

    Attributes:
        ablation: The ablation at that scale.
        scale: The settings of that scale.
        scale_name: ``smoke``, ``quick``, ``standard`` or ``paper``.
        knobs: The knobs of its mixer and of its tasks' architectures, with defaults filled in.
        own: Axis -> those of its values that are the baseline's, in the spelling of the axis.
    """

    ablation: Ablation
    scale: Scale
    scale_name: str = "quick"
    knobs: Mapping[str, Knob]
    own: Mapping[str, tuple[Knob | Model, ...]] = field(default_factory=dict)

    def model(self, variant: Variant) -> Model:
        """Return the variant's model, without the knobs that axes set."""
        whole = variant.changes.get(WHOLE_MODEL)
        model = whole if isinstance(whole, Model) else self.ablation.baseline
        changed = {
            name: None if value is None and name in _MAY_LACK else str(value)
            for name, value in variant.settings.items()
            if name in MODEL_FIELDS
        }
        return model.model_copy(update=changed) if changed else model

    def teacher(self, variant: Variant) -> Model | None:
        """Return the model that the variant learns from."""
        varied = variant.changes.get(TEACHER)
        return varied if isinstance(varied, Model) else self.ablation.teacher

    def value(self, axis: str) -> Knob | Model:
        """Return the baseline's value of an axis."""
        if axis == WHOLE_MODEL:
            return self.ablation.baseline
        if axis == TEACHER:
            return self.ablation.teacher
        if axis == "task":
            return self.ablation.tasks[0]
        if axis in self.ablation.baseline.sizes:
            return self.ablation.baseline.sizes[axis]
        if axis in Scale.model_fields or axis in MODEL_FIELDS:
            owner = self.scale if axis in Scale.model_fields else self.ablation.baseline
            return cast("Knob", getattr(owner, axis))
        return self.knobs.get(axis)

    def label(self, axis: str) -> str:
        """Return the label of the baseline's value of an axis, for example ``heads=8``."""
        value = next(iter(self.own.get(axis, ())), self.value(axis))
        return label_of({axis: value})

    def has(self, axis: Axis) -> bool:
        """Return True if the axis takes the baseline's value."""
        return any(self.is_own(axis.name, value) for value in axis.values)

    def is_own(self, axis: str, value: Knob | Model) -> bool:
        """Return True if the value is the baseline's."""
        known = (*self.own.get(axis, ()), self.value(axis))
        return any(is_alike(value, each) for each in known)


def variants_of(baseline: Baseline) -> tuple[Variant, tuple[Variant, ...]]:
    """Return the baseline's variant, and all variants in the order of the table.

    Raises:
        SpecError: If axes or their values are ambiguous, or if there are more than `MOST_VARIANTS`.
    """
    _refuse_too_many(baseline.ablation)
    _refuse_ambiguous_axes(baseline.ablation)
    ways = {"one_at_a_time": _one_at_a_time, "cross": _crossed, "first_with_each": _first_with_each}
    reference, variants = ways[baseline.ablation.combine](baseline)
    _refuse_shared_labels(variants)
    return reference, variants


def _refuse_shared_labels(variants: Iterable[Variant]) -> None:
    """Raise if two variants have the same label: texts may hold commas and equals signs."""
    values: dict[str, Mapping[str, Knob | Model]] = {}
    for variant in variants:
        if values.setdefault(variant.label, variant.values) != variant.values:
            raise SpecError(
                f"two variants would both be called {variant.label!r}; change the values of the "
                "axes so that their names differ."
            )


def _one_at_a_time(baseline: Baseline) -> tuple[Variant, tuple[Variant, ...]]:
    axes = baseline.ablation.axes
    is_a_value = len(axes) == 1 and baseline.has(axes[0])
    label = baseline.label(axes[0].name) if is_a_value else "baseline"
    named = {axes[0].name: baseline.value(axes[0].name)} if is_a_value else {}
    reference = Variant(label=label, changes={}, values=named)
    variants = {} if is_a_value else {label: reference}
    for axis in axes:
        for value in axis.values:
            set_here = {axis.name: value}
            variant = Variant(label=label_of(set_here), changes=set_here, values=set_here)
            if baseline.is_own(axis.name, value):
                variant = reference
            variants.setdefault(variant.label, variant)
    return reference, tuple(variants.values())


def _crossed(baseline: Baseline) -> tuple[Variant, tuple[Variant, ...]]:
    axes = baseline.ablation.axes
    names = [axis.name for axis in axes]
    law = baseline.ablation.scaling_law
    held_out = dict(law.held_out) if law else {}
    larger = [(held_out[a.name],) if a.name in held_out else a.values for a in axes]
    grids = ([axis.values for axis in axes], larger if law else [()])
    return _with_reference(
        _combination(baseline, dict(zip(names, values, strict=True)))
        for values in itertools.chain(*(itertools.product(*grid) for grid in grids))
    )


def _first_with_each(baseline: Baseline) -> tuple[Variant, tuple[Variant, ...]]:
    """Combine each value of the first axis with the baseline and each value of other axes."""
    first, *others = baseline.ablation.axes
    each = [{}, *({axis.name: value} for axis in others for value in axis.values)]
    found: list[Variant] = []
    for value in first.values:
        alone = _combination(baseline, {first.name: value})
        for other in each:
            variant = _combination(baseline, {first.name: value, **other})
            if not other or variant.changes != alone.changes:
                found.append(variant)
    return _with_reference(found)


def _with_reference(variants: Iterable[Variant]) -> tuple[Variant, tuple[Variant, ...]]:
    """Return the variant that changes nothing, and all variants; add it in front if missing."""
    found = tuple(variants)
    reference = next((variant for variant in found if not variant.changes), None)
    if reference is not None:
        return reference, found
    reference = Variant(label="baseline", changes={})
    return reference, (reference, *found)


def _combination(baseline: Baseline, values: Mapping[str, Knob | Model]) -> Variant:
    """Return the variant with these values; it changes the fields that differ from the baseline.

    If it is another whole model, it changes all fields, because that model's own values may differ.
    """
    changed = {name: value for name, value in values.items() if not baseline.is_own(name, value)}
    if WHOLE_MODEL in changed:
        of_model = values.keys() - Scale.model_fields.keys() - {"task", TEACHER}
        changed = {n: value for n, value in values.items() if n in changed or n in of_model}
    return Variant(label=label_of(values), changes=changed, values=values)


def label_of(values: Mapping[str, Knob | Model]) -> str:
    """Return the label of a variant with these values of axes, for display only."""
    texts = {name: value_text(value) for name, value in values.items()}
    texts |= {name: task_label(texts[name]) for name in {"task", "start"} & texts.keys()}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _refuse_too_many(ablation: Ablation) -> None:
    """Raise if there are too many variants; they are counted before any is created."""
    first, *others = (len(axis.values) for axis in ablation.axes)
    count, what = {
        "cross": (math.prod((first, *others)), "the cross has {} combinations"),
        "first_with_each": (first * (1 + sum(others)), "the first axis with each has {} variants"),
        "one_at_a_time": (sum((first, *others)), "the axes have {} values together"),
    }[ablation.combine]
    if count > MOST_VARIANTS:
        raise SpecError(f"{what.format(count)}; at most {MOST_VARIANTS} are allowed.")


def _refuse_ambiguous_axes(ablation: Ablation) -> None:
    names = [axis.name for axis in ablation.axes]
    for axis in ablation.axes:
        if names.count(axis.name) > 1:
            raise SpecError(f"the axis {axis.name!r} is given twice.")
        if len({value_text(value) for value in axis.values}) < len(axis.values):
            raise SpecError(f"the axis {axis.name!r} has two values with the same text.")
    if "task" in names and len(ablation.tasks) > 1:
        raise SpecError(
            "an axis 'task' requires exactly one task, that of the baseline; "
            f"tasks={list(ablation.tasks)}."
        )


def value_text(value: Knob | Model) -> str:
    """Return the value as a label shows it."""
    if not isinstance(value, Model):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value.label or described(value)


def described(value: Model) -> str:
    """Return all fields that the model sets, for example ``gated_delta (heads 2)``."""
    is_named = value.mixer is not None and value.preset is None
    said: dict[str, Knob] = {}
    if is_named and value.architecture is not None:
        said = {"architecture": value.architecture}
    said |= value.own_values()
    settings = "; ".join(f"{name} {value_text(each)}" for name, each in said.items())
    whole = value.preset or value.mixer or str(value.architecture)
    return f"{whole} ({settings})" if settings else whole


@dataclass(frozen=True)
class Coordinate:
    """A point of a sweep, at which mixers are measured alone.

    Attributes:
        at: The coordinate in the table, for example ``length=1024``, ``dim=128``, ``batch=8`` or
            ``threads=2``.
        changes: The fields of the scale that it sets; the length is always one of them.
    """

    at: str
    changes: Mapping[str, int]

    @property
    def is_load(self) -> bool:
        """True if it changes how the mixer is run, but not the mixer itself."""
        return not self.changes.keys().isdisjoint(("batch", "threads"))


def coordinates(scale: Scale) -> tuple[Coordinate, ...]:
    """Return every length at the scale's width, then each other sweep at one length.

    Raises:
        SpecError: If the scale has no lengths.
    """
    if not scale.lengths:
        raise SpecError(
            "a probe of the mixer alone measures along lengths; give Scale(lengths=[64, 128, ...])."
        )
    middle = scale.dims_length or scale.lengths[len(scale.lengths) // 2]
    along_lengths = (Coordinate(f"length={length}", {"length": length}) for length in scale.lengths)
    at_middle = {"dim": scale.dims, "batch": scale.batches, "threads": scale.thread_counts}
    others = (
        Coordinate(f"{name}={value}", {name: value, "length": middle})
        for name, values in at_middle.items()
        for value in values
    )
    return (*along_lengths, *others)
