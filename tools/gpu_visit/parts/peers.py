"""Compares mixers with other implementations that are installed: outputs, and times as graphs.

torch's own layers are always there; performer-pytorch and fla (flash-linear-attention) may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import build_mixer
from bakeoff.models.kernels.fla_kernels import kernel_arguments, kernel_function
from bakeoff.models.kernels.half_products import Product
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.removal_state import STEEPEST, RemovalStreams, chunked_removal
from bakeoff.models.kernels.state_chunks import chunked
from bakeoff.models.kernels.state_kernels import StateKernel, read_state, state_kernels_used
from bakeoff.suite.training.recipes import autocast_of, float32_products
from tests.benchmarks import package_peers, torch_peers
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.stopwatch import Work, milliseconds, seconds_of, seconds_recorded

_SIZE = {"batch": 4, "length": 2048, "dim": 512}
_DRY_SIZE = {"batch": 2, "length": 64, "dim": 32}
_CLOSE = 1e-3  # relative, of outputs in float32
_CLOSE_IN_BF16 = 3e-2
_MOST_TIMES_FLA = 1.1
# name -> mixer, whether it is causal, its knobs, how the peer is made of it
_Layer = tuple[str, bool, dict[str, Any], torch_peers.Adapter]
_LAYERS: dict[str, _Layer] = {
    "torch MultiheadAttention": (
        "attention",
        True,
        {"heads": 8},
        torch_peers.multihead_attention(needs_weights=False),
    ),
    "torch scaled_dot_product_attention": (
        "attention",
        True,
        {"heads": 8},
        torch_peers.scaled_dot_product,
    ),
    "torch LSTM": ("lstm", True, {}, torch_peers.recurrent(nn.LSTM)),
    "torch GRU": ("gru", True, {}, torch_peers.recurrent(nn.GRU)),
    "performer-pytorch": ("performer", False, {"heads": 8}, package_peers.performer),
}
# Kernel of flash-linear-attention: decay of nothing, a head or a channel; delta rule.
_STATES: dict[str, tuple[str, bool]] = {
    "simple_gla": ("head", False),
    "gla": ("channel", False),
    "delta_rule": ("none", True),
    "gated_delta_rule": ("head", True),
    "kda": ("channel", True),
    "rwkv7": ("channel", True),
}


def items(visit: Visit) -> Iterator[Item]:
    """Yield torch's layers, then packages."""
    size = _DRY_SIZE if visit.is_dry else _SIZE
    for name, layer in _LAYERS.items():
        yield name, partial(_layer, visit.device, size, layer)
    for kernel in _STATES:
        yield f"fla {kernel}", partial(_state, visit.device, size, kernel)


def _layer(device: str, size: dict[str, int], layer: _Layer) -> Finding:
    mixer, is_causal, knobs, adapt = layer
    torch.manual_seed(0)
    ours = build_mixer(
        mixer, dim=size["dim"], max_length=size["length"], is_causal=is_causal, **knobs
    )
    try:
        theirs = adapt(ours)
    except ImportError as error:
        return Finding(text=f"{error.name} is not installed", status="skipped")
    ours, theirs = ours.to(device).train(), theirs.to(device).train()
    x = torch.randn(size["batch"], size["length"], size["dim"], device=device)
    with float32_products("float32"), torch.no_grad():
        apart = _apart(theirs(x), ours(x))
    times = [_times(partial(pass_of, each, x, device), device) for each in (ours, theirs)]
    # Packages add small numbers to denominators and features.
    return _finding(apart, 10 * _CLOSE if mixer == "performer" else _CLOSE, times)


def pass_of(module: nn.Module, x: Tensor, device: str) -> Work:
    """Return forward and backward of a layer: in bf16 on a GPU."""
    precision = "float32" if device == "cpu" else "bf16"
    inputs = x.detach().clone().requires_grad_()
    wanted = [inputs, *(each for each in module.parameters() if each.requires_grad)]
    gradient = torch.randn_like(x)

    def work() -> Tensor:
        with autocast_of(precision, device):
            outputs = module(inputs)
        found = torch.autograd.grad(outputs, wanted, gradient.to(outputs.dtype), allow_unused=True)
        assert found[0] is not None
        return found[0]

    return work


def _state(device: str, size: dict[str, int], kernel: str) -> Finding:
    """Compare the recurrence as a mixer computes it, with each of its kernels, with the package's.

    A mixer has float32 streams with heads before the time; the package gets its own layout.
    """
    try:
        theirs = kernel_function(kernel)
    except ImportError as error:
        return Finding(text=f"{error.name} is not installed", status="skipped")
    streams, (_, has_delta) = _streams(device, size, kernel), _STATES[kernel]
    by_torch = partial(_in_chunks, has_delta)
    how = {"has_delta": has_delta, "dtype": torch.bfloat16}

    def read(kernel: StateKernel, **given: Tensor) -> Tensor:
        return read_state(type(streams)(**given), by_torch, kernel=kernel, **how)  # type: ignore[arg-type]

    given = {k: v for k, v in vars(streams).items() if v is not None}
    arguments = kernel_arguments(streams, has_delta=has_delta)
    constants = {k: v for k, v in arguments.items() if not isinstance(v, Tensor)}
    tensors = {k: v for k, v in arguments.items() if isinstance(v, Tensor)}
    forms: dict[str, tuple[Callable[..., Tensor], dict[str, Tensor]]] = {
        "torch": (partial(read, "torch"), given),
        "auto": (partial(read, "auto"), given),
        "fla": (lambda **own: theirs(**own, **constants, scale=1.0)[0], tensors),
    }
    with torch.no_grad(), state_kernels_used() as used:
        outputs = {name: form(**own) for name, (form, own) in forms.items()}
    apart = _apart(outputs["torch"], outputs["fla"].transpose(1, 2))
    seconds = {
        name: _times(partial(_pass_of_streams, form, own, torch.randn_like(outputs[name])), device)
        for name, (form, own) in forms.items()
    }
    return _judged(apart, seconds, "; ".join(sorted(used - {"torch"})), is_dry=device == "cpu")


def _judged(apart: float, seconds: dict[str, float], used: str, *, is_dry: bool) -> Finding:
    """Return whether outputs agree, and whether `auto` is nearly as fast as the package itself."""
    times = seconds["auto"] / seconds["fla"]
    is_close, is_fast = apart <= _CLOSE_IN_BF16, times <= _MOST_TIMES_FLA
    each = ", ".join(f"{name} {milliseconds(taken)}" for name, taken in seconds.items())
    text = (
        f"outputs {'agree' if is_close else 'differ'} ({apart:.1g}); {each}; auto takes "
        f"{times:.2f} times as long as fla, goal at most {_MOST_TIMES_FLA}: "
        f"{'met' if is_fast else 'missed'}"
    )
    values = {"outputs_apart": apart, **{f"{name}_seconds": s for name, s in seconds.items()}}
    return Finding(
        text=f"{text}; auto is {used}" if used else text,
        status="ok" if is_close and (is_fast or is_dry) else "failed",
        values={**values, "auto_over_fla": times},
    )


def _in_chunks(has_delta: bool, streams: Any, product: Product) -> Tensor:
    if isinstance(streams, RemovalStreams):
        return chunked_removal(streams, size=32, product=product)
    return chunked(streams, has_delta=has_delta, size=64, product=product)


def _streams(device: str, size: dict[str, int], kernel: str) -> Streams:
    """Return float32 streams with a layout as in a mixer: views of heads side by side."""
    torch.manual_seed(0)
    (decay, has_delta), heads, width = _STATES[kernel], 8, size["dim"] // 8

    def drawn(width: int) -> Tensor:
        x = torch.randn(size["batch"], size["length"], heads, width, device=device)
        return x.transpose(1, 2)

    decay_width = {"none": 0, "head": 1, "channel": width}[decay]
    made: dict[str, Tensor] = {
        "queries": drawn(width) * width**-0.5,
        "keys": functional.normalize(drawn(width), dim=-1),
        "values": drawn(width),
    }
    if decay_width:
        made["log_decay"] = -functional.softplus(drawn(decay_width) - 2)
    if kernel == "rwkv7":
        made["log_decay"] = made["log_decay"].clamp(min=-STEEPEST)
        found = functional.normalize(drawn(width), dim=-1)
        return RemovalStreams(**made, found=found, erased=found * drawn(width).sigmoid())
    return Streams(**made, strength=torch.sigmoid(drawn(1)) if has_delta else None)


def _pass_of_streams(
    attend: Callable[..., Tensor], given: dict[str, Tensor], gradient: Tensor
) -> Work:
    leaves = {name: each.detach().clone().requires_grad_() for name, each in given.items()}

    def work() -> Tensor:
        return torch.autograd.grad(attend(**leaves), list(leaves.values()), gradient)[0]

    return work


def _apart(one: Tensor, other: Tensor) -> float:
    """Return the distance of two outputs, relative to the first."""
    return float((one.float() - other.float()).norm() / one.float().norm())


def _times(make: Callable[[], Work], device: str) -> float:
    """Return the seconds of a pass: as a graph, or launched on a CPU."""
    work = make()
    return seconds_recorded(work, device) or seconds_of(work, device)


def _finding(apart: float, close: float, times: list[float]) -> Finding:
    ours, theirs = times
    values = {"outputs_apart": apart, "ours_seconds": ours, "theirs_seconds": theirs}
    is_close = apart <= close
    said = "outputs agree" if is_close else "outputs differ"
    text = (
        f"{said} ({apart:.1g}); ours {milliseconds(ours)}, theirs {milliseconds(theirs)}, "
        f"{ours / theirs:.2f} times as long"
    )
    return Finding(text=text, status="ok" if is_close else "failed", values=values)
