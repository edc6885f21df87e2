"""Choose the kernel that computes a softmax attention: torch's choice, or a kernel by name.

    name       what it is                                  where
    fused      the first of the others that torch may use  anywhere
    flash      Dao 2023 (arXiv:2307.08691)                 a CPU; a GPU in half precision, unmasked
    cudnn      the kernel of NVIDIA's cuDNN                a GPU in half precision
    efficient  Rabe and Staats 2021 (arXiv:2112.05682)     a GPU in half precision or float32
    math       products and a softmax, by torch            anywhere

With `materialised`, which is not a kernel of torch, a mixer computes its weights explicitly. A mask
is anything that hides keys beyond the causal rule, or is added to scores. Dtypes too wide for a
kernel (a model trained in bf16 is scored in float32, and checked in float64) are left to torch's
choice. Torch determines which widths of heads and which GPUs a kernel supports.

Source: torch.nn.attention.sdpa_kernel, and sdp_utils.cpp of torch 2.13, where it chooses.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from bakeoff.models.errors import ModelError
from bakeoff.models.positions.relative import RelativePosition, ShawPosition

Kernel = Literal["fused", "flash", "cudnn", "efficient", "math", "materialised"]
_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
_HALF = (torch.float16, torch.bfloat16)
_TYPES_ON_GPU = {"flash": _HALF, "cudnn": _HALF, "efficient": (*_HALF, torch.float32)}
_NONE_FOUND = ("No available kernel", "No viable backend")  # start of torch's messages


def checked_kernel(
    asked: Kernel | None,
    position: RelativePosition | None,
    *,
    score: str,
    is_product: bool,
    widths: tuple[int, int],
) -> Kernel:
    """Return the requested kernel, else `fused`, or `materialised` if no other is possible.

    Args:
        asked: The knob.
        position: The relative position that acts on the scores, or None.
        score: Name of the score function, for messages.
        is_product: Whether the score is a product of queries and keys.
        widths: Widths of a head's keys and values.

    Raises:
        ModelError: The kernel can never compute this attention.
    """
    is_shaw = isinstance(position, ShawPosition)
    what = "position='shaw'" if is_shaw else "" if is_product else f"score={score!r}"
    if what and asked not in (None, "materialised"):
        raise ModelError(f"attention: {what} has no {asked} kernel, only a materialised one")
    if asked == "flash" and widths[0] != widths[1]:
        raise ModelError(
            f"attention: kernel='flash' takes keys and values of one width, "
            f"not of {widths[0]} and {widths[1]}"
        )
    if asked == "flash" and position and type(position).bias is not RelativePosition.bias:
        raise ModelError(f"attention: kernel='flash' takes no mask, and {position.name} needs one")
    return asked or ("materialised" if what else "fused")


def attended(kernel: Kernel, queries: Tensor, keys: Tensor, values: Tensor, **how: Any) -> Tensor:
    """Compute `scaled_dot_product_attention` with a kernel.

    Args:
        kernel: See the module's table.
        queries: `[batch, heads, time, width]`.
        keys: `[batch, heads, time2, width]`, or with fewer heads, each shared by as many heads of
            the queries.
        values: `[batch, heads, time2, width2]`, with as many heads as the keys.
        how: Further arguments of that function.

    Returns:
        `[batch, heads, time, width2]`.

    Raises:
        ModelError: The kernel does not support this input on this device.
    """
    try:
        with _only(kernel, queries):
            if queries.shape[-3] != keys.shape[-3]:
                how = {**how, "enable_gqa": True}
            return functional.scaled_dot_product_attention(queries, keys, values, **how)
    except RuntimeError as error:
        if not str(error).startswith(_NONE_FOUND):
            raise
        masked = "with" if how.get("attn_mask") is not None else "without"
        raise ModelError(
            f"kernel={kernel!r} cannot compute attention of {queries.dtype} on this "
            f"{queries.device.type}, of keys {list(keys.shape)} and values {list(values.shape)}, "
            f"{masked} a mask; leave kernel out, and torch chooses"
        ) from error


def _only(kernel: Kernel, queries: Tensor) -> AbstractContextManager[None]:
    """Return a context in which torch uses this kernel only, if it supports the dtype."""
    is_too_wide = queries.is_cuda and queries.dtype not in _TYPES_ON_GPU.get(
        kernel, (queries.dtype,)
    )
    return nullcontext() if kernel == "fused" or is_too_wide else sdpa_kernel(_BACKENDS[kernel])


def why_no_kernel(kernel: str | None, *, on_gpu: bool, precision: str, is_masked: bool) -> str:
    """Return why a kernel cannot run there, as far as is known in advance; empty if it can.

    Args:
        kernel: A kernel of the module's table, or None for torch's choice.
        on_gpu: Whether the model runs on a GPU.
        precision: Precision of its products, as in `bakeoff.suite.schema.Training`.
        is_masked: Whether sequences are padded.
    """
    if not on_gpu:
        is_missing = kernel in ("cudnn", "efficient")
        return f"kernel={kernel!r} needs a GPU, and there is none" if is_missing else ""
    if kernel in ("flash", "cudnn") and precision != "bf16":
        return f"kernel={kernel!r} of a GPU computes in bf16, and precision is {precision!r}"
    if kernel == "flash" and is_masked:
        return "kernel='flash' of a GPU takes no mask, and the sequences are padded"
    return ""
