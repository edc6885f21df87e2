"""A vision transformer for large depths: LayerScale, and a class token that is inserted late.

Touvron et al. 2021, "Going deeper with Image Transformers" (arXiv:2103.17239). Only patches pass
through `depth` blocks, where each sub-layer's output is multiplied by a learned factor per channel
(`layer_scale`, section 2). A class token without a position then reads them in `class_depth` blocks
of class attention (section 3, `bakeoff.models.vision.class_attention`), and is the head's only
input.
Mixer: any; the paper's is `talking_heads` with biases. Stochastic depth is the same in all blocks
of patches, and there is none in those of the class token (the authors' code).
Start of LayerScale: 0.1 up to a depth of 18, 1e-5 up to 24, then 1e-6; in the authors' code 1e-5
for XXS-36 too.
Cost: that of a ViT without its class token; a block of class attention is linear in the patches.
Departures: the default depth, width and patches are this project's, and inputs are drawn as in
`classifier`. Knobs of the stack, such as the placement of norms, apply to the class token's blocks
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from bakeoff.models.architectures.vit import ViT
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.vision.class_attention import ClassBlocks, ClassTrunk


class CaiT(ViT):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`."""

    name = "cait"
    config: Config
    has_class_bias: ClassVar[bool] = True  # biases of class attention's queries, keys and values

    @dataclass(frozen=True, kw_only=True)
    class Config(ViT.Config):
        """Knobs of CaiT, in addition to those of a vision transformer.

        Attributes:
            class_depth: Number of blocks of class attention after those of the patches; with 0 the
                class token passes through all blocks, with a position, as in `vit`.
            class_heads: Number of heads of class attention; must divide dim.
            layer_scale: See `StackConfig`; the default is the paper's up to a depth of 18.
            stochastic_depth_rule: See `StackConfig`; the default is the paper's.
            norm_eps: See `StackConfig`; the default is the paper's.
        """

        class_depth: int = 2
        class_heads: int = 4
        layer_scale: float | None = 0.1
        stochastic_depth_rule: Literal["linear", "constant"] = "constant"
        norm_eps: float = 1e-6

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        for key, least in {"class_depth": 0, "class_heads": 1}.items():
            if getattr(config, key) < least:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below {least}")
        if config.class_depth and config.pooling == "mean":
            raise ModelError(
                f"{cls.name}: pooling='mean' has no class token, which class_depth="
                f"{config.class_depth} is for; give class_depth=0"
            )

    def build_trunk(self, spec: ModelSpec, seeds: PartSeeds) -> Any:
        """Return the blocks of the patches and of the class token."""
        config = self.config
        if config.class_depth == 0:
            return super().build_trunk(spec, seeds)
        blocks = ClassBlocks(
            depth=config.class_depth, heads=config.class_heads, bias=self.has_class_bias
        )
        return ClassTrunk(spec, config, seeds, blocks)
