"""Talking-heads attention: linear maps across the heads mix scores and, after the softmax, weights.

Paper: Shazeer et al. 2020, "Talking-Heads Attention" (arXiv:2003.02436); with biases, as in the
    patch blocks of CaiT, Touvron et al. 2021 (arXiv:2103.17239, the authors' code).
Equation: with scores S_h = Q_h K_h^T / sqrt(d) of head h of H, L = P_l S + b_l, A = softmax(L) over
    the keys, W = P_w A + b_w, where P_l and P_w are H x H and act on the heads of each pair of a
    query and a key; head_h = W_h V_h; output = concat(heads) W^O.
Cost: n^2 (d + H^2) multiply-adds; one sequential operation; any two positions are one step apart.
Departures: scores, softmaxes and values have the same number of heads. The biases are CaiT's; b_l
    does not change the softmax, and is kept to match its parameters. Hidden keys have weight 0,
    independent of b_w; a query without a visible key gets zeros. The causal form and the handling
    of padding are not from the papers.
Padding: exact; padded keys are masked.
Fast form: each map is one product over all pairs; scores and weights are written to memory, since
    no fused kernel mixes heads, on a GPU for a chunk of queries at a time
    (`bakeoff.models.kernels.query_chunks`). `step` appends to a cache of keys and values, which
    copies the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bakeoff.models.kernels.query_chunks import over_queries
from bakeoff.models.kernels.softmax_attention import (
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
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding


class TalkingHeads(Mixer):
    """Softmax attention whose heads exchange scores and weights; see the module docstring."""

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
            has_map_before: Whether a map mixes the heads' scores before the softmax.
            has_map_after: Whether a map mixes the heads' weights after the softmax; with neither it
                is `attention`.
            map_bias: Whether these two maps have biases; CaiT's have, Shazeer's have not.
            bias: Whether the projections have biases; CaiT's have, Shazeer's have not.
        """

        heads: int = 4
        has_map_before: bool = True
        has_map_after: bool = True
        map_bias: bool = True
        bias: bool = False

    def make_parameters(self, config: Config) -> None:
        """Create four projections, and two maps over heads."""
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
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return self._attend(*self._project(without_padding(x, mask)), visible)

    def initial_state(self, batch: int) -> State:
        """Return empty caches of keys and values, `[batch, heads, 0, width]` each."""
        self.check_steps()
        empty = self.key.weight.new_zeros(batch, self.heads, 0, self.head_dim)
        return empty, empty

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and all cached tokens."""
        self.check_steps()
        queries, *new = self._project(x_t.unsqueeze(1))
        keys, values = (torch.cat(pair, dim=2) for pair in zip(state, new, strict=True))
        visible = newest_token(keys.shape[2], x_t.device)
        return self._attend(queries, keys, values, visible).squeeze(1), (keys, values)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached keys and values, which grow with the length."""
        self.check_steps()
        return 4 * 2 * self.dim * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of projections, scores, both maps and the weighted sum of values."""
        self.check_context_length(context_length)
        num_maps = self.config.has_map_before + self.config.has_map_after
        of_pairs = length**2 * (2 * self.dim + num_maps * self.heads**2)
        return float(2 * batch * (4 * length * self.dim**2 + of_pairs))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the projections, and two tensors of all pairs and heads.

        A causal mixer also holds a mask and a penalty, of 1 and 4 bytes per pair; before that, with
        only one of the two tensors, the distances, of 8 bytes, and two masks.
        """
        self.check_context_length(context_length)
        pairs, of_heads = length**2, 4 * batch * self.heads
        held = 16 * length + 3 * 4 * batch * length * self.dim
        beside = max(of_heads + 5, 10) if self.is_causal else of_heads
        return held + pairs * (of_heads + beside)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query at a time, over its visible keys, with heads x keys scores."""
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
        """Return queries, keys and values, `[batch, heads, time, width]` each."""
        maps = self.query, self.key, self.value
        queries, keys, values = (split_heads(each(x), self.heads) for each in maps)
        return queries, keys, values

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility) -> Tensor:
        """Return the heads merged by the output projection, `[batch, time, dim]`."""
        (heads,) = over_queries(self._heads, (queries,), (keys, values), visible)
        merged: Tensor = self.output(merge_heads(heads))
        return merged

    def _heads(
        self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility
    ) -> tuple[Tensor]:
        """Return the heads, `[batch, heads, time, width]`, as a tuple of one."""
        # Nested, so that no more than two tensors of all pairs exist at a time.
        weights = softmax_weights(
            _over_heads(self.before, self.scale * queries @ keys.transpose(-1, -2)), visible
        )
        weights = _over_heads(self.after, weights)
        if not visible.is_everything() and self.after is not None and self.config.map_bias:
            weights = weights.masked_fill_(~visible.mask(), 0.0)
        return (weights @ values,)


def _over_heads(linear: nn.Linear | None, pairs: Tensor) -> Tensor:
    """Return `[batch, heads, time, time2]` mapped across its heads, of the same shape."""
    if linear is None:
        return pairs
    mapped = torch.bmm(linear.weight.expand(len(pairs), -1, -1), pairs.flatten(2)).view_as(pairs)
    return mapped if linear.bias is None else mapped.add_(linear.bias[:, None, None])


def _by_definition(linear: nn.Linear | None, pairs: Tensor) -> Tensor:
    """Return `[heads, keys]` mapped across heads, as one sum per output head."""
    if linear is None:
        return pairs
    rows = []
    for h, weights in enumerate(linear.weight):
        row = sum(weight * head for weight, head in zip(weights, pairs, strict=True))
        rows.append(row if linear.bias is None else row + linear.bias[h])
    return torch.stack(rows)
