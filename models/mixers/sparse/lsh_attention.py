"""Reformer's attention: tokens are sorted by their hashes and attend to others within chunks.

Paper: Kitaev et al. 2020, "Reformer: The Efficient Transformer" (arXiv:2001.04451), section 2;
    details that the paper leaves open follow the authors' code (trax).
Equation: queries are keys: k_j = q_j / |q_j|. In each round, a token's bucket is the argmax of
    [R q; -R q], R from normal(0, 1) for each head and round; tokens are sorted by (bucket,
    position) and cut into chunks, and each chunk attends to itself and the previous one. The output
    is sum_j softmax(q_i.k_j) v_j over all j found in this way in any round, without i itself unless
    there is no other. The chunk before the first one of a round is the last one of the previous
    round, cyclically; a key that is found twice counts twice. Buckets determine only the order:
    tokens of two buckets attend to each other if they share a chunk.
Cost: k r n d for k rounds and r keys in each; sorting costs n log n more, without products. There
    is one sequential operation. Which tokens are one step apart depends on the hashes: if those of
    the layers are independent, any two tokens are about log n layers apart; if they were all equal,
    n / r.
Departures: buckets depend on `max_length`, not on the length of each sequence, so that a sequence
    has the same hashes with any padding. A sequence of a single chunk is neither sorted nor hashed:
    its tokens attend to all of it in any case, and repeated rounds would all be equal.
Causal: a token never attends to later tokens, but the members of its chunk depend on their hashes,
    as in the paper, unless there is only one chunk. For the same reason there is no step form.
Padding: padded tokens are sorted after all buckets and hidden, and so are the places that fill up
    the last chunk; the chunk before a round's first is the last one with a real token.
Hashes: drawn for every forward pass in training, from torch's generator, so that recomputed
    activations use the same ones; in evaluation those drawn at construction, which are stored with
    the parameters. Above 128 buckets the hash is a pair of two smaller ones. Hashes have no
    gradient.
Full attention: `rounds=0` makes one chunk of any sequence, without hashes: the limit for many
    rounds. `read_rounds` is the number of rounds in evaluation, validation during training
    included, so that a model can be evaluated with another number than it was trained with (Table
    2). An evaluation with fewer rounds uses the first hashes; the additional ones of an evaluation
    with more rounds are drawn at construction and not stored with the parameters.
Fast form: one product for all chunks of all rounds. Masked scores are -1e9 for later and padded
    keys and -1e5 for the token itself. Rounds are combined by the logsumexp of their scores.
    Queries, hashes and scores are in float32 at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    draw_projections,
    merge_heads,
    project_to_head,
    split_heads,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding
from bakeoff.models.model_spec import reading_knob

_HIDDEN, _ITSELF = -1e9, -1e5  # scores: the second is used only if all others are hidden
_LARGEST_HASH = 128  # number of buckets of one argmax
_EPSILON = 1e-6


class LSHAttention(Mixer):
    """Softmax attention among tokens with similar hashes; see the module docstring."""

    name = "lsh_attention"
    paper = "Kitaev et al. 2020, arXiv:2001.04451"
    family = "sparse attention"
    cost = Cost(time="k * r * n * d", sequential_operations="1", maximum_path_length="log2(n)")
    supports_causal = True
    why_not_relative = "keys are met in the order of their hashes"
    is_stochastic = True
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("chunk",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of LSH attention.

        Attributes:
            heads: Number of heads; must divide dim.
            rounds: Number of hashes per token, each with its own order; 0 is full attention.
            buckets: Number of values of a hash: 1, or an even number; 0 means two per chunk of
                `max_length`.
            chunk: Number of tokens per chunk; each attends to at most twice as many.
            read_rounds: Number of rounds in evaluation mode, possibly 0; with None it is that of
                training.
        """

        heads: int = 4
        rounds: int = 2
        buckets: int = 0
        chunk: int = 64
        read_rounds: int | None = reading_knob(None)

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the number of buckets is odd and not 1, or a number is negative."""
        for key in ("rounds", "read_rounds"):
            if (getattr(config, key) or 0) < 0:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below 0")
        if config.buckets < 0 or (config.buckets % 2 and config.buckets != 1):
            raise ModelError(
                f"{cls.name}: buckets={config.buckets} is neither 0 nor 1 nor an even number above"
            )
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Create three projections, and the hashes for evaluation."""
        self.heads = config.heads
        self.head_dim = self.dim // config.heads
        self.query, self.value, self.output = (
            nn.Linear(self.dim, self.dim, bias=False) for _ in range(3)
        )
        draw_projections(self.query, self.value, self.output)
        self.factors = factors_of(config.buckets or 2 * max(1, self.max_length // config.chunk))
        num_further = max(0, (config.read_rounds or 0) - config.rounds)
        of_round = (sum(self.factors) // 2, self.head_dim)
        self.rotations: Tensor
        self.further: Tensor
        drawn = torch.empty(self.heads, config.rounds, *of_round).normal_()
        self.register_buffer("rotations", drawn)
        # These are not stored, so that the weights of one training fit any `read_rounds`.
        drawn = torch.empty(self.heads, num_further, *of_round).normal_()
        self.register_buffer("further", drawn, persistent=False)

    @property
    def rounds(self) -> int:
        """Number of rounds in the current mode, training or evaluation; 0 is full attention."""
        read = self.config.read_rounds
        return int(self.config.rounds if self.training or read is None else read)

    @property
    def hashes(self) -> Tensor:
        """Stored rotations of the current rounds, `[heads, rounds, rows, head_dim]`."""
        kept = self.rotations
        if self.rounds > kept.shape[1]:
            kept = torch.cat([kept, self.further], dim=1)
        return kept[:, : self.rounds]

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; in training, draw new hashes."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        wide = torch.promote_types(x.dtype, torch.float32)
        projected = functional.linear(x.to(wide), self.query.weight.to(wide))
        queries, values = split_heads(projected, self.heads), split_heads(self.value(x), self.heads)
        heads = self._attended(queries, values, self._order(queries, mask), mask)
        merged: Tensor = self.output(merge_heads(heads.to(x.dtype)))
        return merged

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of rounds, and r, the number of keys per token in a round."""
        if not self.rounds:
            return {"k": 1, "r": self.max_length}
        return {"k": self.rounds, "r": 2 * self.config.chunk}

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of projections, hashes, and each chunk with its keys in each round."""
        self.check_context_length(context_length)
        chunk, num_chunks, rounds = self._sizes(length)
        products = 3 * length * self.dim**2
        products += 2 * rounds * num_chunks * chunk * self.dim * self._keys_of_chunk(length)
        if num_chunks > 1:
            products += length * self.dim * rounds * (sum(self.factors) // 2)
        return float(2 * batch * products)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: two projections, and the largest of hashes, keys and scores.

        The hashes are products, their negation, and both concatenated. Together with keys and
        scores also the order is held, and the values in chunks.
        """
        self.check_context_length(context_length)
        chunk, num_chunks, rounds = self._sizes(length)
        num_sorted = batch * rounds * num_chunks * chunk
        tokens, in_order = 4 * batch * length * self.dim, 4 * num_sorted * self.dim
        keys = self._keys_of_chunk(length)
        scores, row = 4 * num_sorted * self.heads * keys, 4 * num_sorted * self.heads
        at_scores = in_order + row + 2 * scores
        if num_chunks == 1:
            return float(2 * tokens + 8 * length + in_order + at_scores)
        at_keys = 2 * row + 2 * in_order + max(at_scores, 5 * in_order + row)
        products, largest = sum(self.factors) // 2, max(self.factors, default=0) // 2
        numbers = 4 * (products + 3 * largest) + 8  # per token, head and round
        return float(2 * tokens + max(at_keys, batch * rounds * length * self.heads * numbers))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one token of one head at a time, over the list of its keys."""
        heads = []
        for h in range(self.heads):
            queries, values = (
                project_to_head(each, h, self.head_dim, x) for each in (self.query, self.value)
            )
            squares = queries.square().mean(dim=1, keepdim=True)
            keys = queries / torch.sqrt(squares + _EPSILON) / self.head_dim**0.5
            rows = list(torch.zeros_like(values))
            for i, met in self._meetings(h, queries, seen).items():
                rows[i] = values[i]
                if met:
                    terms = torch.exp(keys[met] @ queries[i])
                    rows[i] = terms / terms.sum() @ values[met]
            heads.append(torch.stack(rows))
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _meetings(self, head: int, queries: Tensor, real: list[int]) -> dict[int, list[int]]:
        """Return the keys of each real token in all rounds, without itself or hidden tokens."""
        rounds = [] if self.rounds else [[real]]
        size = self.config.chunk
        for rotation in self.hashes[head]:
            buckets = {i: self._bucket(rotation @ queries[i]) for i in real}
            order = sorted(real, key=lambda i: (buckets[i], i))
            rounds.append([order[at : at + size] for at in range(0, len(order), size)])
        meetings: dict[int, list[int]] = {i: [] for i in real}
        for r, chunks in enumerate(rounds):
            for c, chunk in enumerate(chunks):
                before = chunks[c - 1] if c else rounds[r - 1][-1]
                for i in chunk:
                    met = [j for j in before + chunk if j != i]
                    meetings[i] += [j for j in met if j < i or not self.is_causal]
        return meetings

    def _bucket(self, turned: Tensor) -> int:
        """Return the bucket of one token from its products with the rows of R."""
        bucket, weight = 0, 1
        for part, size in self._parts(turned):
            bucket += weight * int(torch.cat([part, -part]).argmax())
            weight *= size
        return bucket

    def _parts(self, turned: Tensor) -> Iterator[tuple[Tensor, int]]:
        """Return for each hash the products with its rows of R, `[..., size / 2]`, and its size."""
        parts = torch.split(turned, [size // 2 for size in self.factors], dim=-1)
        return zip(parts, self.factors, strict=True)

    def _sizes(self, length: int) -> tuple[int, int, int]:
        """Return tokens per chunk, chunks per round, and rounds."""
        chunk = min(self.config.chunk, length) if self.rounds else length
        num_chunks = -(-length // chunk)
        return chunk, num_chunks, self.rounds if num_chunks > 1 else 1

    def _keys_of_chunk(self, length: int) -> int:
        chunk, num_chunks, _ = self._sizes(length)
        return chunk if num_chunks == 1 else 2 * chunk

    @torch.no_grad()
    def _order(self, queries: Tensor, mask: Mask) -> Tensor:
        """Return the sorted places of the tokens, `[batch, heads, rounds, chunks * chunk]`."""
        batch, heads, time, _ = queries.shape
        chunk, num_chunks, rounds = self._sizes(time)
        places = torch.arange(num_chunks * chunk, device=queries.device)
        if num_chunks == 1:
            return places.expand(batch, heads, rounds, -1)
        buckets = self._buckets(queries)
        last = max(1, torch.Size(self.factors).numel())  # after all buckets: padding
        if mask is not None:
            buckets = buckets.masked_fill(~mask[:, None, None, :], last)
        buckets = functional.pad(buckets, (0, len(places) - time), value=last)
        return (buckets * len(places) + places).argsort(dim=-1)

    def _buckets(self, queries: Tensor) -> Tensor:
        """Return the bucket of each token, `[batch, heads, rounds, time]`."""
        rotations = self.hashes.to(queries.dtype)
        if self.training:
            rotations = torch.randn_like(rotations)
        turned = torch.einsum("bhlw,hrcw->bhrlc", queries, rotations)
        buckets = torch.zeros(turned.shape[:-1], dtype=torch.int64, device=turned.device)
        weight = 1
        for part, size in self._parts(turned):
            buckets += weight * torch.cat([part, -part], dim=-1).argmax(dim=-1)
            weight *= size
        return buckets

    def _attended(self, queries: Tensor, values: Tensor, order: Tensor, mask: Mask) -> Tensor:
        """Return the heads `[batch, heads, time, head_dim]`."""
        time = queries.shape[2]
        values = self._met(self._in_chunks(values, order), mask)
        scores = self._scores(self._in_chunks(queries, order), order, time, mask)
        totals = scores.logsumexp(dim=-1, keepdim=True)
        mixed = scores.softmax(dim=-1).to(values.dtype) @ values
        del scores, values
        back = order.argsort(dim=-1)[..., :time]
        mixed, totals = (_tokens_at(back, each.flatten(3, 4)) for each in (mixed, totals))
        return (totals.softmax(dim=2) * mixed).sum(dim=2)

    def _scores(self, queries: Tensor, order: Tensor, time: int, mask: Mask) -> Tensor:
        """Return the scores of queries in chunks, `[batch, heads, rounds, chunks, chunk, keys]`."""
        squares = queries.square().mean(dim=-1, keepdim=True)
        length = ((squares + _EPSILON) * self.head_dim).sqrt()
        scores = queries @ self._met(queries / length, mask).mT
        chunk, num_chunks, _ = self._sizes(time)
        places = order.reshape(*order.shape[:3], num_chunks, chunk)
        # Padded keys get the place after all others.
        real = places < time
        if mask is not None:
            padded = functional.pad(mask, (0, num_chunks * chunk - time))
            real = padded[:, None, None].take_along_dim(order, 3).view_as(places)
        met = self._met(places.masked_fill(~real, num_chunks * chunk).unsqueeze(-1), mask).mT
        places = places.unsqueeze(-1)
        hidden = met > places if self.is_causal else met == num_chunks * chunk
        return scores.masked_fill_(met == places, _ITSELF).masked_fill_(hidden, _HIDDEN)

    def _in_chunks(self, x: Tensor, order: Tensor) -> Tensor:
        """Return `[batch, heads, time, width]` sorted, as `[.., rounds, chunks, chunk, width]`."""
        chunk, num_chunks, _ = self._sizes(x.shape[2])
        x = functional.pad(x, (0, 0, 0, num_chunks * chunk - x.shape[2]))
        found = _tokens_at(order.flatten(2), x)
        return found.reshape(*order.shape[:3], num_chunks, chunk, x.shape[-1])

    def _met(self, x: Tensor, mask: Mask) -> Tensor:
        """Return chunks `[batch, heads, rounds, chunks, chunk, width]`, each after the one before.

        The length of each is then 2 chunk, unless there is a single chunk.
        """
        num_chunks, chunk = x.shape[3:5]
        if num_chunks == 1:
            return x
        flat = x.flatten(2, 3)
        before = flat.roll(1, dims=2).view_as(x)
        if mask is not None:  # a round's last chunk of real tokens may be an earlier one
            last = (mask.sum(dim=1) - 1).clamp(min=0) // chunk
            ends = x.take_along_dim(last.view(-1, 1, 1, 1, 1, 1), dim=3).roll(1, dims=2)
            before = torch.cat([ends, before[:, :, :, 1:]], dim=3)
        return torch.cat([before, x], dim=4)


def _tokens_at(places: Tensor, x: Tensor) -> Tensor:
    """Return rows of `x` `[..., time, width]` at `places` `[..., number]`: `[..., number, width]`.

    `take_along_dim` does the same, but first computes a remainder of all places.
    """
    return x.gather(-2, places.unsqueeze(-1).expand(*places.shape, x.shape[-1]))


def factors_of(buckets: int) -> tuple[int, ...]:
    """Return the sizes of hashes whose product is about `buckets`; empty for a single bucket."""
    if buckets <= _LARGEST_HASH:
        return () if buckets == 1 else (buckets,)
    first = 2 ** (buckets.bit_length() // 2)
    return first, 2 * max(1, buckets // (2 * first))
