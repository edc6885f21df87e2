"""Load a user's own mixer and try it once, on one sequence, before anything runs."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import torch

from models import (
    SKELETONS,
    Mixer,
    ModelError,
    ModelSpec,
    Skeleton,
    build_model,
    mixer_class,
    skeleton_class,
)
from suite.errors import words_of
from suite.planning.loader import guarded
from suite.spec import MODEL_FIELDS, WHOLE_MODEL, Scale, SpecError

# Names that mean something else in an ablation.
NOT_KNOBS = MODEL_FIELDS | set(Scale.model_fields) | {"task", WHOLE_MODEL}
_LONGEST_TRIED = 1_024  # tokens; a wrong shape shows at any length


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
        with guarded(f"mixer {name!r}"):
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


def try_own_mixer(spec: ModelSpec) -> None:
    """Mix one sequence as a block of the model would, and evaluate the FLOPs formula.

    Raises:
        ModelError: if another shape comes out, or something that is no number.
        Exception: whatever the user's code raises.
    """
    shape = (1, min(spec.length, _LONGEST_TRIED), spec.dim)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = build_model(dataclasses.replace(spec, depth=1))
        mixer = next(module for module in model.modules() if isinstance(module, Mixer))
        mixed: object = mixer(torch.zeros(shape), None)
    found = tuple(mixed.shape) if isinstance(mixed, torch.Tensor) else type(mixed).__name__
    if found != shape:
        raise ModelError(f"it must return the shape {shape} that it is given, not {found}")
    flops: object = mixer.flops(spec.length, batch=1) if mixer.has_flops_formula() else 0
    if not isinstance(flops, int | float) or not math.isfinite(flops) or flops < 0:
        raise ModelError(f"its flops(length, batch) must be a number of at least 0, not {flops!r}")
