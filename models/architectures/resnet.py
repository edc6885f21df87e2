"""A residual network of convolutions: an image in, one row of logits out; with attention or not.

Paper: He et al. 2016, "Deep residual learning for image recognition" (arXiv:1512.03385, section 3.3
    and Figure 5): x' = relu(shortcut(x) + F(x)), where F is two 3 x 3 convolutions, each with batch
    norm, or 1 x 1, 3 x 3 and 1 x 1, of which the last is four times as wide (a bottleneck). Stages
    of such blocks; each later one doubles the width and halves the map. Where the shape changes,
    the shortcut is a 1 x 1 convolution with batch norm. The head reads the mean of the last map.
Attention to channels stands in each block, attention between places in the blocks of some stages:
    see `models.vision.channel_attention` and `models.vision.map_attention`.
Cost: k^2 n d^2 of a k x k convolution from d to d channels at n places. From stage to stage n falls
    to a quarter and d doubles, so that all blocks cost about the same.
Departures: in a bottleneck the 3 x 3 convolution has the stride, not the first 1 x 1, as in all
    public code since (Goyal et al. 2017, arXiv:1706.02677, section 5.1). The head is drawn as that
    of the classifier. A 3 x 3 stem, which leaves the map as large as the image, is the paper's own
    for CIFAR (section 4.2), whose networks have three stages, and shortcuts without parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from torch import Tensor, nn
from torch.nn import functional

from models.architecture import Architecture, Part
from models.errors import ModelError
from models.initialisation import PartSeeds, scaled_normal
from models.interface import Answer, InputKind
from models.model_spec import ModelSpec, whole_numbers
from models.vision.channel_attention import (
    ChannelAttentionConfig,
    build_channel_attention,
    check_channel_attention,
)
from models.vision.map_attention import (
    AugmentedConvolution,
    GlobalMapAttention,
    LocalMapAttention,
    MapAttentionConfig,
    NonLocal,
    check_map_attention,
)
from models.vision.map_convolution import Grid, MapConvolution, strided

_ATTENTIONS = {
    "augmented": AugmentedConvolution,
    "stand_alone": LocalMapAttention,
    "botnet": GlobalMapAttention,
}


class ResNet(Architecture):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`.

    The width of the model, ``dim``, is that of the first stage.
    """

    name = "resnet"
    takes: ClassVar[tuple[Part, ...]] = ("dim",)
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("image",)}
    answers: ClassVar[tuple[Answer, ...]] = ("class",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ChannelAttentionConfig, MapAttentionConfig):
        """Knobs of a residual network, besides those of its attention.

        Attributes:
            blocks: Of each stage, joined by hyphens.
            block: `basic`, two 3 x 3 convolutions, or `bottleneck`; see the module's note.
            stem: `7x7`, a convolution with a stride of 2 and pooling with another; or `3x3`
                without either, for images of few pixels.
            zero_init_residual: Whether the gain of the last norm of each block starts at 0, so that
                blocks start as their shortcuts (Goyal et al. 2017, arXiv:1706.02677, section 5.1).
        """

        blocks: str = "2-2-2-2"
        block: Literal["basic", "bottleneck"] = "basic"
        stem: Literal["3x3", "7x7"] = "3x3"
        zero_init_residual: bool = False

    @classmethod
    def check_config(cls, config: Any) -> None:
        """See `Architecture.check_config`."""
        check_channel_attention(config, owner=cls.name)
        check_map_attention(config, owner=cls.name)
        num_stages = len(whole_numbers(config, "blocks", cls.name))
        for kind in ("attention", "channel_attention"):
            key = f"{kind}_stages"
            if (text := getattr(config, key)) is None:
                continue
            last = max(whole_numbers(config, key, cls.name))
            if getattr(config, kind) != "none" and last > num_stages:
                raise ModelError(
                    f"{cls.name}: {key}={text!r} names a stage beyond the {num_stages} of "
                    f"blocks={config.blocks!r}"
                )

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """See `Architecture.why_whole`."""
        if num_parts > 1:
            return f"its batch norms are over a whole batch, which would be cut into {num_parts}"
        return ""

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
        if self.spec.grid is None:
            raise ModelError(f"{self.name} needs the rows and columns of an image")
        with seeds.part("stem"):
            self.stem = Stem(self.spec.input_size, self.spec.dim, self.config.stem)
        self.layers = nn.ModuleList()
        channels, grid = self.spec.dim, strided(self.spec.grid, self.stem.stride)
        depths = whole_numbers(self.config, "blocks", self.name)
        for stage, num_blocks in enumerate(depths, start=1):
            for number in range(num_blocks):
                place = BlockPlace(
                    stage=stage, inputs=channels, width=self.spec.dim * 2 ** (stage - 1), grid=grid,
                    stride=2 if stage > 1 and number == 0 else 1, is_last=number == num_blocks - 1,
                )  # fmt: skip
                self._add(place, seeds.within(f"stages.{stage - 1}.{number}"))
                channels, grid = _any(self.layers[-1]).outputs, strided(grid, place.stride)
        with seeds.part("head"):
            self.head = nn.Linear(channels, self.spec.output_size)
            scaled_normal(self.head)

    def _add(self, place: BlockPlace, seeds: PartSeeds) -> None:
        """A block, and a non-local one before it."""
        attends = place.stage in whole_numbers(self.config, "attention_stages", self.name)
        attention = self.config.attention if attends else "none"
        if attention == "non_local" and place.is_last:
            with seeds.part("non_local"):
                self.layers.append(NonLocal(place.inputs))
        try:
            self.layers.append(ResidualBlock(place, self.config, _ATTENTIONS.get(attention), seeds))
        except ModelError as error:
            raise ModelError(f"{self.name}: {error} (stage {place.stage})") from None

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Architecture.forward`; `[batch, output_size]`. An image has no mask."""
        assert mask is None, "an image has no padding"
        x = self.stem(inputs.permute(0, 3, 1, 2))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Convolutions, attention and head, whatever the number of pixels `length`."""
        assert self.spec.grid is not None
        grid, total = self.spec.grid, 2.0 * self.head.weight.numel()
        for each in (self.stem, *self.layers):
            layer = cast("Any", each)
            total += layer.flops(grid)
            grid = strided(grid, layer.stride)
        return batch * total


class Stem(nn.Module):
    """What makes the first map of an image."""

    def __init__(self, inputs: int, outputs: int, kind: Literal["3x3", "7x7"]) -> None:
        super().__init__()
        self.has_pooling = kind == "7x7"
        self.stride = 4 if self.has_pooling else 1
        side, stride = (7, 2) if self.has_pooling else (3, 1)
        self.conv = MapConvolution(inputs, outputs, side, stride=stride)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, inputs, rows, columns]` -> `[batch, outputs, rows / stride, ...]`."""
        x = self.norm(self.conv(x)).relu()
        return functional.max_pool2d(x, 3, stride=2, padding=1) if self.has_pooling else x

    def flops(self, grid: Grid) -> float:
        """Of its convolution."""
        return self.conv.flops(grid)


@dataclass(frozen=True, kw_only=True)
class BlockPlace:
    """Where a block stands.

    Attributes:
        stage: Counted from 1.
        inputs: Channels that it reads.
        width: Of its 3 x 3 convolutions.
        grid: Rows and columns that it reads.
        stride: By which it makes the map smaller.
        is_last: Whether it is the last one of its stage.
    """

    stage: int
    inputs: int
    width: int
    grid: Grid
    stride: int
    is_last: bool


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + F(x)) of `[batch, inputs, rows, columns]`; see the module's note."""

    def __init__(
        self, place: BlockPlace, config: ResNet.Config, attention: Any, seeds: PartSeeds
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
        """Nothing, or what changes the shape of a map."""
        if self.stride == 1 and inputs == self.outputs:
            return nn.Sequential()
        with seeds.part("shortcut"):
            conv = MapConvolution(inputs, self.outputs, stride=self.stride)
        return nn.Sequential(conv, nn.BatchNorm2d(self.outputs))

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, outputs, rows / stride, columns / stride]`."""
        shortcut = self._gated("identity", self.shortcut(x))
        branch = self._gated("standard", self._branch(self._gated("pre", x)))
        return self._gated("post", (shortcut + branch).relu())

    def _branch(self, x: Tensor) -> Tensor:
        """F of the module's note."""
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), start=1):
            x = norm(conv(x))
            x = x if number == len(self.convs) else x.relu()
        return x

    def _gated(self, place: str, x: Tensor) -> Tensor:
        """Attention to channels, if this is its place."""
        if self.channel_attention is None or place != self.place:
            return x
        gated: Tensor = self.channel_attention(x)
        return gated

    def flops(self, grid: Grid) -> float:
        """Of a map of this size: convolutions, attention and shortcut."""
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
    """Whether blocks of this stage have attention to channels."""
    if config.channel_attention == "none" or config.channel_attention_stages is None:
        return config.channel_attention != "none"
    return stage in whole_numbers(config, "channel_attention_stages", ResNet.name)


def _spatial(
    inputs: int, outputs: int, place: BlockPlace, config: ResNet.Config, attention: Any
) -> nn.Module:
    """The first 3 x 3 convolution of a block, or what stands there instead."""
    if attention is None:
        return MapConvolution(inputs, outputs, 3, stride=place.stride)
    found: nn.Module = attention(
        inputs, outputs, stride=place.stride, grid=place.grid, config=config
    )
    return found


def _any(module: nn.Module) -> Any:
    return cast("Any", module)
