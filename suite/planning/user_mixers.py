"""Load a mixer, shipped or a user's own, and name its knobs."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import nullcontext
from functools import cache

from models import (
    SKELETONS,
    Mixer,
    ModelError,
    Skeleton,
    mixer_class,
    skeleton_class,
)
from suite.errors import words_of
from suite.planning.loader import guarded
from suite.spec import MODEL_FIELDS, WHOLE_MODEL, Scale, SpecError

# Names that mean something else in an ablation.
NOT_KNOBS = MODEL_FIELDS | set(Scale.model_fields) | {"task", WHOLE_MODEL}


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


def knob_names(kind: type[Mixer] | type[Skeleton]) -> set[str]:
    """The fields of its `Config`."""
    return {field.name for field in dataclasses.fields(kind.Config)}


@cache
def skeleton_knob_names() -> frozenset[str]:
    """The knobs of all skeletons together."""
    return frozenset(knob for name in SKELETONS for knob in knob_names(skeleton_class(name)))


def taken_names() -> frozenset[str]:
    """What no mixer may call a knob: in an ablation the name means something else already."""
    return skeleton_knob_names() | NOT_KNOBS


def _refuse_taken_names(name: str, kind: type[Mixer]) -> None:
    for knob in sorted(knob_names(kind) & taken_names()):
        owner = "skeletons have" if knob in skeleton_knob_names() else "an ablation has"
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
