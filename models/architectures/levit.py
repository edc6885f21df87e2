"""LeViT: strided convolutions, then stages of attention on successively smaller grids.

Paper: Graham et al. 2021, "LeViT: a Vision Transformer in ConvNet's Clothing for Faster Inference"
    (arXiv:2104.01136), section 4; where text and code differ, this follows the authors' code.
Layers: 3 x 3 convolutions of stride 2, `halvings` of them with Hardswish between; stages, all but
    the first of which begin with an attention that shrinks the grid; the mean over the remaining
    positions; two heads of batch norm and a linear map, one for the targets and one for a teacher,
    as in `bakeoff.models.architectures.deit`. Every other map has a batch norm in place of biases.
Equation: for each head y = norm(W hardswish(softmax(q k^T / sqrt(D) + B) v)), where q, k and v are
    norm(W x), and B of two positions is learned per head for |dr|, |dc|, their distances in rows
    and columns. Values are twice as wide as keys, which have width D. A branch is added, x + y; the
    last gain of its norm starts at 0, so that a block starts as the identity. Feed-forwards are
    norm(W hardswish(norm(W x))).
Shrinking: queries are those of every second row and column, values are four times as wide as keys,
    and the number of heads is the width divided by D. There is no residual sum, since the shapes
    differ.
Cost: that of attention on each stage's grid.
Departures: the number of halvings is a knob, for images smaller than 224 pixels. Queries have their
    own map where the code has one for queries, keys and values; the result is the same. Without
    `has_attention_bias` the paper gives positions to tokens (Table 4, A5); here there are none.
    The initialisation is the code's: torch's, and a truncated normal for the heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.architecture import Architecture
from bakeoff.models.architectures.deit import of_two_heads
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import InputKind, Outputs
from bakeoff.models.model_spec import ModelSpec, whole_numbers
from bakeoff.models.sublayers import Residual, StackConfig
from bakeoff.models.vision.biased_attention import BiasedAttention, Grid, HardswishMLP, shrunk


class LeViT(Architecture):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`."""

    name = "levit"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("image",)}
    answers = ("class",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of LeViT; sizes that differ between stages are numbers joined by ``-``.

        Attributes:
            dims: Widths of the stages; all but the last must be multiples of `key_dim`.
            depths: Pairs of an attention and a feed-forward in each stage.
            heads: Number of heads of these attentions in each stage.
            key_dim: Width of a head's queries and keys; the paper's is 16 or 32.
            halvings: Number of convolutions that halve the image; the paper has four, which reduce
                224 x 224 pixels to 14 x 14 tokens. Each doubles the channels, and the last has the
                first of `dims`.
            feed_forward_ratio: Hidden width of the feed-forwards divided by the stage's width.
            stochastic_depth: Probability, in training, that a sum omits its branch, for each image;
                the same at every depth.
            has_attention_bias: Whether the scores have B.
            has_attention_activation: Whether Hardswish is applied to values before the output map.
            has_distillation_head: Whether there is a second head, which learns from a teacher.
        """

        dims: str = "64-96-128"
        depths: str = "2-2-2"
        heads: str = "2-3-4"
        key_dim: int = 16
        halvings: int = 2
        feed_forward_ratio: float = 2.0
        stochastic_depth: float = 0.0
        has_attention_bias: bool = True
        has_attention_activation: bool = True
        has_distillation_head: bool = True

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        dims = whole_numbers(config, "dims", cls.name)
        for key in ("depths", "heads"):
            if len(whole_numbers(config, key, cls.name)) != len(dims):
                raise ModelError(
                    f"levit: {key}={getattr(config, key)!r} is not of {len(dims)} stages, as "
                    f"dims={config.dims!r} is"
                )
        if config.halvings < 1 or dims[0] % 2 ** (config.halvings - 1):
            raise ModelError(
                f"levit: halvings={config.halvings} is not a number of at least 1 by which "
                f"dims={config.dims!r} can begin with {dims[0]} channels, doubled after each"
            )
        if config.key_dim < 1 or any(dim % config.key_dim for dim in dims[:-1]):
            raise ModelError(
                f"levit: key_dim={config.key_dim} does not divide all but the last of "
                f"dims={config.dims!r}"
            )
        if config.feed_forward_ratio <= 0:
            raise ModelError(
                f"levit: feed_forward_ratio={config.feed_forward_ratio} is not above 0"
            )
        if not 0 <= config.stochastic_depth < 1:
            raise ModelError(
                f"levit: stochastic_depth={config.stochastic_depth} is not at least 0 and below 1"
            )

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided; empty if it can."""
        if num_parts > 1:
            return f"its batch norms are over a whole batch, which would be cut into {num_parts}"
        return ""

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        if self.spec.grid is None:
            raise ModelError("levit: an image of no grid has no rows and columns")
        dims, depths, heads = (
            whole_numbers(self.config, key, self.name) for key in ("dims", "depths", "heads")
        )
        with seeds.part("stem"):
            self.stem = LeViTStem(
                self.spec.input_size, dims[0], self.spec.grid, self.config.halvings
            )
        self.stages, grid = nn.ModuleList(), self.stem.grids[-1]
        for stage, sizes in enumerate(zip(dims, depths, heads, strict=True)):
            before = dims[stage - 1] if stage else None
            within = seeds.within(f"stages.{stage}")
            found = LeViTStage(before, *sizes, grid=grid, config=self.config, seeds=within)
            self.stages.append(found)
            grid = found.grid
        self.head = self._head("head", dims[-1], seeds)
        self.distillation_head = (
            self._head("distillation_head", dims[-1], seeds)
            if self.config.has_distillation_head
            else None
        )

    def _head(self, name: str, dim: int, seeds: PartSeeds) -> nn.Module:
        with seeds.part(name):
            linear = nn.Linear(dim, self.spec.output_size)
            nn.init.trunc_normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        return nn.Sequential(nn.BatchNorm1d(dim), linear)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor | Outputs:
        """Return the logits; with two heads `Outputs` in training, as in `deit`."""
        assert mask is None, "an image has no padding"
        x = self.stem(inputs)
        for stage in self.stages:
            x = stage(x)
        mean = x.mean(dim=1)
        logits: Tensor = self.head(mean)
        if self.distillation_head is None:
            return logits
        return of_two_heads(logits, self.distillation_head(mean), is_training=self.training)

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of convolutions, stages and heads; `length` is ignored."""
        stages = sum(cast("LeViTStage", stage).flops() for stage in self.stages)
        heads = 1 if self.distillation_head is None else 2
        dim = whole_numbers(self.config, "dims", self.name)[-1]
        return batch * (self.stem.flops() + stages + heads * 2 * dim * self.spec.output_size)


class LeViTStem(nn.Module):
    """Convolutions of stride 2: `[batch, rows, columns, channels]` -> `[batch, time, dim]`.

    Attributes:
        grids: Rows and columns of the image after each convolution.
    """

    def __init__(self, channels: int, dim: int, grid: Grid, halvings: int) -> None:
        super().__init__()
        self.convs, self.norms, self.grids = nn.ModuleList(), nn.ModuleList(), list[Grid]()
        for left in reversed(range(halvings)):
            width, grid = dim // 2**left, shrunk(grid)
            self.convs.append(nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False))
            self.norms.append(nn.BatchNorm2d(width))
            self.grids.append(grid)
            channels = width

    def forward(self, image: Tensor) -> Tensor:
        """Return the tokens row by row; the last convolution has no activation."""
        x = image.permute(0, 3, 1, 2)
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(functional.hardswish(x) if number else x))
        return x.flatten(2).transpose(1, 2)

    def flops(self) -> float:
        """Return the FLOPs of one image; products with the zero padding count too."""
        pairs = zip(self.convs, self.grids, strict=True)
        sizes = (math.prod(grid) * cast("nn.Conv2d", conv).weight.numel() for conv, grid in pairs)
        return 2.0 * sum(sizes)


class LeViTStage(nn.Module):
    """Layers on one grid, `[batch, time, before]` -> `[batch, time2, dim]`.

    Args:
        before: Width of the previous stage; if it is not None, the grid shrinks first.
        dim: Width of the stage.
        depth: Pairs of an attention and a feed-forward.
        heads: Number of heads of these attentions.
        grid: Rows and columns of the input; the attribute `grid` has those of the output.
        config: Knobs of the model.
        seeds: Random streams of this stage.
    """

    def __init__(
        self,
        before: int | None,
        dim: int,
        depth: int,
        heads: int,
        *,
        grid: Grid,
        config: LeViT.Config,
        seeds: PartSeeds,
    ) -> None:
        super().__init__()
        how: dict[str, Any] = {
            "key_dim": config.key_dim,
            "has_bias": config.has_attention_bias,
            "has_activation": config.has_attention_activation,
        }
        self.shrink = None
        if before is not None:
            with seeds.part("shrink"):
                self.shrink = BiasedAttention(
                    before, grid=grid, heads=before // config.key_dim, shrinks_to=dim, **how
                )
            grid = shrunk(grid)
        self.grid = grid
        self.add = Residual(dim, StackConfig(stochastic_depth=config.stochastic_depth), share=1.0)
        self.branches = nn.ModuleList()
        for block in range(0 if self.shrink else 1, depth + 1):  # 0 is a single feed-forward
            if block:
                with seeds.part(f"blocks.{block}.attention"):
                    self.branches.append(BiasedAttention(dim, grid=grid, heads=heads, **how))
            with seeds.part(f"blocks.{block}.mlp"):
                hidden = max(1, round(config.feed_forward_ratio * dim))
                self.branches.append(HardswishMLP(dim, hidden, math.prod(grid)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the stage's output, `[batch, time2, dim]`."""
        if self.shrink is not None:
            x = self.shrink(x)
        for branch in self.branches:
            x = self.add(x, branch(x))
        return x

    def flops(self) -> float:
        """Return the FLOPs of one image."""
        shrinking = 0.0 if self.shrink is None else self.shrink.flops()
        return sum((cast("HardswishMLP", each).flops() for each in self.branches), shrinking)
