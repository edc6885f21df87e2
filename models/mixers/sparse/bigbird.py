"""BigBird: each block of tokens attends to neighbouring, global and random blocks.

Paper: Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences" (arXiv:2007.14062), section
    2 and appendix D; the form ITC, in which tokens of the sequence itself are global.
Equation: that of `attention`, where a query in block i attends to a key in block j only if
    |i - j| <= w, or i or j is among the first g blocks, or j is one of r blocks drawn at random for
    i.
Cost: k n d, where a token attends to k others; one sequential operation; two layers between any two
    positions, through a global block.
Departures: global blocks are the first g; the paper's experiments also use some at the end, whose
    position would depend on padding. All heads share the random blocks; layers do not. They are
    drawn from all blocks of `max_length`, so that padding does not change them: in a shorter
    sequence those beyond its end are missing. Blocks are smaller than the paper's 64 by default,
    and fewer of them are global (its 2) or random (its 3), since sequences here are shorter.
Longformer: the window with global tokens of Beltagy et al. 2020 (arXiv:2004.05150) is this mixer
    with ``num_random=0``, except that here the window and the global tokens are whole blocks, that
    Longformer's global tokens have their own projections, and that some of its windows are dilated.
Padding: padded keys are hidden, and so are the places that fill up the last block.
Fast form: the global rows attend to all keys; each other block attends to its gathered blocks of
    keys, in one `scaled_dot_product_attention`; time and memory are linear in n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    fused_scratch_bytes,
    masked_attention,
    merge_heads,
    project_to_head,
    split_heads,
    square_projections,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding


class BigBird(Mixer):
    """Softmax attention over a few blocks of keys; see the module docstring."""

    name = "bigbird"
    paper = "Zaheer et al. 2020, arXiv:2007.14062"
    family = "sparse attention"
    cost = Cost(time="k * n * d", sequential_operations="1", maximum_path_length="1")
    why_not_causal = "global blocks see all tokens, later ones too"
    why_not_relative = "gathered blocks of keys stand at many distances"
    fixed_length = True
    is_position_aware = True  # near and far tokens differ once some blocks are hidden
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("block", "window")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of BigBird.

        Attributes:
            heads: Number of heads; must divide dim.
            block: Number of tokens in a block.
            window: w, the number of neighbouring blocks on either side that a block attends to.
            num_global: g, the number of initial blocks that attend to all and are visible to all.
            num_random: r, the number of additional blocks per block, if enough exist.
            seed: Seed of the random blocks, which also depend on the layer.
        """

        heads: int = 4
        block: int = 8
        window: int = 1
        num_global: int = 1
        num_random: int = 2
        seed: int = 0

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if a number of blocks or the seed is negative."""
        for key in ("num_global", "num_random", "seed"):
            if getattr(config, key) < 0:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below 0")
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Create four projections, and the block pattern of the bottom layer."""
        self.heads = config.heads
        self.head_dim = self.dim // config.heads
        self.query, self.key, self.value, self.output = square_projections(self.dim)
        self.layer = 0
        self.seen_blocks: Tensor
        self.register_buffer("seen_blocks", torch.empty(0, dtype=torch.int64), persistent=False)
        self._draw()

    def take_place(self, layer: int, first: Mixer) -> None:
        """Draw the random blocks of this layer."""
        self.layer = layer
        self._draw()

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        queries, keys, values = (
            split_heads(each(x), self.heads) for each in (self.query, self.key, self.value)
        )
        num_first = min(self.config.num_global * self.config.block, x.shape[1])
        parts = []
        if num_first:
            parts.append(_of_all(queries[:, :, :num_first], keys, values, mask))
        if num_first < x.shape[1]:
            parts.append(self._of_blocks(queries[:, :, num_first:], keys, values, mask))
        mixed: Tensor = self.output(merge_heads(torch.cat(parts, dim=2)))
        return mixed

    def _allowed(self, length: int) -> Tensor:
        """Return `[time, time2]`, True where a query attends to a key."""
        block = self.config.block
        blocks = self._dense(-(-length // block))
        return blocks.repeat_interleave(block, 0).repeat_interleave(block, 1)[:length, :length]

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of keys per token."""
        return {"k": self._blocks_met() * self.config.block}

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, the global rows, and each block with its keys."""
        self.check_context_length(context_length)
        num_first, num_blocks, num_keys = self._sizes(length)
        pairs = num_first * length + num_blocks * self.config.block * num_keys
        return float(2 * batch * (4 * length * self.dim**2 + 2 * pairs * self.dim))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: projections, global outputs, gathered blocks, indices, and output.

        The output takes in addition the larger of the kernel's scratch and a copy, in which queries
        without visible keys are zeroed.
        """
        self.check_context_length(context_length)
        num_first, num_blocks, num_keys = self._sizes(length)
        row, queries = 4 * batch * self.dim, num_blocks * self.config.block
        met, keys = num_blocks * num_keys // self.config.block, num_blocks * num_keys
        held = row * (3 * length + num_first)
        if not num_blocks:
            return float(held + row * length)
        held += 8 * (met + keys) + 2 * keys + num_blocks + row * (2 * keys + queries)
        scratch = fused_scratch_bytes(
            rows=batch * self.heads * num_blocks,
            queries=self.config.block,
            keys=num_keys,
            width=self.head_dim,
        )
        return float(held + row * queries + max(4 * keys + scratch, row * queries))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys that the dense mask allows."""
        allowed, heads = self._allowed(len(x)), []
        for h in range(self.heads):
            queries, keys, values = (
                project_to_head(each, h, self.head_dim, x)
                for each in (self.query, self.key, self.value)
            )
            rows = []
            for i, query in enumerate(queries):
                met = [j for j in seen if allowed[i, j]]
                terms = torch.exp(keys[met] @ query / self.head_dim**0.5)
                rows.append(terms / terms.sum() @ values[met] if met else 0 * query)
            heads.append(torch.stack(rows))
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _draw(self) -> None:
        """Draw the random blocks, and store all blocks that each one attends to, -1 if missing."""
        first, window, num_blocks = self.config.num_global, self.config.window, self._num_blocks()
        generator = torch.Generator("cpu").manual_seed(2**20 * self.config.seed + self.layer)
        places = torch.arange(num_blocks, device="cpu")
        is_near = (places[:, None] - places).abs() <= window
        lots = torch.rand(num_blocks, num_blocks, generator=generator, device="cpu")
        drawn = lots.masked_fill(is_near | (places < first), -1.0).topk(
            min(self.config.num_random, num_blocks)
        )
        self.random_blocks = drawn.indices.masked_fill(drawn.values < 0, -1)
        near = places[:, None] + torch.arange(-window, window + 1, device="cpu")
        near = near.masked_fill((near < first) | (near >= num_blocks), -1)
        firsts = places[:first].expand(num_blocks, -1)
        seen = torch.cat([firsts, near, self.random_blocks], dim=1)
        self.seen_blocks = seen.to(self.query.weight.device)

    def _num_blocks(self) -> int:
        blocks: int = -(-self.max_length // self.config.block)
        return blocks

    def _blocks_met(self) -> int:
        first, drawn = self.config.num_global, self.config.num_random
        met: int = min(first, self._num_blocks()) + min(drawn, self._num_blocks())
        met += 2 * self.config.window + 1
        return met

    def _sizes(self, length: int) -> tuple[int, int, int]:
        """Return the numbers of global tokens, of other blocks, and of keys for each of these."""
        block: int = self.config.block
        num_first = min(self.config.num_global * block, length)
        return num_first, -(-(length - num_first) // block), self._blocks_met() * block

    def _dense(self, num_blocks: int) -> Tensor:
        """Return `[blocks, blocks]` by definition, True where one block attends to the other."""
        seen = torch.zeros(num_blocks, num_blocks, dtype=torch.bool)
        first, window = self.config.num_global, self.config.window
        for i in range(num_blocks):
            for j in range(num_blocks):
                seen[i, j] = abs(i - j) <= window or min(i, j) < first
            drawn = self.random_blocks[i]
            seen[i, drawn[(drawn >= 0) & (drawn < num_blocks)]] = True
        return seen

    def _of_blocks(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Tensor:
        """Return the heads of all tokens but the global ones, `[batch, heads, time, head_dim]`."""
        block, time = self.config.block, keys.shape[2]
        first, num_blocks = self.config.num_global, -(-time // block)
        blocks = self.seen_blocks[first:num_blocks]
        blocks = blocks.masked_fill(blocks >= num_blocks, -1)
        places = blocks.unsqueeze(-1) * block + torch.arange(block, device=keys.device)
        places = places.masked_fill((places < 0) | (places >= time), -1).flatten(1)
        allowed = (places >= 0).expand(1, -1, -1)  # (batch or 1, blocks, keys)
        if mask is not None:
            allowed = (allowed & mask[:, places]).repeat_interleave(self.heads, dim=0)
        found = places.clamp(min=0)
        keys, values = keys.flatten(0, 1)[:, found], values.flatten(0, 1)[:, found]
        num_missing = len(blocks) * block - queries.shape[2]
        rows = functional.pad(queries, (0, 0, 0, num_missing))
        rows = rows.reshape(-1, len(blocks), block, self.head_dim)
        mixed = masked_attention(
            rows, keys, values, allowed.unsqueeze(2), scale=self.head_dim**-0.5
        )
        in_rows = (len(queries), self.heads, len(blocks) * block, self.head_dim)
        return mixed.reshape(in_rows)[:, :, : queries.shape[2]]


def _of_all(queries: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Tensor:
    """Return the heads of the global rows, which attend to all real tokens."""
    if mask is None:
        return functional.scaled_dot_product_attention(queries, keys, values)
    allowed = mask[:, None, None, :]
    return masked_attention(queries, keys, values, allowed, scale=queries.shape[-1] ** -0.5)
