"""A classifier of sequences: tokens or vectors in, one row of logits per sequence out.

Embedding (tokens) or linear map (vectors) + position -> depth x pre-norm block -> norm -> mean
over real tokens -> linear map.
"""

from __future__ import annotations

from torch import Tensor, nn

from models.layers import TokenEmbedding, Trunk, initialise
from models.mixer import without_padding
from models.model_spec import ModelSpec
from models.seeding import PartSeeds
from models.skeleton import Skeleton


class Classifier(Skeleton):
    """Tokens `[batch, time]` or vectors `[batch, time, input_size]` -> `[batch, output_size]`."""

    name = "classifier"
    is_causal = False
    input_kinds = ("tokens", "vectors")

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        seeds = PartSeeds()
        with seeds.part("embedding"):
            self.embedding = (
                TokenEmbedding(spec.input_size, spec.dim)
                if spec.input_kind == "tokens"
                # torch's own initialisation: outputs of about the size of the inputs.
                else nn.Linear(spec.input_size, spec.dim)
            )
        self.trunk = Trunk(spec, seeds, is_causal=self.is_causal)
        with seeds.part("head"):
            self.head = nn.Linear(spec.dim, spec.output_size)
            initialise(self.head)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Skeleton.forward`; `[batch, output_size]`. The mean over no token is 0."""
        if mask is None:
            logits: Tensor = self.head(self.trunk(self.embedding(inputs)).mean(dim=1))
            return logits
        is_pad = ~mask if inputs.ndim == 2 else ~mask.unsqueeze(-1)
        # Zeroed before anything is computed: NaN would reach the gradients of the weights.
        hidden = self.trunk(self.embedding(inputs.masked_fill(is_pad, 0)), mask)
        num_real = mask.sum(dim=1, keepdim=True).clamp(min=1)
        pooled: Tensor = self.head(without_padding(hidden, mask).sum(dim=1) / num_real)
        return pooled

    def flops(self, length: int, batch: int = 1) -> float:
        """Linear map of the inputs, blocks and head."""
        reads_vectors = self.spec.input_kind == "vectors"
        embedding = length * 2 * self.spec.input_size * self.spec.dim if reads_vectors else 0
        head = 2 * self.spec.dim * self.spec.output_size
        return self.trunk.flops(length, batch) + batch * (embedding + head)
