"""States passed from chunk to chunk: S_{i+1} = kept_i * S_i - removed_i S_i + written_i, S_0 = 0.

The effect of each chunk on the state is computed for all chunks at once; only this recurrence is
sequential, with two operations per chunk. The same holds for the gradient of the states, from the
last chunk to the first; the gradients of `written`, `kept` and `removed` are computed at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def states_after(written: Tensor, kept: Tensor | None, removed: Tensor | None) -> Tensor:
    """Return the state after each chunk.

    Args:
        written: `[chunks, ..., key_width, value_width]`.
        kept: Factors that broadcast with `written`, or None for 1.
        removed: `[chunks, ..., key_width, key_width]`, or None for 0.

    Returns:
        The shape of `written`.
    """
    return _States.apply(written, kept, removed, 0)  # type: ignore[no-any-return, no-untyped-call]


def states_before(written: Tensor, kept: Tensor | None, removed: Tensor | None) -> Tensor:
    """Return the state before each chunk: zeros for the first; the last chunk has no effect."""
    return _States.apply(written, kept, removed, 1)  # type: ignore[no-any-return, no-untyped-call]


class _States(torch.autograd.Function):
    """Chunk i results in state i, or with a `delay` of 1 in state i + 1."""

    @staticmethod
    def forward(
        ctx: Any, written: Tensor, kept: Tensor | None, removed: Tensor | None, delay: int
    ) -> Tensor:
        states = torch.empty_like(written, memory_format=torch.contiguous_format)
        states[:delay] = 0
        states[delay:] = written[: len(written) - delay]
        for i in range(1 + delay, len(states)):
            _add_left(states[i], states[i - 1], kept, removed, i - delay)
        ctx.save_for_backward(states, kept, removed)
        ctx.delay = delay
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, kept, removed = ctx.saved_tensors
        delay, num = ctx.delay, len(states)
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        turned = None if removed is None else removed.transpose(-1, -2)
        for i in reversed(range(1 + delay, num)):
            _add_left(slopes[i - 1], slopes[i], kept, turned, i - delay)
        # Chunk i - delay maps state i - 1 to state i.
        into, out_of = slopes[1:], states[:-1]
        of_kept = of_removed = None
        if kept is not None and ctx.needs_input_grad[1]:
            of_kept = torch.zeros_like(kept)
            part = of_kept[1 - delay : num - delay]
            part.copy_((into * out_of).sum_to_size(part.shape))
        if removed is not None:
            of_removed = torch.zeros_like(removed)
            of_removed[1 - delay : num - delay] = -into @ out_of.transpose(-1, -2)
        if delay:
            slopes = torch.cat([slopes[1:], torch.zeros_like(slopes[:1])])
        return slopes, of_kept, of_removed, None


def _add_left(
    total: Tensor, state: Tensor, kept: Tensor | None, removed: Tensor | None, chunk: int
) -> None:
    """Add to `total`, in place, what remains of a state after a chunk."""
    if kept is None:
        total += state
    else:
        total.addcmul_(kept[chunk], state)
    if removed is not None:
        total, state, removed = (x.flatten(0, -3) for x in (total, state, removed[chunk]))
        torch.baddbmm(total, removed, state, alpha=-1, out=total)
