"""The linear Transformer: attention with elu + 1 in place of the exponential.

Paper: Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention" (arXiv:2006.16236), section 3.
Equation: V'_i = phi(Q_i)^T S / phi(Q_i)^T z with S = sum_j phi(K_j) V_j^T, z = sum_j phi(K_j)
    (equations 8, 9 and 18, 19) and phi(x) = elu(x) + 1; over all j, or over j <= i (causal), for
    each head as in softmax attention.
Cost: n d^2 / heads; one sequential operation, since a prefix sum is limited only by its depth; any
    two positions are one step apart.
Departures: no epsilon is added to the denominator, unlike in the authors' code; a denominator that
    underflows is clamped to 3e-29 (float32). A query without a visible key gets zeros from every
    head.
Padding: padded keys and values are left out of both sums.
Fast form: `kernels.kernel_attention`; phi is computed as exp(min(x, 0)) + max(x, 0), which keeps
    the digits that elu(x) + 1 cancels, and its derivative is min(phi, 1). `step` holds S and z in
    one tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bakeoff.models.kernels.kernel_mixer import KernelMixer
from bakeoff.models.mixer import Cost


class LinearTransformer(KernelMixer):
    """Linear attention with the feature map elu + 1; see the module docstring."""

    name = "linear_transformer"
    paper = "Katharopoulos et al. 2020, arXiv:2006.16236"
    family = "linear attention"
    cost = Cost(time="n * d**2", sequential_operations="1", maximum_path_length="1")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the linear Transformer.

        Attributes:
            heads: Number of heads; must divide dim.
            chunk: Number of tokens per chunk of the causal form, which computes all products in a
                chunk.
        """

        heads: int = 4
        chunk: int = field(default=64, metadata={"cost_only": True})

    def num_features(self) -> int:
        """Return the number of features, the width of a head."""
        return self.head_dim

    def feature_flops(self, length: int) -> float:
        """Return 0, since the features are elementwise."""
        return 0.0

    def query_features(self, queries: Tensor) -> Tensor:
        """Return the features of the queries; see `KernelMixer.query_features`."""
        wide = queries.to(torch.promote_types(queries.dtype, torch.float32))
        features: Tensor = _EluPlusOne.apply(wide)  # type: ignore[no-untyped-call]
        return features

    def key_features(self, keys: Tensor) -> tuple[Tensor, None]:
        """Return the features of the keys, without a log scale; see `KernelMixer.key_features`."""
        return self.query_features(keys), None

    def feature(self, x: Tensor) -> Tensor:
        """Return elu(x) + 1: x + 1 above 0, exp(x) below."""
        return torch.where(x > 0, x + 1, x.exp())


class _EluPlusOne(torch.autograd.Function):
    """Function phi(x) = exp(min(x, 0)) + max(x, 0).

    Autograd's own derivative would take twice as many passes over memory.
    """

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        """Return phi of a tensor of any shape, made contiguous since it is read twice."""
        x = x.contiguous()
        return x.clamp(max=0.0).exp_().add_(x.relu())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Save only phi, which determines the derivative: phi where x < 0, and 1 elsewhere."""
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient times min(phi, 1)."""
        (phi,) = ctx.saved_tensors
        slope: Tensor = phi.clamp(max=1.0)
        return slope * gradient
