"""The linear Transformer: attention with elu + 1 in place of the exponential.

Paper: Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention" (arXiv:2006.16236), section 3.
Equation: V'_i = phi(Q_i)^T S / phi(Q_i)^T z with S = sum_j phi(K_j) V_j^T, z = sum_j phi(K_j)
    (equations 8, 9 and 18, 19) and phi(x) = elu(x) + 1; over all j, or over j <= i (causal), for
    each head as in softmax attention.
Cost: n d^2 / heads; one sequential operation, since a prefix sum does not wait for anything but
    its depth; any two positions are one step apart.
Departures: no epsilon is added to the denominator, as the authors' code does; one that underflows
    is held at 3e-29 (float32). A query that may see nothing takes zeros from every head.
Padding: padded keys and values are left out of both sums.
Fast form: `kernels.kernel_attention`; phi is exp(min(x, 0)) + max(x, 0), which keeps the digits
    that elu(x) + 1 cancels, and its slope is min(phi, 1). `step` holds S and z, side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from models.kernels.kernel_mixer import KernelMixer
from models.mixer import Cost


class LinearTransformer(KernelMixer):
    """Every token takes a mean of all values, weighted by products of features."""

    name = "linear_transformer"
    paper = "Katharopoulos et al. 2020, arXiv:2006.16236"
    family = "linear attention"
    cost = Cost(time="n * d**2", sequential_operations="1", maximum_path_length="1")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the linear Transformer.

        Attributes:
            heads: Number of heads; must divide dim.
            chunk: Tokens to a chunk of the causal form; products inside one are formed.
        """

        heads: int = 4
        chunk: int = field(default=64, metadata={"cost_only": True})

    def num_features(self) -> int:
        """As wide as a head."""
        return self.head_dim

    def feature_flops(self, length: int) -> float:
        """Elementwise."""
        return 0.0

    def query_features(self, queries: Tensor) -> Tensor:
        """See `KernelMixer.query_features`."""
        wide = queries.to(torch.promote_types(queries.dtype, torch.float32))
        features: Tensor = _EluPlusOne.apply(wide)  # type: ignore[no-untyped-call]
        return features

    def key_features(self, keys: Tensor) -> tuple[Tensor, None]:
        """See `KernelMixer.key_features`; nothing is taken out."""
        return self.query_features(keys), None

    def feature(self, x: Tensor) -> Tensor:
        """elu(x) + 1: x + 1 above 0, exp(x) below."""
        return torch.where(x > 0, x + 1, x.exp())


class _EluPlusOne(torch.autograd.Function):
    """phi(x) = exp(min(x, 0)) + max(x, 0); autograd's own would take twice the passes."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        """Of any shape; what is read twice below had better be contiguous."""
        x = x.contiguous()
        return x.clamp(max=0.0).exp_().add_(x.relu())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Nothing but phi is needed: where x < 0 it is its own slope, elsewhere that is 1."""
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Times min(phi, 1)."""
        (phi,) = ctx.saved_tensors
        slope: Tensor = phi.clamp(max=1.0)
        return slope * gradient
