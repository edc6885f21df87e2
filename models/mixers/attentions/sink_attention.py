"""Softmax attention within a window and to the first tokens, the attention sinks.

Paper: Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks"
    (arXiv:2309.17453), section 3.2: StreamingLLM.
Equation: as in `local_attention`, but query i also attends to the keys j < S, at any distance
    (causal: j <= i): the weights of a softmax must sum to one, and the model learns to put excess
    weight on these tokens. Positions are those in the cache: the distance of a key is counted
    within the S sinks and the r tokens of the window, so that no distance exceeds S + r.
Cost: (r + S) n d; one sequential operation; about n / r layers between the farthest positions. The
    cache holds at most S + r tokens.
Departures: the model is trained with the sinks, where the paper applies them to a trained model
    with full attention (its section 3.3 trains with a sink token). The window holds r tokens in
    addition to the query itself. Without a causal mask the window has two sides and all queries
    attend to the sinks.
Padding: exact; padded keys are masked. The sinks are the first S places, padded or not.
Fast form: queries in blocks, as in `local_attention`, with torch's products and softmax: fused
    kernels do not support a query with two positions, one for the window and one for the sinks.
    Time and memory are linear in n.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    Visibility,
    fused_attention,
    merge_heads,
    newest_token,
    softmax_weights,
)
from bakeoff.models.mixer import Context, Cost, Mask, State, without_padding
from bakeoff.models.mixers.local_attention import LocalAttention


class SinkAttention(LocalAttention):
    """Local attention with additional global keys, the sinks; see the module docstring."""

    name = "sink_attention"
    paper = "Xiao et al. 2023, arXiv:2309.17453"
    cost = Cost(time="r * n * d", sequential_operations="1", maximum_path_length="n / r")

    @dataclass(frozen=True, kw_only=True)
    class Config(LocalAttention.Config):
        """Knobs of attention with sinks.

        Attributes:
            heads: Number of heads; must divide dim.
            window: r, how far a query attends to either side, in tokens; causal: to the past only.
            sinks: S, the number of first tokens that every query attends to; 0 is
                `local_attention`.
            scale: Factor of the scores before the softmax; d is the width of a head.
            bias: Whether the four projections have biases; the paper's models have none.
        """

        window: int = 12  # with the sinks, a cache of 16 tokens
        sinks: int = 4

    def make_parameters(self, config: LocalAttention.Config) -> None:
        """Create four projections."""
        super().make_parameters(config)
        self.sinks: int = self.config.sinks

    @classmethod
    def check_config(cls, config: LocalAttention.Config, *, dim: int) -> None:
        """Raise `ModelError` if the number of sinks is negative."""
        super().check_config(config, dim=dim)
        if isinstance(config, cls.Config) and config.sinks < 0:
            raise ModelError(f"{cls.name}: sinks={config.sinks} is below 0")

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        heads = self._with_sinks(*self._project(without_padding(x, mask)), mask)
        merged: Tensor = self.output(merge_heads(heads))
        return merged

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the full weights `[batch, heads, time, time]`, zero for hidden keys."""
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, _ = self._project(without_padding(x, mask))
        places = torch.arange(x.shape[1], device=x.device)
        near = self._scores(queries, keys[:, :, self.sinks :], places, places[self.sinks :])
        scores = torch.cat([self._sink_scores(queries, keys), near], dim=-1)
        return softmax_weights(scores, self._seen(places, mask))

    def cost_symbols(self) -> dict[str, float]:
        """Return r, the number of keys per query: window plus sinks."""
        return {"r": self.window + self.sinks}

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and the cache, at cache positions."""
        self.check_steps()
        queries, *new = self._project(x_t.unsqueeze(1))
        keys, values = (torch.cat(pair, dim=2) for pair in zip(state, new, strict=True))
        visible = newest_token(keys.shape[2], x_t.device)
        heads = fused_attention(
            self._turned(queries, visible.queries),
            self._turned(keys, visible.keys),
            values,
            visible,
            scale=self.scale,
            bias=self._bias(visible, x_t.dtype),
        )
        return self.output(merge_heads(heads)).squeeze(1), (self._kept(keys), self._kept(values))

    def _kept(self, part: Tensor) -> Tensor:
        """Return the cached tokens to keep: the sinks and the last r."""
        if part.shape[2] <= self.sinks + self.window:
            return part
        return torch.cat([part[:, :, : self.sinks], part[:, :, -self.window :]], dim=2)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached keys and values, which stop growing at S + r tokens."""
        self.check_steps()
        return 4 * 2 * self.dim * min(length, self.sinks + self.window)

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, and of each block with its keys and the sinks."""
        self.check_context_length(context_length)
        block, num_keys, num_blocks = self._sizes(length)
        num_keys += min(self.sinks, length)
        projections = 4 * 2 * length * self.dim**2
        return float(batch * (projections + 2 * 2 * num_blocks * block * num_keys * self.dim))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the largest of four stages.

        The stages are the scores, the softmax, and the sums of the window's and of the sinks'
        values.
        """
        self.check_context_length(context_length)
        if self.position is not None:
            raise ModelError(
                f"{self.name} gives no formula for its bytes with {self.position.name}"
            )
        block, num_keys, num_blocks = self._sizes(length)
        rows, num_sinks = num_blocks * block, min(self.sinks, length)
        padded = 4 * batch * rows * self.dim  # queries, padded to whole blocks
        sinks, near = (4 * batch * self.heads * rows * num for num in (num_sinks, num_keys))
        held = 3 * 4 * batch * length * self.dim + padded
        masks = 2 * rows * num_keys + 3 * rows * num_sinks + 8 * rows
        met = 4 * batch * self.dim * (rows + num_keys - block)
        # Windows overlap, so a product copies them, except for one head, which is evenly strided.
        is_copied = batch * self.heads > 1
        met += 4 * batch * self.dim * num_blocks * num_keys if is_copied else 0
        scoring = masks + padded + sinks + met + near
        softmax = masks + 2 * (sinks + near)
        summing = sinks + near + padded + met
        joining = sinks + near + 3 * padded
        return held + max(scoring, softmax, summing, joining)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the cache that it would find."""
        sinks, window = self.config.sinks, self.config.window
        rows = []
        for i, token in enumerate(x):
            last = i if self.is_causal else i + window
            near = range(max(0, i - window), min(last + 1, len(x)))
            first = range(min(sinks, i + 1 if self.is_causal else len(x)))
            cache = sorted({*first, *near})
            tokens, real = x[cache], [place for place, j in enumerate(cache) if j in seen]
            where = cache.index(i)
            heads = [self._one_head(h, token, where, tokens, real) for h in range(self.heads)]
            rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows)

    def _seen(self, places: Tensor, real: Tensor | None) -> Visibility:
        return Visibility(
            queries=places,
            keys=places,
            real=real,
            is_causal=self.is_causal,
            window=self.window,
            sinks=self.sinks,
        )

    def _scores(self, queries: Tensor, keys: Tensor, at: Tensor, keys_at: Tensor) -> Tensor:
        """Return scaled, biased scores of queries at positions `at` and keys at `keys_at`."""
        visible = Visibility(queries=at, keys=keys_at, real=None, is_causal=False)
        queries = self.scale * self._turned(queries, at)
        scores = queries @ self._turned(keys, keys_at).transpose(-1, -2)
        bias = self._bias(visible, scores.dtype)
        return scores if bias is None else scores + bias

    def _sink_scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores `[batch, heads, time, sinks]` of queries at their cache positions."""
        places = torch.arange(queries.shape[2], device=queries.device)
        at, sinks = places.clamp(max=self.sinks + self.window), keys[:, :, : self.sinks]
        return self._scores(queries, sinks, at, places[: sinks.shape[2]])

    def _with_sinks(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the heads `[batch, heads, time, head_dim]`: one softmax over sinks and window."""
        batch, heads, time, width = queries.shape
        block, _, num_blocks = self._sizes(time)
        queries = functional.pad(queries, (0, 0, 0, num_blocks * block - time))
        weights = self._block_weights(queries, keys, mask)
        num_sinks = min(self.sinks, time)
        mixed = (weights[..., num_sinks:] @ self._met_by_blocks(values)).flatten(1, 2)
        sinks = values[:, :, :num_sinks].flatten(0, 1)  # (batch * heads, sinks, head_dim)
        mixed = mixed + weights[..., :num_sinks].flatten(1, 2) @ sinks
        return mixed.reshape(batch, heads, num_blocks * block, width)[:, :, :time]

    def _block_weights(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weights `[batch * heads, blocks, block, sinks + num_keys]` of all queries."""
        time = keys.shape[2]
        block, _, num_blocks = self._sizes(time)
        places = torch.arange(queries.shape[2], device=keys.device)
        real = torch.ones(1, time, device=keys.device).bool() if mask is None else mask
        allowed, bias = self._seen_by_blocks(real & (places[:time] >= self.sinks), time, queries)
        hidden = ~torch.cat([self._sinks_shown(real, places), allowed], dim=-1)
        shape = (len(keys) * self.heads, num_blocks, block)
        weights = torch.cat(
            [  # unnamed, so that they are freed once concatenated
                self._sink_scores(queries, keys).reshape(*shape, min(self.sinks, time)),
                self._near_scores(queries, keys, places, bias),
            ],
            dim=-1,
        )
        weights = weights.masked_fill_(hidden, torch.finfo(weights.dtype).min).softmax(dim=-1)
        # Without padding every real query attends to itself, so hidden keys already have weight 0.
        return weights if mask is None else weights.masked_fill(hidden, 0.0)

    def _near_scores(
        self, queries: Tensor, keys: Tensor, places: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Return scores of each block and its keys, `[batch * heads, blocks, block, num_keys]`."""
        block, _, num_blocks = self._sizes(keys.shape[2])
        blocks = (self.scale * self._turned(queries, places)).contiguous()
        blocks = blocks.reshape(len(keys) * self.heads, num_blocks, block, self.head_dim)
        met = self._met_by_blocks(self._turned(keys, places[: keys.shape[2]]))
        scores = blocks @ met.transpose(-1, -2)
        return scores if bias is None else scores + bias

    def _sinks_shown(self, real: Tensor, places: Tensor) -> Tensor:
        """Return `[batch * heads or 1, blocks, block, sinks]`, True where a sink is visible."""
        block, _, num_blocks = self._sizes(real.shape[1])
        sinks = real[:, : self.sinks]
        shown = sinks[:, None, :].expand(-1, len(places), -1)
        if self.is_causal:
            shown = shown & (places[: sinks.shape[1]] <= places[:, None])
        shown = shown.reshape(len(real), num_blocks, block, sinks.shape[1])
        return shown if len(real) == 1 else shown.repeat_interleave(self.heads, dim=0)
