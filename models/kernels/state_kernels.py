"""Choose what computes a matrix state: the chunked form in torch, or a kernel of another package.

    torch   chunks, by `kernels.state_chunks` or `kernels.removal_state`   anywhere
    fla     the kernels of flash-linear-attention, by `kernels.fla_kernels`   a GPU in bfloat16
    auto    `fla` where it can be used and agrees with torch, else `torch`

The kernels compute in bfloat16. With other dtypes torch computes, whatever was asked for on a GPU:
a model trained in bf16 is scored in float32, and checked in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.half_products import Product, product_for
from bakeoff.models.kernels.matrix_state import Streams

StateKernel = Literal["auto", "torch", "fla"]
ByTorch = Callable[[Any, Product], Tensor]
WIDEST = 256  # channels of a key in the kernels of flash-linear-attention
_IS_INSTALLED = find_spec("fla") is not None
_listening: list[set[str]] = []


def read_state(
    streams: Streams, by_torch: ByTorch, *, has_delta: bool, kernel: StateKernel, dtype: torch.dtype
) -> Tensor:
    """Compute the recurrence over a matrix state.

    Args:
        streams: Its inputs, in at least float32.
        by_torch: Function that computes it in chunks, from streams and a product of matrices.
        has_delta: Whether it has the delta rule of `kernels.matrix_state`.
        kernel: See the module's table.
        dtype: The dtype of the maps of the tokens, from which the streams were computed.

    Returns:
        `[batch, heads, time, value_width]`, in at least float32.

    Raises:
        ModelError: The kernel is ``fla``, which cannot be used.
    """
    device = streams.values.device.type
    why = "" if kernel == "torch" else why_no_fla(dtype, device, streams.keys.shape[-1])
    if kernel != "torch" and not why:
        from bakeoff.models.kernels.fla_kernels import by_fla, kernel_name, why_not_trusted

        why = why_not_trusted(streams, by_torch, has_delta=has_delta)
        if not why:
            _tell(f"{kernel_name(streams, has_delta=has_delta)} of flash-linear-attention")
            outputs: Tensor = by_fla(streams, has_delta=has_delta)
            return outputs
    is_scored = device == "cuda" and dtype is not torch.bfloat16
    if kernel == "fla" and not is_scored:
        raise ModelError(
            f"state_kernel='fla' cannot be used: {why}; state_kernel='auto' takes torch instead"
        )
    if device == "cuda":
        _tell(f"torch, because {why}" if why else "torch")
    return by_torch(streams, product_for(dtype, device))


def why_no_fla(dtype: torch.dtype, device: str, key_width: int) -> str:
    """Return why the kernels of flash-linear-attention cannot be used; empty if they can.

    Args:
        dtype: The dtype of the maps of the tokens.
        device: The type of the device, such as ``cuda``.
        key_width: Width of a head's keys.
    """
    if device != "cuda":
        return "flash-linear-attention needs a GPU"
    if dtype is not torch.bfloat16:
        return "flash-linear-attention computes in bf16"
    if key_width > WIDEST:
        return f"flash-linear-attention takes keys of at most {WIDEST} channels, not {key_width}"
    return "" if _IS_INSTALLED else "flash-linear-attention is not installed"


def why_no_state_kernel(kernel: StateKernel, *, on_gpu: bool, precision: str) -> str:
    """Return why a kernel cannot run there, as far as is known in advance; empty if it can.

    Args:
        kernel: The knob.
        on_gpu: Whether the model runs on a GPU.
        precision: Precision of products in training: `float32`, `tf32` or `bf16`.
    """
    if kernel != "fla":
        return ""
    if not on_gpu:
        return "state_kernel='fla' needs a GPU, and there is none"
    return "" if precision == "bf16" else f"state_kernel='fla' computes in bf16, not in {precision}"


@contextmanager
def state_kernels_used() -> Iterator[set[str]]:
    """Collect what computes matrix states in the block on a GPU, if the model is not compiled."""
    used: set[str] = set()
    _listening.append(used)
    try:
        yield used
    finally:
        _listening.pop()


def _tell(kernel: str) -> None:
    if not torch.compiler.is_compiling():
        for used in _listening:
            used.add(kernel)
