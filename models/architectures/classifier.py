"""A classifier of sequences: tokens or vectors in, one row of logits per sequence out.

Embedding (tokens) or linear map (vectors) + position -> depth x block -> one vector for the whole
sequence -> linear map. That vector is the mean over the tokens, or what has become of a class
token: a learned vector that stands before the first token and goes through all blocks (Devlin et
al. 2019, BERT, arXiv:1810.04805; Dosovitskiy et al. 2020, ViT, arXiv:2010.11929).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from models.architecture import StackArchitecture
from models.embedding import InputEmbedding
from models.initialisation import PartSeeds, scaled_normal
from models.interface import Answer, InputKind
from models.mixer import without_padding
from models.model_spec import ModelSpec
from models.stack import Trunk

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


class Classifier(StackArchitecture):
    """Tokens `[batch, time]` or vectors `[batch, time, input_size]` -> `[batch, output_size]`."""

    name = "classifier"
    is_causal = False
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("tokens", "vectors")}
    answers: ClassVar[tuple[Answer, ...]] = ("class", "number")
    config: Config
    vectors_of_head = 1  # that the head reads, of width dim

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of a classifier, besides those of every stack.

        Attributes:
            pooling: How the sequence becomes one vector: the `mean` over its tokens, or what
                becomes of a learned `class_token` before the first one. Positions and mixers are
                then built for one token more.
        """

        pooling: Pooling = "mean"

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
        spec = self.of_tokens()
        with seeds.part("embedding"):
            self.embedding = InputEmbedding(spec)
        for name in self.tokens_before:
            with seeds.part(name):
                self.add_module(name, ClassToken(spec.dim))
        self.num_extra = len(self.tokens_before)
        longer = replace(spec, length=spec.length + self.num_extra)
        self.trunk = self.build_trunk(longer, seeds)
        with seeds.part("head"):
            self.head: nn.Module = self.make_head(self.vectors_of_head * spec.dim)

    @property
    def tokens_before(self) -> tuple[str, ...]:
        """Names of the learned tokens before the first one, from the left to the right."""
        return ("class_token",) if self.config.pooling == "class_token" else ()

    def make_head(self, num_features: int) -> nn.Module:
        """What turns features `[batch, num_features]` into logits; draws its parameters."""
        head = nn.Linear(num_features, self.spec.output_size)
        scaled_normal(head)
        return head

    def build_trunk(self, spec: ModelSpec, seeds: PartSeeds) -> Any:
        """All between embedding and head, with `flops`; `spec` counts what stands before tokens."""
        return Trunk(spec, self.config, seeds, is_causal=self.is_causal)

    def of_tokens(self) -> ModelSpec:
        """What the embedding reads, where that is not what the model reads."""
        return self.spec

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Architecture.forward`; `[batch, output_size]`."""
        logits: Tensor = self.head(self.encode(inputs, mask))
        return logits

    def encode(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector a sequence, `[batch, dim]`."""
        hidden = self.hidden(inputs, mask)
        return mean_of_real(hidden, mask) if self.config.pooling == "mean" else hidden[:, 0]

    def hidden(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """What becomes of all tokens, of those before the first one too, `[batch, time, dim]`."""
        x = self.embedding(inputs, mask)
        for name in reversed(self.tokens_before):
            x, mask = self.get_submodule(name)(x, mask)
        hidden: Tensor = self.trunk(x, mask)
        return hidden

    def flops(self, length: int, batch: int = 1) -> float:
        """Linear map of the inputs, blocks and head."""
        return self.flops_of_encoding(length, batch) + batch * self.flops_of_head()

    def flops_of_head(self) -> float:
        """Its linear maps, for one row of logits."""
        maps = (part.weight for part in self.head.modules() if isinstance(part, nn.Linear))
        return float(sum(2 * weight.numel() for weight in maps))

    def flops_of_encoding(self, length: int, batch: int) -> float:
        """Without the head."""
        trunk: float = self.trunk.flops(length + self.num_extra, batch)
        return self.embedding.flops(length, batch) + trunk
