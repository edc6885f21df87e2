"""Sparse Sinkhorn attention: each block attends to itself and to a learned mixture of blocks.

Paper: Tay et al. 2020, "Sparse Sinkhorn Attention" (arXiv:2002.11296), sections 3.1 and 3.2.
Equation: for each head, R_i = W relu(U s_i + a) / tau for block i, where s_i is the sum of its
    tokens. P is exp(R) with its rows and then its columns divided by their sums, several times; for
    small tau it is close to a permutation of the blocks. Sorted keys are K'_i = sum_j P_ij K_j,
    over tokens at the same place of their blocks, and sorted values are defined likewise; a query
    of block i attends to K_i and K'_i under one softmax with the scale d^-.5.
Cost: n (k + n / k) d for blocks of k tokens; one sequential operation; any two positions are one
    step apart.
Departures: there is no Gumbel noise on R, so that the mixer is deterministic; the logits are not
    rectified, and have no bias, which the division by column sums would cancel. Own and sorted keys
    share one softmax. There is no causal form. Sequences shorter than max_length use the first
    columns.
Padding: P covers only blocks with a real token. A padded token is a zero in the sums of sorted
    keys, which are hidden at a place where no block has a real token; own padded keys are hidden.
Fast form: P is computed with logarithms in float32 at least, followed by one product for keys and
    one for values; each block attends to own and sorted keys, whose scores share a softmax. Rows
    are too short for `scaled_dot_product_attention` to be faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.softmax_attention import (
    merge_heads,
    project_to_head,
    softmax_of_shown,
    split_heads,
    square_projections,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding

_HIDDEN = -1e30  # logarithm of zero; finite, so that differences of such values are finite


class SinkhornAttention(Mixer):
    """Softmax attention over a block and a sorted block; see the module docstring."""

    name = "sinkhorn"
    paper = "Tay et al. 2020, arXiv:2002.11296"
    family = "sparse attention"
    cost = Cost(time="n * k * d + n**2 / k * d", sequential_operations="1", maximum_path_length="1")
    why_not_causal = "the sum of a column runs over the rows of all blocks, later ones too"
    why_not_relative = "sorted keys stand at no place"
    fixed_length = True
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("block", "iterations")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of Sinkhorn attention.

        Attributes:
            heads: Number of heads; must divide dim.
            block: Number of tokens in a block.
            iterations: Number of times that rows and columns are divided by their sums.
            temperature: tau, above 0; the lower it is, the closer P is to a permutation.
        """

        heads: int = 4
        block: int = 8
        iterations: int = 5
        temperature: float = 0.75

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the temperature is not positive."""
        super().check_config(config, dim=dim)
        if not config.temperature > 0:
            raise ModelError(f"{cls.name}: temperature={config.temperature} is not above 0")

    def make_parameters(self, config: Config) -> None:
        """Create four projections, and the sorting network: a hidden layer and columns per head."""
        self.heads, self.block = config.heads, config.block
        self.head_dim = self.dim // config.heads
        self.query, self.key, self.value, self.output = square_projections(self.dim)
        self.hidden = linear_map(self.dim, self.dim)
        self.hidden_bias = nn.Parameter(torch.zeros(self.dim))
        num_blocks = -(-self.max_length // self.block)
        self.columns = nn.Parameter(torch.empty(self.heads, num_blocks, self.head_dim))
        nn.init.normal_(self.columns, std=self.head_dim**-0.5)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        batch, time, _ = x.shape
        x = functional.pad(without_padding(x, mask), (0, 0, 0, -time % self.block))
        real = self._real(time, mask, x)
        sorting = self._sorting(x, real)
        queries, keys, values = (  # made contiguous once, for all products
            _in_blocks(split_heads(each(x), self.heads), 2, self.block).contiguous()
            for each in (self.query, self.key, self.value)
        )
        own, sorted_to = self._weights(queries, keys, _sorted(sorting, keys), real)
        mixed = own @ values + sorted_to @ _sorted(sorting, values)
        tokens = mixed.reshape(batch, self.heads, x.shape[1], self.head_dim)[:, :, :time]
        merged: Tensor = self.output(merge_heads(tokens))
        return merged

    def _weights(
        self, queries: Tensor, keys: Tensor, sorted_keys: Tensor, real: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Return weights of own and sorted values, `[batch, heads, blocks, block, block]` each."""
        queries = queries * self.head_dim**-0.5
        scores = torch.cat([queries @ keys.mT, queries @ sorted_keys.mT], dim=-1)
        if real is None:
            return scores.softmax(dim=-1).chunk(2, dim=-1)
        found = real.any(dim=1, keepdim=True).expand_as(real)
        hidden = ~torch.cat([real, found], dim=2)[:, None, :, None, :]
        return softmax_of_shown(scores, hidden).chunk(2, dim=-1)

    def _real(self, time: int, mask: Mask, x: Tensor) -> Tensor | None:
        """Return `[batch, blocks, block]`, True for real tokens, or None if all are."""
        if mask is None and x.shape[1] == time:
            return None
        places = torch.arange(x.shape[1], device=x.device)
        real = (places < time).expand(len(x), -1)
        if mask is not None:
            real = real & functional.pad(mask, (0, -time % self.block))
        return _in_blocks(real, 1, self.block)

    def _sorting(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Return P `[batch, heads, blocks, blocks]`, in float32 at least; 0 for padded blocks."""
        with torch.autocast(x.device.type, enabled=False):
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            sums = _in_blocks(wide, 1, self.block).sum(dim=2)
            hidden = functional.linear(sums, self.hidden.weight.to(wide.dtype))
            hidden = split_heads(torch.relu(hidden + self.hidden_bias.to(wide.dtype)), self.heads)
            columns = self.columns[:, : sums.shape[1]].to(wide.dtype)
            logits = hidden @ columns.mT / self.config.temperature
            shown = None
            if real is not None:
                is_block = real.any(dim=2)
                shown = is_block[:, None, :, None] & is_block[:, None, None, :]
            return sinkhorn(logits, shown, self.config.iterations)

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of tokens in a block."""
        return {"k": self.block}

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs: projections, block logits, sorting of keys and values, and attention.

        Places that fill up the last block are included.
        """
        self.check_context_length(context_length)
        blocks, dim = -(-length // self.block), self.dim
        tokens = blocks * self.block
        products = (3 * tokens + length + blocks) * dim**2 + blocks**2 * dim
        products += 2 * blocks * tokens * dim + 2 * tokens * 2 * self.block * dim
        return float(2 * batch * products)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one head, then one query at a time; blocks are lists of real places."""
        num_blocks = -(-len(x) // self.block)
        members = [[t for t in seen if t // self.block == i] for i in range(num_blocks)]
        heads = []
        for h in range(self.heads):
            queries, keys, values = (
                project_to_head(each, h, self.head_dim, x)
                for each in (self.query, self.key, self.value)
            )
            sorting = self._sorting_of_one(h, x, members)
            rows = []
            for t, query in enumerate(queries):
                met = self._met(t // self.block, sorting, members, keys, values)
                if not met:
                    rows.append(0 * query)
                    continue
                terms = torch.stack([key @ query / self.head_dim**0.5 for key, _ in met]).exp()
                rows.append(terms / terms.sum() @ torch.stack([value for _, value in met]))
            heads.append(torch.stack(rows))
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _sorting_of_one(
        self, head: int, x: Tensor, members: list[list[int]]
    ) -> dict[tuple[int, int], Tensor]:
        """Return P for each pair of blocks with real tokens, by plain division."""
        blocks = [i for i, places in enumerate(members) if places]
        rows = slice(head * self.head_dim, (head + 1) * self.head_dim)
        p = {}
        for i in blocks:
            total = torch.stack([x[t] for t in members[i]]).sum(dim=0)
            hidden = (self.hidden.weight[rows] @ total + self.hidden_bias[rows]).clamp(min=0)
            for j in blocks:
                p[i, j] = (self.columns[head, j] @ hidden / self.config.temperature).exp()
        for _ in range(self.config.iterations):
            row_sums = {i: torch.stack([p[i, j] for j in blocks]).sum() for i in blocks}
            p = {(i, j): share / row_sums[i] for (i, j), share in p.items()}
            column_sums = {j: torch.stack([p[i, j] for i in blocks]).sum() for j in blocks}
            p = {(i, j): share / column_sums[j] for (i, j), share in p.items()}
        return p

    def _met(
        self,
        block: int,
        sorting: dict[tuple[int, int], Tensor],
        members: list[list[int]],
        keys: Tensor,
        values: Tensor,
    ) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values that queries of a block attend to: own, then sorted ones."""
        met = [(keys[t], values[t]) for t in members[block]]
        for place in range(self.block):
            at_place = [t for places in members for t in places if t % self.block == place]
            if at_place:
                shares = [
                    sorting.get((block, t // self.block), torch.zeros_like(keys[t, 0]))
                    for t in at_place
                ]
                weighed = list(zip(shares, at_place, strict=True))
                key = torch.stack([share * keys[t] for share, t in weighed]).sum(dim=0)
                value = torch.stack([share * values[t] for share, t in weighed]).sum(dim=0)
                met.append((key, value))
        return met


def sinkhorn(logits: Tensor, shown: Tensor | None, iterations: int) -> Tensor:
    """Return exp(logits) with rows and then columns divided by their sums, repeatedly.

    Args:
        logits: `[..., rows, columns]`.
        shown: Tensor broadcastable to `logits`, False for missing entries, or None.
        iterations: Number of divisions of rows and columns, at least 1.

    Returns:
        Tensor of the same shape. Its columns sum to one and its rows nearly; missing entries are 0.
    """
    logs = logits
    for axis in (-1, -2) * iterations:
        if shown is not None:
            logs = logs.masked_fill(~shown, _HIDDEN)
        logs = logs.log_softmax(dim=axis)
    return logs.exp() if shown is None else logs.exp().masked_fill(~shown, 0.0)


def _sorted(sorting: Tensor, blocks: Tensor) -> Tensor:
    """Return sum_j P_ij of blocks `[batch, heads, blocks, block, width]`, place by place."""
    return (sorting.to(blocks.dtype) @ blocks.flatten(3)).reshape(blocks.shape)


def _in_blocks(x: Tensor, axis: int, block: int) -> Tensor:
    """Return `x` with the time axis split in two: blocks, and the tokens of each."""
    return x.reshape(*x.shape[:axis], x.shape[axis] // block, block, *x.shape[axis + 1 :])
