"""Reformer's attention: tokens that hash alike meet in chunks of a sorted sequence.

Paper: Kitaev et al. 2020, "Reformer: The Efficient Transformer" (arXiv:2001.04451), section 2;
    where it leaves something open, the authors' code (trax).
Equation: queries are keys: k_j = q_j / |q_j|. In each round, a token's bucket is the argmax of
    [R q; -R q], R from normal(0, 1) for each head and round; tokens are sorted by (bucket, place)
    and cut into chunks, and each chunk sees itself and the one before. The output is
    softmax(q_i.k_j) v_j over all j so met in any round, without i itself, unless i met nobody
    else. The chunk before the first of a round is the last of the round before, the last round
    for the first; a key that is met twice counts twice. Buckets decide the order only: tokens of
    two buckets meet where they share a chunk.
Cost: k r n d for k rounds and r keys met in one; sorting costs n log n more, without products. One
    sequential operation. Which tokens are one step apart depends on hashes: if those of several
    layers are independent, some log n layers lie between any two; were they alike, n / r.
Departures: buckets follow from `max_length`, not from each sequence's length, so that a sequence
    hashes alike whatever it is padded to. A sequence of a single chunk is sorted and hashed not at
    all: it sees all of itself in any case, and repeats would count alike.
Causal: a token sees nothing of later ones' contents, yet who shares its chunk depends on their
    hashes, as in the paper; within one chunk not even that. For the same reason there is no step.
Padding: padded tokens are sorted behind all buckets and hidden, in the mixer's own filling of the
    last chunk too; the chunk before a round's first is the last that holds a real token.
Hashes: drawn anew for every forward pass in training, from torch's generator, so that recomputed
    activations can find them again; in evaluation those of the construction, which are kept with
    the parameters. Above 128 buckets the hash is a pair of two smaller ones. No gradient passes.
Full attention: `rounds=0` makes one chunk of any sequence, without hashes: the limit that rounds
    approach. `read_rounds` are those of evaluation, in which a model that was trained otherwise is
    read (Table 2), validation between steps included. A reading by fewer rounds than in training
    has the first of its hashes; the further ones of a reading by more are drawn by the
    construction and not kept with the parameters.
Fast form: one product for all chunks of all rounds. Masks: later and padded keys -1e9, the token
    itself -1e5. Rounds are joined by the logsumexp of their scores. Queries, hashes, scores in
    float32 at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.errors import ModelError
from models.kernels.softmax_attention import (
    draw_projections,
    merge_heads,
    project_to_head,
    split_heads,
)
from models.mixer import Context, Cost, Mask, Mixer, without_padding
from models.model_spec import reading_knob

_HIDDEN, _ITSELF = -1e9, -1e5  # scores: the second is chosen only where all others are hidden
_LARGEST_HASH = 128  # buckets of one argmax
_EPSILON = 1e-6


class LSHAttention(Mixer):
    """Every token takes a weighted mean over tokens that hash as it does; see the module's note."""

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
            rounds: Hashes of each token, each with an order of its own; 0 for full attention.
            buckets: Values of a hash: 1, or an even number; 0 for two to a chunk of `max_length`.
            chunk: Tokens that stand together in the order; each meets at most twice as many.
            read_rounds: The rounds in evaluation mode, 0 included; None for those of training.
        """

        heads: int = 4
        rounds: int = 2
        buckets: int = 0
        chunk: int = 64
        read_rounds: int | None = reading_knob(None)

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Refuse buckets that do not lie opposite one another, and rounds below none."""
        for key in ("rounds", "read_rounds"):
            if (getattr(config, key) or 0) < 0:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below 0")
        if config.buckets < 0 or (config.buckets % 2 and config.buckets != 1):
            raise ModelError(
                f"{cls.name}: buckets={config.buckets} is neither 0 nor 1 nor an even number above"
            )
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Three projections, and the hashes for evaluation."""
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
        # Not kept, so that the weights of one training fit every reading.
        drawn = torch.empty(self.heads, num_further, *of_round).normal_()
        self.register_buffer("further", drawn, persistent=False)

    @property
    def rounds(self) -> int:
        """Those in force: of training, or of evaluation; 0 where everybody meets everybody."""
        read = self.config.read_rounds
        return int(self.config.rounds if self.training or read is None else read)

    @property
    def hashes(self) -> Tensor:
        """The kept rotations of the rounds in force, `[heads, rounds, rows, head_dim]`."""
        kept = self.rotations
        if self.rounds > kept.shape[1]:
            kept = torch.cat([kept, self.further], dim=1)
        return kept[:, : self.rounds]

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`; in training, draws hashes anew."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        wide = torch.promote_types(x.dtype, torch.float32)
        projected = functional.linear(x.to(wide), self.query.weight.to(wide))
        queries, values = split_heads(projected, self.heads), split_heads(self.value(x), self.heads)
        heads = self._attended(queries, values, self._order(queries, mask), mask)
        merged: Tensor = self.output(merge_heads(heads.to(x.dtype)))
        return merged

    def cost_symbols(self) -> dict[str, float]:
        """k, the rounds; r, the keys that a token meets in one."""
        if not self.rounds:
            return {"k": 1, "r": self.max_length}
        return {"k": self.rounds, "r": 2 * self.config.chunk}

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Projections, hashes, and every place of a chunk against two chunks, in each round."""
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
        """The larger of hashes (products, negated, both), keys and scores, each with what is held.

        Two projections stay; beside keys and scores also the order, and values where they meet.
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
        numbers = 4 * (products + 3 * largest) + 8  # of each token, head and round
        return float(2 * tokens + max(at_keys, batch * rounds * length * self.heads * numbers))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """One token of one head at a time, over the list of those that it meets."""
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
        """Whom each real token meets in all rounds, itself and (causal) later ones left out."""
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
        """Of one token, from its products with the rows of R."""
        bucket, weight = 0, 1
        for part, size in self._parts(turned):
            bucket += weight * int(torch.cat([part, -part]).argmax())
            weight *= size
        return bucket

    def _parts(self, turned: Tensor) -> Iterator[tuple[Tensor, int]]:
        """For each hash the products with its rows of R, `[..., size / 2]`, and its size."""
        parts = torch.split(turned, [size // 2 for size in self.factors], dim=-1)
        return zip(parts, self.factors, strict=True)

    def _sizes(self, length: int) -> tuple[int, int, int]:
        """Tokens of a chunk, chunks of a round, rounds."""
        chunk = min(self.config.chunk, length) if self.rounds else length
        num_chunks = -(-length // chunk)
        return chunk, num_chunks, self.rounds if num_chunks > 1 else 1

    def _keys_of_chunk(self, length: int) -> int:
        chunk, num_chunks, _ = self._sizes(length)
        return chunk if num_chunks == 1 else 2 * chunk

    @torch.no_grad()
    def _order(self, queries: Tensor, mask: Mask) -> Tensor:
        """`[batch, heads, rounds, chunks * chunk]`: the place that stands at each of the order."""
        batch, heads, time, _ = queries.shape
        chunk, num_chunks, rounds = self._sizes(time)
        places = torch.arange(num_chunks * chunk, device=queries.device)
        if num_chunks == 1:
            return places.expand(batch, heads, rounds, -1)
        buckets = self._buckets(queries)
        last = max(1, torch.Size(self.factors).numel())  # behind all buckets: padding
        if mask is not None:
            buckets = buckets.masked_fill(~mask[:, None, None, :], last)
        buckets = functional.pad(buckets, (0, len(places) - time), value=last)
        return (buckets * len(places) + places).argsort(dim=-1)

    def _buckets(self, queries: Tensor) -> Tensor:
        """`[batch, heads, rounds, time]`."""
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
        """Heads `[batch, heads, time, head_dim]`."""
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
        """`[batch, heads, rounds, chunks, chunk, keys]`, of queries in chunks."""
        squares = queries.square().mean(dim=-1, keepdim=True)
        length = ((squares + _EPSILON) * self.head_dim).sqrt()
        scores = queries @ self._met(queries / length, mask).mT
        chunk, num_chunks, _ = self._sizes(time)
        places = order.reshape(*order.shape[:3], num_chunks, chunk)
        # Keys of padding stand behind everybody.
        real = places < time
        if mask is not None:
            padded = functional.pad(mask, (0, num_chunks * chunk - time))
            real = padded[:, None, None].take_along_dim(order, 3).view_as(places)
        met = self._met(places.masked_fill(~real, num_chunks * chunk).unsqueeze(-1), mask).mT
        places = places.unsqueeze(-1)
        hidden = met > places if self.is_causal else met == num_chunks * chunk
        return scores.masked_fill_(met == places, _ITSELF).masked_fill_(hidden, _HIDDEN)

    def _in_chunks(self, x: Tensor, order: Tensor) -> Tensor:
        """`[batch, heads, time, width]` in that order, `[.., rounds, chunks, chunk, width]`."""
        chunk, num_chunks, _ = self._sizes(x.shape[2])
        x = functional.pad(x, (0, 0, 0, num_chunks * chunk - x.shape[2]))
        found = _tokens_at(order.flatten(2), x)
        return found.reshape(*order.shape[:3], num_chunks, chunk, x.shape[-1])

    def _met(self, x: Tensor, mask: Mask) -> Tensor:
        """Each chunk of `[batch, heads, rounds, chunks, chunk, width]` behind the one before."""
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
    """Of `x` `[..., time, width]` those at `places` `[..., number]`: `[..., number, width]`.

    `take_along_dim` does the same, and first a remainder of all places.
    """
    return x.gather(-2, places.unsqueeze(-1).expand(*places.shape, x.shape[-1]))


def factors_of(buckets: int) -> tuple[int, ...]:
    """The sizes of the hashes whose pairs are so many buckets, nearly; none for a single one."""
    if buckets <= _LARGEST_HASH:
        return () if buckets == 1 else (buckets,)
    first = 2 ** (buckets.bit_length() // 2)
    return first, 2 * max(1, buckets // (2 * first))
