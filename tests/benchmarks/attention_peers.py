"""Public implementations of latent, differential, hard and synthesized attention as mixers.

Each function takes one of our mixers and returns a module from `[batch, time, dim]` to the same
shape, with that mixer's parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.benchmarks.torch_peers import BetweenProjections, Wrapped


def latent(ours: Any) -> nn.Module:
    """Build transformers' `DeepseekV2Attention`, which rotates pairs as complex numbers."""
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention

    config = DeepseekV2Config(
        hidden_size=ours.dim,
        num_attention_heads=ours.heads,
        num_key_value_heads=ours.heads,
        q_lora_rank=None,
        kv_lora_rank=ours.latent_dim,
        qk_nope_head_dim=ours.head_dim,
        qk_rope_head_dim=ours.rope_dim,
        v_head_dim=ours.head_dim,
        head_dim=ours.rope_dim,
        attn_implementation="sdpa",
    )
    theirs = DeepseekV2Attention(config, 0)
    theirs.is_causal = ours.is_causal
    ups = [up.weight.unflatten(0, (ours.heads, -1)) for up in (ours.key, ours.value)]
    theirs.load_state_dict(
        {
            "q_proj.weight": ours.query.weight,
            "kv_a_layernorm.weight": ours.norm.weight,
            "kv_a_proj_with_mqa.weight": torch.cat([ours.down.weight, ours.rotary_key.weight]),
            "kv_b_proj.weight": torch.cat(ups, dim=1).flatten(0, 1),
            "o_proj.weight": ours.output.weight,
        }
    )
    pairs = torch.arange(0, ours.rope_dim, 2, dtype=torch.float64) / ours.rope_dim
    angles = torch.outer(torch.arange(ours.max_length).double(), 10000.0**-pairs)
    turns = torch.polar(torch.ones_like(angles), angles).unsqueeze(0)  # complex, so not a buffer

    def call(layer: Any, x: Tensor) -> Tensor:
        kind = torch.complex128 if x.dtype == torch.float64 else torch.complex64
        places = turns[:, : x.shape[1]].to(x.device, kind)
        mixed: Tensor = layer(x, None, None, places)[0]
        return mixed

    return Wrapped(theirs, call)


def differential(ours: Any) -> nn.Module:
    """Build the authors' form for kernels of one width: four calls, on halves of the values."""
    vectors = (ours.lambda_q1, ours.lambda_k1, ours.lambda_q2, ours.lambda_k2)
    learnt = nn.ParameterList([copy.deepcopy(each) for each in vectors])
    start, norm = ours.lambda_init, nn.RMSNorm(2 * ours.key_dim, eps=1e-5)
    norm.load_state_dict({"weight": ours.head_norm.weight})
    maps = nn.ModuleList(map(copy.deepcopy, (ours.query, ours.key, ours.value, ours.output)))

    def call(layers: Any, x: Tensor) -> Tensor:
        (query, key, value, output), (q1, k1, q2, k2), normed = layers
        queries, keys, values = (
            each(x).unflatten(-1, (ours.heads, 2, -1)).movedim(1, 3) for each in (query, key, value)
        )  # (batch, heads, half, time, width)
        first, second = (
            torch.cat(
                [
                    functional.scaled_dot_product_attention(
                        queries[:, :, i], keys[:, :, i], values[:, :, j], is_causal=ours.is_causal
                    )
                    for j in (0, 1)
                ],
                dim=-1,
            )
            for i in (0, 1)
        )
        factor = (q1 * k1).sum().exp() - (q2 * k2).sum().exp() + start
        heads = (1 - start) * normed(first - factor * second)
        mixed: Tensor = output(heads.transpose(1, 2).flatten(2))
        return mixed

    return Wrapped(nn.ModuleList([maps, learnt, norm]), call)


def sampled(ours: Any) -> nn.Module:
    """Build attention by a hard `gumbel_softmax` of the scores, between the same projections."""

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        scores = queries @ keys.mT * queries.shape[-1] ** -0.5
        if ours.is_causal:
            later = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return functional.gumbel_softmax(scores, tau=1.0, hard=True) @ values

    return BetweenProjections(ours, attend)


@contextmanager
def same_noise() -> Iterator[None]:
    """Make every draw of exponential noise of one shape return the same numbers."""
    real = Tensor.exponential_

    def drawn(x: Tensor) -> Tensor:
        return real(x, generator=torch.Generator(x.device).manual_seed(0))

    with mock.patch.object(Tensor, "exponential_", drawn):
        yield


def synthesized(ours: Any) -> nn.Module:
    """Build the dense form in torch: two maps for each head, a softmax, and the values."""
    (columns,) = ours.maps
    given = nn.ParameterList([columns.weight.detach().clone(), columns.bias.detach().clone()])
    maps = nn.ModuleList(map(copy.deepcopy, (columns.hidden, ours.value, ours.output)))

    def call(layers: Any, x: Tensor) -> Tensor:
        (hidden, value, output), (weight, bias) = layers
        rows, values = (
            each.unflatten(-1, (ours.heads, -1)).transpose(1, 2)
            for each in (functional.relu(hidden(x)), value(x))
        )
        scores = rows @ weight.mT + bias.unsqueeze(1)
        if ours.is_causal:
            later = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        mixed: Tensor = output((scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2))
        return mixed

    return Wrapped(nn.ModuleList([maps, given]), call)
