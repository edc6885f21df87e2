"""Implementations from PyPI as mixers, with that mixer's parameters where they fit.

Each function takes one of our mixers and returns a module from `[batch, time, dim]` to the same
shape. A package is imported when its function is called, because it may not be installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any

import torch
from torch import nn

from tests.benchmarks.torch_peers import BetweenProjections, first_of_tuple


def fourier_transform(ours: Any) -> nn.Module:
    """Build transformers' FNet, without its normalisation and feed-forward layer."""
    from transformers.models.fnet.configuration_fnet import FNetConfig
    from transformers.models.fnet.modeling_fnet import FNetBasicFourierTransform

    config = FNetConfig(hidden_size=ours.dim, max_position_embeddings=ours.max_length)
    return first_of_tuple(FNetBasicFourierTransform(config))


def windowed_attention(ours: Any) -> nn.Module:
    """Build local-attention's `LocalAttention` with an exact window, between our projections."""
    return _local_attention(ours, exact_windowsize=True)


def blockwise_attention(ours: Any) -> nn.Module:
    """Build the same with its default: a query attends to its whole block and both neighbours."""
    return _local_attention(ours, exact_windowsize=False)


def _local_attention(ours: Any, *, exact_windowsize: bool) -> nn.Module:
    from local_attention import LocalAttention

    attend = LocalAttention(
        ours.window, causal=ours.is_causal, exact_windowsize=exact_windowsize, autopad=True
    )
    return BetweenProjections(ours, attend)


def linformer(ours: Any) -> nn.Module:
    """Build linformer's `LinformerSelfAttention`, with one E and one F for all heads."""
    from linformer import LinformerSelfAttention

    theirs = LinformerSelfAttention(
        ours.dim, ours.max_length, k=ours.projected_length, heads=ours.heads
    )
    theirs.to_out = nn.Linear(ours.dim, ours.dim, bias=False)  # its own has a bias, unlike ours
    _copy_projections(ours, theirs)
    with torch.no_grad():
        for theirs_along_time, along_time in zip(
            (theirs.proj_k, theirs.proj_v), ours.projections[:, 0], strict=True
        ):
            theirs_along_time.copy_(along_time.T)
    return theirs


def performer(ours: Any) -> nn.Module:
    """Build performer-pytorch's `SelfAttention` with our draw of features, which it keeps."""
    from performer_pytorch import SelfAttention

    with redirect_stdout(None):  # it prints that its CUDA kernel is missing
        theirs = SelfAttention(
            ours.dim,
            causal=ours.is_causal,
            heads=ours.heads,
            dim_head=ours.dim // ours.heads,
            nb_features=ours.num_features(),
            attn_out_bias=False,
        )
    theirs.fast_attention.projection_matrix.copy_(ours.directions)
    _copy_projections(ours, theirs)
    return theirs


@contextmanager
def without_epsilons() -> Iterator[None]:
    """Drop performer-pytorch's 1e-4, added to each feature, and 1e-6, added to a denominator."""
    from performer_pytorch import performer_pytorch as package

    features, causal = package.softmax_kernel, package.causal_linear_attention_noncuda
    kept = dict(features.__kwdefaults__), causal.__defaults__
    features.__kwdefaults__["eps"] = 0.0
    causal.__defaults__ = (*causal.__defaults__[:-1], 0.0)
    try:
        yield
    finally:
        features.__kwdefaults__.update(kept[0])
        causal.__defaults__ = kept[1]


def linear_attention(ours: Any) -> nn.Module:
    """Build linear-attention-transformer's `SelfAttention`; if causal, with a blind spot of 1."""
    from linear_attention_transformer.linear_attention_transformer import SelfAttention

    theirs = SelfAttention(ours.dim, ours.heads, causal=ours.is_causal, blindspot_size=1)
    theirs.to_out = nn.Linear(ours.dim, ours.dim, bias=False)
    _copy_projections(ours, theirs)
    return theirs


def token_mixing(ours: Any) -> nn.Module:
    """Build mlp-mixer-pytorch's `FeedForward` over patches, without its norm and residual."""
    from mlp_mixer_pytorch.mlp_mixer_pytorch import FeedForward

    theirs = FeedForward(ours.max_length, ours.hidden, dense=partial(nn.Conv1d, kernel_size=1))
    for index, linear in ((0, ours.expand), (3, ours.contract)):
        weight = linear.weight.unsqueeze(-1)
        theirs[index].load_state_dict({"weight": weight, "bias": linear.bias})
    return theirs


def _copy_projections(ours: Any, theirs: Any) -> None:
    theirs.to_q.load_state_dict(ours.query.state_dict())
    theirs.to_k.load_state_dict(ours.key.state_dict())
    theirs.to_v.load_state_dict(ours.value.state_dict())
    theirs.to_out.load_state_dict(ours.output.state_dict())
