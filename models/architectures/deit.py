"""A vision transformer that learns from a teacher through a separate token and head.

Touvron et al. 2021, "Training data-efficient image transformers & distillation through attention"
(arXiv:2012.12877), section 4. A second learned token, with its own position, follows ViT's class
token; it passes through the same blocks, and a second head reads its output.
In training the heads return separate logits: the class head learns from the targets, the other
one, `auxiliary["distillation"]`, from the teacher. In evaluation the logits are the mean of both
heads. With `distillation_weight=0.5` hard distillation is equation 3: half of the cross-entropy of
the class head with the target, plus half of that of the other head with the teacher's argmax.
Without a teacher both heads learn the targets; this is the paper's control, a second class token,
which gains nothing (section 4). With `pooling="mean"` there are no tokens, and both heads read the
mean over the patches, as in LeViT (Graham et al. 2021, arXiv:2104.01136, section 4.2).
Cost: one token and one head more than ViT.
Departures: those of `vit`. The paper adds the softmaxes of both heads (section 4); its code, like
this one, takes the mean of the logits. Positions and inputs are drawn as in `vit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from bakeoff.models.architectures.vit import ViT
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import DISTILLATION, Outputs
from bakeoff.models.vision.patches import patches


def of_two_heads(own: Tensor, taught: Tensor, *, is_training: bool) -> Tensor | Outputs:
    """Return the output of a model with a head for the targets and one for a teacher.

    Args:
        own: Logits of the first head, `[batch, output_size]`.
        taught: Logits of the second head, `[batch, output_size]`.
        is_training: Whether to return the logits of each head, so that each has its own loss;
            otherwise the output is their mean.
    """
    return Outputs(own, {DISTILLATION: taught}) if is_training else (own + taught) / 2


class DeiT(ViT):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`, by two heads."""

    name = "deit"
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ViT.Config):
        """Knobs of a vision transformer; `pooling` applies to both heads, see the module."""

    @property
    def tokens_before(self) -> tuple[str, ...]:
        """Names of the learned tokens before the patches; the class token comes first."""
        before = super().tokens_before
        return (*before, "distillation_token") if before else ()

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        super().build(seeds)
        with seeds.part("distillation_head"):
            self.distillation_head: nn.Module = self.make_head(self.spec.dim)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Return `Outputs` with the logits of each head in training, else the mean logits."""
        assert mask is None, "an image has no padding"
        hidden = self.hidden(patches(inputs, self.config.patch))
        if self.config.pooling == "mean":
            own = taught = hidden.mean(dim=1)
        else:
            own, taught = hidden[:, 0], hidden[:, 1]
        heads = self.head(own), self.distillation_head(taught)
        return of_two_heads(*heads, is_training=self.training)

    def flops_of_head(self) -> float:
        """Return the FLOPs of both heads, which have the same size."""
        return 2 * super().flops_of_head()
