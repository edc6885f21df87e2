"""A residual network of convolutions, with optional attention: an image in, one row of logits out.

Paper: He et al. 2016, "Deep residual learning for image recognition" (arXiv:1512.03385, section 3.3
    and Figure 5): x' = relu(shortcut(x) + F(x)), where F is two 3 x 3 convolutions, each with batch
    norm, or 1 x 1, 3 x 3 and 1 x 1, of which the last is four times as wide (a bottleneck). Each
    stage of such blocks after the first doubles the width and halves the sides of the map. The
    shortcut of a block that changes the shape is a 1 x 1 convolution with batch norm. The head
    reads the mean of the last map.
Attention to channels is in each block, attention between positions in the blocks of some stages;
    see `bakeoff.models.vision.channel_attention` and `bakeoff.models.vision.map_attention`.
Cost: k^2 n d^2 for a k x k convolution from d to d channels at n positions. From stage to stage n
    falls to a quarter and d doubles, so that all blocks have about the same cost.
Departures: in a bottleneck the 3 x 3 convolution has the stride, not the first 1 x 1, as in all
    public code since (Goyal et al. 2017, arXiv:1706.02677, section 5.1). The head is initialised as
    in `classifier`. A 3 x 3 stem, which keeps the size of the image, is the paper's own for CIFAR
    (section 4.2), whose networks have three stages, and shortcuts without parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from bakeoff.models.architecture import Architecture, Part
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import Answer, InputKind
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.vision.residual_network import (
    ResidualConfig,
    ResidualTrunk,
    check_residual,
    why_not_in_parts,
)


class ResNet(Architecture):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`.

    The model's width ``dim`` is that of the first stage.
    """

    name = "resnet"
    takes: ClassVar[tuple[Part, ...]] = ("dim",)
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("image",)}
    answers: ClassVar[tuple[Answer, ...]] = ("class",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ResidualConfig):
        """Knobs of a residual network."""

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        check_residual(config, owner=cls.name)

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided; empty if it can."""
        return why_not_in_parts(num_parts)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        if spec.grid is None:
            raise ModelError(f"{self.name} needs the rows and columns of an image")
        self.trunk = ResidualTrunk(
            spec.input_size, spec.dim, spec.grid, self.config, seeds, owner=self.name
        )
        with seeds.part("head"):
            self.head = nn.Linear(self.trunk.outputs, spec.output_size)
            scaled_normal(self.head)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, output_size]`; `mask` must be None."""
        assert mask is None, "an image has no padding"
        logits: Tensor = self.head(self.trunk(inputs).mean(dim=(2, 3)))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of convolutions, attention and head; `length` is ignored."""
        return batch * (self.trunk.flops() + 2.0 * self.head.weight.numel())
