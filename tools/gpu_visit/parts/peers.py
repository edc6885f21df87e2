"""Compares mixers with other implementations that are installed: outputs, and times as graphs.

torch's own layers are always there; performer-pytorch and fla (flash-linear-attention) may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import build_mixer
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.state_chunks import chunked
from bakeoff.suite.training.recipes import autocast_of, float32_products
from tests.benchmarks import package_peers, torch_peers
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.stopwatch import Work, milliseconds, seconds_of, seconds_recorded

_SIZE = {"batch": 4, "length": 2048, "dim": 512}
_DRY_SIZE = {"batch": 2, "length": 64, "dim": 32}
_CLOSE = 1e-3  # relative, of outputs in float32
_CLOSE_IN_BF16 = 3e-2
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
_STREAMS = ("queries", "keys", "values", "log_decay", "strength")
# (name, decay of: nothing, a head, a channel; delta rule)
_STATES = (
    ("fla simple_gla", "head", False),
    ("fla gla", "channel", False),
    ("fla delta_rule", "none", True),
    ("fla gated_delta_rule", "head", True),
    ("fla kda", "channel", True),
)


def items(visit: Visit) -> Iterator[Item]:
    """Yield torch's layers, then packages."""
    size = _DRY_SIZE if visit.is_dry else _SIZE
    for name, layer in _LAYERS.items():
        yield name, partial(_layer, visit.device, size, layer)
    for name, decay, has_delta in _STATES:
        yield name, partial(_state, visit.device, size, name, decay, has_delta)


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
        with autocast_of(precision, device, is_cached=False):
            outputs = module(inputs)
        found = torch.autograd.grad(outputs, wanted, gradient.to(outputs.dtype), allow_unused=True)
        assert found[0] is not None
        return found[0]

    return work


def _state(device: str, size: dict[str, int], name: str, decay: str, has_delta: bool) -> Finding:
    try:
        theirs = _fla(name)
    except ImportError as error:
        return Finding(text=f"{error.name} is not installed", status="skipped")
    streams = _streams(device, size, decay, has_delta)
    gradient = torch.randn_like(streams[2])

    def ours(*given: Tensor | None) -> Tensor:
        streams = Streams(**dict(zip(_STREAMS, given, strict=True)))  # type: ignore[arg-type]
        return chunked(streams, has_delta=has_delta, size=64).to(streams.values.dtype)

    def turned(*given: Tensor | None) -> Tensor:  # theirs has heads after time
        swapped = (None if each is None else each.transpose(1, 2).contiguous() for each in given)
        return theirs(*swapped).transpose(1, 2)

    with torch.no_grad():
        apart = _apart(turned(*streams), ours(*streams))
    times = [
        _times(partial(_pass_of_streams, each, streams, gradient), device)
        for each in (ours, turned)
    ]
    return _finding(apart, _CLOSE_IN_BF16, times)


def _streams(
    device: str, size: dict[str, int], decay: str, has_delta: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """Return queries, keys, values in bf16, and decay and strength as fla takes them."""
    torch.manual_seed(0)
    heads, width = 8, size["dim"] // 8

    def drawn(width: int) -> Tensor:
        return torch.randn(size["batch"], heads, size["length"], width, device=device)

    keys = functional.normalize(drawn(width), dim=-1)
    decay_width = {"none": 0, "head": 1, "channel": width}[decay]
    log_decay = -functional.softplus(drawn(decay_width) - 2) if decay_width else None
    strength = torch.sigmoid(drawn(1)).bfloat16() if has_delta else None
    queries = drawn(width) * width**-0.5
    return queries.bfloat16(), keys.bfloat16(), drawn(width).bfloat16(), log_decay, strength


def _pass_of_streams(
    attend: Callable[..., Tensor], streams: Sequence[Tensor | None], gradient: Tensor
) -> Work:
    leaves = [None if s is None else s.detach().clone().requires_grad_() for s in streams]
    wanted = [each for each in leaves if each is not None]

    def work() -> Tensor:
        return torch.autograd.grad(attend(*leaves), wanted, gradient)[0]

    return work


def _fla(name: str) -> Callable[..., Tensor]:
    """Return fla's function of queries, keys, values, decay and strength, heads after time."""
    if name == "fla simple_gla":
        from fla.ops.simple_gla import chunk_simple_gla

        return lambda q, k, v, g, b: chunk_simple_gla(q, k, v, g=g.squeeze(-1), scale=1.0)[0]
    if name == "fla gla":
        from fla.ops.gla import chunk_gla

        return lambda q, k, v, g, b: chunk_gla(q, k, v, g, scale=1.0)[0]
    if name == "fla delta_rule":
        from fla.ops.delta_rule import chunk_delta_rule

        return lambda q, k, v, g, b: chunk_delta_rule(q, k, v, b.squeeze(-1), scale=1.0)[0]
    if name == "fla gated_delta_rule":
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        return lambda q, k, v, g, b: chunk_gated_delta_rule(
            q, k, v, g=g.squeeze(-1), beta=b.squeeze(-1), scale=1.0
        )[0]
    from fla.ops.kda import chunk_kda

    return lambda q, k, v, g, b: chunk_kda(q, k, v, g, b.squeeze(-1), scale=1.0)[0]


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
