"""Class attention: a class token attends to the patches, which do not change.

Touvron et al. 2021, "Going deeper with Image Transformers" (arXiv:2103.17239), section 3. With
z = norm([class; patches]), the query comes from z's class token only, keys and values from all of
z; the output is added to the class token, followed by a feed-forward of the class token. Patches
are the same before and after all blocks of class attention.
Cost: n d^2 for keys and values of n tokens, n d for the attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.kernels.softmax_attention import (
    draw_projections,
    fused_attention,
    merge_heads,
    split_heads,
    whole_sequence,
)
from bakeoff.models.mixer import Context, Mask
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.stack import Trunk
from bakeoff.models.sublayers import FeedForward, Residual, StackConfig, build_norm, normed


class ClassAttention(nn.Module):
    """Attention from the first token to all; the output map always has a bias.

    Args:
        dim: Width of a token.
        heads: Number of heads; must divide dim.
        bias: Whether queries, keys and values have a bias.
    """

    def __init__(self, dim: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=bias) for _ in range(3))
        self.output = nn.Linear(dim, dim)
        draw_projections(self.query, self.key, self.value, self.output)

    def forward(self, x: Tensor) -> Tensor:
        """Map [class; patches] `[batch, 1 + patches, dim]` to `[batch, 1, dim]`."""
        maps = (self.query, x[:, :1]), (self.key, x), (self.value, x)
        queries, keys, values = (split_heads(each(read), self.heads) for each, read in maps)
        visible = whole_sequence(x[:, :1], None, x, None, is_causal=False)
        scale = queries.shape[-1] ** -0.5
        taken = fused_attention(queries, keys, values, visible, scale=scale)
        mixed: Tensor = self.output(merge_heads(taken))
        return mixed

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs: query and output of the class, keys and values of `length` tokens."""
        dim = self.query.in_features
        return 2.0 * batch * ((2 + 2 * length) * dim**2 + 2 * length * dim)


class ClassBlock(nn.Module):
    """Class attention and feed-forward of a class token, each with its norm and its sum.

    Stochastic depth is not applied, as in the authors' code.
    """

    def __init__(
        self, attention: ClassAttention, config: StackConfig, *, mlp: FeedForward | None
    ) -> None:
        super().__init__()
        dim, always = attention.query.in_features, replace(config, stochastic_depth=0.0)
        self.placement = config.norm_placement
        self.norm, self.attention = build_norm(dim, config), attention
        self.sum = Residual(dim, always, share=0.0)
        self.mlp = mlp
        if mlp is not None:
            self.mlp_norm, self.mlp_sum = build_norm(dim, config), Residual(dim, always, share=0.0)

    def forward(self, first: Tensor, patches: Tensor) -> Tensor:
        """Update a class token `[batch, 1, dim]` from patches `[batch, patches, dim]`."""
        both = torch.cat([first, patches], dim=1)
        first = self._around(self.norm, self.sum, self.attention, first, both)
        if self.mlp is None:
            return first
        return self._around(self.mlp_norm, self.mlp_sum, self.mlp, first, first)

    def _around(
        self,
        norm: nn.Module,
        add: Residual,
        call: Callable[[Tensor], Tensor],
        x: Tensor,
        read: Tensor,
    ) -> Tensor:
        """Update `x` from `read`; a norm after the sub-layer or sum does not include patches."""
        if self.placement == "pre":
            return cast("Tensor", add(x, call(normed(norm, read))))
        if self.placement == "post":
            return normed(norm, add(x, call(read)))
        return cast("Tensor", add(x, normed(norm, call(read))))

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs over `length` tokens, including the class token."""
        attention = self.attention.flops(length, batch)
        return attention + (0.0 if self.mlp is None else self.mlp.flops(1, batch))


@dataclass(frozen=True, kw_only=True)
class ClassBlocks:
    """Options of the blocks that follow those of the patches.

    Attributes:
        depth: Number of blocks.
        heads: Number of heads of each block's attention; must divide dim.
        bias: Whether queries, keys and values have a bias.
    """

    depth: int
    heads: int
    bias: bool


class ClassTrunk(Trunk):
    """Position and blocks of the patches alone, then blocks of the class token, and final norm.

    Args:
        spec: Sizes, mixer and position; its length includes the class token, which has no position.
        config: Knobs of the stack.
        seeds: Random streams of this stack.
        blocks: Options of the blocks of the class token.

    Raises:
        ModelError: The options are incompatible.
    """

    def __init__(
        self,
        spec: ModelSpec,
        config: StackArchitecture.Config,
        seeds: PartSeeds,
        blocks: ClassBlocks,
    ) -> None:
        if spec.dim % blocks.heads:
            raise ModelError(
                f"{spec.architecture}: class_heads={blocks.heads} does not divide dim={spec.dim}"
            )
        super().__init__(replace(spec, length=spec.length - 1), config, seeds, is_causal=False)
        self.class_blocks = nn.ModuleList()
        for layer in range(blocks.depth):
            with seeds.part(f"class_blocks.{layer}.attention"):
                attention = ClassAttention(spec.dim, blocks.heads, bias=blocks.bias)
            mlp = None
            if config.feed_forward != "none":
                with seeds.part(f"class_blocks.{layer}.mlp"):
                    mlp = FeedForward(spec.dim, config)
            self.class_blocks.append(ClassBlock(attention, config, mlp=mlp))

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Map [class; patches] `[batch, 1 + patches, dim]` to the same shape, without a mask."""
        assert mask is None, "an image has no padding"
        first, patches = x[:, :1], self.mixed(x[:, 1:])
        for block in self.class_blocks:
            first = block(first, patches)
        return normed(self.norm, torch.cat([first, patches], dim=1))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of both kinds of blocks; `length` includes the class token."""
        blocks = (cast("ClassBlock", block).flops(length, batch) for block in self.class_blocks)
        return sum(blocks, super().flops(length - 1, batch, context_length))
