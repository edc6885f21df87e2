"""Attention of a recurrent decoder to a source: scores, windows and weights.

Papers: Bahdanau et al. 2014 (arXiv:1409.0473, sections 3.1 and A.1.2); Luong et al. 2015
    (arXiv:1508.04025, sections 3.1 and 3.2).
Scores of a decoder's state q and a state h of the source:

    additive   v' tanh(W q + U h), without biases; v starts at 0, W and U at normal(0, 0.001), so
               that attention starts uniform (Bahdanau; also Luong's concat as printed)
    dot        q' h
    general    q' W h
    concat     v' tanh(h + W q): Luong's concat as in his code; the paper prints the additive form
    location   the row of W q for the position of h, cropped to the source's length

Reach: in ``global`` attention, the weights are the softmax over the source. Local attention uses
    the positions s with |s - p| <= window around a centre p, and its softmax is over these alone.
    ``local_m`` has p = t, the position in the target. ``local_p`` has p = S sigmoid(v' tanh(W q))
    for a source of S tokens, and multiplies the softmax by exp(-(s - p)^2 / (2 sigma^2)), sigma =
    window / 2; the product is not normalised again, and only it gives p a gradient. Positions count
    from 0. An empty window gives weights of 0.
Departures: scores are computed for all positions and hidden outside the window, so a window saves
    no work. Luong's code has the window around floor(p); here it is around p, as printed.
Padding: it is after the real tokens, see `AttentiveSeq2Seq`; its weights are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import linear_map

Score = Literal["additive", "dot", "general", "concat", "location"]
Reach = Literal["global", "local_m", "local_p"]
_NEAR_ZERO = 0.001  # standard deviation; Bahdanau et al. 2014, section B.1


@dataclass(frozen=True)
class Source:
    """The parts of a source that attention needs, computed once.

    Attributes:
        values: `[batch, time2, values]`, the states of the source.
        keys: `[batch, time2, ...]`, the states as transformed by the score.
        is_real: `[batch, time2]`, False at padding.
    """

    values: Tensor
    keys: Tensor
    is_real: Tensor


class Alignment(nn.Module):
    """Weights of the tokens of a source for each state of a decoder; see the module's docstring.

    Args:
        query_dim: Width of the decoder's states.
        value_dim: Width of the source's states.
        score: Name of the score; see the module's docstring.
        reach: Range of the attention; see the module's docstring.
        window: Positions on each side of the centre, for local attention.
        longest: Number of tokens of the longest source, for the score `location`.
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
        """Compute once what attention needs of a source.

        Args:
            values: `[batch, time2, value_dim]`, states of the source.
            is_real: `[batch, time2]`, False at padding.

        Raises:
            ModelError: The source is longer than `longest`, for the score `location`.
        """
        if self.score == "location" and values.shape[1] > self.longest:
            raise ModelError(f"score='location' knows {self.longest} places, not {values.shape[1]}")
        has_keys = self.score in ("additive", "general")
        return Source(values, self.keys(values) if has_keys else values, is_real)

    def forward(self, queries: Tensor, source: Source, first: int) -> tuple[Tensor, Tensor]:
        """Return contexts `[batch, time, values]` and weights `[batch, time, time2]`.

        Args:
            queries: `[batch, time, query_dim]`, states of the decoder.
            source: The result of `prepare`.
            first: Position of the first of the queries in the target.
        """
        weights = self.weights(queries, source, first)
        return torch.bmm(weights.to(source.values.dtype), source.values), weights

    def weights(self, queries: Tensor, source: Source, first: int) -> Tensor:
        """Return the weights of `forward`, in at least float32."""
        scores = self._scores(queries, source)
        wide = torch.promote_types(scores.dtype, torch.float32)
        is_seen, share = source.is_real.unsqueeze(1), None
        if self.reach != "global":
            places = torch.arange(scores.shape[2], device=scores.device, dtype=wide)
            offset = places - self._centre(queries, source, first, wide)  # (batch, time, time2)
            is_seen = is_seen & (offset.abs() <= self.window)
            if self.reach == "local_p":
                share = torch.exp(-2 * offset.square() / self.window**2)  # sigma = window / 2
        # Minus infinity would give NaN, also in the gradient, if all positions are hidden.
        scores = scores.to(wide).masked_fill(~is_seen, torch.finfo(wide).min)
        weights = scores.softmax(dim=-1).masked_fill(~is_seen, 0)
        return weights if share is None else weights * share

    def _scores(self, queries: Tensor, source: Source) -> Tensor:
        """Return scores, `[batch, time, time2]`."""
        if self.score == "location":
            places: Tensor = self.queries(queries)
            return places[..., : source.keys.shape[1]]
        if self.score in ("dot", "general"):
            return torch.bmm(queries, source.keys.transpose(1, 2))
        pairs = self.queries(queries).unsqueeze(2) + source.keys.unsqueeze(1)
        scores: Tensor = linear(torch.tanh(pairs), self.vector.weight).squeeze(-1)
        return scores

    def _centre(self, queries: Tensor, source: Source, first: int, dtype: torch.dtype) -> Tensor:
        """Return the centre p, `[batch or 1, time, 1]`."""
        if self.reach == "local_m":
            time = torch.arange(queries.shape[1], device=queries.device, dtype=dtype)
            return (first + time).view(1, -1, 1)
        part = self.centre_vector(torch.tanh(self.centre(queries))).to(dtype).sigmoid()
        length = source.is_real.sum(dim=1).view(-1, 1, 1)
        centre: Tensor = length * part
        return centre

    def flops(self, length: int, batch: int, source: int) -> float:
        """Return the FLOPs of `forward` for `length` target and `source` source tokens."""
        pairs = 2.0 * batch * length * source
        width = self.vector.in_features if hasattr(self, "vector") else 0
        if self.score in ("dot", "general"):
            width = self.query_dim
        of_pairs = ("keys.weight", "vector.weight")
        maps = sum(w.numel() for name, w in self.named_parameters() if name not in of_pairs)
        return pairs * (width + self.value_dim) + 2.0 * batch * length * maps

    def source_flops(self, source: int, batch: int) -> float:
        """Return the FLOPs of `prepare`."""
        return 2.0 * batch * source * (self.keys.weight.numel() if hasattr(self, "keys") else 0)
