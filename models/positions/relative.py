"""Relative positional encodings, which act on scores inside a mixer.

An absolute encoding is combined with the embeddings before the first layer
(`bakeoff.models.positions.absolute`); these act in every layer, between a query and a key, and
depend on their distance alone: `distance` is the position of the key minus that of the query,
negative if the key comes first. A mixer that has scores declares `supports_relative` and is given
the class, since only the mixer knows the number and the width of its heads.

    name    acts on                 learns
    rope    queries and keys        nothing
    alibi   scores, added           nothing
    t5      scores, added           a number per head and bucket of distances
    shaw    keys and values, added  a vector per distance for each
"""

from __future__ import annotations

import math
from abc import ABC
from typing import ClassVar

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError


class RelativePosition(nn.Module, ABC):
    """An encoding of distances; the base class has no effect.

    Attributes:
        version: Number that increases with every change here that alters a result.
        name: Key in `bakeoff.models.POSITIONS`.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str] = "this position"

    def __init__(self, *, heads: int, head_dim: int, is_causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = head_dim
        self.is_causal = is_causal

    def rotate(self, x: Tensor, places: Tensor) -> Tensor:
        """Rotate queries or keys `[batch, heads, time, head_dim]` at `places` `[time]`."""
        return x

    def bias(self, distance: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Return the bias of scaled scores, `[heads, *distance.shape]`, or None."""
        return None

    # The definition for one pair of tokens, from which the reference of a mixer is computed.

    def turned(self, vector: Tensor, place: int) -> Tensor:
        """Rotate a query or key `[head_dim]` at position `place`."""
        return vector

    def key(self, distance: int) -> Tensor | float:
        """Return the addend of a key at this distance from the query."""
        return 0.0

    def value(self, distance: int) -> Tensor | float:
        """Return the addend of a value at this distance from the query."""
        return 0.0

    def added(self, head: int, distance: int) -> Tensor:
        """Return the addend of a head's scaled score at this distance."""
        return torch.zeros(())


RelativeKind = type[RelativePosition] | None  # the encoding inside a mixer, if any


class RotaryPosition(RelativePosition):
    """RoPE: queries and keys are rotated by angles that grow with their positions.

    Su et al. 2021, "RoFormer" (arXiv:2104.09864), equation 34: the pair (x_2i, x_2i+1) at position
    m is rotated by m theta_i, theta_i = 10000^(-2i / d), so that a product of query and key depends
    on the distance alone.
    """

    name = "rope"

    def __init__(self, *, heads: int, head_dim: int, is_causal: bool) -> None:
        super().__init__(heads=heads, head_dim=head_dim, is_causal=is_causal)
        if head_dim % 2 != 0:
            raise ModelError(
                f"rope rotates pairs of numbers: the width of a head must be even, not {head_dim}"
            )

    def rotate(self, x: Tensor, places: Tensor) -> Tensor:
        """Rotate all pairs `(x_2i, x_2i+1)` of queries or keys by their angles."""
        even = torch.arange(0, self.head_dim, 2, device=x.device, dtype=torch.float64)
        angles = places.to(x.device, torch.float64)[:, None] * 10000 ** (-even / self.head_dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)  # (time, head_dim / 2)
        first, second = x[..., 0::2], x[..., 1::2]
        turned = [first * cos - second * sin, first * sin + second * cos]
        return torch.stack(turned, dim=-1).flatten(-2)

    def turned(self, vector: Tensor, place: int) -> Tensor:
        """Rotate one vector pair by pair, as a product of complex numbers."""
        numbers = []
        for i in range(0, self.head_dim, 2):
            angle = place * 10000 ** (-i / self.head_dim)
            a, b = vector[i], vector[i + 1]
            numbers.append(a * math.cos(angle) - b * math.sin(angle))
            numbers.append(a * math.sin(angle) + b * math.cos(angle))
        return torch.stack(numbers)


class ALiBiPosition(RelativePosition):
    """ALiBi: scores fall linearly with the distance, with a separate slope for each head.

    Press et al. 2022, "Train Short, Test Long" (arXiv:2108.12409), section 3: head h of H adds
    -m_h |i - j| with m_h = 2^(-8 h / H), h = 1..H, also if H is not a power of two. The paper is
    causal; in a bidirectional mixer, scores fall equally in both directions.
    """

    name = "alibi"

    def bias(self, distance: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the linear bias of each head, `[heads, *distance.shape]`."""
        head = torch.arange(1, self.heads + 1, device=distance.device, dtype=torch.float64)
        slopes = 2 ** (-8 * head / self.heads)
        slopes = slopes.to(dtype).reshape(-1, *[1] * distance.ndim)
        return -slopes * distance.abs()

    def added(self, head: int, distance: int) -> Tensor:
        """Return the linear bias of one head at one distance."""
        slope = 2.0 ** (-8 * (head + 1) / self.heads)
        return torch.tensor(-slope * abs(distance), dtype=torch.float64)


class T5Position(RelativePosition):
    """T5's bias: a learned number for each head and bucket of distances.

    Raffel et al. 2020, "Exploring the Limits of Transfer Learning" (arXiv:1910.10683), section
    2.1: there are 32 buckets; half of them hold one distance each, the rest grow logarithmically up
    to a distance of 128, and all larger distances share the last. Without a causal mask each
    direction has half of the buckets. Departures: the numbers are drawn from normal(0, 0.02); each
    layer has its own table, where the paper shares one between layers; scores keep their scale,
    which T5 omits.
    """

    name = "t5"
    num_buckets: ClassVar[int] = 32
    max_distance: ClassVar[int] = 128

    def __init__(self, *, heads: int, head_dim: int, is_causal: bool) -> None:
        super().__init__(heads=heads, head_dim=head_dim, is_causal=is_causal)
        self.table = nn.Parameter(torch.empty(self.num_buckets, heads))
        nn.init.normal_(self.table, std=0.02)

    def bias(self, distance: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the learned bias of each head, `[heads, *distance.shape]`."""
        return self.table[self.bucket(distance)].movedim(-1, 0).to(dtype)

    def bucket(self, distance: Tensor) -> Tensor:
        """Return the row of the table for each distance."""
        num = self.num_buckets if self.is_causal else self.num_buckets // 2
        later = 0 if self.is_causal else num * (distance > 0).long()
        # A causal query has no later key; masked later keys get the bucket of distance 0.
        far = -distance.clamp(max=0) if self.is_causal else distance.abs()
        exact = num // 2
        growth = torch.log(far.clamp(min=exact).double() / exact)
        grown = exact + (growth / math.log(self.max_distance / exact) * (num - exact)).long()
        return later + torch.where(far < exact, far, grown.clamp(max=num - 1))

    def added(self, head: int, distance: int) -> Tensor:
        """Return the bias at one distance, its bucket computed as the paper defines it."""
        num = self.num_buckets if self.is_causal else self.num_buckets // 2
        start = num if distance > 0 and not self.is_causal else 0
        far = abs(distance)
        if far >= num // 2:
            share = math.log(far / (num // 2)) / math.log(self.max_distance / (num // 2))
            far = min(num - 1, num // 2 + int(share * (num - num // 2)))
        return self.table[start + far, head]


class ShawPosition(RelativePosition):
    """Shaw's relative positions: a learned vector per distance, added to keys and to values.

    Shaw et al. 2018, "Self-Attention with Relative Position Representations" (arXiv:1803.02155),
    equations 3 and 4: e_ij = q_i (k_j + a^K_ij), z_i = sum_j alpha_ij (v_j + a^V_ij), where a_ij
    is one of 2 k + 1 vectors, for distances clipped to -k..k, k = 16, shared by the heads of a
    layer. The vectors are drawn from normal(0, 0.02).
    """

    name = "shaw"
    clip: ClassVar[int] = 16

    def __init__(self, *, heads: int, head_dim: int, is_causal: bool) -> None:
        super().__init__(heads=heads, head_dim=head_dim, is_causal=is_causal)
        self.keys = nn.Parameter(torch.empty(2 * self.clip + 1, head_dim))
        self.values = nn.Parameter(torch.empty(2 * self.clip + 1, head_dim))
        nn.init.normal_(self.keys, std=0.02)
        nn.init.normal_(self.values, std=0.02)

    def added_to_scores(self, queries: Tensor, distance: Tensor) -> Tensor:
        """Return q_i a^K_ij, `[batch, heads, time, time2]`.

        Each query is multiplied with each vector once; the products are then indexed by distance.
        """
        products = queries @ self.keys.T  # (batch, heads, time, 2 clip + 1)
        return products.gather(-1, self._rows(distance).expand(*products.shape[:2], -1, -1))

    def added_to_values(self, weights: Tensor, distance: Tensor) -> Tensor:
        """Return sum_j alpha_ij a^V_ij, `[batch, heads, time, head_dim]`.

        Weights are first summed per vector, since many distances share one.
        """
        rows = self._rows(distance).expand_as(weights)
        per_vector = weights.new_zeros(*weights.shape[:3], 2 * self.clip + 1)
        return per_vector.scatter_add(-1, rows, weights) @ self.values

    def _rows(self, distance: Tensor) -> Tensor:
        """Return the row of both tables for each distance."""
        return distance.clamp(-self.clip, self.clip) + self.clip

    def key(self, distance: int) -> Tensor:
        """Return the key vector of the clipped distance, `[head_dim]`."""
        return self.keys[max(-self.clip, min(self.clip, distance)) + self.clip]

    def value(self, distance: int) -> Tensor:
        """Return the value vector of the clipped distance, `[head_dim]`."""
        return self.values[max(-self.clip, min(self.clip, distance)) + self.clip]

    def flops(self, length: int) -> float:
        """Return the FLOPs of one sequence.

        They cover the products of queries with vectors, and the weighted sums of vectors.
        """
        return float(2 * 2 * length * self.heads * (2 * self.clip + 1) * self.head_dim)
