"""Differential attention: the difference of two softmaxes, which cancels common noise.

Paper: Ye et al. 2024, "Differential Transformer" (arXiv:2410.05258), section 2; the head norm and
    the initialisation of the lambda vectors follow the authors' code.
Equation: in head h of H, with queries and keys [Q_1; Q_2], [K_1; K_2] of width d = dim / 2H each
    and values V of width 2 d: A_i = softmax(Q_i K_i^T / sqrt(d)), and head_h = (1 - lambda_init)
    RMSNorm((A_1 - lambda A_2) V), with a gain of width 2 d that all heads share; output =
    concat(heads) W^O. lambda = exp(l_q1 . l_k1) - exp(l_q2 . l_k2) + lambda_init is one number per
    layer, computed from four learned vectors of width d; lambda_init = 0.8 - 0.6 exp(-0.3 (l - 1))
    in layer l, counted from 1 at the bottom.
Cost: n^2 d, as for `attention`; one sequential operation; any two positions are one step apart.
Departures: a query without a visible key gets zeros. A relative position acts on each of the two
    softmaxes as on a head. In a stack with other mixers, only the layers of this mixer are counted.
Padding: exact; padded keys are masked.
Fast form: one call of torch's fused kernel computes all 2 H softmaxes without writing the weights
    to memory. Queries and keys are padded with zeros to the width of the values, since the kernel
    requires equal widths. `step` appends to a cache of keys and values, which copies the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.rms_norm import InnerNorm, norm_by_definition
from bakeoff.models.kernels.softmax_attention import (
    Visibility,
    fused_attention,
    fused_scratch_bytes,
    merge_heads,
    newest_token,
    project_to_head,
    softmax_weights,
    split_heads,
    square_projections,
    whole_sequence,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding
from bakeoff.models.positions.relative import RelativeKind, ShawPosition

_EPS = 1e-5
_SPREAD_OF_LAMBDAS = 0.1


class DifferentialAttention(Mixer):
    """Multi-head attention by differences of two softmaxes; see the module docstring."""

    name = "differential_attention"
    paper = "Ye et al. 2024, arXiv:2410.05258"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    supports_relative = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of differential attention.

        Attributes:
            heads: Number of heads, each with two softmaxes; twice this number must divide dim. The
                paper uses half as many heads as ordinary attention, so that keys have the same
                width.
            lambda_init: Initial value of lambda, at least 0 and below 1; with None it is the
                paper's, which grows with the layer from 0.2 towards 0.8.
            has_head_norm: Whether heads are normalised and multiplied by 1 - lambda_init, which
                keeps gradients as large as a Transformer's; otherwise neither is done.
        """

        heads: int = 4
        lambda_init: float | None = None
        has_head_norm: bool = True

    def __init__(self, *, position: RelativeKind = None, **given: Any) -> None:
        super().__init__(**given)
        if position is not None and issubclass(position, ShawPosition):
            raise ModelError(f"{self.name}: shaw needs the weights in memory; take attention")
        sizes = {"heads": 2 * self.heads, "head_dim": self.key_dim}
        self.position = None if position is None else position(**sizes, is_causal=self.is_causal)

    @classmethod
    def check_config(cls, config: Config, *, dim: int) -> None:
        """Raise `ModelError` if 2 * heads does not divide dim, or lambda_init is not in [0, 1)."""
        if config.heads < 1 or dim % (2 * config.heads) != 0:
            raise ModelError(
                f"{cls.name}: heads={config.heads}, of two halves each, does not divide dim={dim}"
            )
        if config.lambda_init is not None and not 0 <= config.lambda_init < 1:
            raise ModelError(
                f"{cls.name}: lambda_init={config.lambda_init} is not from 0 up to below 1"
            )

    def make_parameters(self, config: Config) -> None:
        """Create four projections, the four vectors of lambda, and the gain of the head norm."""
        self.heads = config.heads
        self.key_dim = self.dim // (2 * config.heads)
        self.scale = self.key_dim**-0.5
        self.query, self.key, self.value, self.output = square_projections(self.dim)
        vectors = [nn.Parameter(torch.empty(self.key_dim)) for _ in range(4)]
        for vector in vectors:
            nn.init.normal_(vector, std=_SPREAD_OF_LAMBDAS)
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = vectors
        self.head_norm = InnerNorm(2 * self.key_dim, eps=_EPS) if config.has_head_norm else None
        self._at_layer(0)

    def take_place(self, layer: int, first: Mixer) -> None:
        """Set lambda_init for this layer; by default it grows with the layer."""
        self._at_layer(layer)

    def _at_layer(self, layer: int) -> None:
        self.layer = layer
        given = self.config.lambda_init
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * layer) if given is None else given

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return self._merged(self._softmaxes(*self._project(without_padding(x, mask)), visible))

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights of both softmaxes of each head, `[batch, 2 heads, time, time]`.

        The two softmaxes of a head are adjacent. Each row sums to one, or to zero if the query has
        no visible key. A head applies the first minus lambda times the second.
        """
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, _ = self._project(without_padding(x, mask))
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        queries, keys = self._turned(queries, visible.queries), self._turned(keys, visible.keys)
        scores = self.scale * queries @ keys.transpose(-1, -2)
        bias = self._bias(visible, scores.dtype)
        return softmax_weights(scores if bias is None else scores + bias, visible)

    def initial_state(self, batch: int) -> State:
        """Return empty caches: keys `[batch, 2 heads, 0, d]`, values `[batch, heads, 0, 2 d]`."""
        self.check_steps()
        keys = self.key.weight.new_zeros(batch, 2 * self.heads, 0, self.key_dim)
        return keys, self.key.weight.new_zeros(batch, self.heads, 0, 2 * self.key_dim)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and all cached tokens."""
        self.check_steps()
        queries, *new = self._project(x_t.unsqueeze(1))
        keys, values = (torch.cat(pair, dim=2) for pair in zip(state, new, strict=True))
        visible = newest_token(keys.shape[2], x_t.device)
        mixed = self._merged(self._softmaxes(queries, keys, values, visible))
        return mixed.squeeze(1), (keys, values)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached keys and values, which grow with the length."""
        self.check_steps()
        return 4 * 2 * self.dim * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections and of 2 H softmaxes, padded to the values' width."""
        self.check_context_length(context_length)
        projections = 4 * 2 * length * self.dim**2
        return float(batch * (projections + 2 * 2 * length**2 * 2 * self.dim))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the projections, their padded copies, outputs and scratch."""
        self.check_context_length(context_length)
        if self.position is not None:
            raise ModelError(
                f"{self.name} gives no formula for its bytes with {self.position.name}"
            )
        scratch = fused_scratch_bytes(
            rows=batch * 2 * self.heads, queries=length, keys=length, width=2 * self.key_dim
        )
        return 16 * length + 4 * batch * length * self.dim * (3 + 3 * 2 + 2) + scratch

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys that it may attend to."""
        rows = []
        for i in range(len(x)):
            past = [j for j in seen if not self.is_causal or j <= i]
            heads = [self._one_head(h, x[i], i, x[past], past) for h in range(self.heads)]
            rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows)

    def _one_head(
        self, head: int, token: Tensor, place: int, tokens: Tensor, seen: list[int]
    ) -> Tensor:
        """Return one head by equations 1 to 3: the normalised difference of two softmaxes."""
        values = project_to_head(self.value, head, 2 * self.key_dim, tokens)
        if not seen:
            return torch.zeros_like(token[: 2 * self.key_dim])
        first, second = (
            self._one_softmax(2 * head + half, token, place, tokens, seen) for half in (0, 1)
        )
        start = self.config.lambda_init
        start = 0.8 - 0.6 * math.exp(-0.3 * self.layer) if start is None else start
        factor = torch.exp(self.lambda_q1 @ self.lambda_k1)
        factor = factor - torch.exp(self.lambda_q2 @ self.lambda_k2) + start
        mixed = (first - factor * second) @ values
        if self.head_norm is None:
            return mixed
        return (1 - start) * norm_by_definition(mixed, self.head_norm)

    def _one_softmax(
        self, number: int, token: Tensor, place: int, tokens: Tensor, seen: list[int]
    ) -> Tensor:
        """Return the weights `[seen]` of the tokens in one of the 2 H softmaxes."""
        query = project_to_head(self.query, number, self.key_dim, token)
        keys = project_to_head(self.key, number, self.key_dim, tokens)
        added = torch.zeros_like(keys[:, 0])
        if self.position is not None:
            query = self.position.turned(query, place)
            turned = zip(keys, seen, strict=True)
            keys = torch.stack([self.position.turned(key, j) for key, j in turned])
            added = torch.stack([self.position.added(number, j - place) for j in seen]).to(added)
        terms = torch.exp(keys @ query / math.sqrt(len(query)) + added)
        return terms / terms.sum()

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys `[batch, 2 heads, time, d]`, values `[batch, heads, time, 2 d]`."""
        queries = split_heads(self.query(x), 2 * self.heads)
        keys = split_heads(self.key(x), 2 * self.heads)
        return queries, keys, split_heads(self.value(x), self.heads)

    def _softmaxes(
        self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility
    ) -> Tensor:
        """Return the output of each of the 2 H softmaxes, `[batch, 2 heads, time, 2 d]`."""
        queries, keys = self._turned(queries, visible.queries), self._turned(keys, visible.keys)
        queries, keys = (functional.pad(each, (0, self.key_dim)) for each in (queries, keys))
        values = values.repeat_interleave(2, dim=1)
        bias = self._bias(visible, queries.dtype)
        return fused_attention(queries, keys, values, visible, scale=self.scale, bias=bias)

    def _merged(self, softmaxes: Tensor) -> Tensor:
        """Return the normalised differences, merged and projected: `[batch, time, dim]`."""
        heads = softmaxes[:, 0::2] - self._lambda() * softmaxes[:, 1::2]
        if self.head_norm is not None:
            heads = (1 - self.lambda_init) * self.head_norm(heads)
        merged: Tensor = self.output(merge_heads(heads))
        return merged

    def _lambda(self) -> Tensor:
        """Return lambda, the factor of the second softmax, in float32 at least."""
        wide = torch.promote_types(self.lambda_q1.dtype, torch.float32)
        first = (self.lambda_q1.to(wide) * self.lambda_k1.to(wide)).sum().exp()
        second = (self.lambda_q2.to(wide) * self.lambda_k2.to(wide)).sum().exp()
        return first - second + self.lambda_init

    def _turned(self, x: Tensor, places: Tensor) -> Tensor:
        return x if self.position is None else self.position.rotate(x, places)

    def _bias(self, visible: Visibility, dtype: torch.dtype) -> Tensor | None:
        return None if self.position is None else self.position.bias(visible.distance(), dtype)
