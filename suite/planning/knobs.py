"""Load mixers, shipped or a user's own; give each knob to the mixer or architecture that has it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any, Union, get_type_hints

from models import (
    ARCHITECTURES,
    MIXERS,
    Architecture,
    Knob,
    Mixer,
    ModelError,
    architecture_class,
    mixer_class,
)
from models.model_spec import config_from_knobs
from suite.errors import MOST_OF_A_REASON, unknown_name, words_of, writable
from suite.planning.loader import guarded
from suite.planning.variants import Baseline, Variant
from suite.spec import MODEL_FIELDS, SWEEPS, WHOLE_MODEL, Ablation, Model, Scale, SpecError
from suite.tasks.registry import task_class
from suite.tasks.task import Task, TaskError

# Names that mean something else in an ablation.
NOT_KNOBS = MODEL_FIELDS | set(Scale.model_fields) | {"task", WHOLE_MODEL}


class Impossible(Exception):
    """A cell that cannot run; the message is the reason in its row."""


def load_mixer(name: str) -> type[Mixer]:
    """The class of a mixer, shipped or ``package.module:Class``.

    Raises:
        SpecError: if there is none, or its module cannot be imported.
    """
    if ":" not in name:
        return _found(name)
    kind = _imported(name)
    if not dataclasses.is_dataclass(kind.Config):
        raise SpecError(f"mixer {name!r}: its Config must be a frozen dataclass.")
    _refuse_taken_names(name, kind)
    return kind


def knob_names(kind: type[Mixer] | type[Architecture]) -> set[str]:
    """The fields of its `Config`."""
    return {field.name for field in dataclasses.fields(kind.Config)}


@cache
def architecture_knob_names() -> frozenset[str]:
    """The knobs of all architectures together."""
    return frozenset(
        knob for name in ARCHITECTURES for knob in knob_names(architecture_class(name))
    )


def taken_names() -> frozenset[str]:
    """What no mixer may call a knob: in an ablation the name means something else already."""
    return architecture_knob_names() | NOT_KNOBS


def _refuse_taken_names(name: str, kind: type[Mixer]) -> None:
    for knob in sorted(knob_names(kind) & taken_names()):
        owner = "architectures have" if knob in architecture_knob_names() else "an ablation has"
        raise SpecError(
            f"mixer {name!r}: {owner} a {knob!r} already; give this knob of its Config another "
            "name."
        )


def _imported(name: str) -> type[Mixer]:
    """As `_found`, of a module of the user's own, which may raise anything."""
    try:
        is_loaded = name.partition(":")[0] in sys.modules
        with nullcontext() if is_loaded else guarded(f"mixer {name!r}"):
            return _found(name)
    except (SpecError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise SpecError(f"mixer {name!r}: its module ends the program ({error!r}).") from None
    except BaseException as error:
        raise SpecError(f"mixer {name!r} cannot be imported: {words_of(error)}.") from None


def _found(name: str) -> type[Mixer]:
    try:
        return mixer_class(name)
    except ModelError as error:
        raise SpecError(f"{error}.") from None


def with_defaults(ablation: Ablation, scale: Scale) -> dict[str, Knob]:
    """The baseline's knobs, the defaults of its mixer and of its tasks' architectures filled in.

    Raises:
        SpecError: if the mixer, a task or a knob is not known, or the combination is impossible.
    """
    model = ablation.baseline
    owners = {model.mixer: knob_names(load_mixer(model.mixer))} | {
        name: knob_names(architecture_class(name)) for name in _architectures(ablation)
    }
    known = set().union(*owners.values())
    for name in model.knobs:
        if name not in known:
            raise SpecError(unknown_name(f"knob of {' or '.join(owners)} is called", name, known))
    try:
        found = checked_knobs(model.mixer, scale.dim, _only(model.knobs, owners[model.mixer]))
        for architecture in _architectures(ablation):
            found |= checked_settings(architecture, _only(model.knobs, owners[architecture]))
    except Impossible as reason:
        raise SpecError(f"the baseline is impossible: {reason}.") from None
    return found


def task_named(name: str) -> type[Task]:
    """The class of a task.

    Raises:
        SpecError: with the nearest names.
    """
    try:
        return task_class(name)
    except TaskError as error:
        raise SpecError(str(error)) from None


def _architectures(ablation: Ablation) -> tuple[str, ...]:
    """Of the tasks that the ablation meets, and the one that it asks for; each once."""
    varied = [axis.values for axis in ablation.axes if axis.name == "task"]
    tasks = [*ablation.tasks, *(str(task) for values in varied for task in values)]
    names = [task_named(task).architecture for task in tasks]
    names += [name for name in ARCHITECTURES if name == ablation.baseline.architecture]
    return tuple(dict.fromkeys(names))


def refuse_foreign_axes(baseline: Baseline) -> None:
    """Refuse an axis that is neither a field nor a knob of what it meets.

    It meets the baseline's mixer, in a cross those of the axes ``mixer`` and ``model`` too, and
    the architectures of all tasks.

    Raises:
        SpecError: with the mixers that have such a knob, else with the nearest names.
    """
    mixers = {baseline.ablation.baseline.mixer}
    if baseline.ablation.combine != "one_at_a_time":
        mixers |= _mixers_varied(baseline.ablation)
    knobs = set().union(*(knob_names(load_mixer(mixer)) for mixer in mixers))
    for architecture in _architectures(baseline.ablation):
        knobs |= knob_names(architecture_class(architecture))
    allowed = knobs | (NOT_KNOBS - SWEEPS)
    for name in (axis.name for axis in baseline.ablation.axes):
        if name not in allowed:
            raise SpecError(_foreign_axis(baseline, name, allowed))


def knob_types(ablation: Ablation) -> dict[str, Any]:
    """Knob -> its type, of every mixer and architecture that the ablation meets.

    Raises:
        SpecError: if a mixer or a task is not known.
    """
    mixers = sorted(_mixers_varied(ablation) | {ablation.baseline.mixer})
    kinds: list[Any] = [load_mixer(mixer) for mixer in mixers]
    kinds += [architecture_class(name) for name in _architectures(ablation)]
    found: dict[str, Any] = {}
    for kind in kinds:
        try:
            hints = get_type_hints(kind.Config)
        except Exception as error:  # a user's own Config may name anything
            raise SpecError(f"{kind.__name__}.Config cannot be read: {words_of(error)}.") from None
        for name in sorted(knob_names(kind)):
            found[name] = Union[found.get(name, hints[name]), hints[name]]  # noqa: UP007
    return found


def _mixers_varied(ablation: Ablation) -> set[str]:
    values = [
        value
        for axis in ablation.axes
        if axis.name in ("mixer", WHOLE_MODEL)
        for value in axis.values
    ]
    return {value.mixer if isinstance(value, Model) else str(value) for value in values}


def _foreign_axis(baseline: Baseline, name: str, allowed: set[str]) -> str:
    """The nearest names, or which mixers have such a knob and how to compare with them."""
    own, varied = baseline.ablation.baseline.mixer, sorted(_mixers_varied(baseline.ablation))
    every = dict.fromkeys((*varied, *MIXERS))
    having = [mixer for mixer in every if name in knob_names(load_mixer(mixer))]
    unknown = unknown_name("axis", name, allowed)
    if not having:
        return unknown
    foreign = (
        f"the axis {name!r}: {own} has no such knob, and here the axis meets {own} alone; it is a "
        f"knob of {', '.join(having)}. To compare with it, name whole models: "
        f'vary("{WHOLE_MODEL}", [Model(mixer="{own}"), Model(mixer="{having[0]}", {name}=...)]).'
    )
    return foreign if having[0] in varied else f"{unknown} Or: {foreign}"


def knobs_and_settings(
    of_model: Mapping[str, Knob], variant: Variant, mixer: str, architecture: str
) -> tuple[dict[str, Knob], dict[str, Knob]]:
    """The mixer's knobs and the architecture's: the model's, then the variant's.

    Raises:
        Impossible: for a knob of the variant's that neither has.
    """
    of_mixer, of_architecture = (
        knob_names(load_mixer(mixer)),
        knob_names(architecture_class(architecture)),
    )
    own = {name: value for name, value in variant.settings.items() if name not in NOT_KNOBS}
    for name in sorted(own.keys() - of_mixer - of_architecture):
        owner = architecture if name in architecture_knob_names() else mixer
        raise Impossible(f"{owner} has no knob {name!r}")
    asked = {**of_model, **own}
    return _only(asked, of_mixer), _only(asked, of_architecture)


def _only(knobs: Mapping[str, Knob], names: set[str]) -> dict[str, Knob]:
    return {name: value for name, value in knobs.items() if name in names}


def checked_knobs(mixer: str, dim: int, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """The mixer's knobs, complete.

    Raises:
        SpecError: for a knob that is wrong by itself.
        Impossible: for one that does not fit the others or the width.
    """
    kind = load_mixer(mixer)
    return _checked(mixer, kind.Config, knobs, lambda config: kind.check_config(config, dim=dim))


def checked_settings(architecture: str, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """The architecture's, likewise."""
    kind = architecture_class(architecture)
    return _checked(architecture, kind.Config, knobs, kind.check_config)


def _checked(
    owner: str, kind: type[Any], knobs: Mapping[str, Knob], check: Callable[[Any], None]
) -> dict[str, Knob]:
    """The `Config`, field by field, complete."""
    try:
        config = config_from_knobs(kind, knobs, owner=owner)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    except Exception as error:  # a user's own Config may refuse a value in its own way
        raise Impossible(in_words(owner, error)) from None
    try:
        check(config)
    except Exception as error:
        raise Impossible(in_words(owner, error)) from None
    return dict(vars(config))


def in_words(mixer: str, error: Exception) -> str:
    """Why a mixer cannot be built, by what its building raised."""
    if isinstance(error, ModelError):
        return writable(str(error), MOST_OF_A_REASON)
    first_line = words_of(error).partition("\n")[0]
    said = f"{mixer} cannot be built and called as a block would: {first_line}"
    return writable(said, MOST_OF_A_REASON)
