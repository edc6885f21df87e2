"""Attention of a recurrent decoder over a source: scores, windows, weights.

Papers: Bahdanau et al. 2014 (arXiv:1409.0473, sections 3.1 and A.1.2); Luong et al. 2015
    (arXiv:1508.04025, sections 3.1 and 3.2).
Scores of a decoder's state q and a state h of the source:

    additive   v' tanh(W q + U h), without biases; v starts at 0, W and U at normal(0, 0.001), so
               that attention starts uniform (Bahdanau; also Luong's concat as printed)
    dot        q' h
    general    q' W h
    concat     v' tanh(h + W q): Luong's concat as run (his code; the paper's prints the additive)
    location   the row of W q that belongs to the place of h, cut to the source's length

Reach: of ``global`` attention the weights are the softmax over the source. A local one looks at the
    places s with |s - p| <= window around a centre p, and its softmax is over these alone.
    ``local_m`` has p = t, the place of the target. ``local_p`` has p = S sigmoid(v' tanh(W q)) of a
    source of S tokens, and multiplies the softmax by exp(-(s - p)^2 / (2 sigma^2)), sigma =
    window / 2; the product is not normalised again, and p gets its gradient from it alone. Places
    count from 0. An empty window gives weights of 0.
Departures: scores are computed for all places and hidden outside the window, so that a window saves
    no work. Luong's code has the window around floor(p); here it is around p, as printed.
Padding: stands behind the real tokens, see `AttentiveSeq2Seq`; its weights are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from models.errors import ModelError
from models.initialisation import linear_map

Score = Literal["additive", "dot", "general", "concat", "location"]
Reach = Literal["global", "local_m", "local_p"]
_NEAR_ZERO = 0.001  # standard deviation; Bahdanau et al. 2014, section B.1


@dataclass(frozen=True)
class Source:
    """What attention needs of a source, computed once.

    Attributes:
        values: `[batch, time2, values]`, its states.
        keys: `[batch, time2, ...]`, what the score makes of them.
        is_real: `[batch, time2]`, False where padding stands.
    """

    values: Tensor
    keys: Tensor
    is_real: Tensor


class Alignment(nn.Module):
    """Weights of the tokens of a source for each state of a decoder; see the module's note.

    Args:
        query_dim: Width of the decoder's states.
        value_dim: Width of the source's states.
        score: See the module's note, as is `reach`.
        reach: How far it looks.
        window: Places on each side of the centre, of local attention.
        longest: Tokens of the longest source, which `location` needs.
    """

    def __init__(
        self,
        query_dim: int,
        value_dim: int,
        score: Score,
        reach: Reach,
        *,
        window: int,
        longest: int,
    ) -> None:
        super().__init__()
        self.score, self.reach, self.window, self.longest = score, reach, window, longest
        self.query_dim, self.value_dim = query_dim, value_dim
        if score == "additive":
            self.keys = nn.Linear(value_dim, query_dim, bias=False)
            self.queries = nn.Linear(query_dim, query_dim, bias=False)
            self.vector = nn.Linear(query_dim, 1, bias=False)
            nn.init.normal_(self.keys.weight, std=_NEAR_ZERO)
            nn.init.normal_(self.queries.weight, std=_NEAR_ZERO)
            nn.init.zeros_(self.vector.weight)
            self.keeps_own_draw = ("keys", "queries", "vector")
        elif score == "general":
            self.keys = linear_map(value_dim, query_dim)
        elif score == "concat":
            self.queries, self.vector = linear_map(query_dim, value_dim), linear_map(value_dim, 1)
        elif score == "location":
            self.queries = linear_map(query_dim, longest)
        if reach == "local_p":
            self.centre, self.centre_vector = (
                linear_map(query_dim, query_dim),
                linear_map(query_dim, 1),
            )

    def prepare(self, values: Tensor, is_real: Tensor) -> Source:
        """What is computed once for a source; see `Source`.

        Raises:
            ModelError: a source longer than `location` knows.
        """
        if self.score == "location" and values.shape[1] > self.longest:
            raise ModelError(f"score='location' knows {self.longest} places, not {values.shape[1]}")
        has_keys = self.score in ("additive", "general")
        return Source(values, self.keys(values) if has_keys else values, is_real)

    def forward(self, queries: Tensor, source: Source, first: int) -> tuple[Tensor, Tensor]:
        """Contexts `[batch, time, values]` and weights `[batch, time, time2]`.

        Args:
            queries: `[batch, time, query_dim]`, states of the decoder.
            source: By `prepare`.
            first: Place of the first of the queries in the target.
        """
        weights = self.weights(queries, source, first)
        return torch.bmm(weights.to(source.values.dtype), source.values), weights

    def weights(self, queries: Tensor, source: Source, first: int) -> Tensor:
        """Those of `forward`, in float32 at least."""
        scores = self._scores(queries, source)
        wide = torch.promote_types(scores.dtype, torch.float32)
        is_seen, share = source.is_real.unsqueeze(1), None
        if self.reach != "global":
            places = torch.arange(scores.shape[2], device=scores.device, dtype=wide)
            offset = places - self._centre(queries, source, first, wide)  # (batch, time, time2)
            is_seen = is_seen & (offset.abs() <= self.window)
            if self.reach == "local_p":
                share = torch.exp(-2 * offset.square() / self.window**2)  # sigma = window / 2
        # Not minus infinity: where nothing is seen the softmax would be NaN, its gradient too.
        scores = scores.to(wide).masked_fill(~is_seen, torch.finfo(wide).min)
        weights = scores.softmax(dim=-1).masked_fill(~is_seen, 0)
        return weights if share is None else weights * share

    def _scores(self, queries: Tensor, source: Source) -> Tensor:
        """`[batch, time, time2]`."""
        if self.score == "location":
            places: Tensor = self.queries(queries)
            return places[..., : source.keys.shape[1]]
        if self.score in ("dot", "general"):
            return torch.bmm(queries, source.keys.transpose(1, 2))
        pairs = self.queries(queries).unsqueeze(2) + source.keys.unsqueeze(1)
        scores: Tensor = linear(torch.tanh(pairs), self.vector.weight).squeeze(-1)
        return scores

    def _centre(self, queries: Tensor, source: Source, first: int, dtype: torch.dtype) -> Tensor:
        """p, `[batch or 1, time, 1]`."""
        if self.reach == "local_m":
            time = torch.arange(queries.shape[1], device=queries.device, dtype=dtype)
            return (first + time).view(1, -1, 1)
        part = self.centre_vector(torch.tanh(self.centre(queries))).to(dtype).sigmoid()
        length = source.is_real.sum(dim=1).view(-1, 1, 1)
        centre: Tensor = length * part
        return centre

    def flops(self, length: int, batch: int, source: int) -> float:
        """Of `forward` over so many tokens of the target and of the source."""
        pairs = 2.0 * batch * length * source
        width = self.vector.in_features if hasattr(self, "vector") else 0
        if self.score in ("dot", "general"):
            width = self.query_dim
        of_pairs = ("keys.weight", "vector.weight")
        maps = sum(w.numel() for name, w in self.named_parameters() if name not in of_pairs)
        return pairs * (width + self.value_dim) + 2.0 * batch * length * maps

    def source_flops(self, source: int, batch: int) -> float:
        """Of `prepare`."""
        return 2.0 * batch * source * (self.keys.weight.numel() if hasattr(self, "keys") else 0)
