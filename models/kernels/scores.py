"""The score functions of softmax attention: dot, general, additive and cosine.

    name       score of query q and key k       source
    dot        q . k                            Luong 2015; scaled by 1/sqrt(d), Vaswani 2017
    general    q . W k                          Luong et al. 2015, equation 8 (arXiv:1508.04025)
    additive   v . tanh(q + k)                  Bahdanau et al. 2015, A.1.2 (arXiv:1409.0473)
    cosine     q . k / (|q| |k|)                Graves et al. 2014, equation 6 (arXiv:1410.5401)

All except the additive one are products of a transformed query and a transformed key, so fused
kernels can compute them. The matrices of Bahdanau's W q + U k are the projections of queries and
keys.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class Score(nn.Module):
    """The dot product; see the module's table.

    Attributes:
        is_product: Whether the score is the product of what `prepare` returns.
    """

    is_product: ClassVar[bool] = True

    def __init__(self, *, heads: int, key_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.key_dim = key_dim

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Transform queries and keys, `[batch, heads, time, key_dim]`, before their product."""
        return queries, keys

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compute unscaled scores `[batch, heads, time, time2]` of prepared queries and keys."""
        return queries @ keys.transpose(-1, -2)

    def reference_query(self, head: int, query: Tensor) -> Tensor:
        """Return the vector, of one head's query `[key_dim]`, that a relative position rotates."""
        return query

    def reference(self, head: int, query: Tensor, keys: Tensor) -> Tensor:
        """Compute by formula, for one head: query `[key_dim]`, keys `[time2, key_dim]`."""
        return keys @ query

    def flops(self, time: int, time2: int) -> float:
        """Return the FLOPs of one sequence: a product per query, key and head."""
        return float(2 * time * time2 * self.heads * self.key_dim)


class GeneralScore(Score):
    """A bilinear form, with a matrix for each head drawn by Xavier's rule."""

    def __init__(self, *, heads: int, key_dim: int) -> None:
        super().__init__(heads=heads, key_dim=key_dim)
        self.matrix = nn.Parameter(torch.empty(heads, key_dim, key_dim))
        for matrix in self.matrix.data:
            nn.init.xavier_uniform_(matrix)

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply the queries by the matrices of their heads."""
        return queries @ self.matrix, keys

    def reference_query(self, head: int, query: Tensor) -> Tensor:
        """Compute W^T q, so that q . W k is its product with k."""
        return torch.stack([column.dot(query) for column in self.matrix[head].T])

    def flops(self, time: int, time2: int) -> float:
        """Return the FLOPs of one sequence, with a matrix product per query and head."""
        return super().flops(time, time2) + 2 * time * self.heads * self.key_dim**2


class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Divide queries and keys by their lengths; a zero vector stays zero."""
        # The usual least length, 1e-12, is 0 in float16, and 0 / 0 is NaN.
        least = max(1e-12, torch.finfo(queries.dtype).tiny)
        return (
            functional.normalize(queries, dim=-1, eps=least),
            functional.normalize(keys, dim=-1, eps=least),
        )

    def reference(self, head: int, query: Tensor, keys: Tensor) -> Tensor:
        """Compute by formula, for one head: query `[key_dim]`, keys `[time2, key_dim]`."""
        lengths: Tensor = torch.linalg.vector_norm(keys, dim=1) * torch.linalg.vector_norm(query)
        return keys @ query / lengths.clamp(min=1e-24)


class AdditiveScore(Score):
    """A small network with one hidden layer; `[time, time2, key_dim]` numbers per head."""

    is_product = False

    def __init__(self, *, heads: int, key_dim: int) -> None:
        super().__init__(heads=heads, key_dim=key_dim)
        self.vector = nn.Parameter(torch.empty(heads, key_dim, 1))
        # This gives scores of unit variance while tanh is nearly linear.
        nn.init.normal_(self.vector, std=key_dim**-0.5)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compute unscaled scores `[batch, heads, time, time2]`."""
        hidden = torch.tanh(queries.unsqueeze(3) + keys.unsqueeze(2))  # (b, h, t, t2, key_dim)
        scores: Tensor = (hidden @ self.vector.unsqueeze(1)).squeeze(-1)
        return scores

    def reference(self, head: int, query: Tensor, keys: Tensor) -> Tensor:
        """Compute by formula, for one head: query `[key_dim]`, keys `[time2, key_dim]`."""
        vector: Tensor = self.vector[head].flatten()
        return torch.tanh(query + keys) @ vector


SCORES: dict[str, type[Score]] = {
    "dot": Score,
    "general": GeneralScore,
    "additive": AdditiveScore,
    "cosine": CosineScore,
}
