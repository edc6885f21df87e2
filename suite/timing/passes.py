"""Make the passes that are timed of a model: forward alone, or forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models import Architecture, Input, ModelSpec, build_model
from suite.schema import Status

Call = Callable[[], object]


class Key(NamedTuple):
    """Whose time it is: a metric of one subject of the trial."""

    metric: str
    subject: int


@dataclass(frozen=True)
class Missing:
    """Stands where there is nothing to time."""

    status: Status
    reason: str


def _nothing() -> None:
    """Neither before nor after."""


@dataclass(frozen=True)
class Pass:
    """One candidate.

    Attributes:
        run: What the clock sees; may be called many times in a row.
        prepare: Called before a sample, outside the clock.
        clear: Called after a sample, outside the clock; releases what the pass has left behind.
        declared: How it is run where not every model can be run so, as ``precision='bf16'``: what
            it raises is then a reason. Empty where it would be a mistake.
    """

    run: Call
    prepare: Call = _nothing
    clear: Call = _nothing
    declared: str = ""


Passes = Mapping[Key, Pass | Missing]


def built(spec: ModelSpec, device: str, seed: int) -> Architecture:
    """The model on its device. The one place where an instrument builds one."""
    torch.manual_seed(seed)
    return build_model(spec).to(device)


def random_input(
    given: Input, axes: tuple[int, ...], length: int, generator: torch.Generator
) -> Tensor:
    """An input as a batch has it, `[*axes, time, ...]`: random tokens or numbers, on the CPU."""
    if given.kind == "tokens":
        return torch.randint(given.size, (*axes, min(length, given.length)), generator=generator)
    grid = given.grid or (min(length, given.length),)
    return torch.randn(*axes, *grid, given.size, generator=generator)


def forward(model: nn.Module, outputs: Callable[[], object]) -> Pass:
    """A forward pass as in use: `outputs` runs the model in evaluation mode, without gradients."""

    def run() -> None:
        # Not inference_mode: what a mixer caches in it could not be used in training later.
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
    """Forward and backward in training mode; gradients start from none in each pass.

    Args:
        model: Its parameters take gradients.
        result: Runs it; a loss, or outputs that `gradient` belongs to.
        inputs: Take a gradient too, if given.
        gradient: Of the result; None where it is a scalar.
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
    """Forward, and forward and backward, of a model from vectors to vectors.

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
