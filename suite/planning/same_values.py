"""Find values of an axis that are the same but written differently, for example 1 and 1.0. Pure."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from bakeoff.models import ModelError
from bakeoff.models.registry import mixer_pattern
from bakeoff.suite.planning.knobs import architectures_of, knob_types, with_defaults
from bakeoff.suite.planning.variants import Baseline, value_text
from bakeoff.suite.spec import (
    TEACHER,
    WHOLE_MODEL,
    Ablation,
    Axis,
    AxisValue,
    Model,
    RepeatedValue,
    Scale,
    SpecError,
)


def with_distinct_values(baseline: Baseline) -> Baseline:
    """Return the baseline with each value of an axis once, and with the values that are its own.

    If a value is written in two ways, the first one stays, and a warning names the other.
    """
    ablation, own = baseline.ablation, dict[str, tuple[AxisValue, ...]]()
    axes = []
    for axis in ablation.axes:
        plain = _Plain(ablation, baseline.scale, axis.name)
        kept: dict[object, AxisValue] = {}
        for value in axis.values:
            key = plain.key(value)
            if key in kept:
                said = f"the axis {axis.name!r}: {value_text(value)} is the same as "
                warnings.warn(f"{said}{value_text(kept[key])}; it is used once.", RepeatedValue, 2)
            else:
                kept[key] = value
        its_own = plain.key(baseline.value(axis.name))
        own[axis.name] = (kept[its_own],) if its_own in kept else ()
        values = tuple(kept.values())
        axes.append(
            axis if len(values) == len(axis.values) else Axis(name=axis.name, values=values)
        )
    changed = ablation.model_copy(update={"axes": tuple(axes)})
    return replace(baseline, ablation=changed, own=own)


class _Plain:
    """A normalizer of the values of an axis, after which equivalent values compare equal."""

    def __init__(self, ablation: Ablation, scale: Scale, axis: str) -> None:
        self._ablation, self._scale, self._axis = ablation, scale, axis
        hint = Scale.model_fields[axis].annotation if axis in Scale.model_fields else None
        if hint is None and axis not in (WHOLE_MODEL, TEACHER, "task"):
            with suppress(SpecError):  # a missing mixer raises an error where it is used
                hint = knob_types(ablation).get(axis)
        self._is_float = float in plain_types(hint)

    def key(self, value: AxisValue) -> object:
        """Return the same key for all spellings of a value; True is not 1, and 8.0 is not 8."""
        spelled = self._spelled(value)
        if isinstance(spelled, Mapping):
            return frozenset(spelled.items())
        return type(spelled), spelled

    def _spelled(self, value: AxisValue) -> object:
        if isinstance(value, Model):
            return self._model(value)
        if self._is_float and type(value) is int:
            return float(value)
        if self._axis == "mixer" and isinstance(value, str):
            return _period(value)
        if self._axis == "architecture" and value is None:
            return _only(architectures_of(self._ablation))
        return value

    def _model(self, model: Model) -> Mapping[str, object]:
        """Return all fields of the model, including defaults, without its label and its preset."""
        with_it = self._ablation.model_copy(update={"baseline": model})
        said = {**model.model_dump(exclude={"label", "preset", "knobs"}), **model.knobs}
        # The model raises an error later, or its cells are skipped.
        with suppress(SpecError, ModelError):
            said |= with_defaults(with_it, self._scale)
            said["architecture"] = model.architecture or _only(architectures_of(with_it))
        return said | {"mixer": _period(model.mixer) if model.mixer else None}


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _period(pattern: str) -> tuple[str, ...]:
    """Return the mixers that the pattern repeats: ``fnet*2`` repeats ``fnet`` alone."""
    try:
        names = mixer_pattern(pattern)
    except ModelError:
        return (pattern,)
    sizes = (n for n in range(1, len(names)) if len(names) % n == 0)
    return next((names[:n] for n in sizes if names[:n] * (len(names) // n) == names), names)


def plain_types(hint: Any) -> Iterator[Any]:
    """Yield the plain types in a hint, without `Annotated` and unions."""
    if get_origin(hint) in (Annotated, Union, UnionType):
        options = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
        for option in options:
            yield from plain_types(option)
    else:
        yield hint
