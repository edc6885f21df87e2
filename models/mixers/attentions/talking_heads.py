"""Talking-heads attention: heads exchange their scores before the softmax, their weights after it.

Paper: Shazeer et al. 2020, "Talking-Heads Attention" (arXiv:2003.02436); with biases, as the blocks
    of CaiT's patches have it, Touvron et al. 2021 (arXiv:2103.17239, the authors' code).
Equation: with scores S_h = Q_h K_h^T / sqrt(d) of head h of H, L = P_l S + b_l, A = softmax(L) over
    the keys, W = P_w A + b_w, where P_l and P_w are H x H and act on the heads of each pair of a
    query and a key; head_h = W_h V_h; output = concat(heads) W^O.
Cost: n^2 (d + H^2) multiply-adds; one sequential operation; any two positions are one step apart.
Departures: as many heads of scores, of softmaxes and of values. The biases are CaiT's; b_l moves no
    softmax, and is kept to have its parameters. What a query may not see has weight 0, whatever
    b_w; a query that may see nothing takes zeros. Causal forms and padding are ours.
Padding: exact; padded keys are masked.
Fast form: both maps are products over all pairs at once; scores and weights are written to memory,
    since no fused kernel mixes heads. `step` appends to a cache of keys and values by copying it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.kernels.softmax_attention import (
    Visibility,
    draw_projections,
    merge_heads,
    newest_token,
    project_to_head,
    softmax_weights,
    split_heads,
    square_projections,
    whole_sequence,
)
from models.mixer import Context, Cost, Mask, Mixer, State, without_padding


class TalkingHeads(Mixer):
    """Every token takes sums of values by weights that heads have talked over; see the note."""

    name = "talking_heads"
    paper = "Shazeer et al. 2020, arXiv:2003.02436"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    why_not_relative = "heads exchange their scores, and with them what a position adds to each"
    mask_mode = "exact"
    heads_divide_dim = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of talking-heads attention.

        Attributes:
            heads: Number of heads; must divide dim.
            has_map_before: Whether heads exchange scores before the softmax.
            has_map_after: Whether they exchange weights after it; without both it is `attention`.
            map_bias: Whether these two maps have biases, as CaiT's have and Shazeer's have not.
            bias: Whether the projections have biases, as CaiT's have and Shazeer's have not.
        """

        heads: int = 4
        has_map_before: bool = True
        has_map_after: bool = True
        map_bias: bool = True
        bias: bool = False

    def make_parameters(self, config: Config) -> None:
        """Four projections, and two maps over heads."""
        self.heads, self.head_dim = config.heads, self.dim // config.heads
        self.scale = self.head_dim**-0.5
        projections = square_projections(self.dim, bias=config.bias)
        self.query, self.key, self.value, self.output = projections
        self.before, self.after = (
            nn.Linear(self.heads, self.heads, bias=config.map_bias) if is_there else None
            for is_there in (config.has_map_before, config.has_map_after)
        )
        draw_projections(self.before, self.after)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return self._attend(*self._project(without_padding(x, mask)), visible)

    def initial_state(self, batch: int) -> State:
        """Empty caches `[batch, heads, 0, width]`, of keys and of values."""
        self.check_steps()
        empty = self.key.weight.new_zeros(batch, self.heads, 0, self.head_dim)
        return empty, empty

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One token attends to itself and to all cached ones."""
        self.check_steps()
        queries, *new = self._project(x_t.unsqueeze(1))
        keys, values = (torch.cat(pair, dim=2) for pair in zip(state, new, strict=True))
        visible = newest_token(keys.shape[2], x_t.device)
        return self._attend(queries, keys, values, visible).squeeze(1), (keys, values)

    def state_bytes(self, length: int) -> int:
        """A key and a value per token: grows with the length."""
        self.check_steps()
        return 4 * 2 * self.dim * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Projections, scores, both maps over heads, and the weighted sum of values."""
        self.check_context_length(context_length)
        num_maps = self.config.has_map_before + self.config.has_map_after
        of_pairs = length**2 * (2 * self.dim + num_maps * self.heads**2)
        return float(2 * batch * (4 * length * self.dim**2 + of_pairs))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """What is projected, and two sets of numbers for all pairs.

        Causal: beside them a mask and a penalty, of 1 and 4 bytes for each pair; before that beside
        one set the distances, of 8 bytes with two masks.
        """
        self.check_context_length(context_length)
        pairs, of_heads = length**2, 4 * batch * self.heads
        held = 16 * length + 3 * 4 * batch * length * self.dim
        beside = max(of_heads + 5, 10) if self.is_causal else of_heads
        return held + pairs * (of_heads + beside)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """One query at a time, over the keys that it may see: heads x keys numbers."""
        rows = []
        for i in range(len(x)):
            past = x[[j for j in seen if not self.is_causal or j <= i]]
            scores = []
            for h in range(self.heads):
                query = project_to_head(self.query, h, self.head_dim, x[i])
                keys = project_to_head(self.key, h, self.head_dim, past)
                scores.append(keys @ query / math.sqrt(self.head_dim))
            terms = torch.exp(_by_definition(self.before, torch.stack(scores)))
            weights = _by_definition(self.after, terms / terms.sum(dim=1, keepdim=True))
            heads = [
                weights[h] @ project_to_head(self.value, h, self.head_dim, past)
                for h in range(self.heads)
            ]
            rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, `[batch, heads, time, width]` each."""
        maps = self.query, self.key, self.value
        queries, keys, values = (split_heads(each(x), self.heads) for each in maps)
        return queries, keys, values

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility) -> Tensor:
        """Heads side by side, through the output map: `[batch, time, dim]`."""
        # Nested, so that no moment holds more than two sets of numbers for all pairs.
        weights = softmax_weights(
            _over_heads(self.before, self.scale * queries @ keys.transpose(-1, -2)), visible
        )
        weights = _over_heads(self.after, weights)
        if not visible.is_everything() and self.after is not None and self.config.map_bias:
            weights = weights.masked_fill_(~visible.mask(), 0.0)
        merged: Tensor = self.output(merge_heads(weights @ values))
        return merged


def _over_heads(linear: nn.Linear | None, pairs: Tensor) -> Tensor:
    """The map of the heads of each pair, `[batch, heads, time, time2]` -> the same shape."""
    if linear is None:
        return pairs
    mapped = torch.bmm(linear.weight.expand(len(pairs), -1, -1), pairs.flatten(2)).view_as(pairs)
    return mapped if linear.bias is None else mapped.add_(linear.bias[:, None, None])


def _by_definition(linear: nn.Linear | None, pairs: Tensor) -> Tensor:
    """The map of heads, `[heads, keys]`, as a sum for each head that comes out."""
    if linear is None:
        return pairs
    rows = []
    for h, weights in enumerate(linear.weight):
        row = sum(weight * head for weight, head in zip(weights, pairs, strict=True))
        rows.append(row if linear.bias is None else row + linear.bias[h])
    return torch.stack(rows)
