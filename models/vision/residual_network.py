"""The blocks of a residual network, and the trunk from the image to the last map.

Paper: He et al. 2016, "Deep residual learning for image recognition" (arXiv:1512.03385), section
3.3; see `bakeoff.models.architectures.resnet`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.model_spec import whole_numbers
from bakeoff.models.vision.channel_attention import (
    ChannelAttentionConfig,
    build_channel_attention,
    check_channel_attention,
)
from bakeoff.models.vision.map_attention import (
    AugmentedConvolution,
    GlobalMapAttention,
    LocalMapAttention,
    MapAttentionConfig,
    NonLocal,
    check_map_attention,
)
from bakeoff.models.vision.map_convolution import Grid, MapConvolution, strided

_ATTENTIONS = {
    "augmented": AugmentedConvolution,
    "stand_alone": LocalMapAttention,
    "botnet": GlobalMapAttention,
}


@dataclass(frozen=True, kw_only=True)
class ResidualConfig(ChannelAttentionConfig, MapAttentionConfig):
    """Knobs of a residual network, besides those of its attention.

    Attributes:
        blocks: Number of blocks of each stage, joined by hyphens.
        block: `basic`, two 3 x 3 convolutions, or `bottleneck`; see
            `bakeoff.models.architectures.resnet`.
        stem: `7x7`, a convolution with a stride of 2 and pooling with another; or `3x3`, without
            either, for small images.
        zero_init_residual: Whether the gain of the last norm of each block starts at 0, so that
            blocks start as their shortcuts (Goyal et al. 2017, arXiv:1706.02677, section 5.1).
    """

    blocks: str = "2-2-2-2"
    block: Literal["basic", "bottleneck"] = "basic"
    stem: Literal["3x3", "7x7"] = "3x3"
    zero_init_residual: bool = False


def check_residual(config: ResidualConfig, owner: str) -> None:
    """Raise for knobs that no residual network can have.

    Raises:
        ModelError: A value is not allowed, as in ``resnet: ratio=0 is not at least 1``.
    """
    check_channel_attention(config, owner=owner)
    check_map_attention(config, owner=owner)
    num_stages = len(whole_numbers(config, "blocks", owner))
    for kind in ("attention", "channel_attention"):
        key = f"{kind}_stages"
        if (text := getattr(config, key)) is None:
            continue
        last = max(whole_numbers(config, key, owner))
        if getattr(config, kind) != "none" and last > num_stages:
            raise ModelError(
                f"{owner}: {key}={text!r} names a stage beyond the {num_stages} of "
                f"blocks={config.blocks!r}"
            )


def why_not_in_parts(num_parts: int) -> str:
    """Return why a batch of images cannot be divided; see `Architecture.why_whole`."""
    if num_parts > 1:
        return f"its batch norms are over a whole batch, which would be cut into {num_parts}"
    return ""


class ResidualTrunk(nn.Module):
    """Stem and stages, from an image to the last map.

    Args:
        channels: Channels of the image.
        width: Channels of the first stage.
        grid: Rows and columns of the image.
        config: Knobs of the network.
        seeds: Random streams of the model.
        owner: Name of the model, for errors.

    Attributes:
        outputs: Channels of the last map.
        grid: Rows and columns of the last map.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        grid: Grid,
        config: ResidualConfig,
        seeds: PartSeeds,
        owner: str,
    ) -> None:
        super().__init__()
        self.config, self.owner, self.image_grid = config, owner, grid
        with seeds.part("stem"):
            self.stem = Stem(channels, width, config.stem)
        self.layers = nn.ModuleList()
        self.outputs, self.grid = width, strided(grid, self.stem.stride)
        for stage, num_blocks in enumerate(whole_numbers(config, "blocks", owner), start=1):
            for number in range(num_blocks):
                place = BlockPlace(
                    stage=stage,
                    inputs=self.outputs,
                    width=width * 2 ** (stage - 1),
                    grid=self.grid,
                    stride=2 if stage > 1 and number == 0 else 1,
                    is_last=number == num_blocks - 1,
                )
                self._add(place, seeds.within(f"stages.{stage - 1}.{number}"))
                self.outputs = _any(self.layers[-1]).outputs
                self.grid = strided(self.grid, place.stride)

    def _add(self, place: BlockPlace, seeds: PartSeeds) -> None:
        """Append a block, and a non-local one before it if configured."""
        attends = place.stage in whole_numbers(self.config, "attention_stages", self.owner)
        attention = self.config.attention if attends else "none"
        if attention == "non_local" and place.is_last:
            with seeds.part("non_local"):
                self.layers.append(NonLocal(place.inputs))
        try:
            self.layers.append(ResidualBlock(place, self.config, _ATTENTIONS.get(attention), seeds))
        except ModelError as error:
            raise ModelError(f"{self.owner}: {error} (stage {place.stage})") from None

    def forward(self, image: Tensor) -> Tensor:
        """Map `[batch, rows, columns, channels]` to `[batch, outputs, *grid]`."""
        # The image must be contiguous: without AVX-512, oneDNN 3.12 writes beyond its memory in the
        # backward pass of a 1 x 1 convolution with a stride, if fewer than eight channels are last.
        x: Tensor = self.stem(image.permute(0, 3, 1, 2).contiguous())
        for layer in self.layers:
            x = layer(x)
        return x

    def places(self, image: Tensor) -> Tensor:
        """Return the last map as `[batch, places, outputs]`, row by row."""
        found: Tensor = self(image).flatten(2).transpose(1, 2)
        return found

    def flops(self) -> float:
        """Return the FLOPs of convolutions and attention for one image."""
        grid, total = self.image_grid, 0.0
        for each in (self.stem, *self.layers):
            layer = _any(each)
            total += layer.flops(grid)
            grid = strided(grid, layer.stride)
        return total


class Stem(nn.Module):
    """The first layers, which make the first map from an image."""

    def __init__(self, inputs: int, outputs: int, kind: Literal["3x3", "7x7"]) -> None:
        super().__init__()
        self.has_pooling = kind == "7x7"
        self.stride = 4 if self.has_pooling else 1
        side, stride = (7, 2) if self.has_pooling else (3, 1)
        self.conv = MapConvolution(inputs, outputs, side, stride=stride)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, inputs, rows, columns]` to `[batch, outputs, rows / stride, ...]`."""
        x = self.norm(self.conv(x)).relu()
        return functional.max_pool2d(x, 3, stride=2, padding=1) if self.has_pooling else x

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of the convolution."""
        return self.conv.flops(grid)


@dataclass(frozen=True, kw_only=True)
class BlockPlace:
    """The place of a block in the network.

    Attributes:
        stage: Number of its stage, counted from 1.
        inputs: Channels of its input.
        width: Channels of its 3 x 3 convolutions.
        grid: Rows and columns of its input.
        stride: Factor by which it reduces the map.
        is_last: Whether it is the last one of its stage.
    """

    stage: int
    inputs: int
    width: int
    grid: Grid
    stride: int
    is_last: bool


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + F(x)) of `[batch, inputs, rows, columns]`; F is the branch."""

    def __init__(
        self, place: BlockPlace, config: ResidualConfig, attention: Any, seeds: PartSeeds
    ) -> None:
        super().__init__()
        self.stride, self.place = place.stride, config.channel_attention_place
        is_bottleneck = config.block == "bottleneck"
        self.outputs = place.width * (4 if is_bottleneck else 1)
        widths = [place.inputs, *[place.width] * (1 + is_bottleneck), self.outputs]
        self.convs = nn.ModuleList()
        for number, (reads, writes) in enumerate(itertools.pairwise(widths)):
            with seeds.part(f"conv{number + 1}"):
                if number == int(is_bottleneck):  # the first 3 x 3
                    self.convs.append(_spatial(reads, writes, place, config, attention))
                else:
                    self.convs.append(MapConvolution(reads, writes, 1 if is_bottleneck else 3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        if config.zero_init_residual:
            nn.init.zeros_(cast("nn.BatchNorm2d", self.norms[-1]).weight)
        self.shortcut = self._shortcut(place.inputs, seeds)
        self.channel_attention: nn.Module | None = None
        if has_gate(config, place.stage):
            gated = place.inputs if self.place == "pre" else self.outputs
            with seeds.part("channel_attention"):
                self.channel_attention = build_channel_attention(gated, config)

    def _shortcut(self, inputs: int, seeds: PartSeeds) -> nn.Sequential:
        """Return an empty sequence, or a projection if the shape of the map changes."""
        if self.stride == 1 and inputs == self.outputs:
            return nn.Sequential()
        with seeds.part("shortcut"):
            conv = MapConvolution(inputs, self.outputs, stride=self.stride)
        return nn.Sequential(conv, nn.BatchNorm2d(self.outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map the input to `[batch, outputs, rows / stride, columns / stride]`."""
        shortcut = self._gated("identity", self.shortcut(x))
        branch = self._gated("standard", self._branch(self._gated("pre", x)))
        return self._gated("post", (shortcut + branch).relu())

    def _branch(self, x: Tensor) -> Tensor:
        """Compute the branch F."""
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), start=1):
            x = norm(conv(x))
            x = x if number == len(self.convs) else x.relu()
        return x

    def _gated(self, place: str, x: Tensor) -> Tensor:
        """Apply the attention to channels, if this is its place."""
        if self.channel_attention is None or place != self.place:
            return x
        gated: Tensor = self.channel_attention(x)
        return gated

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs for a map of this size: convolutions, attention and shortcut."""
        smaller, total, read = strided(grid, self.stride), 0.0, grid
        for conv in map(_any, self.convs):
            total += conv.flops(read)
            read = strided(read, conv.stride if isinstance(conv.stride, int) else conv.stride[0])
        if len(self.shortcut):
            total += _any(self.shortcut[0]).flops(grid)
        if self.channel_attention is not None:
            total += _any(self.channel_attention).flops(grid if self.place == "pre" else smaller)
        return total


def has_gate(config: ChannelAttentionConfig, stage: int) -> bool:
    """Return True if blocks of this stage have attention to channels."""
    if config.channel_attention == "none" or config.channel_attention_stages is None:
        return config.channel_attention != "none"
    return stage in whole_numbers(config, "channel_attention_stages", "resnet")


def _spatial(
    inputs: int, outputs: int, place: BlockPlace, config: ResidualConfig, attention: Any
) -> nn.Module:
    """Return the first 3 x 3 convolution of a block, or the attention that replaces it."""
    if attention is None:
        return MapConvolution(inputs, outputs, 3, stride=place.stride)
    found: nn.Module = attention(
        inputs, outputs, stride=place.stride, grid=place.grid, config=config
    )
    return found


def _any(module: nn.Module) -> Any:
    return cast("Any", module)
