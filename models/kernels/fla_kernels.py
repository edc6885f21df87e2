"""The Triton kernels of flash-linear-attention for a matrix state, called with our streams.

    kernel              decay              a token writes                       mixers by default
    simple_gla          of a head or none  its value                            retention, mamba2
    gla                 of a channel       its value                            gla
    delta_rule          none               what differs from the stored value   delta_net
    gated_delta_rule    of a head          the same                             gated_delta
    kda                 of a channel       the same                             kimi_delta
    rwkv7               of a channel       its value; another key is erased     rwkv7

A kernel takes time before heads, queries, keys and values in bfloat16, and decays in float32; its
sums are in float32. The package is imported when a kernel is first used. `why_not_trusted` compares
a kernel with torch before that.

Source: fla-core 0.6.0, `chunk.py` of each folder of `fla/ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.kernels.half_products import Product
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.removal_state import STEEPEST, RemovalStreams

ByTorch = Callable[[Any, Product], Tensor]
_BATCH, _TOKENS = 2, 160  # the comparison has two chunks of 64, and half a chunk
_CLOSE = 0.05  # relative; rounding to bfloat16 alone gives up to 0.02
_trusted: dict[tuple[object, ...], str] = {}


def kernel_name(streams: Streams, *, has_delta: bool) -> str:
    """Return the name of the kernel that computes a recurrence."""
    if isinstance(streams, RemovalStreams):
        return "rwkv7"
    decay = streams.log_decay
    if decay is not None and decay.shape[-1] > 1:
        return "kda" if has_delta else "gla"
    if not has_delta:
        return "simple_gla"
    return "delta_rule" if decay is None else "gated_delta_rule"


@cache
def kernel_function(name: str) -> Callable[..., tuple[Tensor, Any]]:
    """Return the function of the package for a kernel.

    Raises:
        ImportError: The package, or one that it needs, is not installed.
    """
    function: Callable[..., tuple[Tensor, Any]]
    function = getattr(import_module(f"fla.ops.{name}"), f"chunk_{name}")
    return function


def kernel_arguments(
    streams: Streams, *, has_delta: bool, dtype: torch.dtype = torch.bfloat16
) -> dict[str, Any]:
    """Return the arguments of a kernel; `dtype` is that of all tensors but decays."""
    s, (batch, heads) = streams, streams.values.shape[:2]

    def placed(x: Tensor, dtype: torch.dtype = dtype) -> Tensor:
        return x.to(dtype).expand(batch, heads, -1, -1).transpose(1, 2).contiguous()

    if isinstance(s, RemovalStreams):
        return {
            "r": placed(s.queries),
            "w": placed(s.decay(), s.decay().dtype),
            "k": placed(s.keys),
            "v": placed(s.values),
            "a": placed(-s.found),
            "b": placed(s.erased),
            "lower_bound": -STEEPEST,
        }
    values = s.values if has_delta else s.strong(s.values)
    found: dict[str, Any] = {"q": placed(s.queries), "k": placed(s.keys), "v": placed(values)}
    if s.log_decay is not None:
        decay = placed(s.log_decay, s.log_decay.dtype)
        found["g"] = decay.squeeze(-1) if decay.shape[-1] == 1 else decay
    if has_delta:
        found["beta"] = placed(s.strong(torch.ones_like(s.values[..., :1]))).squeeze(-1)
    return found


@torch.compiler.disable  # type: ignore[untyped-decorator]
def by_fla(streams: Streams, *, has_delta: bool) -> Tensor:
    """Compute a recurrence by a kernel; return `[batch, heads, time, value_width]`."""
    kernel = kernel_function(kernel_name(streams, has_delta=has_delta))
    outputs, _ = kernel(**kernel_arguments(streams, has_delta=has_delta), scale=1.0)
    return outputs.transpose(1, 2).to(streams.values.dtype)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def why_not_trusted(streams: Streams, by_torch: ByTorch, *, has_delta: bool) -> str:
    """Return why a kernel must not be used for these widths on this device; empty if it may.

    Its outputs and gradients are compared with those of torch once in a process, in a thread of its
    own: modes of torch that watch or change operations, autocast among them, do not reach there.
    """
    device, name = streams.values.device, kernel_name(streams, has_delta=has_delta)
    key = (name, streams.keys.shape[-1], streams.values.shape[-1], device)
    if key not in _trusted:
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return f"{name} was not compared with torch before a CUDA graph was captured"
        with ThreadPoolExecutor(max_workers=1) as thread:
            compared = thread.submit(_why_not_trusted, name, streams, by_torch, has_delta)
            _trusted[key] = compared.result()
    return _trusted[key]


def _why_not_trusted(name: str, streams: Streams, by_torch: ByTorch, has_delta: bool) -> str:
    device = streams.values.device
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        try:
            return _why_different(name, _drawn_like(streams), by_torch, has_delta)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler, an assertion or a driver may be behind it
            said = str(error).partition("\n")[0]
            return f"{name} raises {type(error).__name__}: {said}"


def _why_different(name: str, streams: Streams, by_torch: ByTorch, has_delta: bool) -> str:
    inputs = {
        field.name: part.requires_grad_()
        for field in fields(streams)
        if isinstance(part := getattr(streams, field.name), Tensor)
    }
    expected = by_torch(streams, torch.matmul)
    found = by_fla(streams, has_delta=has_delta)
    slope = torch.randn(expected.shape, generator=_generator()).to(expected.device)
    slopes = [torch.autograd.grad(each, list(inputs.values()), slope) for each in (expected, found)]
    pairs = {"the output": (expected.detach(), found.detach())}
    for key, one, other in zip(inputs, *slopes, strict=True):
        pairs[f"the gradient of {key}"] = one, other
    for what, (one, other) in pairs.items():
        apart = float((other - one).norm() / one.norm())
        if not apart <= _CLOSE:  # also true for NaN
            return f"{what} of {name} differs from that of torch by {apart:.0%}"
    return ""


def _drawn_like(streams: Streams) -> Streams:
    """Return short random streams with the heads and widths of others, rounded to bfloat16."""
    drawn, generator = streams, _generator()
    for field in fields(streams):
        if (like := getattr(streams, field.name)) is not None:
            shape = (_BATCH, like.shape[1], _TOKENS, like.shape[3])
            x = _LIKE[field.name](torch.randn(shape, generator=generator))
            drawn = replace(drawn, **{field.name: x.bfloat16().float().to(like.device)})
    if isinstance(drawn, RemovalStreams):  # along one key, or the state may grow without end
        drawn = replace(drawn, erased=drawn.found / 2)
    return drawn


def _generator() -> torch.Generator:
    """Return a generator, so that the random numbers of a training do not depend on this."""
    return torch.Generator().manual_seed(0)


def _to_length_one(x: Tensor) -> Tensor:
    return functional.normalize(x, dim=-1)


_LIKE: dict[str, Callable[[Tensor], Tensor]] = {
    "queries": lambda x: x * x.shape[-1] ** -0.5,
    "keys": _to_length_one,
    "values": lambda x: x,
    "log_decay": lambda x: -STEEPEST * torch.sigmoid(x - 1),
    "strength": torch.sigmoid,
    "found": _to_length_one,
    "erased": _to_length_one,
}
