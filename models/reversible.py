"""Reversible residuals: a stack whose memory in training does not grow with its depth.

Gomez et al. 2017 (arXiv:1707.04585, equation 6); Kitaev et al. 2020, "Reformer" (arXiv:2001.04451,
section 3). Activations are two streams. Each sub-layer reads one of them and adds to the other:

    y1 = x1 + f(x2)    y2 = x2 + g(y1)    and back:    x2 = y2 - g(y1)    x1 = y1 - f(x2)

The backward pass therefore recovers the input of every sub-layer from the final streams, and
computes each sub-layer once more for its gradients. Norms are inside f and g. If a block has three
sub-layers, or one, the streams still alternate.

Both streams start as the embeddings, as in Reformer; the stack ends with their mean, before its
last norm. Departure: Reformer's code concatenates them to twice the width there, which would need
other heads and exclude a tied embedding; with the mean, all parameters are those of other
residuals.

At any depth, only two streams are kept, and the random state before each sub-layer (5 kB on a CPU,
16 bytes on a GPU; only where one draws), from which dropout and hashes are drawn again. Inputs are
recovered up to rounding: parameters and streams should be at least float32, as they are under
autocast. A training step computes one more forward pass, which the FLOPs of a training do not
include.
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

from bakeoff.models.mixer import Context

Streams = tuple[Tensor, Tensor]  # the next sub-layer adds to the first and reads the second


@dataclass(frozen=True)
class Branch:
    """A sub-layer without its sum.

    Attributes:
        change: Function from the stream that it reads to what it adds to the other; the same shape.
        parameters: The parameters that it uses.
    """

    change: Callable[[Tensor], Tensor]
    parameters: tuple[nn.Parameter, ...]


BranchesOf = Callable[[Context], Sequence[Branch]]


def after(streams: Streams, change: Tensor) -> Streams:
    """Return the streams after a sub-layer, in the order for the next one."""
    own, other = streams
    return other, own + change


def mean_of(streams: Streams) -> Tensor:
    """Return the mean of the streams, the output of a stack."""
    return (streams[0] + streams[1]) / 2


_ARE_KEPT = ContextVar("are activations kept", default=False)


@contextmanager
def activations_kept() -> Iterator[None]:
    """Return a context in which all stacks keep activations, to get gradients of intermediates."""
    before = _ARE_KEPT.set(True)
    try:
        yield
    finally:
        _ARE_KEPT.reset(before)


def through(branches_of: BranchesOf, x: Tensor, context: Context) -> Tensor:
    """Map `[batch, time, dim]` to the same shape through all sub-layers.

    Args:
        branches_of: Function from a context to all sub-layers, from the bottom upwards. It is
            called again in the backward pass and must give the same results: the sub-layers must
            not change any state.
        x: Initial value of both streams.
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
    """The values, besides tensors, that a backward pass needs.

    Attributes:
        states: Random states before each sub-layer.
    """

    branches_of: BranchesOf
    device: torch.device
    states: list[tuple[Tensor, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = self.device.type
        self._autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    def parameters(self, context: Context) -> list[nn.Parameter]:
        """Return the trainable parameters of all sub-layers, each once."""
        found = (p for branch in self.branches_of(context) for p in branch.parameters)
        return list(dict.fromkeys(p for p in found if p.requires_grad))

    def note_random_state(self) -> None:
        """Store the random state; reuse the last tensors if nothing was drawn since."""
        state = self._random_state()
        last = self.states[-1] if self.states else ()
        is_same = bool(last) and all(map(torch.equal, last, state))
        self.states.append(last if is_same else state)

    def _random_state(self) -> tuple[Tensor, ...]:
        own = (torch.get_rng_state(),)
        return (*own, torch.cuda.get_rng_state(self.device)) if self.device.type == "cuda" else own

    @contextmanager
    def as_before(self, state: tuple[Tensor, ...]) -> Iterator[None]:
        """Return a context with gradients and the autocast and random state of the forward pass."""
        cards = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cards), torch.enable_grad(), self.as_cast():
            torch.set_rng_state(state[0])
            for of_card in state[1:]:
                torch.cuda.set_rng_state(of_card, self.device)
            yield

    def as_cast(self) -> Any:
        """Return the autocast of the forward pass, without its cache of cast weights."""
        is_on, dtype = self._autocast
        return torch.autocast(self.device.type, dtype, enabled=is_on, cache_enabled=False)


class _Recomputed(torch.autograd.Function):
    """All sub-layers; only the final streams are kept."""

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
    """Sums of gradients, by tensor."""

    def __init__(self) -> None:
        self.found: dict[Tensor | None, Tensor] = {}

    def add(self, output: Tensor, tensors: Sequence[Tensor | None], gradient: Tensor) -> None:
        """Add the gradients of the output with respect to the tensors that require one."""
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
        """Remove and return the gradient of a tensor; 0 if it has none."""
        return self.found.pop(tensor, 0.0)
