"""Build models small enough for every test to have its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bakeoff.models import (
    ARCHITECTURES,
    Architecture,
    Input,
    Mixer,
    ModelError,
    ModelSpec,
    architecture_class,
    build_model,
    build_shapes,
)
from bakeoff.models.interface import CONTEXT, INPUTS, PER_TOKEN, InputKind, Outputs
from tests import battery

# Linformer's 32 projected tokens need a length of at least 32.
DIM, DEPTH, LENGTH, SYMBOLS, BATCH = 16, 2, 33, 11, 3
SOURCE = 40  # the tokens of a context
GRID = (24, 32)  # the side lengths of images: 48 patches
# Values of knobs that hold several numbers in one string, which must fit the stages.
OTHER_VALUES: dict[str, tuple[Any, ...]] = {
    "dims": ("32-48-64",),
    "depths": ("1-1-1",),
    "heads": ("1-2-1",),
    "final_temperature": (0.25,),
}
OF_ONE_INPUT = [name for name in ARCHITECTURES if len(architecture_class(name).reads) == 1]


def spec(architecture: str, mixer: str = "attention", **changes: Any) -> ModelSpec:
    """Build a spec; `changes` may be fields of the spec or knobs of the architecture."""
    kind = architecture_class(architecture)
    parts = {"mixer": mixer, "position": "learned", "dim": DIM, "depth": DEPTH}
    first, *others = (_input(name, kind) for name in kind.reads)
    if changes.get("input_kind") == "image":
        first = _input(INPUTS, kind, "image")
    fields: dict[str, Any] = {
        "architecture": architecture,
        "knobs": {},
        "output_size": SYMBOLS,
        "length": first.length,
        "input_kind": first.kind,
        "input_size": first.size,
        "grid": first.grid,
        "others": dict(zip([name for name in kind.reads if name != INPUTS], others, strict=True)),
        **{name: part for name, part in parts.items() if name in kind.takes},
    }
    of_spec = {name: value for name, value in changes.items() if name in fields}
    settings = {name: value for name, value in changes.items() if name not in fields}
    return ModelSpec(**(fields | of_spec), settings=settings)


def _input(name: str, kind: type[Architecture], read: InputKind | None = None) -> Input:
    """Return an input of the first kind that is allowed there, unless `read` names another."""
    read = read or kind.reads[name][0]
    if read == "image":
        return Input(kind=read, size=SYMBOLS, length=GRID[0] * GRID[1], grid=GRID)
    return Input(kind=read, size=SYMBOLS, length=SOURCE if name == CONTEXT else LENGTH)


def build(model_spec: ModelSpec, seed: int = 0) -> Architecture:
    """Build a model in training mode, torch's default."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return build_model(model_spec)


def reads_pairs(model_spec: ModelSpec) -> bool:
    return architecture_class(model_spec.architecture).answers == ("pair",)


def texts_of(model_spec: ModelSpec) -> tuple[int, ...]:
    """Return the axis of sequences after the batch, if any: two, or one as in training."""
    return {("pair",): (2,), ("choice",): (1,)}.get(
        architecture_class(model_spec.architecture).answers, ()
    )


def predicts_tokens(model_spec: ModelSpec) -> bool:
    return not PER_TOKEN.isdisjoint(architecture_class(model_spec.architecture).answers)


def inputs(model_spec: ModelSpec, batch: int = BATCH, length: int = LENGTH) -> Tensor:
    """Draw `[batch, time]` or `[batch, texts, time]`, with features if the model reads vectors."""
    generator = torch.Generator().manual_seed(1)
    shape = (batch, *texts_of(model_spec), length)
    if model_spec.input_kind == "tokens":
        return torch.randint(SYMBOLS, shape, generator=generator)
    shape = (batch, *GRID) if model_spec.grid else shape
    return torch.randn(*shape, SYMBOLS, generator=generator)


def outputs(model: Architecture) -> Tensor:
    """Return the model's outputs for its `inputs` and its sources, in its own precision.

    If it returns more than logits, all of its outputs are joined in one row.
    """
    dtype = next(model.parameters()).dtype
    given = {"inputs": inputs(model.spec), **sources(model.spec)}
    found = model(
        **{name: x.to(dtype) if x.is_floating_point() else x for name, x in given.items()}
    )
    if isinstance(found, Outputs):
        return torch.cat([each.flatten() for each in (found.logits, *found.auxiliary.values())])
    logits: Tensor = found
    return logits


def sources(model_spec: ModelSpec, batch: int = BATCH) -> dict[str, Tensor]:
    """Draw the sources that a model reads besides its `inputs`, without padding."""
    generator, found = torch.Generator().manual_seed(2), {}
    for name, each in model_spec.others.items():
        if each.kind == "tokens":
            found[name] = torch.randint(each.size, (batch, each.length), generator=generator)
        else:
            shape = each.grid or (each.length,)
            found[name] = torch.randn(batch, *shape, each.size, generator=generator)
    return found


def alternatives(architecture: str, knob: str, given: dict[str, Any]) -> list[Any]:
    """Return other values of a knob, without those that this architecture refuses."""
    config = architecture_class(architecture).Config
    hint, default = get_type_hints(config)[knob], getattr(config(), knob)
    values = {
        bool: (False, True),
        int: (4 if default == 8 else 8,),
        float: (0.5,),
        type(None): (None,),
    }
    values[str] = ("gru", "performer", "1")  # mixers, or a list of numbers; one may fit
    hints = [hint] if get_origin(hint) in (None, Literal) else get_args(hint)
    choices = [v for each in hints for v in values.get(each, get_args(each))]
    choices += OTHER_VALUES.get(knob, ())
    others = [{**given, knob: value} for value in choices if value != default]
    return [each[knob] for each in others if is_built(spec(architecture, **each))]


def is_built(model_spec: ModelSpec) -> bool:
    try:
        build_shapes(model_spec)
    except ModelError:
        return False
    return True


@cache
def every_setting(architecture: str) -> list[ModelSpec]:
    """Return a spec of the defaults; in the battery, also one for each other value of each knob."""
    whole, knobs = spec(architecture), vars(architecture_class(architecture).Config())
    if not battery.is_wanted:
        return [whole]
    others = [{k: v} for k in knobs for v in alternatives(architecture, k, {})]
    return [replace(whole, settings=settings) for settings in ({}, *others)]


def tokens(length: int = 7, dim: int = 8, batch: int = 2, seed: int = 1) -> Tensor:
    """Draw the inputs of a mixer, `[batch, length, dim]` in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)


def stepped(mixer: Mixer, x: Tensor) -> Tensor:
    """Return the outputs of its steps, one token at a time."""
    state, outputs = mixer.initial_state(len(x)), []
    for x_t in x.unbind(dim=1):
        output, state = mixer.step(x_t, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1)


def sees(mixer: Mixer, length: int) -> Tensor:
    """Return `[time, time2]`, True if an output depends on an input, found by gradients."""
    x = tokens(length, mixer.dim, batch=1).requires_grad_()
    rows = (mixer(x) * tokens(length, mixer.dim, batch=1, seed=2)).sum(dim=(0, 2))
    met = [torch.autograd.grad(row, x, retain_graph=True)[0] for row in rows]
    return torch.cat(met).abs().amax(dim=-1) > 0


class OperationNames(TorchDispatchMode):
    """A recorder of the torch operations that run, forward or backward, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def every_kind(**changes: Any) -> list[ModelSpec]:
    """Return one spec for each architecture and each kind of input that it reads."""
    return [
        spec(architecture, input_kind=kind, **changes)
        for architecture in OF_ONE_INPUT
        for kind in architecture_class(architecture).reads["inputs"]
    ]
