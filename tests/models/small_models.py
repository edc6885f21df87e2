"""Models small enough for every test to build its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from models import (
    ARCHITECTURES,
    Architecture,
    Input,
    Mixer,
    ModelSpec,
    architecture_class,
    build_model,
)

# Linformer's 32 projected tokens need a length of as many.
DIM, DEPTH, LENGTH, SYMBOLS, BATCH = 16, 2, 33, 11, 3
GRID = (24, 32)  # of images: 48 patches
OF_ONE_INPUT = [name for name in ARCHITECTURES if len(architecture_class(name).reads) == 1]


def spec(architecture: str, mixer: str = "attention", **changes: Any) -> ModelSpec:
    """What differs may be a field of the spec, or a knob of the architecture."""
    fields: dict[str, Any] = {
        "architecture": architecture, "mixer": mixer, "knobs": {}, "position": "learned",
        "dim": DIM, "depth": DEPTH, "length": LENGTH, "input_kind": "tokens", "input_size": SYMBOLS,
        "output_size": SYMBOLS,
    }  # fmt: skip
    if "context" in architecture_class(architecture).reads:
        fields["others"] = {"context": Input(kind="tokens", size=SYMBOLS, length=LENGTH)}
    if "image" in architecture_class(architecture).reads["inputs"]:
        fields |= {"input_kind": "image", "grid": GRID, "length": GRID[0] * GRID[1]}
    of_spec = {name: value for name, value in changes.items() if name in fields}
    settings = {name: value for name, value in changes.items() if name not in fields}
    return ModelSpec(**(fields | of_spec), settings=settings)


def build(model_spec: ModelSpec, seed: int = 0) -> Architecture:
    """In training mode, as torch has it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return build_model(model_spec)


def reads_pairs(model_spec: ModelSpec) -> bool:
    return model_spec.architecture == "pair_classifier"


def predicts_tokens(model_spec: ModelSpec) -> bool:
    return model_spec.architecture in ("language_model", "masked_language_model", "tagger")


def inputs(model_spec: ModelSpec, batch: int = BATCH, length: int = LENGTH) -> Tensor:
    """`[batch, time]` or `[batch, 2, time]`; with features where vectors are read."""
    generator = torch.Generator().manual_seed(1)
    shape = (batch, 2, length) if reads_pairs(model_spec) else (batch, length)
    if model_spec.input_kind == "tokens":
        return torch.randint(SYMBOLS, shape, generator=generator)
    shape = (batch, *GRID) if model_spec.grid else shape
    return torch.randn(*shape, SYMBOLS, generator=generator)


def outputs(model: Architecture) -> Tensor:
    """Of its `inputs`, and of a source where it reads one."""
    sources = {name: inputs(model.spec).flip(1) for name in model.spec.others}
    logits: Tensor = model(inputs(model.spec), **sources)
    return logits


def tokens(length: int = 7, dim: int = 8, batch: int = 2, seed: int = 1) -> Tensor:
    """What a mixer reads, `[batch, length, dim]` in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)


def stepped(mixer: Mixer, x: Tensor) -> Tensor:
    """The outputs of its steps, one token at a time."""
    state, outputs = mixer.initial_state(len(x)), []
    for x_t in x.unbind(dim=1):
        output, state = mixer.step(x_t, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1)


class OperationNames(TorchDispatchMode):
    """Notes which of torch's operations run, forward or backward, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def every_kind(**changes: Any) -> list[ModelSpec]:
    """One spec for each architecture and each kind of input that it reads."""
    return [
        spec(architecture, input_kind=kind, **changes)
        for architecture in OF_ONE_INPUT
        for kind in architecture_class(architecture).reads["inputs"]
    ]
