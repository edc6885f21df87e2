"""Load mixers and architectures by name: shipped ones, or those of a user's own modules."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import TypeVar

from models import ARCHITECTURES, Architecture, Mixer, ModelError, architecture_class, mixer_class
from models.registry import mixer_pattern
from suite.errors import words_of
from suite.planning.loader import guarded
from suite.spec import MODEL_FIELDS, TEACHER, WHOLE_MODEL, Scale, SpecError

# Names that mean something else in an ablation.
NOT_KNOBS = MODEL_FIELDS | set(Scale.model_fields) | {"task", WHOLE_MODEL, TEACHER}

_Part = TypeVar("_Part", Mixer, Architecture)


def load_mixer(name: str) -> type[Mixer]:
    """The class of a mixer, shipped or ``package.module:Class``.

    Raises:
        SpecError: if there is none, or its module cannot be imported.
    """
    kind = _loaded("mixer", mixer_class, name)
    if ":" in name:
        _refuse_taken_names(f"mixer {name!r}", kind, taken_names())
    return kind


def load_mixers(pattern: str) -> dict[str, type[Mixer]]:
    """The classes of the mixers that a pattern repeats, by name; of one mixer, itself.

    Raises:
        SpecError: as `load_mixer`, or what is no pattern.
    """
    try:
        names = mixer_pattern(pattern)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    return {name: load_mixer(name) for name in names}


def knobs_of(pattern: str) -> set[str]:
    """The knobs that any mixer of a pattern has."""
    return set().union(*map(knob_names, load_mixers(pattern).values()))


def load_architecture(name: str) -> type[Architecture]:
    """The class of an architecture, likewise."""
    kind = _loaded("architecture", architecture_class, name)
    if ":" in name:
        _refuse_taken_names(f"architecture {name!r}", kind, NOT_KNOBS)
    return kind


def has_hole(architecture: str) -> bool:
    """Whether it has a hole for a mixer."""
    return "mixer" in load_architecture(architecture).takes


def knob_names(kind: type[Mixer] | type[Architecture]) -> set[str]:
    """The fields of its `Config`."""
    return {field.name for field in dataclasses.fields(kind.Config)}


@cache
def architecture_knob_names() -> frozenset[str]:
    """The knobs of all shipped architectures together that have a hole for a mixer."""
    every = (knob_names(architecture_class(name)) for name in ARCHITECTURES if has_hole(name))
    return frozenset().union(*every)


def taken_names() -> frozenset[str]:
    """What no mixer may call a knob: in an ablation the name means something else already."""
    return architecture_knob_names() | NOT_KNOBS


def _refuse_taken_names(
    what: str, kind: type[Mixer] | type[Architecture], taken: frozenset[str]
) -> None:
    for knob in sorted(knob_names(kind) & taken):
        owner = "an ablation has" if knob in NOT_KNOBS else "architectures have"
        raise SpecError(
            f"{what}: {owner} a {knob!r} already; give this knob of its Config another name."
        )


def _loaded(kind: str, find: Callable[[str], type[_Part]], name: str) -> type[_Part]:
    if ":" not in name:
        return _found(find, name)
    part = _imported(kind, find, name)
    if not dataclasses.is_dataclass(part.Config):
        raise SpecError(f"{kind} {name!r}: its Config must be a frozen dataclass.")
    return part


def _imported(kind: str, find: Callable[[str], type[_Part]], name: str) -> type[_Part]:
    """As `_found`, of a module of the user's own, which may raise anything."""
    try:
        is_loaded = name.partition(":")[0] in sys.modules
        with nullcontext() if is_loaded else guarded(f"{kind} {name!r}"):
            return _found(find, name)
    except (SpecError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise SpecError(f"{kind} {name!r}: its module ends the program ({error!r}).") from None
    except BaseException as error:
        raise SpecError(f"{kind} {name!r} cannot be imported: {words_of(error)}.") from None


def _found(find: Callable[[str], type[_Part]], name: str) -> type[_Part]:
    try:
        return find(name)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
