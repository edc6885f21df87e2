"""A causal language model: tokens in, logits of the next token out.

Embedding + position -> depth x pre-norm block -> norm -> logits. The output matrix is the
embedding (Press and Wolf 2017, arXiv:1608.05859), without bias.
"""

from __future__ import annotations

from torch import Tensor, nn

from models.errors import ModelError
from models.layers import TokenEmbedding, Trunk
from models.model_spec import ModelSpec
from models.seeding import PartSeeds
from models.skeleton import Skeleton


class LanguageModel(Skeleton):
    """Tokens `[batch, time]` -> logits `[batch, time, output_size]`."""

    name = "language_model"
    is_causal = True
    input_kinds = ("tokens",)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        if spec.output_size != spec.input_size:
            raise ModelError(
                f"{self.name} ties its output to its embedding: output_size={spec.output_size} "
                f"must equal input_size={spec.input_size}"
            )
        seeds = PartSeeds()
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        self.trunk = Trunk(spec, seeds, is_causal=self.is_causal)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Skeleton.forward`; `[batch, time, output_size]`."""
        tokens = inputs if mask is None else inputs.masked_fill(~mask, 0)
        hidden = self.trunk(self.embedding(tokens), mask)
        return nn.functional.linear(hidden, self.embedding.table.weight)

    def flops(self, length: int, batch: int = 1) -> float:
        """Blocks and output matrix."""
        head = batch * length * 2 * self.spec.dim * self.spec.output_size
        return self.trunk.flops(length, batch) + head
