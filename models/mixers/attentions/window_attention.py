"""Softmax attention within the windows of a grid, shifted by half a window in every other layer.

Paper: Liu et al. 2021, "Swin Transformer" (arXiv:2103.14030), section 3.2 and equation 4; with
    `score="cosine"` and `relative_bias="mlp"` Liu et al. 2022, "Swin Transformer V2"
    (arXiv:2111.09883), equations 2 to 4.
Equation: softmax(s(q, k) + B_(r - r', c - c')) v over the tokens of the query's own window, where
    the token at row r and column c is in window (floor((r - s) / w), floor((c - s) / w)) with
    windows of w x w and a shift s of w // 2 in layers 1, 3, 5 ..., and 0 in the others. s(q, k) is
    q . k / sqrt(d), or cos(q, k) exp(min(t, ln 100)) where t is learned for each head and starts at
    ln 10. B is a table of (2 w - 1)^2 numbers per head, or 16 sigmoid(M(x)) of a network M, 2 ->
    512 -> heads, with x = sign(u) log2(1 + |u|) / 3, u = 8 (r - r') / (w - 1).
Cost: r n d for r tokens in a window; one sequential operation.
Departures: a side of the grid that is not longer than a window is one window without shift, decided
    for each side separately as in timm (the authors' code decides for both sides by the shorter
    one). The table then has unused entries. Places that fill up the last windows are always hidden;
    in the authors' code tokens attend to them as zeros. A sequence that is not on a grid is treated
    as a row, and its windows do not depend on its length, which padding would change. Biases of the
    projections are a knob; keys have none if scores are cosines.
Padding: exact; padded tokens are always hidden.
Fast form: the grid is padded to whole windows, rolled by the shift, and cut into equal windows;
    pairs of tokens that are adjacent only because of the roll are masked. Padding after the roll
    would place the boundaries of the first rows' windows elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.attention_kernels import attended
from bakeoff.models.kernels.scores import CosineScore
from bakeoff.models.kernels.softmax_attention import (
    draw_projections,
    fused_scratch_bytes,
    masked_attention,
    merge_heads,
    project_to_head,
    split_heads,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding
from bakeoff.models.vision.grid_mixer import GridMixer
from bakeoff.models.vision.windows import BiasNetwork, BiasTable, Sides, Windows

_MOST = math.log(100)  # upper bound on the logarithm of the factor of cosines


class WindowAttention(GridMixer):
    """Softmax attention within windows of a grid; see the module docstring."""

    name = "window_attention"
    paper = "Liu et al. 2021, arXiv:2103.14030"
    family = "attention"
    cost = Cost(time="r * n * d", sequential_operations="1", maximum_path_length="n / r")
    why_not_causal = "the windows of a grid hold tokens of several rows"
    why_not_relative = "it has a relative bias of its own, the knob relative_bias"
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of window attention.

        Attributes:
            heads: Number of heads; must divide dim.
            window: Side of a window in tokens, at least 2.
            shift: Whether the windows of odd layers of the stack are shifted by half a side
                (`alternate`), or all layers have the same windows (`none`).
            relative_bias: Bias of the scores by the distance in both directions: a learned `table`
                (Swin), the output of a small network (`mlp`, Swin v2), or `none`.
            score: Similarity of a query and a key: their product divided by the root of their width
                (`scaled`), or the cosine of their angle times a learned factor (`cosine`, Swin v2).
            bias: Whether the projections have biases, as in the papers; the key projection has none
                if scores are cosines.
        """

        heads: int = 4
        window: int = 7
        shift: Literal["alternate", "none"] = "alternate"
        relative_bias: Literal["table", "mlp", "none"] = "table"
        score: Literal["scaled", "cosine"] = "scaled"
        bias: bool = False

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if a window holds a single token."""
        if config.window < 2:
            raise ModelError(
                f"{cls.name}: window={config.window} is below 2, where no token would see another"
            )
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Create four projections, the relative bias, and the factors of cosines."""
        self.heads, self.head_dim = config.heads, self.dim // config.heads
        self.is_shifted = False
        is_cosine = config.score == "cosine"
        self.query, self.value, self.output = (
            nn.Linear(self.dim, self.dim, bias=config.bias) for _ in range(3)
        )
        self.key = nn.Linear(self.dim, self.dim, bias=config.bias and not is_cosine)
        draw_projections(self.query, self.key, self.value, self.output)
        kind = {"table": BiasTable, "mlp": BiasNetwork, "none": None}[config.relative_bias]
        self.relative_bias = None if kind is None else kind(self.heads, config.window)
        self.cosine = CosineScore(heads=self.heads, key_dim=self.head_dim) if is_cosine else None
        start = torch.full((self.heads,), math.log(10))
        self.log_factor = nn.Parameter(start) if is_cosine else None

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        windows = self._windows(x.shape[1])
        tokens = windows.cut(without_padding(x, mask)).flatten(0, 1)  # (batch * windows, size, dim)
        seen = windows.seen(mask, len(x), x.device)
        mixed: Tensor = self.output(merge_heads(self._attended(tokens, windows.sides, seen)))
        return windows.joined(mixed, len(x))

    def _attended(self, tokens: Tensor, sides: Sides, seen: Tensor | None) -> Tensor:
        """Return the heads of windows `[batch * windows, size, dim]`."""
        linears = (self.query, self.key, self.value)
        queries, keys, values = (split_heads(each(tokens), self.heads) for each in linears)
        queries, keys, scale = self._scaled(queries, keys)
        bias = None
        if self.relative_bias is not None:
            bias = self.relative_bias(sides).to(queries.dtype)
        if seen is None:
            return attended("fused", queries, keys, values, attn_mask=bias, scale=scale)
        return masked_attention(queries, keys, values, seen, scale=scale, bias=bias)

    def _scaled(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return queries and keys, and the factor of their products that yields the scores."""
        if self.cosine is None:
            return queries, keys, self.head_dim**-0.5
        queries, keys = self.cosine.prepare(queries, keys)
        return queries * self._factors()[:, None, None].to(queries.dtype), keys, 1.0

    def _factors(self) -> Tensor:
        """Return the factors of the cosines, `[heads]`."""
        assert self.log_factor is not None, "called only where scores are cosines"
        return self.log_factor.clamp(max=_MOST).exp()

    def take_place(self, layer: int, first: Mixer) -> None:
        """Choose whether the windows of this layer are shifted."""
        self.is_shifted = self.config.shift == "alternate" and layer % 2 == 1

    def _windows(self, length: int) -> Windows:
        """Return the windows of this layer over `length` tokens."""
        grid, side = self.grid_of(length), self.config.window
        shift = side // 2 if self.is_shifted else 0
        if self.grid is None:
            return Windows(grid, sides=(1, side), shifts=(0, shift))
        rows, columns = ((min(n, side), shift if n > side else 0) for n in grid)
        return Windows(grid, sides=(rows[0], columns[0]), shifts=(rows[1], columns[1]))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query at a time, over the real tokens of its window."""
        windows, outputs = self._windows(len(x)), []
        for i, token in enumerate(x):
            near = [j for j in seen if windows.window_of(i) == windows.window_of(j)]
            steps = [windows.steps(i, j) for j in near]
            heads = (self._one_head(h, token, others[near], steps) for h in range(self.heads))
            outputs.append(self.output(torch.cat(list(heads))))
        return torch.stack(outputs)

    def _one_head(self, head: int, token: Tensor, tokens: Tensor, steps: list[Sides]) -> Tensor:
        """Return a token's head from its window's tokens `[size, dim]` and their offsets to it."""
        query, keys, values = (
            project_to_head(linear, head, self.head_dim, read)
            for linear, read in ((self.query, token), (self.key, tokens), (self.value, tokens))
        )
        if not steps:
            return torch.zeros_like(query)
        if self.cosine is None:
            scores = keys @ query / math.sqrt(self.head_dim)
        else:
            scores = self.cosine.reference(head, query, keys) * self._factors()[head]
        if self.relative_bias is not None:
            biases = [self.relative_bias.one(head, step) for step in steps]
            scores = scores + torch.stack(biases)
        terms = torch.exp(scores - scores.max())
        return terms / terms.sum() @ values

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of projections and products of whole windows, and of the bias once."""
        self.check_context_length(context_length)
        windows = self._windows(length)
        each = 4 * 2 * self.dim**2 + 2 * 2 * windows.size * self.dim
        bias = 0.0 if self.relative_bias is None else self.relative_bias.flops(windows.sides)
        return float(batch * windows.number * windows.size * each) + bias

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: tokens, projections, bias, masks, and scratch or masked outputs.

        The peak may come earlier, when cosines hold three copies of the queries and two of the
        keys, or with the hidden layer of the bias network.
        """
        self.check_context_length(context_length)
        windows = self._windows(length)
        rows, pairs = batch * windows.number, windows.size**2
        tokens = 4.0 * rows * windows.size * self.dim
        bias = 0 if self.relative_bias is None else 4 * self.heads * pairs
        beside = fused_scratch_bytes(
            rows=rows * self.heads, queries=windows.size, keys=windows.size, width=self.head_dim
        )
        before = 4 * tokens if self.cosine is None else 7 * tokens
        if self.relative_bias is not None:
            before = max(before, 4 * tokens + self.relative_bias.forward_bytes(windows.sides))
        if windows.are_plain:
            return max(5 * tokens + bias + beside + bias, before)
        seen = rows * pairs
        in_numbers = 4 * seen * (self.heads if bias else 1)
        beside = max(in_numbers + beside, tokens + (in_numbers if bias else 0))
        return max(5 * tokens + bias + seen + beside, before) + seen

    def cost_symbols(self) -> dict[str, float]:
        """Return r, the number of tokens in a window."""
        return {"r": self._windows(self.max_length).size}
