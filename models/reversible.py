"""Reversible residuals: a stack whose memory in training does not grow with its depth.

Gomez et al. 2017 (arXiv:1707.04585, equation 6); Kitaev et al. 2020, "Reformer" (arXiv:2001.04451,
section 3). Activations are two streams. Each sub-layer reads one of them and adds to the other:

    y1 = x1 + f(x2)    y2 = x2 + g(y1)    and back:    x2 = y2 - g(y1)    x1 = y1 - f(x2)

so that the backward pass finds what every sub-layer has read from what the last one left, and
computes each sub-layer once more for its gradients. Norms stand inside f and g. Where a block has
three sub-layers, or one, streams alternate all the same.

Both streams begin as the embeddings, as in Reformer; the stack ends with their mean, before its
last norm. Departure: Reformer's code joins them to a vector of twice the width there, which would
need other heads, and no tied embedding; with the mean all parameters are those of other residuals.

What is kept, however deep: two streams, and the state of the random numbers before each sub-layer
(5 kB on a CPU, 16 bytes on a GPU; only where one draws), from which dropout and hashes are drawn
again. Inputs are found again up to rounding: parameters and streams should be float32 at least,
as they are under autocast. A training step computes a forward pass more, which FLOPs of a training
do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.mixer import Context

Streams = tuple[Tensor, Tensor]  # what the next sub-layer adds to, and what it reads


@dataclass(frozen=True)
class Branch:
    """A sub-layer without its sum.

    Attributes:
        change: What it adds to one stream, of what it reads of the other; the same shape.
        parameters: Those that it uses.
    """

    change: Callable[[Tensor], Tensor]
    parameters: tuple[nn.Parameter, ...]


BranchesOf = Callable[[Context], Sequence[Branch]]


def after(streams: Streams, change: Tensor) -> Streams:
    """The streams after a sub-layer, for the next one."""
    own, other = streams
    return other, own + change


def mean_of(streams: Streams) -> Tensor:
    """What a stack ends with."""
    return (streams[0] + streams[1]) / 2


_ARE_KEPT = ContextVar("are activations kept", default=False)


@contextmanager
def activations_kept() -> Iterator[None]:
    """Inside the block all stacks keep activations, for gradients of what lies between."""
    before = _ARE_KEPT.set(True)
    try:
        yield
    finally:
        _ARE_KEPT.reset(before)


def through(branches_of: BranchesOf, x: Tensor, context: Context) -> Tensor:
    """`[batch, time, dim]` -> the same shape, through all sub-layers.

    Args:
        branches_of: All sub-layers from the bottom upwards, with the context that they read. Called
            again in the backward pass, they must compute the same: no state may change in them.
        x: Both streams.
        context: Another sequence, or None; it gets its gradient too.
    """
    if not torch.is_grad_enabled() or _ARE_KEPT.get():
        streams = x, x
        for branch in branches_of(context):
            streams = after(streams, branch.change(streams[1]))
        return mean_of(streams)
    run = _Run(branches_of, x.device)
    parameters = run.parameters(context)
    streams = _Recomputed.apply(run, x, x, context, *parameters)  # type: ignore[no-untyped-call]
    return mean_of(streams)


@dataclass
class _Run:
    """What a backward pass needs besides tensors.

    Attributes:
        states: Of random numbers, before each sub-layer.
    """

    branches_of: BranchesOf
    device: torch.device
    states: list[tuple[Tensor, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = self.device.type
        self._autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    def parameters(self, context: Context) -> list[nn.Parameter]:
        """Of all sub-layers, each once, where they want a gradient."""
        found = (p for branch in self.branches_of(context) for p in branch.parameters)
        return list(dict.fromkeys(p for p in found if p.requires_grad))

    def note_random_state(self) -> None:
        """Keep the state; the same tensors as before where nothing was drawn since."""
        state = self._random_state()
        last = self.states[-1] if self.states else ()
        is_same = bool(last) and all(map(torch.equal, last, state))
        self.states.append(last if is_same else state)

    def _random_state(self) -> tuple[Tensor, ...]:
        own = (torch.get_rng_state(),)
        return (*own, torch.cuda.get_rng_state(self.device)) if self.device.type == "cuda" else own

    @contextmanager
    def as_before(self, state: tuple[Tensor, ...]) -> Iterator[None]:
        """With gradients, the autocast of the forward pass, and its random numbers."""
        cards = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cards), torch.enable_grad(), self.as_cast():
            torch.set_rng_state(state[0])
            for of_card in state[1:]:
                torch.cuda.set_rng_state(of_card, self.device)
            yield

    def as_cast(self) -> Any:
        """The autocast of the forward pass; weights cast without a gradient stay nowhere."""
        is_on, dtype = self._autocast
        return torch.autocast(self.device.type, dtype, enabled=is_on, cache_enabled=False)


class _Recomputed(torch.autograd.Function):
    """All sub-layers; of what they compute only the last streams are kept."""

    @staticmethod
    def forward(
        ctx: Any, run: _Run, own: Tensor, other: Tensor, context: Context, *parameters: Tensor
    ) -> Streams:
        streams = own, other
        with run.as_cast():
            for branch in run.branches_of(context):
                run.note_random_state()
                streams = after(streams, branch.change(streams[1]))
        ctx.run, ctx.parameters = run, parameters
        ctx.save_for_backward(*streams, context)
        return streams

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        own, other, context = ctx.saved_tensors
        grad_own, grad_other = gradients
        if context is not None:
            context = context.detach().requires_grad_(ctx.needs_input_grad[3])
        sums = _Sums()
        branches = ctx.run.branches_of(context)
        for branch, state in zip(reversed(branches), reversed(ctx.run.states), strict=True):
            read = own.detach().requires_grad_()
            with ctx.run.as_before(state):
                change = branch.change(read)
            own, other = other - change.detach(), read.detach()
            sums.add(change, (read, context, *branch.parameters), grad_other)
            grad_own, grad_other = grad_other, grad_own + sums.take(read)
        others = (sums.found.get(tensor) for tensor in (context, *ctx.parameters))
        return None, grad_own, grad_other, *others


class _Sums:
    """Gradients by tensor, added up."""

    def __init__(self) -> None:
        self.found: dict[Tensor | None, Tensor] = {}

    def add(self, output: Tensor, tensors: Sequence[Tensor | None], gradient: Tensor) -> None:
        """Those of the output, of tensors that want one."""
        if not output.requires_grad:
            return
        wanted = [each for each in tensors if each is not None and each.requires_grad]
        gradient = gradient.to(output.dtype)
        given = torch.autograd.grad(output, wanted, gradient, allow_unused=True)
        for tensor, new in zip(wanted, given, strict=True):
            if new is not None:
                before = self.found.get(tensor)
                self.found[tensor] = new if before is None else before + new

    def take(self, tensor: Tensor) -> Tensor | float:
        """Remove the one of a tensor; 0 where it has none."""
        return self.found.pop(tensor, 0.0)
