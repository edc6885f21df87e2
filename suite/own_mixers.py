"""Does a user's own mixer keep the contract? Tried once before anything runs, on one sequence."""

from __future__ import annotations

import dataclasses
import math

import torch

from models import Mixer, ModelError, ModelSpec, mixer_class, mixer_config, skeleton_class
from suite.spec import SpecError
from suite.time_limit import import_time_limit

_LONGEST_TRIED = 1_024  # tokens; a wrong shape shows at any length


def load_mixer(name: str) -> type[Mixer]:
    """The class of a mixer, shipped or ``package.module:Class``.

    Raises:
        SpecError: if there is none, or its module cannot be imported.
    """
    if ":" not in name:
        return _found(name)
    with import_time_limit(f"mixer {name!r}"):
        kind = _found(name)
    if not dataclasses.is_dataclass(kind.Config):
        raise SpecError(f"mixer {name!r}: its Config must be a frozen dataclass.")
    return kind


def _found(name: str) -> type[Mixer]:
    try:
        return mixer_class(name)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    except SystemExit as error:
        raise SpecError(f"mixer {name!r}: its module ends the program ({error!r}).") from None


def try_own_mixer(spec: ModelSpec) -> None:
    """Mix one sequence as a block of the model would, and evaluate the FLOPs formula.

    Raises:
        ModelError: if another shape comes out, or something that is no number.
        Exception: whatever the user's code raises.
    """
    config = mixer_config(spec.mixer, dim=spec.dim, knobs=spec.knobs)
    is_causal = skeleton_class(spec.skeleton).is_causal
    time = min(spec.length, _LONGEST_TRIED)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        mixer = mixer_class(spec.mixer)(
            dim=spec.dim, max_length=spec.length, is_causal=is_causal, config=config
        )
        _refuse_other_shape(mixer(torch.zeros(1, time, spec.dim), None), (1, time, spec.dim))
    if mixer.has_flops_formula():
        _refuse_no_number(mixer.flops(spec.length, batch=1))


def _refuse_other_shape(mixed: object, shape: tuple[int, ...]) -> None:
    found = tuple(mixed.shape) if isinstance(mixed, torch.Tensor) else type(mixed).__name__
    if found != shape:
        raise ModelError(f"it must return the shape {shape} that it is given, not {found}")


def _refuse_no_number(flops: object) -> None:
    if not isinstance(flops, int | float) or not math.isfinite(flops) or flops < 0:
        raise ModelError(f"its flops(length, batch) must be a number of at least 0, not {flops!r}")
