"""Parts of blocks: norms, residual sums and feed-forwards; and the knobs of a stack."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import scaled_normal
from bakeoff.models.mixer import Mask, without_padding
from bakeoff.models.model_spec import late_knob


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """Knobs of a stack of blocks.

    Attributes:
        norm_placement: `pre` is x + f(norm(x)), with one more norm after the last block (GPT-2);
            `post` is norm(x + f(x)), without it (Vaswani et al. 2017, section 3.1); `res_post` is
            x + norm(f(x)), with it (Liu et al. 2022, Swin v2, arXiv:2111.09883).
        has_residual: Whether the sum includes x; without it a block is f(norm(x)) or norm(f(x)).
        dropout: Probability of setting a number to zero in training, applied to the embeddings with
            their positions and to the output of each sub-layer before it is added (Vaswani et al.
            2017, section 5.4).
        norm_kind: `layer` (Ba et al. 2016, arXiv:1607.06450), `rms` (Zhang and Sennrich 2019,
            arXiv:1910.07467), or `batch` over all real tokens of a batch (Ioffe and Szegedy 2015,
            arXiv:1502.03167). `batch` is not available in a causal stack, or if batches are divided
            (`workers`, `accumulation`), since each part would have its own statistics.
        norm_eps: Added to the variance under the square root.
        residual: `sum`; `scaled`, the sum times sqrt(1/2) (Gehring et al. 2017, arXiv:1705.03122);
            or `reversible`, sums of two streams from which the backward pass recovers all
            activations (Gomez et al. 2017; see `bakeoff.models.reversible`). The last needs norms
            inside the sum, `pre` and `res_post`, other than `batch`.
        layer_scale: Initial value of a learned factor for each channel of f(x) (Touvron et al.
            2021, CaiT, arXiv:2103.17239), or None for no such factor.
        stochastic_depth: Probability, in training, that the last block leaves out f(x), for each
            sub-layer and sequence; block l of L uses l / L times it (Huang et al. 2016,
            arXiv:1603.09382, equation 4). An f(x) that is kept is divided by the probability of
            keeping it.
        stochastic_depth_rule: Whether that probability is `linear` in the block's depth, or
            `constant` over all blocks (CaiT's code).
        feed_forward: `gelu`, its approximation by tanh `gelu_tanh` (GPT-2), or `relu` between two
            linear maps; `glu` or `swiglu`, where a sigmoid or a SiLU of half of the first map's
            outputs multiplies the other half (Shazeer 2020, arXiv:2002.05202); or `none`.
        feed_forward_ratio: Hidden width of the feed-forward divided by dim. A gated one has one and
            a half times the parameters; Shazeer uses 2/3 of the ratio for it.
        has_feed_forward_bias: Whether its linear maps have biases; those of Shazeer and Llama
            (Touvron et al. 2023, arXiv:2302.13971) have none.
    """

    norm_placement: Literal["pre", "post", "res_post"] = "pre"
    has_residual: bool = True
    dropout: float = 0.0
    norm_kind: Literal["layer", "rms", "batch"] = late_knob("layer")
    norm_eps: float = late_knob(1e-5)
    residual: Literal["sum", "scaled", "reversible"] = late_knob("sum")
    layer_scale: float | None = late_knob(None)
    stochastic_depth: float = late_knob(0.0)
    stochastic_depth_rule: Literal["linear", "constant"] = late_knob("linear")
    feed_forward: Literal["gelu", "gelu_tanh", "relu", "glu", "swiglu", "none"] = late_knob("gelu")
    feed_forward_ratio: float = late_knob(4.0)
    has_feed_forward_bias: bool = late_knob(True)


def check_stack(config: StackConfig, owner: str) -> None:
    """Raise for knobs that no stack can have.

    Raises:
        ModelError: A value is not allowed, as in
            ``classifier: dropout=1.0 is not at least 0 and below 1``.
    """
    for key in ("dropout", "stochastic_depth"):
        if not 0 <= getattr(config, key) < 1:
            raise ModelError(f"{owner}: {key}={getattr(config, key)} is not at least 0 and below 1")
    for key in ("norm_eps", "feed_forward_ratio"):
        if getattr(config, key) <= 0:
            raise ModelError(f"{owner}: {key}={getattr(config, key)} is not above 0")
    for key, idle in {"residual": "sum", "layer_scale": None, "stochastic_depth": 0.0}.items():
        value = getattr(config, key)
        if not config.has_residual and value != idle:
            raise ModelError(f"{owner}: {key}={value!r} needs a sum, and has_residual=False")
    if config.residual == "scaled" and config.norm_placement == "post":
        raise ModelError(f"{owner}: residual='scaled' is undone by norm_placement='post'")
    if config.residual == "reversible":
        _check_reversible(config, owner)


def _check_reversible(config: StackConfig, owner: str) -> None:
    if config.norm_placement == "post":
        raise ModelError(
            f"{owner}: residual='reversible' cannot be undone through norm_placement='post'"
        )
    if config.norm_kind == "batch":
        raise ModelError(
            f"{owner}: residual='reversible' computes all twice, and norm_kind='batch' would count "
            "each batch twice"
        )


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch norm of `[batch, time, dim]` with the statistics of real tokens only."""

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        """Map to the same shape; values at padded positions have no meaning."""
        if mask is None or not self.training:
            normed: Tensor = super().forward(without_padding(x, mask).flatten(0, 1))
            return normed.view_as(x)
        wide = without_padding(x, mask).to(torch.promote_types(x.dtype, torch.float32))
        count = mask.sum().clamp(min=1)
        mean = wide.sum(dim=(0, 1)) / count
        centred = without_padding(wide - mean, mask)
        variance = centred.square().sum(dim=(0, 1)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        scaled = centred * (variance + self.eps).rsqrt()
        return (scaled * self.weight + self.bias).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics, as torch does."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        self.running_var.lerp_(variance.to(self.running_var.dtype), self.momentum)
        self.num_batches_tracked.add_(1)


def build_norm(dim: int, config: StackConfig) -> nn.Module:
    """Return a norm of the configured kind; draws no random numbers."""
    kind = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "batch": MaskedBatchNorm}[config.norm_kind]
    norm: nn.Module = kind(dim, eps=config.norm_eps)
    return norm


def normed(norm: nn.Module, x: Tensor, mask: Mask = None) -> Tensor:
    """Apply `norm` to `x`; a `MaskedBatchNorm` also gets the mask."""
    found: Tensor = norm(x, mask) if isinstance(norm, MaskedBatchNorm) else norm(x)
    return found


class Residual(nn.Module):
    """A residual sum of the input and the output of a sub-layer.

    `share` is the relative depth of the block, l / L: see `StackConfig.stochastic_depth`.
    """

    no_weight_decay = ("scale",)

    def __init__(self, dim: int, config: StackConfig, share: float) -> None:
        super().__init__()
        self.has_residual = config.has_residual
        self.factor = math.sqrt(0.5) if config.residual == "scaled" else 1.0
        is_linear = config.stochastic_depth_rule == "linear"
        self.rate = config.stochastic_depth * (share if is_linear else 1.0)
        self.dropout = nn.Dropout(config.dropout)
        start = config.layer_scale
        self.scale = None if start is None else nn.Parameter(torch.full((dim,), start))

    def forward(self, x: Tensor, change: Tensor) -> Tensor:
        """Map `[batch, ..., dim]` to the same shape."""
        change = self.change(change)
        if not self.has_residual:
            return change
        return x + change if self.factor == 1.0 else (x + change) * self.factor

    def change(self, change: Tensor) -> Tensor:
        """Return the term to add: `change` after dropout, layer scale and stochastic depth."""
        change = self.dropout(change)
        if self.scale is not None:
            change = change * self.scale
        if self.training and self.rate:
            shape = len(change), *[1] * (change.ndim - 1)
            keeps = torch.rand(shape, device=change.device) >= self.rate
            change = change * keeps / (1 - self.rate)
        return change


class FeedForward(nn.Module):
    """Two linear maps with an activation or a gate between; see `StackConfig.feed_forward`."""

    def __init__(self, dim: int, config: StackConfig) -> None:
        super().__init__()
        hidden = max(1, round(config.feed_forward_ratio * dim))
        self.kind = config.feed_forward
        is_gated, bias = self.kind in ("glu", "swiglu"), config.has_feed_forward_bias
        self.expand = nn.Linear(dim, 2 * hidden if is_gated else hidden, bias=bias)
        self.contract = nn.Linear(hidden, dim, bias=bias)
        scaled_normal(self.expand)
        scaled_normal(self.contract)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, time, dim]` to the same shape, each token separately."""
        mapped: Tensor = self.contract(self._activated(self.expand(x)))
        return mapped

    def _activated(self, x: Tensor) -> Tensor:
        if self.kind == "gelu":
            return functional.gelu(x)
        if self.kind == "gelu_tanh":
            return functional.gelu(x, approximate="tanh")
        if self.kind == "relu":
            return functional.relu(x)
        if self.kind == "glu":
            return functional.glu(x)
        values, gates = x.chunk(2, dim=-1)
        return functional.silu(gates) * values

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of two products per token."""
        return float(
            batch * length * 2 * (self.expand.weight.numel() + self.contract.weight.numel())
        )
