"""Public implementations of mixers with a matrix state, with that mixer's parameters.

Each function takes one of our mixers and returns a module from `[batch, time, dim]` to the same
shape. A mixer that reads both ways is two public modules, one of which gets the reversed sequence.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.benchmarks.torch_peers import Adapter

OneWay = Callable[[Any, Tensor], nn.Module]


class BothWays(nn.Module):
    """The sum of the outputs of modules on a sequence; the second module gets it reversed."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.readings = nn.ModuleList(modules)

    def forward(self, x: Tensor) -> Tensor:
        first, *second = self.readings
        total: Tensor = first(x)
        for reading in second:
            total = total + reading(x.flip(1)).flip(1)
        return total


def reading(one_way: OneWay) -> Adapter:
    """Return an adapter that joins one module per direction, with its columns of the output map."""

    def adapt(ours: Any) -> nn.Module:
        columns = ours.output.weight.data.chunk(len(ours.directions), dim=1)
        pairs = zip(ours.directions, columns, strict=True)
        return BothWays([one_way(direction, weight) for direction, weight in pairs])

    return adapt


@contextmanager
def in_double() -> Iterator[None]:
    """Make transformers compute recurrences in float64, where it would always use float32."""
    with (
        mock.patch.object(torch, "float32", torch.float64),
        mock.patch.object(Tensor, "float", Tensor.double),
    ):
        yield


@reading
def gated_delta(ours: Any, output: Tensor) -> nn.Module:
    """Build `Qwen3NextGatedDeltaNet`; its maps hold query, key, value and gate head by head."""
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    config = Qwen3NextConfig(
        hidden_size=ours.dim,
        linear_num_value_heads=ours.heads,
        linear_num_key_heads=ours.heads,
        linear_key_head_dim=ours.key_width,
        linear_value_head_dim=ours.value_width,
        linear_conv_kernel_dim=ours.conv.taps,
        rms_norm_eps=1e-5,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
    )
    parts = [*_channels(ours), ours.gate[0].weight]
    rates = [ours.strength.weight, ours.decay.step_map.weight]
    return _loaded(
        Qwen3NextGatedDeltaNet(config, 0),
        {
            "in_proj_qkvz.weight": torch.cat(_by_head(ours, parts), dim=1).flatten(0, 1),
            "in_proj_ba.weight": torch.stack(rates, dim=1).flatten(0, 1),
            "conv1d.weight": ours.conv.conv.weight,
            "dt_bias": ours.decay.dt_bias,
            "A_log": ours.decay.a_log,
            "norm.weight": ours.gain,
            "out_proj.weight": output,
        },
    )


@reading
def kimi_delta(ours: Any, output: Tensor) -> nn.Module:
    """Build `KimiLinearDeltaAttention`."""
    from transformers import KimiLinearConfig
    from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention

    config = KimiLinearConfig(
        hidden_size=ours.dim,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        rms_norm_eps=1e-5,
    )
    config.linear_num_heads, config.linear_head_dim = ours.heads, ours.key_width
    config.linear_conv_kernel_dim = ours.conv.taps
    queries, keys, values = _channels(ours)
    down, up = ours.decay.step_map
    return _loaded(
        KimiLinearDeltaAttention(config, 0),
        {
            "q_proj.weight": queries,
            "k_proj.weight": keys,
            "v_proj.weight": values,
            "conv1d.weight": ours.conv.conv.weight,
            "b_proj.weight": ours.strength.weight,
            "forget_gate.f_a_proj.weight": down.weight,
            "forget_gate.f_b_proj.weight": up.weight,
            "forget_gate.dt_bias": ours.decay.dt_bias,
            "forget_gate.A_log": ours.decay.a_log.reshape(1, 1, -1, 1),
            "g_a_proj.weight": ours.gate[0].weight,
            "g_b_proj.weight": ours.gate[1].weight,
            "o_norm.weight": ours.gain,
            "o_proj.weight": output,
        },
    )


@reading
def mamba2(ours: Any, output: Tensor) -> nn.Module:
    """Build `Mamba2Mixer`; its map holds gate, x, B, C and step, where ours has C, B, x."""
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    config = Mamba2Config(
        hidden_size=ours.dim,
        num_heads=ours.heads,
        head_dim=ours.value_width,
        n_groups=1,
        expand=ours.values // ours.dim,
        state_size=ours.key_width,
        conv_kernel=ours.conv.taps,
        chunk_size=ours.chunk,
        num_hidden_layers=1,
        layer_norm_epsilon=1e-5,
    )
    turned = [
        torch.cat(_channels(ours, part)[::-1])
        for part in (ours.mixed.weight, ours.conv.conv.weight, ours.conv.conv.bias)
    ]
    maps = [ours.let_through.weight, turned[0], ours.decay.step_map.weight]
    return _loaded(
        Mamba2Mixer(config, 0),
        {
            "in_proj.weight": torch.cat(maps),
            "conv1d.weight": turned[1],
            "conv1d.bias": turned[2],
            "dt_bias": ours.decay.dt_bias,
            "A_log": ours.decay.a_log,
            "D": ours.skip,
            "norm.weight": ours.gain,
            "out_proj.weight": output,
        },
    )


class BetweenMaps(nn.Module):
    """A module around `recur(queries, keys, values, strength)` of `[batch, time, heads, width]`."""

    def __init__(self, ours: Any, output: Tensor, recur: Callable[..., Tensor]) -> None:
        super().__init__()
        self.ours_heads, self.sizes, self.recur = ours.heads, ours.channel_widths(), recur
        self.mixed, self.gate = copy.deepcopy(ours.mixed), copy.deepcopy(ours.gate)
        self.conv, self.strength = copy.deepcopy(ours.conv), copy.deepcopy(ours.strength)
        self.norm = nn.RMSNorm(ours.value_width, eps=1e-5)
        self.norm.load_state_dict({"weight": ours.gain})
        self.output = nn.Linear(ours.values, ours.dim, bias=False)
        self.output.load_state_dict({"weight": output})

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.mixed(x)
        if self.conv is not None:
            mixed = functional.silu(self.conv(mixed))
        parts = [
            part.unflatten(-1, (self.ours_heads, -1)) for part in mixed.split(self.sizes, dim=-1)
        ]
        strength = None if self.strength is None else self.strength(x).sigmoid()
        read = self.norm(self.recur(*parts, strength)).flatten(2)
        if self.gate is not None:
            read = read * functional.silu(self.gate(x))
        mapped: Tensor = self.output(read)
        return mapped


@reading
def delta_net(ours: Any, output: Tensor) -> nn.Module:
    """Build Qwen3-Next's `torch_chunk_gated_delta_rule` without a decay, between our maps."""
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    def recur(queries: Tensor, keys: Tensor, values: Tensor, strength: Tensor) -> Tensor:
        read: Tensor = torch_chunk_gated_delta_rule(
            queries,
            keys,
            values,
            g=torch.zeros_like(strength),
            beta=strength,
            use_qk_l2norm_in_kernel=True,
        )[0]
        return read

    return BetweenMaps(ours, output, recur)


@reading
def retention(ours: Any, output: Tensor) -> nn.Module:
    """Build the parallel form of the paper's equation 5, between our maps."""
    rates = torch.log1p(-torch.exp2(-5.0 - torch.arange(ours.heads, dtype=torch.float64)))
    scale, pairs = ours.key_width**-0.5, torch.arange(0, ours.key_width, 2).double()

    def recur(queries: Tensor, keys: Tensor, values: Tensor, _: None) -> Tensor:
        place = torch.arange(queries.shape[1], device=queries.device)
        angles = place.unsqueeze(1) * 10000.0 ** (-pairs.to(place.device) / ours.key_width)
        angles = angles.to(queries.dtype).unsqueeze(1)
        q, k = (_turned(part, angles).transpose(1, 2) for part in (queries * scale, keys))
        apart = place.unsqueeze(1) - place
        decay = (rates.to(place.device).reshape(-1, 1, 1) * apart).exp().to(q.dtype).tril()
        return ((q @ k.mT * decay) @ values.transpose(1, 2)).transpose(1, 2)

    return BetweenMaps(ours, output, recur)


def _turned(x: Tensor, angles: Tensor) -> Tensor:
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    cos, sin = (part.repeat_interleave(2, dim=-1) for part in (angles.cos(), angles.sin()))
    return x * cos + turned * sin


def _channels(ours: Any, rows: Tensor | None = None) -> list[Tensor]:
    """Split rows into those of queries, of keys and of values."""
    rows = ours.mixed.weight if rows is None else rows
    return list(rows.data.split(ours.channel_widths()))


def _by_head(ours: Any, parts: list[Tensor]) -> list[Tensor]:
    return [part.data.reshape(ours.heads, -1, ours.dim) for part in parts]


def _loaded(theirs: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    theirs.load_state_dict(weights)
    return theirs
