"""Linformer: softmax attention over keys and values that are projected along time.

Paper: Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity" (arXiv:2006.04768),
    equation 7 and section 4.
Equation: head_h = softmax(Q_h (E_h K_h)^T / sqrt(d_h)) (F_h V_h) with Q_h, K_h, V_h as in softmax
    attention and E_h, F_h of shape k x n; output = concat(head_1, ..., head_H) W^O.
Cost: n k d; one sequential operation; any two positions are one step apart.
Departures: E and F start from normal(0, 1 / (n + k)), the variance in the authors' code, so that
    projected keys are about as large as keys; with the normal(0, 1 / k) of the paper's theorems
    they would be sqrt(n / k) times as large and the softmax would select one of them. Sequences
    shorter than `max_length` use the first columns of E and F, one per position; the paper has a
    single length.
Padding: a padded token enters as zeros, so its key and value are zeros and add nothing to any
    projected key or value; each real token keeps the column of its position.
Order: every position has its own column in E and F, so the mixer distinguishes orders without a
    position encoding.
Fast form: E (x W) is computed as (E x) W if heads share E and F, so that only k projected tokens,
    not n, go through the projections of keys and values; then `scaled_dot_product_attention`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    fused_scratch_bytes,
    merge_heads,
    split_heads,
    square_projections,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding


class Linformer(Mixer):
    """Softmax attention over k projected keys and values; see the module docstring."""

    name = "linformer"
    paper = "Wang et al. 2020, arXiv:2006.04768"
    family = "linear attention"
    cost = Cost(time="n * k * d", sequential_operations="1", maximum_path_length="1")
    why_not_causal = "each projected key is a sum over all tokens, later ones too"
    why_not_relative = "projected keys stand at no place"
    fixed_length = True
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("projected_length",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of Linformer.

        Attributes:
            heads: Number of heads; must divide dim.
            projected_length: k, the number of projected keys and values; at most `max_length`.
            sharing: Sharing of the projections along time (section 4): `none` has E and F for each
                head, `headwise` one E and one F, `key_value` one matrix for keys and values of all
                heads, `layerwise` uses the bottom layer's matrix in all layers.
        """

        heads: int = 4
        projected_length: int = 32
        sharing: Literal["none", "headwise", "key_value", "layerwise"] = "headwise"

    def make_parameters(self, config: Config) -> None:
        """Create four projections over width, and those over time."""
        if config.projected_length > self.max_length:
            raise ModelError(
                f"{self.name}: projected_length={config.projected_length} is more than "
                f"the {self.max_length} tokens of the sequence"
            )
        self.heads = config.heads
        self.head_dim = self.dim // config.heads
        self.projected_length = config.projected_length
        self.sharing = config.sharing
        self.query, self.key, self.value, self.output = square_projections(self.dim)
        self.projections = nn.Parameter(torch.empty(self._shape_of_projections()))
        nn.init.normal_(self.projections, std=(self.max_length + self.projected_length) ** -0.5)

    def take_place(self, layer: int, first: Mixer) -> None:
        """Share the projections of the bottom layer if sharing is layerwise."""
        if self.sharing == "layerwise":
            assert isinstance(first, Linformer)
            self.projections = first.projections

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        queries = split_heads(self.query(x), self.heads)
        keys, values = self._keys_and_values(x)
        heads = functional.scaled_dot_product_attention(queries, keys, values)
        mixed: Tensor = self.output(merge_heads(heads))
        return mixed

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of projections over width and time, and of attention to k keys."""
        self.check_context_length(context_length)
        k, dim = self.projected_length, self.dim
        over_width = 2 * 2 * length * dim**2  # queries and outputs
        over_width += 2 * 2 * (length if self.sharing == "none" else k) * dim**2
        num_over_time = 2 if self.sharing in ("none", "headwise") else 1
        over_time = 2 * num_over_time * k * length * dim
        attention = 2 * 2 * length * k * dim
        return float(batch * (over_width + over_time + attention))

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of projected tokens."""
        return {"k": self.projected_length}

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: queries, k keys and values, heads, and output or scratch.

        Keys and values of all tokens are freed by then. With sharing `none` they still exist when
        the values are projected; for several sequences that product copies them and the
        projections.
        """
        self.check_context_length(context_length)
        k, tokens = self.projected_length, 4 * batch * length * self.dim
        projected, copied = 2 * 4 * batch * k * self.dim, 0
        if self.sharing == "none" and batch > 1:
            copied = tokens + 4 * batch * self.heads * k * length
        scratch = fused_scratch_bytes(
            rows=batch * self.heads, queries=length, keys=k, width=self.head_dim
        )
        return 2 * tokens + projected + max(scratch, tokens + copied)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one projected key, then one query, of one head at a time."""
        heads = [self._one_head(h, x, seen) for h in range(self.heads)]
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _one_head(self, head: int, x: Tensor, real: list[int]) -> Tensor:
        """Return softmax(Q (E K)^T / sqrt(d_h)) (F V) row by row, `[time, head_dim]`."""
        rows = slice(head * self.head_dim, (head + 1) * self.head_dim)
        kinds, owners, _, _ = self.projections.shape
        e, f = (self.projections[kind % kinds, head % owners] for kind in (0, 1))
        tokens = x[real]
        all_keys, all_values = (tokens @ each.weight[rows].T for each in (self.key, self.value))
        keys = torch.stack([(row[real, None] * all_keys).sum(dim=0) for row in e])
        values = torch.stack([(row[real, None] * all_values).sum(dim=0) for row in f])
        outputs = []
        for token in x:
            query = self.query.weight[rows] @ token
            terms = torch.exp(keys @ query / self.head_dim**0.5)
            outputs.append(terms / terms.sum() @ values)
        return torch.stack(outputs)

    def _shape_of_projections(self) -> tuple[int, int, int, int]:
        """Return the shape: 2 for E and F or 1, heads or 1 if shared, k, max_length."""
        kinds = 2 if self.sharing in ("none", "headwise") else 1
        owners = self.heads if self.sharing == "none" else 1
        return kinds, owners, self.projected_length, self.max_length

    def _keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values projected over width and time, `[batch, heads, k, head_dim]`."""
        projections = self.projections[..., : x.shape[1]]
        if self.sharing == "none":
            keys, values = (split_heads(each, self.heads) for each in (self.key(x), self.value(x)))
            return projections[0] @ keys, projections[1] @ values
        # One product computes all sums over time, `[batch, k or 2 k, dim]`.
        sums = functional.linear(x.transpose(1, 2), projections.flatten(0, 2)).transpose(1, 2)
        for_keys, for_values = sums.chunk(2, dim=1) if len(projections) == 2 else (sums, sums)
        keys, values = self.key(for_keys), self.value(for_values)
        return split_heads(keys, self.heads), split_heads(values, self.heads)
