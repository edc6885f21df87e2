"""Public implementations of sparse attention as mixers, with that mixer's parameters.

Each function takes one of our mixers and returns a module from `[batch, time, dim]` to the same
shape.
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


def nystromformer(ours: Any) -> nn.Module:
    """Build transformers' `NystromformerSelfAttention` and its separate output map."""
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = NystromformerConfig(
        hidden_size=ours.dim,
        num_attention_heads=ours.heads,
        segment_means_seq_len=ours.max_length,
        num_landmarks=ours.config.landmarks,
        conv_kernel_size=ours.config.kernel_size,
        inv_n_iter=ours.config.inverse_steps,
        attention_probs_dropout_prob=0.0,
    )
    theirs = NystromformerSelfAttention(config)
    theirs.init_option = "exact"  # the norm of each matrix, not the largest of a batch
    weights = {"conv.weight": ours.taps[:, None, :, None]}
    for part in ("query", "key", "value"):
        weights[f"{part}.weight"] = getattr(ours, part).weight
        weights[f"{part}.bias"] = torch.zeros(ours.dim)
    theirs.load_state_dict(weights)
    pair = nn.ModuleList([theirs, copy.deepcopy(ours.output)])
    return Wrapped(pair, lambda layers, x: layers[1](layers[0](x)[0]))


def hashed(ours: Any) -> nn.Module:
    """Build transformers' `LSHSelfAttention` and its separate output map."""
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    buckets = ours.factors[0] if len(ours.factors) == 1 else list(ours.factors)
    config = ReformerConfig(
        hidden_size=ours.dim,
        num_attention_heads=ours.heads,
        attention_head_size=ours.head_dim,
        num_hashes=ours.rounds,
        num_buckets=buckets,
        lsh_attn_chunk_length=ours.config.chunk,
        is_decoder=ours.is_causal,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=0,
        lsh_attention_probs_dropout_prob=0.0,
    )
    theirs = LSHSelfAttention(config)
    theirs.query_key.load_state_dict(ours.query.state_dict())
    theirs.value.load_state_dict(ours.value.state_dict())
    pair = nn.ModuleList([theirs, copy.deepcopy(ours.output)])
    return Wrapped(pair, lambda layers, x: layers[1](layers[0](x).hidden_states))


@contextmanager
def same_hashes() -> Iterator[None]:
    """Give both the same hashes in every pass, where each would draw its own; the axes differ."""
    real = torch.randn

    def ours(like: Tensor) -> Tensor:
        return real(like.shape, generator=torch.Generator().manual_seed(0)).to(like)

    def theirs(*sizes: Any, **given: Any) -> Tensor:
        if "generator" in given:  # the draw of the input
            return real(*sizes, **given)
        heads, width, rounds, rows = sizes[0]
        return ours(torch.empty(heads, rounds, rows, width, **given)).permute(0, 3, 1, 2)

    with mock.patch.object(torch, "randn_like", ours), mock.patch.object(torch, "randn", theirs):
        yield


def strided(ours: Any) -> nn.Module:
    """Build masked `scaled_dot_product_attention`: half the heads read blocks, half summaries."""
    places = torch.arange(ours.max_length)
    blocks = places // ours.stride
    near = blocks.unsqueeze(1) == blocks
    far = (places % ours.stride >= ours.stride - ours.summaries).expand_as(near)
    seen = torch.stack([near, far]).repeat_interleave(ours.heads // 2, dim=0)
    seen = seen.tril() if ours.is_causal else seen

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mask = seen.to(queries.device)
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)

    return BetweenProjections(ours, attend)


def sinkhorn(ours: Any) -> nn.Module:
    """Build it in torch: a matrix of blocks, divided along both axes, and a softmax over two."""
    hidden = nn.Linear(ours.dim, ours.dim)
    hidden.load_state_dict({"weight": ours.hidden.weight, "bias": ours.hidden_bias})
    maps = (ours.query, ours.key, ours.value, ours.output)
    columns = nn.ParameterList([ours.columns.detach().clone()])
    parts = nn.ModuleList([*map(copy.deepcopy, maps), hidden, columns])

    def call(layers: Any, x: Tensor) -> Tensor:
        *projections, output, hidden, (columns,) = layers
        sums = functional.relu(hidden(x.unflatten(1, (-1, ours.block)).sum(dim=2)))
        sums = sums.unflatten(-1, (ours.heads, -1)).transpose(1, 2)
        logs = sums @ columns.mT / ours.config.temperature
        for _ in range(ours.config.iterations):
            logs = logs.log_softmax(dim=-1).log_softmax(dim=-2)
        queries, *both = (
            each(x).unflatten(-1, (ours.heads, -1)).transpose(1, 2).unflatten(2, (-1, ours.block))
            for each in projections
        )  # (batch, heads, blocks, block, width)
        keys, values = (
            torch.cat([each, torch.einsum("bhij,bhjkw->bhikw", logs.exp(), each)], dim=3)
            for each in both
        )
        heads = functional.scaled_dot_product_attention(queries, keys, values).flatten(2, 3)
        mixed: Tensor = output(heads.transpose(1, 2).flatten(2))
        return mixed

    return Wrapped(parts, call)
