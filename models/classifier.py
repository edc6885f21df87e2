"""A classifier of sequences: tokens or vectors in, one row of logits per sequence out.

Embedding (tokens) or linear map (vectors) + position -> depth x block -> one vector for the whole
sequence (`models.pooling`) -> linear map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from models.initialisation import scaled_normal
from models.layers import InputEmbedding, Trunk
from models.pooling import ClassToken, Pooling, mean_of_real
from models.seeding import PartSeeds
from models.skeleton import Skeleton


class Classifier(Skeleton):
    """Tokens `[batch, time]` or vectors `[batch, time, input_size]` -> `[batch, output_size]`."""

    name = "classifier"
    is_causal = False
    input_kinds = ("tokens", "vectors")
    config: Config
    vectors_of_head = 1  # that the head reads, of width dim

    @dataclass(frozen=True, kw_only=True)
    class Config(Skeleton.Config):
        """Knobs of a classifier, besides those of every skeleton.

        Attributes:
            pooling: How the sequence becomes one vector: the `mean` over its tokens, or what
                becomes of a learned `class_token` before the first one. Positions and mixers are
                then built for one token more.
        """

        pooling: Pooling = "mean"

    def build(self, seeds: PartSeeds) -> None:
        """See `Skeleton.build`."""
        spec, has_class_token = self.spec, self.config.pooling == "class_token"
        with seeds.part("embedding"):
            self.embedding = InputEmbedding(spec)
        if has_class_token:
            with seeds.part("class_token"):
                self.class_token = ClassToken(spec.dim)
        self.num_extra = int(has_class_token)
        longer = replace(spec, length=spec.length + self.num_extra)
        self.trunk = Trunk(longer, self.config, seeds, is_causal=self.is_causal)
        with seeds.part("head"):
            self.head = nn.Linear(self.vectors_of_head * spec.dim, spec.output_size)
            scaled_normal(self.head)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Skeleton.forward`; `[batch, output_size]`."""
        logits: Tensor = self.head(self.encode(inputs, mask))
        return logits

    def encode(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector a sequence, `[batch, dim]`."""
        x = self.embedding(inputs, mask)
        if self.config.pooling == "mean":
            return mean_of_real(self.trunk(x, mask), mask)
        hidden: Tensor = self.trunk(*self.class_token(x, mask))
        return hidden[:, 0]

    def flops(self, length: int, batch: int = 1) -> float:
        """Linear map of the inputs, blocks and head."""
        return self.flops_of_encoding(length, batch) + batch * 2 * self.head.weight.numel()

    def flops_of_encoding(self, length: int, batch: int) -> float:
        """Without the head."""
        trunk = self.trunk.flops(length + self.num_extra, batch)
        return self.embedding.flops(length, batch) + trunk
