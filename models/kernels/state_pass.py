"""A state handed from chunk to chunk: S_{i+1} = kept_i * S_i - removed_i S_i + written_i, S_0 = 0.

What chunks do to the state is known of all of them at once; only this is done one after the other,
in two operations a chunk. So are the slopes, from the last chunk to the first; those of what the
chunks do come at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def states_after(written: Tensor, kept: Tensor | None, removed: Tensor | None) -> Tensor:
    """The state after each chunk.

    Args:
        written: `[chunks, ..., key_width, value_width]`.
        kept: Factors that broadcast with it; None for 1.
        removed: `[chunks, ..., key_width, key_width]`; None for nothing.

    Returns:
        As `written`.
    """
    return _StatesAfter.apply(written, kept, removed)  # type: ignore[no-any-return, no-untyped-call]


class _StatesAfter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, written: Tensor, kept: Tensor | None, removed: Tensor | None) -> Tensor:
        states = written.clone(memory_format=torch.contiguous_format)
        for i in range(1, len(states)):
            _add_left(states[i], states[i - 1], kept, removed, i)
        ctx.save_for_backward(states, kept, removed)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, kept, removed = ctx.saved_tensors
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        turned = None if removed is None else removed.transpose(-1, -2)
        for i in reversed(range(1, len(slopes))):
            _add_left(slopes[i - 1], slopes[i], kept, turned, i)
        of_kept = of_removed = None
        if kept is not None and ctx.needs_input_grad[1]:
            of_kept = torch.zeros_like(kept)
            of_kept[1:] = (slopes[1:] * states[:-1]).sum_to_size(kept[1:].shape)
        if removed is not None:
            of_removed = torch.zeros_like(removed)
            of_removed[1:] = -slopes[1:] @ states[:-1].transpose(-1, -2)
        return slopes, of_kept, of_removed


def _add_left(
    total: Tensor, state: Tensor, kept: Tensor | None, removed: Tensor | None, chunk: int
) -> None:
    """To the total, what the chunk leaves of a state."""
    if kept is None:
        total += state
    else:
        total.addcmul_(kept[chunk], state)
    if removed is not None:
        total, state, removed = (x.flatten(0, -3) for x in (total, state, removed[chunk]))
        torch.baddbmm(total, removed, state, alpha=-1, out=total)
