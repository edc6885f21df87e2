"""Encoders of an image: one vector for each position, to which other parts attend.

    vit    square patches, mapped linearly to dim, then the position and blocks of the stack
           (Dosovitskiy et al. 2020, arXiv:2010.11929, equation 1)
    cnn    the last map of a residual network (He et al. 2016, arXiv:1512.03385), each position
           mapped linearly to dim, then the position encoding, and blocks if configured

Both end in the norm of a stack. Without blocks over a map, the vector of a position depends only on
the receptive field of its convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import Input
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.stack import Trunk
from bakeoff.models.vision import residual_network
from bakeoff.models.vision.map_convolution import Grid
from bakeoff.models.vision.patches import of_patches, patches
from bakeoff.models.vision.residual_network import ResidualConfig, ResidualTrunk, check_residual


@dataclass(frozen=True, kw_only=True)
class ImageEncoderConfig:
    """Knobs of the encoder of an image that a model reads besides text.

    Attributes:
        encoder: `vit` or `cnn`; see the module's docstring.
        patch: Side of a patch of a `vit` in pixels; must divide the sides of the image.
        blocks: Number of blocks of each stage of a `cnn`, joined by hyphens.
        stem: Stem of a `cnn`: `7x7` makes the map a quarter as high and wide, `3x3` keeps its size.
        encoder_width: Channels of the first stage of a `cnn`.
        encoder_depth: Blocks of the stack over patches or map; by default (None) the model's depth
            for a `vit`, and 0 for a `cnn`.
    """

    encoder: Literal["vit", "cnn"] = "vit"
    patch: int = 8
    blocks: str = "1-1"
    stem: Literal["3x3", "7x7"] = "7x7"
    encoder_width: int = 16
    encoder_depth: int | None = None

    @property
    def residual_network(self) -> ResidualConfig:
        """The knobs of the residual network of a `cnn`."""
        return ResidualConfig(blocks=self.blocks, stem=self.stem)


_OF = {"vit": ("patch",), "cnn": ("blocks", "stem", "encoder_width")}


def check_image_encoder(config: ImageEncoderConfig, owner: str) -> None:
    """Raise for knobs that no encoder can have, and for those of the other kind.

    Raises:
        ModelError: A value is not allowed, as in ``captioner: patch=4 is of encoder='vit'``.
    """
    for key, least in {"patch": 1, "encoder_width": 1, "encoder_depth": 0}.items():
        value = getattr(config, key)
        if value is not None and value < least:
            raise ModelError(f"{owner}: {key}={value} is not at least {least}")
    for kind, keys in _OF.items():
        for key in keys if kind != config.encoder else ():
            if (value := getattr(config, key)) != getattr(ImageEncoderConfig, key):
                raise ModelError(f"{owner}: {key}={value!r} is of encoder={kind!r}")
    check_residual(config.residual_network, owner)


class ImageEncoder(nn.Module):
    """An encoder of `[batch, rows, columns, channels]` as `[batch, places, dim]`, row by row.

    Args:
        spec: Specification of the model: its width, depth, mixer and position.
        image: The input to read.
        config: Knobs of the stack and of the encoder.
        seeds: Random streams of the encoder.

    Attributes:
        grid: Rows and columns of the places.

    Raises:
        ModelError: The patches do not tile the image, or the stack raises.
    """

    def __init__(self, spec: ModelSpec, image: Input, config: Any, seeds: PartSeeds) -> None:
        super().__init__()
        assert image.grid is not None, "an image has rows and columns"
        self.cut: Any = None
        self.network: ResidualTrunk | None = None
        if config.encoder == "vit":
            of_image = replace(
                spec,
                input_kind="image",
                input_size=image.size,
                length=image.length,
                grid=image.grid,
            )
            read = of_patches(of_image, config.patch)
            self.cut, width, grid = partial(patches, side=config.patch), read.input_size, read.grid
        else:
            self.network = ResidualTrunk(
                image.size,
                config.encoder_width,
                image.grid,
                config.residual_network,
                seeds.within("network"),
                owner=spec.architecture,
            )
            width, grid = self.network.outputs, self.network.grid
        assert grid is not None, "patches lie on a grid"
        self.grid: Grid = grid
        with seeds.part("map"):
            self.map = nn.Linear(width, spec.dim)
        usual = spec.depth if config.encoder == "vit" else 0
        depth = usual if config.encoder_depth is None else config.encoder_depth
        stack = replace(spec, length=self.num_places, grid=grid, depth=depth, input_kind="vectors")
        self.trunk = Trunk(stack, config, seeds, is_causal=False)

    @property
    def num_places(self) -> int:
        """Number of vectors per image."""
        return self.grid[0] * self.grid[1]

    def forward(self, image: Tensor) -> Tensor:
        """Encode images `[batch, rows, columns, channels]` as `[batch, places, dim]`."""
        read = self.cut(image) if self.network is None else self.network.places(image)
        encoded: Tensor = self.trunk(self.map(read))
        return encoded

    def flops(self, batch: int = 1) -> float:
        """Return the FLOPs of the encoder; a convolution also multiplies the zeros of padding."""
        network = 0.0 if self.network is None else batch * self.network.flops()
        maps = 2.0 * batch * self.num_places * self.map.weight.numel()
        return network + maps + self.trunk.flops(self.num_places, batch)


def why_not_in_parts(config: ImageEncoderConfig, num_parts: int) -> str:
    """Return why a batch of images cannot be divided; see `Architecture.why_whole`."""
    return residual_network.why_not_in_parts(num_parts) if config.encoder == "cnn" else ""
