"""Build the passes of a model that are timed: forward alone, or forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, Input, ModelSpec, build_model
from bakeoff.suite.schema import Status

Call = Callable[[], object]


class Key(NamedTuple):
    """A candidate of a timing run: a metric of one subject of the trial."""

    metric: str
    subject: int


@dataclass(frozen=True)
class Missing:
    """A placeholder for a candidate that cannot be timed."""

    status: Status
    reason: str


class NoGraph(Exception):
    """Raised if a pass cannot be recorded as a CUDA graph; the message has the reason."""


def nothing() -> None:
    """Do nothing, as the default before and after a sample."""


@dataclass(frozen=True)
class Pass:
    """One candidate.

    Attributes:
        run: The function that is timed; it may be called many times in a row.
        prepare: Function that is called before a sample and not timed.
        clear: Function that is called after a sample and not timed; it releases what the pass has
            left.
        declared: The setting that not every model supports, such as ``precision='bf16'``. An error
            of the pass is then reported as a reason. If it is empty, an error is raised.
    """

    run: Call
    prepare: Call = nothing
    clear: Call = nothing
    declared: str = ""


Passes = Mapping[Key, Pass | Missing]


def built(spec: ModelSpec, device: str, seed: int) -> Architecture:
    """Build the model on its device. All instruments build models by this function."""
    torch.manual_seed(seed)
    return build_model(spec).to(device)


def random_input(
    given: Input, axes: tuple[int, ...], length: int, generator: torch.Generator
) -> Tensor:
    """Return a random input of a batch on the CPU, `[*axes, time]` or `[*axes, *grid, size]`."""
    if given.kind == "tokens":
        return torch.randint(given.size, (*axes, min(length, given.length)), generator=generator)
    grid = given.grid or (min(length, given.length),)
    return torch.randn(*axes, *grid, given.size, generator=generator)


def forward(model: nn.Module, outputs: Callable[[], object]) -> Pass:
    """Return a forward pass: `outputs` runs the model in evaluation mode, without gradients."""

    def run() -> None:
        # Not inference_mode: tensors that a mixer caches in it could not be used in training later.
        with torch.no_grad():
            outputs()

    return Pass(run, prepare=model.eval)


def forward_backward(
    model: nn.Module,
    result: Callable[[], Tensor],
    *,
    inputs: Tensor | None,
    gradient: Tensor | None,
) -> Pass:
    """Return a forward and backward pass in training mode; each pass starts without gradients.

    Args:
        model: The model, whose parameters take gradients.
        result: Function that runs the model and returns a loss, or outputs with a given gradient.
        inputs: An input that takes a gradient too, or None.
        gradient: The gradient of the result, of the same shape, or None for a scalar.
    """
    leaves: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
    if inputs is not None:
        leaves.append(inputs)

    def clear() -> None:
        for leaf in leaves:
            leaf.grad = None

    def run() -> None:
        clear()
        result().backward(gradient)  # type: ignore[no-untyped-call]

    return Pass(run, prepare=model.train, clear=clear)


def over_vectors(
    model: nn.Module, spec: ModelSpec, device: str, seed: int, batch: int = 1
) -> tuple[Pass, Pass]:
    """Return a forward pass and a forward and backward pass of a model from vectors to vectors.

    The input is `[batch, spec.length, spec.dim]`, and takes a gradient as it would inside a stack
    of layers.
    """
    drawn = torch.Generator().manual_seed(seed)
    x, gradient = (
        torch.randn(batch, spec.length, spec.dim, generator=drawn).to(device) for _ in range(2)
    )
    leaf = x.clone().requires_grad_()
    return (
        forward(model, lambda: model(x)),
        forward_backward(model, lambda: model(leaf), inputs=leaf, gradient=gradient),
    )
