"""A classifier of sequences: tokens or vectors in, one row of logits per sequence out.

Embedding (tokens) or linear map (vectors) + position -> depth x block -> one vector for the whole
sequence -> linear map. That vector is the mean over the tokens, or the output of a class token: a
learned vector that precedes the first token and passes through all blocks (Devlin et al. 2019,
BERT, arXiv:1810.04805; Dosovitskiy et al. 2020, ViT, arXiv:2010.11929).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import InputEmbedding
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import Answer, InputKind
from bakeoff.models.mixer import without_padding
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.stack import Trunk

Pooling = Literal["mean", "class_token"]


class ClassToken(nn.Module):
    """A learned vector before the first token, drawn from normal(0, 0.02) as in BERT."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(dim))
        nn.init.normal_(self.vector, std=0.02)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Prepend the vector to `[batch, time, dim]`, and True to the mask."""
        first = self.vector.expand(x.shape[0], 1, -1).to(x.dtype)
        real = None if mask is None else torch.cat([mask.new_ones(x.shape[0], 1), mask], dim=1)
        return torch.cat([first, x], dim=1), real


def mean_of_real(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean over real tokens, `[batch, dim]`; it is 0 if there are none."""
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
    vectors_of_head = 1  # number of vectors of width dim that the head reads

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of a classifier, in addition to those of every stack.

        Attributes:
            pooling: Reduction of the sequence to one vector: the `mean` over its tokens, or the
                output of a learned `class_token` before the first one. Positions and mixers are
                then built for one more token.
        """

        pooling: Pooling = "mean"

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
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
        """Names of the learned tokens before the first one, from left to right."""
        return ("class_token",) if self.config.pooling == "class_token" else ()

    def make_head(self, num_features: int) -> nn.Module:
        """Return a new map from features `[batch, num_features]` to logits."""
        head = nn.Linear(num_features, self.spec.output_size)
        scaled_normal(head)
        return head

    def build_trunk(self, spec: ModelSpec, seeds: PartSeeds) -> Any:
        """Return the layers between embedding and head; `spec` counts the learned tokens."""
        return Trunk(spec, self.config, seeds, is_causal=self.is_causal)

    def of_tokens(self) -> ModelSpec:
        """Return the spec of the embedding's input, by default the model's own spec."""
        return self.spec

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, output_size]`."""
        logits: Tensor = self.head(self.encode(inputs, mask))
        return logits

    def encode(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return one vector per sequence, `[batch, dim]`."""
        hidden = self.hidden(inputs, mask)
        return mean_of_real(hidden, mask) if self.config.pooling == "mean" else hidden[:, 0]

    def hidden(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the trunk's output `[batch, time, dim]`, the learned tokens included."""
        x = self.embedding(inputs, mask)
        for name in reversed(self.tokens_before):
            x, mask = self.get_submodule(name)(x, mask)
        hidden: Tensor = self.trunk(x, mask)
        return hidden

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of the inputs' linear map, the blocks and the head."""
        return self.flops_of_encoding(length, batch) + batch * self.flops_of_head()

    def flops_of_head(self) -> float:
        """Return the FLOPs of the head's linear maps for one row of logits."""
        maps = (part.weight for part in self.head.modules() if isinstance(part, nn.Linear))
        return float(sum(2 * weight.numel() for weight in maps))

    def flops_of_encoding(self, length: int, batch: int) -> float:
        """Return the FLOPs without the head."""
        trunk: float = self.trunk.flops(length + self.num_extra, batch)
        return self.embedding.flops(length, batch) + trunk
