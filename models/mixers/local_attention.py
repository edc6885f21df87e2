"""Softmax attention within a window.

Paper: Vaswani et al. 2017, "Attention Is All You Need" (arXiv:1706.03762), section 4 and the last
    row of Table 1, "self-attention (restricted)"; as a sliding window in Child et al. 2019
    (arXiv:1904.10509) and Beltagy et al. 2020 (arXiv:2004.05150).
Equation: that of `attention`, where query i attends to key j only if |i - j| <= r (causal:
    0 <= i - j <= r).
Cost: r n d; one sequential operation; n / r layers between the farthest positions.
Departures: the window is exact for every query; in other implementations a query attends to its
    block and whole neighbouring blocks.
Fast form: queries in blocks, each with the keys of its block and r more on either side, in one
    `scaled_dot_product_attention`; time and memory are linear in n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    Visibility,
    fused_scratch_bytes,
    masked_attention,
    merge_heads,
    project_to_head,
    softmax_weights,
    split_heads,
    square_projections,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding
from bakeoff.models.positions.relative import RelativeKind, ShawPosition

_SMALLEST_BLOCK = 32  # queries; smaller blocks leave a kernel's tiles half empty


class LocalAttention(Mixer):
    """Softmax attention within a sliding window; see the module docstring."""

    name = "local_attention"
    paper = "Vaswani et al. 2017, arXiv:1706.03762, section 4 (restricted self-attention)"
    family = "attention"
    cost = Cost(time="r * n * d", sequential_operations="1", maximum_path_length="n / r")
    supports_causal = True
    supports_step = True
    supports_relative = True
    is_position_aware = True  # near and far tokens differ once a sequence exceeds the window
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("window",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of local attention.

        Attributes:
            heads: Number of heads; must divide dim.
            window: r, how far a query attends to either side, in tokens; causal: to the past only.
            scale: Factor of the scores before the softmax; d is the width of a head.
            bias: Whether the four projections have biases; the paper's have none.
        """

        heads: int = 4
        window: int = 16
        scale: Literal["1/sqrt(d)", "none"] = "1/sqrt(d)"
        bias: bool = False

    def __init__(self, *, position: RelativeKind = None, **given: Any) -> None:
        super().__init__(**given)
        if position is not None and issubclass(position, ShawPosition):
            raise ModelError(f"{self.name}: shaw has no form in blocks; take attention")
        sizes = {"heads": self.heads, "head_dim": self.head_dim}
        self.position = None if position is None else position(**sizes, is_causal=self.is_causal)

    def make_parameters(self, config: Config) -> None:
        """Create four projections."""
        self.heads = config.heads
        self.window = config.window
        self.head_dim = self.dim // config.heads
        self.scale = self.head_dim**-0.5 if config.scale == "1/sqrt(d)" else 1.0
        projections = square_projections(self.dim, bias=config.bias)
        self.query, self.key, self.value, self.output = projections

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, values = self._project(without_padding(x, mask))
        places = torch.arange(x.shape[1], device=x.device)
        queries, keys = self._turned(queries, places), self._turned(keys, places)
        merged: Tensor = self.output(merge_heads(self._in_blocks(queries, keys, values, mask)))
        return merged

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the full weights `[batch, heads, time, time]`, zero outside the window."""
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, _ = self._project(without_padding(x, mask))
        places = torch.arange(x.shape[1], device=x.device)
        visible = self._visible(places, places, mask)
        queries, keys = self._turned(queries, places), self._turned(keys, places)
        scores = self.scale * queries @ keys.transpose(-1, -2)
        bias = self._bias(visible, scores.dtype)
        return softmax_weights(scores if bias is None else scores + bias, visible)

    def cost_symbols(self) -> dict[str, float]:
        """Return r, the window."""
        return {"r": self.window}

    def initial_state(self, batch: int) -> State:
        """Return empty caches of keys and values, `[batch, heads, 0, head_dim]` each."""
        self.check_steps()
        empty = self.key.weight.new_zeros(batch, self.heads, 0, self.head_dim)
        return empty, empty

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and the last r tokens.

        Positions are those in the cache, since only distances matter.
        """
        self.check_steps()
        queries, new_keys, new_values = self._project(x_t.unsqueeze(1))
        keys = torch.cat([state[0], new_keys], dim=2)
        values = torch.cat([state[1], new_values], dim=2)
        places = torch.arange(keys.shape[2], device=x_t.device)
        visible = self._visible(places[-1:], places, None)
        bias = self._bias(visible, x_t.dtype)
        heads = masked_attention(
            self._turned(queries, places[-1:]),
            self._turned(keys, places),
            values,
            visible.mask(),
            scale=self.scale,
            bias=bias,
        )
        kept = tuple(part[:, :, -self.window :] for part in (keys, values))
        return self.output(merge_heads(heads)).squeeze(1), kept

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached keys and values, which stop growing at r tokens."""
        self.check_steps()
        return 4 * 2 * self.dim * min(length, self.window)

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, and of each block with all its keys."""
        self.check_context_length(context_length)
        block, num_keys, num_blocks = self._sizes(length)
        projections = 4 * 2 * length * self.dim**2
        return float(batch * (projections + 2 * 2 * num_blocks * block * num_keys * self.dim))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: projections, their blocks, two masks, and scratch or the output.

        The kernel takes its mask as numbers, 4 bytes for each query and key of a block.
        """
        self.check_context_length(context_length)
        if self.position is not None:
            raise ModelError(
                f"{self.name} gives no formula for its bytes with {self.position.name}"
            )
        block, num_keys, num_blocks = self._sizes(length)
        queries = num_blocks * block
        held = 8 * length + 4 * batch * self.dim * 3 * length  # positions; queries, keys, values
        held += 4 * batch * self.dim * (queries + 2 * (queries + num_keys - block))  # their blocks
        held += queries * (2 * num_keys + 1)  # the mask twice, and queries without visible keys
        scratch = fused_scratch_bytes(
            rows=batch * self.heads * num_blocks,
            queries=block,
            keys=num_keys,
            width=self.head_dim,
        )
        output = 4 * batch * queries * self.dim
        return held + output + max(4 * queries * num_keys + scratch, output)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys in its window."""
        rows = []
        for i, token in enumerate(x):
            last = i if self.is_causal else i + self.config.window
            near = [j for j in seen if i - self.config.window <= j <= last]
            heads = [self._one_head(h, token, i, others, near) for h in range(self.heads)]
            rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows)

    def _one_head(
        self, head: int, token: Tensor, place: int, tokens: Tensor, seen: list[int]
    ) -> Tensor:
        query = project_to_head(self.query, head, self.head_dim, token)
        keys = project_to_head(self.key, head, self.head_dim, tokens[seen])
        values = project_to_head(self.value, head, self.head_dim, tokens[seen])
        if not seen:
            return torch.zeros_like(query)
        added = torch.zeros_like(keys[:, 0])
        if self.position is not None:
            query = self.position.turned(query, place)
            turned = zip(keys, seen, strict=True)
            keys = torch.stack([self.position.turned(key, j) for key, j in turned])
            added = torch.stack([self.position.added(head, j - place) for j in seen]).to(added)
        scale = 1 / math.sqrt(len(query)) if self.config.scale == "1/sqrt(d)" else 1.0
        terms = torch.exp(scale * keys @ query + added)
        return terms / terms.sum() @ values

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, `[batch, heads, time, head_dim]` each."""
        projected = (self.query(x), self.key(x), self.value(x))
        queries, keys, values = (split_heads(each, self.heads) for each in projected)
        return queries, keys, values

    def _visible(self, queries: Tensor, keys: Tensor, real: Tensor | None) -> Visibility:
        return Visibility(
            queries=queries, keys=keys, real=real, is_causal=self.is_causal, window=self.window
        )

    def _turned(self, x: Tensor, places: Tensor) -> Tensor:
        return x if self.position is None else self.position.rotate(x, places)

    def _bias(self, visible: Visibility, dtype: torch.dtype) -> Tensor | None:
        return None if self.position is None else self.position.bias(visible.distance(), dtype)

    def _sizes(self, length: int) -> tuple[int, int, int]:
        """Return queries per block, keys per block, and the number of blocks."""
        block = min(max(self.window, _SMALLEST_BLOCK), length)
        num_after = 0 if self.is_causal else self.window
        return block, self.window + block + num_after, -(-length // block)

    def _in_blocks(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the heads `[batch, heads, time, head_dim]`; blocks take the place of heads."""
        batch, heads, time, width = queries.shape
        block, _, num_blocks = self._sizes(time)
        keys, values = self._met_by_blocks(keys), self._met_by_blocks(values)
        blocks = functional.pad(queries, (0, 0, 0, num_blocks * block - time)).flatten(0, 1)
        blocks = blocks.reshape(batch * heads, num_blocks, block, width)
        allowed, bias = self._seen_by_blocks(mask, time, queries)
        mixed = masked_attention(blocks, keys, values, allowed, scale=self.scale, bias=bias)
        return mixed.reshape(batch, heads, num_blocks * block, width)[:, :, :time]

    def _met_by_blocks(self, part: Tensor) -> Tensor:
        """Return keys or values of each block, `[batch * heads, blocks, num_keys, head_dim]`."""
        time = part.shape[2]
        block, num_keys, num_blocks = self._sizes(time)
        num_missing = num_blocks * block - time
        padding = (0, 0, self.window, num_keys - block - self.window + num_missing)
        windows = functional.pad(part, padding).unfold(2, num_keys, block)
        return windows.transpose(-1, -2).flatten(0, 1)

    def _seen_by_blocks(
        self, mask: Tensor | None, time: int, queries: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return mask and bias, broadcastable to `[batch * heads, blocks, block, num_keys]`."""
        block, num_keys, num_blocks = self._sizes(time)
        places = torch.arange(num_keys, device=queries.device)
        visible = self._visible(places[self.window : self.window + block], places, None)
        real = queries.new_ones(1, time).bool() if mask is None else mask
        end = num_keys - block - self.window + num_blocks * block - time
        real = functional.pad(real, (self.window, end)).unfold(1, num_keys, block)
        allowed = visible.mask() & real.unsqueeze(2)  # (batch or 1, blocks, block, num_keys)
        if len(allowed) > 1:
            allowed = allowed.repeat_interleave(self.heads, dim=0)
        bias = self._bias(visible, queries.dtype)
        if bias is not None:
            bias = bias.repeat(queries.shape[0], 1, 1).unsqueeze(1)
        return allowed, bias
