"""Attention without parameters: every token looks for tokens like itself.

Paper: the self-attention that Vaswani et al. 2017 (arXiv:1706.03762) put projections and heads
    around; without them it is Bahdanau's weighted mean (arXiv:1409.0473) with the score x_i . x_j.
Equation: y_i = sum_j softmax_j(s x_i . x_j) x_j, with s = 1.
Cost: n^2 d; one sequential operation; any two positions are one step apart.
Departures: none; the scale 1/sqrt(d) of the projected form is a knob. In a pre-norm block each
    token has length sqrt(d), so its score with itself is d: unscaled, a wide model's tokens see
    hardly anything but themselves.
Fast form: `scaled_dot_product_attention`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.kernels.softmax_attention import (
    fused_attention,
    fused_scratch_bytes,
    softmax_weights,
    whole_sequence,
)
from models.mixer import Context, Cost, Mask, Mixer, State, without_padding


class PlainAttention(Mixer):
    """Every token takes a mean of all tokens, weighted by likeness; see the module's note."""

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
            scale: What scores are multiplied by before the softmax; d is the width of a token.
        """

        scale: Literal["none", "1/sqrt(d)"] = "none"

    def __init__(self, *, dim: int, max_length: int, is_causal: bool, config: Config) -> None:
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        self.scale = dim**-0.5 if config.scale == "1/sqrt(d)" else 1.0

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        queries, others, real = self._tokens(x, mask, context, context_mask)
        visible = whole_sequence(
            x.shape[1], others.shape[2], real, is_causal=self.is_causal, device=x.device
        )
        return fused_attention(queries, others, others, visible, scale=self.scale).squeeze(1)

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """`[batch, 1, time, time2]`; a row sums to one, or to zero if it may see nothing."""
        self.check_inputs(x, mask, context, context_mask)
        queries, others, real = self._tokens(x, mask, context, context_mask)
        visible = whole_sequence(
            x.shape[1], others.shape[2], real, is_causal=self.is_causal, device=x.device
        )
        return softmax_weights(self.scale * queries @ others.transpose(-1, -2), visible)

    def initial_state(self, batch: int) -> State:
        """No tokens yet, `[batch, 0, dim]`."""
        self.check_steps()
        return (torch.zeros(batch, 0, self.dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One token looks at itself and at all earlier ones."""
        self.check_steps()
        seen = torch.cat([state[0].to(x_t), x_t.unsqueeze(1)], dim=1)
        scores = self.scale * seen @ x_t.unsqueeze(2)  # (batch, time, 1)
        return (scores.softmax(dim=1) * seen).sum(dim=1), (seen,)

    def state_bytes(self, length: int) -> int:
        """The tokens themselves: grows with the length."""
        self.check_steps()
        return 4 * self.dim * length

    def num_parameters(self) -> int:
        """None."""
        return 0

    def flops(self, length: int, batch: int = 1) -> float:
        """The scores, and the weighted sum."""
        return float(batch * 2 * 2 * length**2 * self.dim)

    def forward_bytes(self, length: int, batch: int = 1) -> float:
        """The output and the kernel's scratch, and two places of 8 bytes for each token."""
        scratch = fused_scratch_bytes(rows=batch, queries=length, keys=length, width=self.dim)
        return 2 * 8 * length + 4 * batch * length * self.dim + scratch

    def reference(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """One token at a time, over the tokens that it may see."""
        sequence, real = (x, mask) if context is None else (context, context_mask)
        scale = 1 / math.sqrt(self.dim) if self.config.scale == "1/sqrt(d)" else 1.0
        rows = []
        for b in range(x.shape[0]):
            seen = [j for j in range(sequence.shape[1]) if real is None or bool(real[b, j])]
            for i in range(x.shape[1]):
                past = sequence[b, [j for j in seen if not self.is_causal or j <= i]]
                token = x[b, i] if mask is None or bool(mask[b, i]) else torch.zeros_like(x[b, i])
                terms = torch.exp(scale * past @ token)
                rows.append(terms / terms.sum() @ past if len(past) else 0.0 * token)
        return torch.stack(rows).reshape(x.shape)

    def _tokens(
        self, x: Tensor, mask: Mask, context: Context, context_mask: Mask
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and those they look at, as one head, and which of those are real."""
        queries = without_padding(x, mask).unsqueeze(1)  # (batch, 1, time, dim)
        if context is None:
            return queries, queries, mask
        return queries, without_padding(context, context_mask).unsqueeze(1), context_mask
