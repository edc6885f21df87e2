"""How does a sequence of vectors become one? The mean over its tokens, or a token of its own.

Of a class token, a learned vector that stands before the first token and goes through all blocks,
what has become of it is taken: Devlin et al. 2019, BERT (arXiv:1810.04805); Dosovitskiy et al.
2020, ViT (arXiv:2010.11929).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from models.mixer import without_padding

Pooling = Literal["mean", "class_token"]


class ClassToken(nn.Module):
    """A learned vector before the first token, drawn from normal(0, 0.02) as in BERT."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(dim))
        nn.init.normal_(self.vector, std=0.02)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """`[batch, time, dim]` and mask -> the same, one token longer; the first one is real."""
        first = self.vector.expand(x.shape[0], 1, -1).to(x.dtype)
        real = None if mask is None else torch.cat([mask.new_ones(x.shape[0], 1), mask], dim=1)
        return torch.cat([first, x], dim=1), real


def mean_of_real(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over real tokens, `[batch, time, dim]` -> `[batch, dim]`; over none it is 0."""
    if mask is None:
        return x.mean(dim=1)
    num_real = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return without_padding(x, mask).sum(dim=1) / num_real
