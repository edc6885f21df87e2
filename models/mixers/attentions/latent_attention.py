"""Multi-head latent attention: keys and values are projections of one short vector per token.

Paper: DeepSeek-AI 2024, "DeepSeek-V2" (arXiv:2405.04434), section 2.1 and appendix C.
Equation: c_t = norm(W^DKV x_t), the latent; in head h k_t,h = [W^UK_h c_t; RoPE(W^KR x_t)] and
    v_t,h = W^UV_h c_t, where all heads share the rotary part of the key; q_t,h = [W^UQ_h z_t;
    RoPE(W^QR_h z_t)] with z_t = norm(W^DQ x_t), or x_t if query_rank is None;
    head_h = softmax(q_h k_h^T / sqrt(d + d^R)) v_h; output = concat(heads) W^O. d = dim / heads is
    the width of a head, and norm is RMSNorm with a learned gain.
Cost: n^2 d, as for `attention`; one sequential operation; any two positions are one step apart. A
    cached token takes latent_dim + rope_dim numbers, independent of the number of heads.
Departures: the paper's additional scaling factors at the bottlenecks, whose values are not
    published, are left out. A query without a visible key gets zeros. Without a causal mask the
    same equation runs over all tokens. Weights have variance 1 / inputs.
Padding: exact; padded keys are masked.
Fast form: the parallel form writes keys and values to memory, and pads values with zeros to the
    width of the keys, since torch's fused kernels require equal widths. `step` caches only latents
    and rotary keys and never computes keys or values: W^UK is absorbed into the query and W^UV into
    the output, so that all heads attend to the latents themselves, as in multi-query attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.rms_norm import InnerNorm, norm_by_definition
from bakeoff.models.kernels.softmax_attention import (
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
from bakeoff.models.positions.relative import RotaryPosition


class LatentAttention(Mixer):
    """Softmax attention over keys and values of low rank; see the module docstring."""

    name = "latent_attention"
    paper = "DeepSeek-AI 2024 (DeepSeek-V2), arXiv:2405.04434, section 2.1"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    why_not_relative = "a rotary key of its own tells it distances"
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of latent attention; d is the width of a head, dim / heads.

        Attributes:
            heads: Number of heads; must divide dim.
            latent_dim: Width of the latent of keys and values; with None it is the paper's 4 d.
            rope_dim: Width of the rotary parts of queries and keys, an even number; with None it is
                the paper's d / 2, rounded up to an even number.
            query_rank: Width of the latent of the queries; with None there is no such latent, and
                queries are projections of the tokens.
            has_norm: Whether the latents are normalised, as in the paper's models.
        """

        heads: int = 4
        latent_dim: int | None = None
        rope_dim: int | None = None
        query_rank: int | None = None
        has_norm: bool = True

    @classmethod
    def check_config(cls, config: Config, *, dim: int) -> None:
        """Raise `ModelError` if a latent width is below 1, or rope_dim is odd or below 2."""
        super().check_config(config, dim=dim)
        for key in ("latent_dim", "query_rank"):
            if getattr(config, key) is not None and getattr(config, key) < 1:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below 1")
        rope_dim = config.rope_dim
        if rope_dim is not None and (rope_dim < 2 or rope_dim % 2 != 0):
            raise ModelError(f"{cls.name}: rope_dim={rope_dim} is not an even number of at least 2")

    def make_parameters(self, config: Config) -> None:
        """Create the down- and up-projections, and the norms of the latents."""
        dim, heads = self.dim, config.heads
        self.heads = heads
        self.head_dim = dim // heads
        self.latent_dim = config.latent_dim or 4 * self.head_dim
        self.rope_dim = config.rope_dim or 2 * math.ceil(self.head_dim / 4)
        self.key_dim = self.head_dim + self.rope_dim
        self.query_rank = config.query_rank
        self.scale = self.key_dim**-0.5
        rank = config.query_rank or dim
        self.query_down = nn.Linear(dim, rank, bias=False) if config.query_rank else None
        self.query = nn.Linear(rank, heads * self.key_dim, bias=False)
        self.down = nn.Linear(dim, self.latent_dim, bias=False)
        self.rotary_key = nn.Linear(dim, self.rope_dim, bias=False)
        self.key = nn.Linear(self.latent_dim, dim, bias=False)
        self.value = nn.Linear(self.latent_dim, dim, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)
        draw_projections(
            self.query_down,
            self.query,
            self.down,
            self.rotary_key,
            self.key,
            self.value,
            self.output,
        )
        is_query_normed = config.has_norm and config.query_rank
        self.query_norm = InnerNorm(rank) if is_query_normed else None
        self.norm = InnerNorm(self.latent_dim) if config.has_norm else None
        self.rope = RotaryPosition(heads=heads, head_dim=self.rope_dim, is_causal=self.is_causal)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        queries, keys, latents = self._project(x)
        values = split_heads(self.value(latents), self.heads)
        values = functional.pad(values, (0, self.rope_dim))
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        heads = fused_attention(queries, keys, values, visible, scale=self.scale)
        merged: Tensor = self.output(merge_heads(heads[..., : self.head_dim]))
        return merged

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights, `[batch, heads, time, time]`.

        Each row sums to one, or to zero if the query has no visible key.
        """
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, _ = self._project(without_padding(x, mask))
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return softmax_weights(self.scale * queries @ keys.transpose(-1, -2), visible)

    def initial_state(self, batch: int) -> State:
        """Return empty caches: latents `[batch, 0, latent_dim]`, keys `[batch, 0, rope_dim]`."""
        self.check_steps()
        empty = self.down.weight.new_zeros
        return empty(batch, 0, self.latent_dim), empty(batch, 0, self.rope_dim)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to its own latent and all earlier ones."""
        self.check_steps()
        x = x_t.unsqueeze(1)
        place = torch.tensor([state[0].shape[1]], device=x.device)
        latents = torch.cat([state[0], self._latents(x)], dim=1)
        turned = self.rope.rotate(self.rotary_key(x).unsqueeze(1), place).squeeze(1)
        rotary = torch.cat([state[1], turned], dim=1)
        queries = self._absorbed(self._queries(x, place))
        keys = torch.cat([latents, rotary], dim=-1).unsqueeze(1)  # one head, shared by all
        values = functional.pad(latents, (0, self.rope_dim)).unsqueeze(1)
        visible = newest_token(keys.shape[2], x.device)
        mixed = fused_attention(queries, keys, values, visible, scale=self.scale)
        per_head = self.value.weight.reshape(self.heads, self.head_dim, self.latent_dim)
        heads = mixed[..., : self.latent_dim] @ per_head.transpose(1, 2)
        return self.output(merge_heads(heads)).squeeze(1), (latents, rotary)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of a latent and a rotary key per token, which all heads share."""
        self.check_steps()
        return 4 * (self.latent_dim + self.rope_dim) * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, scores, and weighted sums of the padded values."""
        self.check_context_length(context_length)
        gains = (self.latent_dim + (self.query_rank or 0)) if self.config.has_norm else 0
        maps = 2 * length * (self.num_parameters() - gains)
        return float(batch * (maps + 2 * 2 * length**2 * self.heads * self.key_dim))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: latents, queries, keys, padded values; then scratch or output."""
        self.check_context_length(context_length)
        wide = self.heads * self.key_dim
        held = 16 * length + 4 * batch * length * (self.latent_dim + 4 * wide)
        scratch = fused_scratch_bytes(
            rows=batch * self.heads, queries=length, keys=length, width=self.key_dim
        )
        merged = 4 * batch * length * 2 * self.dim
        return held + max(scratch, merged)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys that it may attend to."""
        stored = {j: self._reference_key_and_values(x[j], j) for j in seen}
        rows = []
        for i, token in enumerate(x):
            past = [stored[j] for j in seen if not self.is_causal or j <= i]
            queries = self._reference_queries(token, i)
            rows.append(self.output(torch.cat(self._reference_heads(queries, past))))
        return torch.stack(rows)

    def _reference_key_and_values(self, token: Tensor, place: int) -> list[tuple[Tensor, Tensor]]:
        """Return the key and the value of one token in each head, by equations 41 to 45."""
        latent = _reference_norm(self.down.weight @ token, self.norm)
        rotary = self.rope.turned(self.rotary_key.weight @ token, place)
        made = []
        for h in range(self.heads):
            own, value = (
                project_to_head(m, h, self.head_dim, latent) for m in (self.key, self.value)
            )
            made.append((torch.cat([own, rotary]), value))
        return made

    def _reference_queries(self, token: Tensor, place: int) -> list[Tensor]:
        """Return the query of one token in each head, by equations 37 to 40."""
        latent = token
        if self.query_down is not None:
            latent = _reference_norm(self.query_down.weight @ token, self.query_norm)
        d, queries = self.head_dim, []
        for h in range(self.heads):
            query = project_to_head(self.query, h, self.key_dim, latent)
            queries.append(torch.cat([query[:d], self.rope.turned(query[d:], place)]))
        return queries

    def _reference_heads(
        self, queries: list[Tensor], past: list[list[tuple[Tensor, Tensor]]]
    ) -> list[Tensor]:
        """Return each head's weighted sum over the visible tokens, by equation 46."""
        if not past:
            return [torch.zeros_like(query[: self.head_dim]) for query in queries]
        heads = []
        for h, query in enumerate(queries):
            keys, values = (torch.stack(each) for each in zip(*(t[h] for t in past), strict=True))
            terms = torch.exp(keys @ query / math.sqrt(len(query)))
            heads.append(terms / terms.sum() @ values)
        return heads

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys `[batch, heads, time, key_dim]`, and latents (see `_latents`).

        Every head's key is its own part followed by a copy of the shared rotary part.
        """
        places = torch.arange(x.shape[1], device=x.device)
        latents = self._latents(x)
        rotary = self.rope.rotate(self.rotary_key(x).unsqueeze(1), places)
        rotary = rotary.expand(-1, self.heads, -1, -1)
        keys = torch.cat([split_heads(self.key(latents), self.heads), rotary], dim=-1)
        return self._queries(x, places), keys, latents

    def _latents(self, x: Tensor) -> Tensor:
        """Return the latents of keys and values, `[batch, time, latent_dim]`."""
        latents: Tensor = self.down(x)
        return latents if self.norm is None else self.norm(latents)

    def _queries(self, x: Tensor, places: Tensor) -> Tensor:
        """Return the queries `[batch, heads, time, key_dim]`; their last part is rotated."""
        if self.query_down is not None:
            x = self.query_down(x)
            x = x if self.query_norm is None else self.query_norm(x)
        queries = split_heads(self.query(x), self.heads)
        own, rotary = queries[..., : self.head_dim], queries[..., self.head_dim :]
        return torch.cat([own, self.rope.rotate(rotary, places)], dim=-1)

    def _absorbed(self, queries: Tensor) -> Tensor:
        """Return queries for latents, `[batch, heads, time, latent_dim + rope_dim]`."""
        own, rotary = queries[..., : self.head_dim], queries[..., self.head_dim :]
        per_head = self.key.weight.reshape(self.heads, self.head_dim, self.latent_dim)
        return torch.cat([own @ per_head, rotary], dim=-1)


def _reference_norm(vector: Tensor, norm: InnerNorm | None) -> Tensor:
    """Return the RMSNorm of a vector, written out; the vector itself without a norm."""
    if norm is None:
        return vector
    return norm_by_definition(vector, norm)
