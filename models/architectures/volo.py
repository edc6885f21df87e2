"""Vision outlooker: local attention whose weights each token predicts, then self-attention.

Yuan et al. 2021, "VOLO: Vision Outlooker for Visual Recognition" (arXiv:2106.13112), section 3;
where text and code differ, this follows the authors' code.
Layers: a stem of a 7 x 7 convolution of stride 2 and two of 3 x 3, each with batch norm and ReLU,
    and patches of its output; `outlook_depth` blocks of `outlook_attention` on that grid, of width
    `outlook_dim`; squares of 2 x 2 mapped to dim; positions; `depth` blocks of attention; blocks
    of class attention as in `cait`, without biases; a norm; the head.
Token head (`has_token_head`): a second head reads every patch. Half of the maximum of its logits
    over the patches is added to the logits of the class token, and all of them are returned too,
    for a loss.
Mixer: the blocks after the outlookers take any mixer; the paper's is `attention` with a bias in its
    output map only. Their feed-forwards are 3 times as wide as dim, 4 times in VOLO-D5.
Cost: outlookers cost k^4 n d on four times as many tokens; attention costs the same as in a ViT.
Departures: there is no token labelling and no mix-token; a token head learns through its part of
    the logits, unless a task's loss reads `Outputs.auxiliary`. Stochastic depth counts blocks from
    the first after the outlookers, and these have none, as in the code; there the count starts
    below them. `residual="reversible"` applies to the blocks after the outlookers.
    `initialisation` draws the convolutions too, which the code leaves to torch. Sides that are not
    a multiple of two patches are rejected; the code drops the remainder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.architectures.cait import CaiT
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import Outputs
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.stack import Block, build_mixers
from bakeoff.models.sublayers import FeedForward
from bakeoff.models.vision.patches import patches

_SHRINKING = 2  # the outlookers' grid is this many times as fine as that of attention
_STEM_STRIDE = 2


class VOLO(CaiT):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`; see the module."""

    name = "volo"
    config: Config
    has_class_bias = False

    @dataclass(frozen=True, kw_only=True)
    class Config(CaiT.Config):
        """Knobs of a vision outlooker, in addition to those of CaiT.

        Attributes:
            patch: Side in pixels of an outlooker's token; twice this number must divide the sides
                of the image. The paper's is 8.
            stem_width: Channels of the convolutions before the patches.
            outlook_depth: Blocks of outlook attention; 0 for none.
            outlook_dim: Width of these blocks; the paper's is half of dim.
            outlook_heads: Number of their heads; must divide `outlook_dim`.
            outlook_window: Side of their windows.
            outlook_stride: Distance between the centres of their windows.
            has_token_head: Whether a second head reads the patches.
            layer_scale: See `StackConfig`; the default is the paper's.
            stochastic_depth_rule: See `StackConfig`; the default is the paper's.
            norm_eps: See `StackConfig`; the default is the paper's.
            feed_forward_ratio: See `StackConfig`; the default is the paper's, except for D5.
        """

        patch: Literal[2, 4, 8, 16] = 4
        stem_width: int = 32
        outlook_depth: int = 2
        outlook_dim: int = 32
        outlook_heads: int = 4
        outlook_window: Literal[3, 5, 7] = 3
        outlook_stride: Literal[1, 2] = 2
        has_token_head: bool = False
        layer_scale: float | None = None
        stochastic_depth_rule: Literal["linear", "constant"] = "linear"
        norm_eps: float = 1e-5
        feed_forward_ratio: float = 3.0

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        least = {"stem_width": 1, "outlook_depth": 0, "outlook_dim": 1}
        for key, value in least.items():
            if getattr(config, key) < value:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below {value}")
        if config.has_token_head and config.pooling == "mean":
            raise ModelError(f"{cls.name}: has_token_head=True needs pooling='class_token'")

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of all mixers, that of the outlookers included."""
        return ("outlook_attention", *super().mixers_of(spec))

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided; empty if it can."""
        if num_parts > 1:
            return (
                f"its stem's batch norm is over a whole batch, which would be cut into {num_parts}"
            )
        return super().why_whole(
            spec, num_parts=num_parts, are_parameters_divided=are_parameters_divided
        )

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        super().build(seeds)
        config, spec = self.config, self.of_outlookers()
        with seeds.part("stem"):
            self.stem = OutlookStem(
                self.spec.input_size, config.stem_width, config.outlook_dim, config.patch
            )
        self.outlookers = nn.ModuleList()
        within, always = seeds.within("outlookers"), replace(config, stochastic_depth=0.0)
        for layer, mixer in enumerate(build_mixers(spec, within, is_causal=False)):
            mlp = None
            if config.feed_forward != "none":
                with within.part(f"blocks.{layer}.mlp"):
                    mlp = FeedForward(spec.dim, config)
            self.outlookers.append(Block(mixer, always, mlp=mlp))
        self.token_head: nn.Module | None = None
        if config.has_token_head:
            with seeds.part("token_head"):
                self.token_head = self.make_head(self.spec.dim)

    def of_outlookers(self) -> ModelSpec:
        """Return the spec of the blocks of outlook attention."""
        config, (rows, columns) = self.config, self._grid()
        knobs = {
            "heads": config.outlook_heads,
            "window_size": config.outlook_window,
            "stride": config.outlook_stride,
        }
        return replace(
            self.spec,
            mixer="outlook_attention",
            knobs=knobs,
            position="none",
            dim=config.outlook_dim,
            depth=config.outlook_depth,
            grid=(rows, columns),
            length=rows * columns,
        )

    def of_tokens(self) -> ModelSpec:
        """Return the spec of the attention blocks, which read squares of outlooker tokens."""
        rows, columns = (side // _SHRINKING for side in self._grid())
        return replace(
            self.spec,
            input_kind="vectors",
            input_size=_SHRINKING**2 * self.config.outlook_dim,
            length=rows * columns,
            grid=(rows, columns),
        )

    def _grid(self) -> tuple[int, int]:
        """Return the rows and columns of the outlookers' tokens."""
        patch, grid = self.config.patch, self.spec.grid
        if grid is None or any(side % (_SHRINKING * patch) for side in grid):
            said = "no grid" if grid is None else f"{grid[0]} x {grid[1]} pixels"
            raise ModelError(
                f"{self.name}: two patches of patch={patch} do not divide an image of {said}"
            )
        return grid[0] // patch, grid[1] // patch

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Return logits `[batch, output_size]`; with a token head, `Outputs`.

        Its auxiliary `tokens` are the logits of the patches, `[batch, patches, output_size]`.
        """
        assert mask is None, "an image has no padding"
        squares = patches(self.outlook(inputs), _SHRINKING)
        if self.token_head is None:
            return self.head(self.encode(squares))
        hidden = self.hidden(squares)
        of_tokens = self.token_head(hidden[:, 1:])
        logits = self.head(hidden[:, 0]) + 0.5 * of_tokens.amax(dim=1)
        return Outputs(logits, {"tokens": of_tokens})

    def outlook(self, image: Tensor) -> Tensor:
        """Apply stem and outlookers; return `[batch, rows, columns, outlook_dim]`."""
        tokens = self.stem(image).flatten(1, 2)
        for block in self.outlookers:
            tokens = block(tokens)
        return cast("Tensor", tokens.unflatten(1, self._grid()))

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of the whole model at its own image size; `length` is ignored."""
        rows, columns = self._grid()
        blocks = [cast("Block", block) for block in self.outlookers]
        outlookers = sum(block.flops(rows * columns, batch) for block in blocks)
        tokens = self.of_tokens().length if self.token_head is not None else 0
        of_token_head = tokens * self.flops_of_head()
        stem = self.stem.flops(rows * columns)
        return super().flops(length, batch) + outlookers + batch * (stem + of_token_head)


class OutlookStem(nn.Module):
    """Convolutions with batch norm, and a linear map of each patch of their output.

    Args:
        channels: Channels of the image.
        width: Channels of the convolutions.
        dim: Width of a token.
        patch: Side of a token's square in pixels; must be even.
    """

    def __init__(self, channels: int, width: int, dim: int, patch: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(
                width if layer else channels,
                width,
                side,
                stride=stride,
                padding=side // 2,
                bias=False,
            )
            for layer, (side, stride) in enumerate([(7, _STEM_STRIDE), (3, 1), (3, 1)])
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in self.convs)
        side = patch // _STEM_STRIDE
        self.map = nn.Conv2d(width, dim, side, stride=side)

    def forward(self, image: Tensor) -> Tensor:
        """Return tokens `[batch, rows / patch, columns / patch, dim]` of an image."""
        x = image.permute(0, 3, 1, 2)  # channels last in memory
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.relu(norm(conv(x)))
        mapped: Tensor = self.map(x).permute(0, 2, 3, 1)
        return mapped

    def flops(self, num_tokens: int) -> float:
        """Return the FLOPs of one image; products with the zero padding count too."""
        places = num_tokens * math.prod(self.map.stride)
        convs = sum(parameter.numel() for parameter in self.convs.parameters())
        return 2.0 * (places * convs + num_tokens * self.map.weight.numel())
