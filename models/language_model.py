"""A causal language model: tokens in, logits of the next token out.

Embedding + position -> depth x block -> logits. The output matrix is the embedding (Press and
Wolf 2017, arXiv:1608.05859), or one of its own; it has no bias.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from models.errors import ModelError
from models.initialisation import scaled_normal
from models.layers import TokenEmbedding, Trunk
from models.seeding import PartSeeds
from models.skeleton import Skeleton


class LanguageModel(Skeleton):
    """Tokens `[batch, time]` -> logits `[batch, time, output_size]`."""

    name = "language_model"
    is_causal = True
    input_kinds = ("tokens",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(Skeleton.Config):
        """Knobs of a language model, besides those of every skeleton.

        Attributes:
            is_tied: Whether the output matrix is the embedding; else it is a matrix of its own,
                drawn alike, from normal(0, 1 / dim).
        """

        is_tied: bool = True

    def build(self, seeds: PartSeeds) -> None:
        """See `Skeleton.build`."""
        spec = self.spec
        if self.config.is_tied:
            self.check_tie()
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        self.trunk = Trunk(spec, self.config, seeds, is_causal=self.is_causal)
        if not self.config.is_tied:
            with seeds.part("head"):
                self.head = nn.Linear(spec.dim, spec.output_size, bias=False)
                scaled_normal(self.head)

    def check_tie(self) -> None:
        """Refuse sizes at which embedding and output matrix cannot be one.

        Raises:
            ModelError: what can be predicted is not what can be read.
        """
        inputs, outputs = self.spec.input_size, self.spec.output_size
        if outputs != inputs:
            raise ModelError(
                f"{self.name} ties its output to its embedding: output_size={outputs} must equal "
                f"input_size={inputs} (or is_tied=False)"
            )

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Skeleton.forward`; `[batch, time, output_size]`."""
        tokens = inputs if mask is None else inputs.masked_fill(~mask, 0)
        hidden = self.trunk(self.embedding(tokens), mask)
        if not self.config.is_tied:
            logits: Tensor = self.head(hidden)
            return logits
        return nn.functional.linear(hidden, self.embedding.table.weight[: self.spec.output_size])

    def flops(self, length: int, batch: int = 1) -> float:
        """Blocks and output matrix."""
        head = batch * length * 2 * self.spec.dim * self.spec.output_size
        return self.trunk.flops(length, batch) + head
