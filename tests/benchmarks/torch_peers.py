"""Adapt torch's own layers as mixers with the same parameters, and attention between projections.

Each function takes one of our mixers and returns a module from `[batch, time, dim]` to the same
shape.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.suite.probes.path_length import dependence

Adapter = Callable[[Any], nn.Module]


class Wrapped(nn.Module):
    """A function of a sequence, and the layer that it calls.

    Attributes:
        call: Maps the layer and an input `[batch, time, dim]` to the output.
        layer: The layer, which moves and trains with the module.
    """

    def __init__(self, layer: nn.Module, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer, x)


def first_of_tuple(layer: nn.Module) -> nn.Module:
    """Wrap a module that returns a tuple; return only the first element."""
    return Wrapped(layer, lambda layer, x: layer(x)[0])


def recurrent(kind: type[nn.RNNBase]) -> Adapter:
    """Return an adapter for `nn.RNN`, `nn.GRU` or `nn.LSTM` of the same layers and directions."""

    def adapt(ours: Any) -> nn.Module:
        theirs = kind(
            ours.dim,
            ours.hidden,
            num_layers=ours.layers,
            batch_first=True,
            bidirectional=ours.num_directions == 2,
        )
        theirs.load_state_dict(ours.network.state_dict())
        return first_of_tuple(theirs)

    return adapt


def _convolved(*layers: nn.Module) -> nn.Module:
    """Apply `nn.Conv1d` layers over time in sequence; the first pads its input."""

    def call(layer: nn.Module, x: Tensor) -> Tensor:
        length = x.shape[1]  # a causal layer pads both ends, and its tail is cut off
        mixed: Tensor = layer(x.transpose(1, 2))[..., :length]
        return mixed.transpose(1, 2)

    return Wrapped(nn.Sequential(*layers), call)


def convolution(ours: Any) -> nn.Module:
    return _convolved(_padded(ours.conv, ours))


def separable_convolution(ours: Any) -> nn.Module:
    """Build a depthwise `nn.Conv1d`, then one with a kernel of 1."""
    pointwise = nn.Conv1d(ours.dim, ours.dim, 1)
    weight = ours.pointwise.weight.reshape(ours.dim, ours.dim, 1)
    pointwise.load_state_dict({"weight": weight, "bias": ours.pointwise.bias})
    return _convolved(_padded(ours.depthwise, ours), pointwise)


def grid_convolution(ours: Any) -> nn.Module:
    """Build `nn.Conv2d` over a grid of one row, with the row of the kernel that lies on it."""
    side = ours.config.window_size
    theirs = nn.Conv2d(ours.dim, ours.dim, (1, side), padding=(0, side // 2), groups=ours.dim)
    row = ours.conv.weight[:, :, side // 2, None]
    theirs.load_state_dict({"weight": row, "bias": ours.conv.bias})
    return Wrapped(theirs, lambda layer, x: layer(x.mT.unsqueeze(2)).squeeze(2).mT)


def gated_convolution(ours: Any) -> nn.Module:
    return _convolved(_padded(ours.conv, ours), nn.GLU(dim=1))


def _padded(conv: nn.Conv1d, ours: Any) -> nn.Conv1d:
    """Return the same dilated convolution with its own padding."""
    span = ours.dilation * (ours.kernel_size - 1)
    theirs = nn.Conv1d(
        conv.in_channels,
        conv.out_channels,
        ours.kernel_size,
        dilation=ours.dilation,
        groups=conv.groups,
        bias=conv.bias is not None,
        padding=span if ours.is_causal else span // 2,
    )
    theirs.load_state_dict(conv.state_dict())
    return theirs


class MultiheadAttention(nn.Module):
    """Self-attention by `nn.MultiheadAttention`, in training mode."""

    def __init__(self, layer: nn.MultiheadAttention, hidden: Tensor | None, weights: bool) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("hidden", hidden)  # a buffer moves with the module
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor:
        hidden = None if self.hidden is None else self.hidden[: x.shape[1], : x.shape[1]]
        mixed: Tensor = self.layer(
            x,
            x,
            x,
            need_weights=self.weights,
            average_attn_weights=False,
            attn_mask=hidden,
            is_causal=hidden is not None,
        )[0]
        return mixed


def multihead_attention(*, needs_weights: bool) -> Adapter:
    """Return an adapter to the fused kernel, or to the form that returns all weights."""

    def adapt(ours: Any) -> nn.Module:
        layer = nn.MultiheadAttention(ours.dim, ours.heads, bias=False, batch_first=True)
        parts = [linear.weight for linear in (ours.query, ours.key, ours.value)]
        layer.load_state_dict(
            {"in_proj_weight": torch.cat(parts), "out_proj.weight": ours.output.weight}
        )
        later = torch.ones(ours.max_length, ours.max_length, dtype=torch.bool).triu(1)
        return MultiheadAttention(layer, later if ours.is_causal else None, needs_weights)

    return adapt


class BetweenProjections(nn.Module):
    """A module around `attend(queries, keys, values)` over heads, between four linear layers."""

    def __init__(self, ours: Any, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.heads = ours.heads
        self.query, self.key, self.value, self.output = (
            copy.deepcopy(linear) for linear in (ours.query, ours.key, ours.value, ours.output)
        )
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        parts = [
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        ]
        heads = self.attend(*parts)  # (batch, heads, time, width)
        mixed: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return mixed


def scaled_dot_product(ours: Any) -> nn.Module:
    """Build `scaled_dot_product_attention` between the same projections."""
    return BetweenProjections(ours, partial(_attend, is_causal=ours.is_causal, scale=None))


def grouped_query(ours: Any) -> nn.Module:
    """Build `scaled_dot_product_attention` with shared heads, which it repeats itself."""
    groups = ours.heads, ours.key_value_heads, ours.key_value_heads

    def call(layers: Any, x: Tensor) -> Tensor:
        *maps, output = layers
        parts = [
            linear(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for linear, heads in zip(maps, groups, strict=True)
        ]
        heads = functional.scaled_dot_product_attention(
            *parts, is_causal=ours.is_causal, enable_gqa=True
        )
        mixed: Tensor = output(heads.transpose(1, 2).flatten(2))
        return mixed

    return Wrapped(_copied(ours), call)


def masked(ours: Any) -> nn.Module:
    """Build `scaled_dot_product_attention` with a mask of the pairs that the mixer attends to."""
    seen = dependence(copy.deepcopy(ours).double(), ours.max_length)

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mask = seen.to(queries.device)
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)

    return BetweenProjections(ours, attend)


def _copied(ours: Any) -> nn.Module:
    """Copy the four projections."""
    maps = (ours.query, ours.key, ours.value, ours.output)
    return nn.ModuleList([copy.deepcopy(linear) for linear in maps])


def dot_product(ours: Any) -> nn.Module:
    """Build unscaled `scaled_dot_product_attention` of the tokens themselves, in one head."""

    def call(_: nn.Module, x: Tensor) -> Tensor:
        heads = x.unsqueeze(1)
        return _attend(heads, heads, heads, is_causal=ours.is_causal, scale=1.0).squeeze(1)

    return Wrapped(nn.Identity(), call)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, is_causal: bool, scale: float | None
) -> Tensor:
    return functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=is_causal, scale=scale
    )
