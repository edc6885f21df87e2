"""Synthesizer: attention whose weights depend on each query token alone, or on no token.

Paper: Tay et al. 2020, "Synthesizer: Rethinking Self-Attention in Transformer Models"
    (arXiv:2005.00743), sections 3.1 to 3.3.
Equation: Y = softmax(B) V for each head, V as in softmax attention. With l = max_length, B_ij is
    dense              F(x_i)_j, F(x) = W relu(U x + a) + b with l outputs;
    random             R_ij, a learned table of l by l;
    factorized_dense   F(x_i)_(j mod m) G(x_i)_(j div m), with m about l^.5;
    factorized_random  (R S')_ij, R and S of l by k.
Cost: n^2 d; one sequential operation; any two positions are one step apart.
Departures: shorter sequences use the first rows and columns. For each head the hidden layer of F is
    as wide as the head, and there is no mixture with the weights of softmax attention. Tables start
    from normal(0, 1 / l), with the variance of Xavier's rule.
Padding: padded tokens get no weight; each real one keeps the column of its position.
Order: every position has its own column, so the mixer distinguishes orders without a position
    encoding.
Fast form: all weights at once, on a GPU those of a chunk of queries
    (`bakeoff.models.kernels.query_chunks`); `step` holds the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.query_chunks import over_queries
from bakeoff.models.kernels.softmax_attention import (
    Visibility,
    merge_heads,
    newest_token,
    project_to_head,
    softmax_weights,
    split_heads,
    whole_sequence,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding

_FEW = 8  # rank of the paper's factorized tables


class ColumnMap(nn.Module):
    """Map F of each head, `[batch, time, dim]` -> `[batch, heads, time, columns]`."""

    keeps_own_draw = ("bias",)
    no_weight_decay = ("bias",)

    def __init__(self, dim: int, heads: int, width: int, columns: int) -> None:
        super().__init__()
        self.heads, self.width, self.columns = heads, width, columns
        self.hidden = nn.Linear(dim, heads * width)
        nn.init.normal_(self.hidden.weight, std=dim**-0.5)
        nn.init.zeros_(self.hidden.bias)
        self.weight = nn.Parameter(torch.empty(heads, columns, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(heads, columns))

    def forward(self, x: Tensor, used: int) -> Tensor:
        """Return the first `used` columns, `[batch, heads, time, used]`."""
        hidden = split_heads(torch.relu(self.hidden(x)), self.heads)
        weight = self.weight[:, :used].mT.to(hidden.dtype)
        return hidden @ weight + self.bias[:, None, :used].to(hidden.dtype)

    def of_token(self, head: int, x: Tensor) -> Tensor:
        """Return all columns `[columns]` for a token `[dim]`, as the reference defines them."""
        rows = slice(head * self.width, (head + 1) * self.width)
        hidden = (self.hidden.weight[rows] @ x + self.hidden.bias[rows]).clamp(min=0)
        return self.weight[head] @ hidden + self.bias[head]

    def multiplications(self, used: int) -> int:
        """Return the number of multiplications for one token."""
        return self.heads * self.width * (self.hidden.in_features + used)


class Synthesizer(Mixer):
    """Attention with weights that do not compare tokens; see the module docstring."""

    name = "synthesizer"
    paper = "Tay et al. 2020, arXiv:2005.00743"
    family = "token mixing"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    why_not_relative = "no score is computed of two tokens"
    fixed_length = True
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True
    keeps_own_draw = ("table", "left", "right")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the Synthesizer.

        Attributes:
            heads: Number of heads; must divide dim.
            kind: Source of the weights; see the module docstring.
            rank: Width of each hidden layer of a head, or k of `factorized_random`; with None it is
                the width of a head, or 8. It must be None for `random`.
        """

        heads: int = 4
        kind: Literal["dense", "random", "factorized_dense", "factorized_random"] = "dense"
        rank: int | None = None

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the rank is below 1, or given for kind `random`."""
        super().check_config(config, dim=dim)
        if config.rank is not None and config.rank < 1:
            raise ModelError(f"{cls.name}: rank={config.rank} is below 1")
        if config.rank is not None and config.kind == "random":
            raise ModelError(
                f"{cls.name}: rank={config.rank} is refused by kind='random', whose table is whole"
            )

    def make_parameters(self, config: Config) -> None:
        """Create the projections of values and outputs, and the source of the weights."""
        self.heads, self.kind, length = config.heads, config.kind, self.max_length
        self.head_dim = self.dim // config.heads
        is_table = self.kind in ("random", "factorized_random")
        self.rank = config.rank or (_FEW if is_table else self.head_dim)
        self.value, self.output = linear_map(self.dim, self.dim), linear_map(self.dim, self.dim)
        self.period = math.ceil(math.sqrt(length))  # m
        columns = {"dense": [length], "factorized_dense": [self.period, -(-length // self.period)]}
        self.maps = nn.ModuleList(
            ColumnMap(self.dim, self.heads, self.rank, num) for num in columns.get(self.kind, [])
        )
        self.table = self._table(length, std=length**-0.5) if self.kind == "random" else None
        self.left = self.right = None
        if self.kind == "factorized_random":
            std = (length * self.rank) ** -0.25  # so that products have l^-.5
            self.left, self.right = (self._table(self.rank, std=std) for _ in range(2))

    def _table(self, columns: int, *, std: float) -> nn.Parameter:
        table = nn.Parameter(torch.empty(self.heads, self.max_length, columns))
        nn.init.normal_(table, std=std)
        return table

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        of_queries = (x, *self._rows(0, x.shape[1]))
        values = split_heads(self.value(x), self.heads)
        (heads,) = over_queries(self._heads, of_queries, (values,), visible)
        mixed: Tensor = self.output(merge_heads(heads))
        return mixed

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights, `[batch, heads, time, time]`.

        Each row sums to one, or to zero if the query has no visible key.
        """
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return self._weights(x, self._rows(0, x.shape[1]), visible)

    def _heads(self, x: Tensor, *others: Any) -> tuple[Tensor]:
        """Return the heads, `[batch, heads, time, head_dim]`, as a tuple of one.

        Args:
            x: The queries, `[batch, time, dim]`.
            others: The result of `_rows`, the values of the keys, and a `Visibility`.
        """
        *rows, values, visible = others
        return (self._weights(x, rows, visible).to(values.dtype) @ values,)

    def _rows(self, start: int, stop: int) -> tuple[Tensor, ...]:
        """Return the rows of the table for places from `start` up to below `stop`, if any."""
        table = self.left if self.table is None else self.table
        return () if table is None else (table[:, start:stop],)

    def _weights(self, x: Tensor, rows: Sequence[Tensor], visible: Visibility) -> Tensor:
        """Return the weights `[batch, heads, time, time2]`, in float32 at least."""
        scores = self._scores(x, rows, len(visible.keys))
        if visible.real is not None:  # each sequence has its own mask
            scores = scores.expand(len(x), -1, -1, -1).contiguous()
        scores = scores.to(torch.promote_types(x.dtype, torch.float32))
        return softmax_weights(scores, visible).expand(len(x), -1, -1, -1)

    def _scores(self, x: Tensor, rows: Sequence[Tensor], used: int) -> Tensor:
        """Return B of tokens, `[batch or 1, heads, time, used]`: the first columns."""
        if self.kind == "dense":
            scores: Tensor = self.maps[0](x, used)
            return scores
        if self.kind == "factorized_dense":
            columns = torch.arange(used, device=x.device)
            fine, coarse = (map_(x, map_.columns) for map_ in self.maps)
            both: Tensor = fine[..., columns % self.period] * coarse[..., columns // self.period]
            return both
        if self.table is not None:
            return rows[0][..., :used].clone().unsqueeze(0)  # the softmax changes its scores
        assert self.right is not None
        return (rows[0] @ self.right[:, :used].mT).unsqueeze(0)

    def initial_state(self, batch: int) -> State:
        """Return an empty cache of values, `[batch, heads, 0, head_dim]`."""
        self.check_steps()
        return (self.value.weight.new_zeros(batch, self.heads, 0, self.head_dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Compute the output of one token, `[batch, dim]`, from its own and all earlier values."""
        self.check_steps()
        x = x_t.unsqueeze(1)
        values = torch.cat([state[0], split_heads(self.value(x), self.heads)], dim=2)
        self._check_length(values.shape[2])
        visible = newest_token(values.shape[2], x.device)
        (heads,) = self._heads(
            x, *self._rows(values.shape[2] - 1, values.shape[2]), values, visible
        )
        mixed: Tensor = self.output(merge_heads(heads))
        return mixed.squeeze(1), (values,)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached values, which grow with the length."""
        self.check_steps()
        return 4 * self.dim * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of both projections, the logits and the weighted sum.

        The product of factorized tables is computed once for all sequences.
        """
        self.check_context_length(context_length)
        is_dense = self.kind == "dense"
        logits = sum(
            map_.multiplications(length if is_dense else map_.columns) for map_ in self._maps()
        )
        one = length * (2 * self.dim**2 + logits) + length**2 * self.dim
        shared = self.heads * length**2 * self.rank if self.kind == "factorized_random" else 0
        return float(2 * (batch * one + shared))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one token of one head at a time, over the tokens that it may attend to."""
        heads = []
        for h in range(self.heads):
            values, rows = project_to_head(self.value, h, self.head_dim, x), []
            for i, token in enumerate(x):
                met = [j for j in seen if not self.is_causal or j <= i]
                terms = self._row(h, i, token)[met].exp()
                rows.append(terms / terms.sum() @ values[met] if met else 0 * values[i])
            heads.append(torch.stack(rows))
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _row(self, head: int, place: int, token: Tensor) -> Tensor:
        """Return B for one token, `[max_length]`."""
        if self.table is not None:
            return self.table[head, place]
        if self.left is not None and self.right is not None:
            return self.right[head] @ self.left[head, place]
        first, *second = (map_.of_token(head, token) for map_ in self._maps())
        if not second:
            return first
        every = range(self.max_length)
        return torch.stack([first[j % self.period] * second[0][j // self.period] for j in every])

    def _maps(self) -> list[ColumnMap]:
        return [map_ for map_ in self.maps if isinstance(map_, ColumnMap)]

    def _check_length(self, length: int) -> None:
        if length > self.max_length:
            raise ModelError(
                f"{self.name} takes at most max_length={self.max_length} tokens, not {length}"
            )
