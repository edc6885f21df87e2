"""A tagger: tokens or vectors in, one row of logits per token out.

Embedding (tokens) or linear map (vectors) + position -> depth x block -> linear map of each token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import InputEmbedding
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import InputKind
from bakeoff.models.stack import Trunk


class Tagger(StackArchitecture):
    """Tokens `[batch, time]` or vectors `[batch, time, input_size]` -> logits of each token.

    The logits are `[batch, time, output_size]`; those at padded positions are meaningless.
    """

    name = "tagger"
    is_causal = False
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("tokens", "vectors")}
    answers = ("symbols",)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        with seeds.part("embedding"):
            self.embedding = InputEmbedding(self.spec)
        self.trunk = Trunk(self.spec, self.config, seeds, is_causal=self.is_causal)
        with seeds.part("head"):
            self.head = nn.Linear(self.spec.dim, self.spec.output_size)
            scaled_normal(self.head)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, time, output_size]`."""
        logits: Tensor = self.head(self.trunk(self.embedding(inputs, mask), mask))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of the inputs' linear map, the blocks and the head."""
        head = batch * length * 2 * self.spec.dim * self.spec.output_size
        return self.embedding.flops(length, batch) + self.trunk.flops(length, batch) + head
