"""Grouped-query attention: several query heads share one head of keys and values.

Paper: Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from
    Multi-Head Checkpoints" (arXiv:2305.13245), section 2.2; with a single head of keys and values,
    Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need" (arXiv:1911.02150).
Equation: that of `attention`, with H query heads and G heads of keys and values, each of width dim
    / H; query head h attends to keys and values of head floor(h G / H). G = 1 is multi-query
    attention, G = H is multi-head attention.
Cost: n^2 d, as for `attention`: only the projections of keys and values and the cache shrink, by a
    factor of H / G; one sequential operation; any two positions are one step apart.
Departures: the model is trained from scratch, where the paper averages the heads of a trained
    model. A query without a visible key gets zeros. Attention to a context uses no relative
    position.
Padding: exact; padded keys are masked.
Fast form: torch's kernels read a shared head in place, without a copy for each query head; `step`
    appends to a cache of G heads, which copies the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    Visibility,
    draw_projections,
    fused_attention,
    fused_scratch_bytes,
    merge_heads,
    newest_token,
    project_to_head,
    softmax_weights,
    split_heads,
    whole_sequence,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding
from bakeoff.models.positions.relative import RelativeKind, RelativePosition, ShawPosition


class GroupedQueryAttention(Mixer):
    """Softmax attention with fewer heads of keys and values; see the module docstring."""

    name = "grouped_query"
    paper = "Ainslie et al. 2023, arXiv:2305.13245"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    supports_context = True
    supports_relative = True
    mask_mode = "exact"
    heads_divide_dim = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of grouped-query attention.

        Attributes:
            heads: Number of query heads; must divide dim.
            key_value_heads: Number of heads of keys and values; must divide heads. 1 is multi-query
                attention, as many as heads is multi-head attention; with None it is half of heads,
                or 1 if heads is odd.
            bias: Whether the four projections have biases; the paper's have none.
        """

        heads: int = 4
        key_value_heads: int | None = None
        bias: bool = False

    def __init__(self, *, position: RelativeKind = None, **given: Any) -> None:
        super().__init__(**given)
        if position is not None and issubclass(position, ShawPosition):
            raise ModelError(f"{self.name}: shaw needs the weights in memory; take attention")
        sizes = {"heads": self.heads, "head_dim": self.head_dim}
        self.position = None if position is None else position(**sizes, is_causal=self.is_causal)

    @classmethod
    def check_config(cls, config: Config, *, dim: int) -> None:
        """Raise `ModelError` if the query heads cannot share the other heads evenly."""
        super().check_config(config, dim=dim)
        given = config.key_value_heads
        if given is not None and (given < 1 or config.heads % given != 0):
            raise ModelError(
                f"{cls.name}: key_value_heads={given} does not divide heads={config.heads}"
            )

    def make_parameters(self, config: Config) -> None:
        """Create four projections; those of keys and values are narrower."""
        self.heads = config.heads
        half = 1 if config.heads % 2 else config.heads // 2
        self.key_value_heads = config.key_value_heads or half
        self.head_dim = self.dim // config.heads
        self.scale = self.head_dim**-0.5
        shared = self.key_value_heads * self.head_dim
        self.query = nn.Linear(self.dim, self.dim, bias=config.bias)
        self.key = nn.Linear(self.dim, shared, bias=config.bias)
        self.value = nn.Linear(self.dim, shared, bias=config.bias)
        self.output = nn.Linear(self.dim, self.dim, bias=config.bias)
        draw_projections(self.query, self.key, self.value, self.output)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        if context is not None:
            return self.attend(x, self.prepare(context, context_mask))
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return self._attend(self._queries(x), self._keys_and_values(x), visible, self.position)

    def prepare(self, context: Tensor, context_mask: Mask = None) -> State:
        """Return keys and values, `[batch, key_value_heads, time2, head_dim]`, and any mask."""
        self.check_context_length(context.shape[1])
        prepared = self._keys_and_values(without_padding(context, context_mask))
        return prepared if context_mask is None else (*prepared, context_mask)

    def attend(self, x: Tensor, prepared: State) -> Tensor:
        """Attend to a prepared context; see `Mixer.attend`.

        No relative position is used, since distances between two sequences are not meaningful.
        """
        keys, values, *real = prepared
        visible = whole_sequence(x, None, keys[:, 0], real[0] if real else None, is_causal=False)
        return self._attend(self._queries(x), (keys, values), visible, None)

    def context_bytes(self, context_length: int) -> int:
        """Return the bytes of a key and a value per shared head for each token of the context."""
        self.check_context_length(context_length)
        return 4 * 2 * self.key_value_heads * self.head_dim * context_length

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights, `[batch, heads, time, time2]`.

        Each row sums to one, or to zero if the query has no visible key.
        """
        self.check_inputs(x, mask, context, context_mask)
        others, real = (x, mask) if context is None else (context, context_mask)
        visible = whole_sequence(x, mask, context, context_mask, is_causal=self.is_causal)
        position = self.position if context is None else None
        queries = self._queries(without_padding(x, mask))
        keys, _ = self._keys_and_values(without_padding(others, real))
        queries, keys = _turned(queries, keys, visible, position)
        keys = keys.repeat_interleave(self.heads // self.key_value_heads, dim=1)
        scores = self.scale * queries @ keys.transpose(-1, -2)
        bias = None if position is None else position.bias(visible.distance(), scores.dtype)
        return softmax_weights(scores if bias is None else scores + bias, visible)

    def initial_state(self, batch: int) -> State:
        """Return empty caches of keys and values, `[batch, key_value_heads, 0, head_dim]` each."""
        self.check_steps()
        empty = self.key.weight.new_zeros(batch, self.key_value_heads, 0, self.head_dim)
        return empty, empty

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and all cached tokens."""
        self.check_steps()
        x = x_t.unsqueeze(1)
        new_keys, new_values = self._keys_and_values(x)
        keys = torch.cat([state[0], new_keys], dim=2)
        values = torch.cat([state[1], new_values], dim=2)
        visible = newest_token(keys.shape[2], x_t.device)
        mixed = self._attend(self._queries(x), (keys, values), visible, self.position)
        return mixed.squeeze(1), (keys, values)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached keys and values, which grow with the length."""
        self.check_steps()
        return 4 * 2 * self.key_value_heads * self.head_dim * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, and of scores and sums of all query heads."""
        self.check_context_length(context_length)
        keys = length if context_length is None else context_length
        shared = self.key_value_heads * self.head_dim
        projections = 2 * self.dim * (2 * length * self.dim + 2 * keys * shared)
        return float(batch * (projections + 2 * 2 * length * keys * self.dim))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: positions, projections, heads, and scratch or output."""
        self.check_context_length(context_length)
        if self.position is not None:
            raise ModelError(
                f"{self.name} gives no formula for its bytes with {self.position.name}"
            )
        keys = length if context_length is None else context_length
        shared = self.key_value_heads * self.head_dim
        held = 8 * (length + keys) + 4 * batch * (length * self.dim + keys * 2 * shared)
        scratch = fused_scratch_bytes(
            rows=batch * self.heads, queries=length, keys=keys, width=self.head_dim
        )
        output = 4 * batch * length * self.dim  # same size as the merged heads
        return held + output + max(scratch, output)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys that it may attend to."""
        position = self.position if others is x else None
        rows = []
        for i in range(len(x)):
            past = [j for j in seen if not self.is_causal or j <= i]
            heads = [
                self._one_head(h, x[i], i, others[past], past, position) for h in range(self.heads)
            ]
            rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows)

    def _one_head(
        self,
        head: int,
        token: Tensor,
        place: int,
        others: Tensor,
        places: list[int],
        position: RelativePosition | None,
    ) -> Tensor:
        """Return the sum over the tokens `others` `[seen, dim]` of softmax(score) times value."""
        shared = head * self.key_value_heads // self.heads
        query = project_to_head(self.query, head, self.head_dim, token)
        keys = project_to_head(self.key, shared, self.head_dim, others)
        values = project_to_head(self.value, shared, self.head_dim, others)
        if not places:
            return torch.zeros_like(query)
        added = torch.zeros_like(keys[:, 0])
        if position is not None:
            query = position.turned(query, place)
            turned = zip(keys, places, strict=True)
            keys = torch.stack([position.turned(key, j) for key, j in turned])
            added = torch.stack([position.added(head, j - place) for j in places]).to(added)
        terms = torch.exp(keys @ query / math.sqrt(len(query)) + added)
        return terms / terms.sum() @ values

    def _queries(self, x: Tensor) -> Tensor:
        """Return the queries, `[batch, heads, time, head_dim]`."""
        return split_heads(self.query(x), self.heads)

    def _keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, `[batch, key_value_heads, time, head_dim]` each."""
        keys, values = (
            split_heads(each(x), self.key_value_heads) for each in (self.key, self.value)
        )
        return keys, values

    def _attend(
        self,
        queries: Tensor,
        keys_and_values: tuple[Tensor, Tensor],
        visible: Visibility,
        position: RelativePosition | None,
    ) -> Tensor:
        """Return the heads merged by the output projection, `[batch, time, dim]`."""
        keys, values = keys_and_values
        queries, keys = _turned(queries, keys, visible, position)
        bias = None if position is None else position.bias(visible.distance(), queries.dtype)
        heads = fused_attention(queries, keys, values, visible, scale=self.scale, bias=bias)
        merged: Tensor = self.output(merge_heads(heads))
        return merged


def _turned(
    queries: Tensor, keys: Tensor, visible: Visibility, position: RelativePosition | None
) -> tuple[Tensor, Tensor]:
    """Return queries and keys rotated to their positions."""
    if position is None:
        return queries, keys
    return position.rotate(queries, visible.queries), position.rotate(keys, visible.keys)
