"""Attention without parameters: every token attends to tokens similar to itself.

Paper: the self-attention to which Vaswani et al. 2017 (arXiv:1706.03762) add projections and heads;
    without them it is Bahdanau's weighted mean (arXiv:1409.0473) with the score x_i . x_j.
Equation: y_i = sum_j softmax_j(s x_i . x_j) x_j, with s = 1.
Cost: n^2 d; one sequential operation; any two positions are one step apart.
Departures: none; the scale 1/sqrt(d) of the projected form is a knob. In a pre-norm block each
    token has norm sqrt(d), so its score with itself is d: without a scale, the tokens of a wide
    model attend almost only to themselves.
Fast form: `scaled_dot_product_attention`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bakeoff.models.kernels.softmax_attention import (
    fused_attention,
    fused_scratch_bytes,
    softmax_weights,
    whole_sequence,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding


class PlainAttention(Mixer):
    """Softmax attention without projections; see the module docstring."""

    name = "plain_attention"
    paper = "Vaswani et al. 2017, arXiv:1706.03762, without its projections"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    supports_context = True
    why_not_relative = "its score is the product of the tokens themselves, and nothing else"
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of attention without parameters.

        Attributes:
            scale: Factor of the scores before the softmax; d is the width of a token.
        """

        scale: Literal["none", "1/sqrt(d)"] = "none"

    def make_parameters(self, config: Config) -> None:
        """Store the scale; there are no parameters."""
        self.scale = self.dim**-0.5 if config.scale == "1/sqrt(d)" else 1.0

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        queries, others = self._tokens(x, mask, context, context_mask)
        visible = whole_sequence(x, mask, context, context_mask, is_causal=self.is_causal)
        return fused_attention(queries, others, others, visible, scale=self.scale).squeeze(1)

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights, `[batch, 1, time, time2]`.

        Each row sums to one, or to zero if the query has no visible key.
        """
        self.check_inputs(x, mask, context, context_mask)
        queries, others = self._tokens(x, mask, context, context_mask)
        visible = whole_sequence(x, mask, context, context_mask, is_causal=self.is_causal)
        return softmax_weights(self.scale * queries @ others.transpose(-1, -2), visible)

    def initial_state(self, batch: int) -> State:
        """Return an empty cache of tokens, `[batch, 0, dim]`."""
        self.check_steps()
        return (torch.zeros(batch, 0, self.dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and all earlier ones."""
        self.check_steps()
        seen = torch.cat([state[0].to(x_t), x_t.unsqueeze(1)], dim=1)
        scores = self.scale * seen @ x_t.unsqueeze(2)  # (batch, time, 1)
        return (scores.softmax(dim=1) * seen).sum(dim=1), (seen,)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached tokens, which grow with the length."""
        self.check_steps()
        return 4 * self.dim * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the scores and the weighted sum."""
        self.check_context_length(context_length)
        keys = length if context_length is None else context_length
        return float(batch * 2 * 2 * length * keys * self.dim)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: output, scratch, and two positions of 8 bytes for each token."""
        self.check_context_length(context_length)
        keys = length if context_length is None else context_length
        scratch = fused_scratch_bytes(rows=batch, queries=length, keys=keys, width=self.dim)
        return 8 * (length + keys) + 4 * batch * length * self.dim + scratch

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one token at a time, over the tokens that it may attend to."""
        scale = 1 / math.sqrt(self.dim) if self.config.scale == "1/sqrt(d)" else 1.0
        rows = []
        for i, token in enumerate(x):
            past = others[[j for j in seen if not self.is_causal or j <= i]]
            terms = torch.exp(scale * past @ token)
            rows.append(terms / terms.sum() @ past if len(past) else 0.0 * token)
        return torch.stack(rows)

    def _tokens(
        self, x: Tensor, mask: Mask, context: Context, context_mask: Mask
    ) -> tuple[Tensor, Tensor]:
        """Return queries and the tokens to attend to, as one head: `[batch, 1, time, dim]` each."""
        queries = without_padding(x, mask).unsqueeze(1)
        if context is None:
            return queries, queries
        return queries, without_padding(context, context_mask).unsqueeze(1)
