"""A vision transformer: an image in, one row of logits out.

Dosovitskiy et al. 2020, "An image is worth 16 x 16 words" (arXiv:2010.11929), equations 1 to 4: the
image is cut into square patches, each mapped linearly to dim; a class token precedes them, and the
head reads its output after depth blocks and a norm.
Departures: the blocks take any mixer; there is no dropout by default; inputs are drawn as in
`classifier`. Positions are those of the spec; the paper's are `learned`, its projections of
queries, keys and values have biases (`bias=True`), and its patches are 16 pixels wide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bakeoff.models.architectures.classifier import Classifier, Pooling
from bakeoff.models.errors import ModelError
from bakeoff.models.interface import InputKind
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.vision.patches import of_patches, patches


class ViT(Classifier):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`."""

    name = "vit"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("image",)}
    answers = ("class",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(Classifier.Config):
        """Knobs of a vision transformer, in addition to those of every stack.

        Attributes:
            pooling: See `Classifier.Config`; the paper has the `class_token`.
            patch: Side of a patch in pixels; must divide the sides of the image.
        """

        pooling: Pooling = "class_token"
        patch: int = 4

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        if config.patch < 1:
            raise ModelError(f"{cls.name}: patch={config.patch} is not at least 1")

    def of_tokens(self) -> ModelSpec:
        """Return the spec of the layers that read the patches."""
        return of_patches(self.spec, self.config.patch)

    def patch_grid(self) -> tuple[int, int] | None:
        """Return the rows and columns of the grid of patches."""
        return self.of_tokens().grid

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, output_size]`; `mask` must be None."""
        assert mask is None, "an image has no padding"
        return super().forward(patches(inputs, self.config.patch))

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of a classifier of patches; the number of pixels `length` is ignored."""
        return super().flops(self.of_tokens().length, batch)
