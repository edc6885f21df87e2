"""A Swin transformer: attention within windows, on maps that shrink from stage to stage.

Paper: Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows"
    (arXiv:2103.14030), section 3.1 and Figure 3; the second version, Liu et al. 2022
    (arXiv:2111.09883), is `bakeoff.models.architectures.swin_v2`.
Layers: square patches, mapped linearly to dim, and a norm; stages of blocks, whose mixer is
    `window_attention`; before each stage but the first a merging: the vectors of 2 x 2 neighbours
    are concatenated (upper left, lower left, upper right, lower right), normed, and mapped without
    bias to twice the width. A norm, the mean over all positions, and a linear map follow.
Cost: linear in pixels.
Departures: there is no position by default, as in the paper; an absolute one, for its Table 4, is
    drawn with the standard deviation of tokens, not 0.02. The probability to omit block l of L is
    l / L times `stochastic_depth`, where the authors' code has (l - 1) / (L - 1). If branches are
    normed after they are computed (`norm_placement="res_post"`, Swin v2), gains start at 0, so that
    every block starts as the identity, and mergings are normed last, as in the authors' code.
    Linear maps are initialised like the stack's; the paper's initialisation is `truncated_normal`.
    A map with an odd side is padded with zeros at its end, as in the code, for merging and for
    windows; in windows the padding is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import InputEmbedding, build_position
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, linear_map, scaled_normal
from bakeoff.models.interface import InputKind
from bakeoff.models.model_spec import ModelSpec, whole_numbers
from bakeoff.models.stack import Block, build_mixers
from bakeoff.models.sublayers import FeedForward, StackConfig, build_norm, normed
from bakeoff.models.vision.patches import of_patches, patches

_MIXER = "window_attention"
_OF_STAGES = ("depths", "heads")


class Swin(StackArchitecture):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`."""

    name = "swin"
    takes = ("dim",)
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("image",)}
    answers = ("class",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of a Swin transformer, in addition to those of every stack.

        Attributes:
            patch: Side of a patch in pixels; must divide the sides of the image.
            depths: Number of blocks of each stage, such as ``2-2-6-2``.
            heads: Number of heads of each stage, such as ``3-6-12-24``; a single number is the
                first stage's, and doubles with the width.
            window: Side of a window in tokens; a map that is not larger is one window.
            shift: See `bakeoff.models.mixers.attentions.window_attention`.
            relative_bias: See `bakeoff.models.mixers.attentions.window_attention`.
            score: See `bakeoff.models.mixers.attentions.window_attention`.
            has_absolute_position: Whether the patches get a learned absolute position.
        """

        patch: int = 4
        depths: str = "2-2-2"
        heads: str = "2"
        window: int = 7
        shift: Literal["alternate", "none"] = "alternate"
        relative_bias: Literal["table", "mlp", "none"] = "table"
        score: Literal["scaled", "cosine"] = "scaled"
        has_absolute_position: bool = False

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        for key, least in {"patch": 1, "window": 2}.items():
            if getattr(config, key) < least:
                raise ModelError(
                    f"{cls.name}: {key}={getattr(config, key)} is not at least {least}"
                )
        depths, heads = (whole_numbers(config, key, cls.name) for key in _OF_STAGES)
        if len(heads) not in (1, len(depths)):
            raise ModelError(
                f"{cls.name}: heads={config.heads!r} has {len(heads)} numbers, and "
                f"depths={config.depths!r} has {len(depths)}; give one or as many"
            )
        if config.residual == "reversible":
            raise ModelError(f"{cls.name}: residual='reversible' ends where a map is merged")
        for key, idle in {"position_mode": "added", "position_std": 1.0}.items():
            value = getattr(config, key)
            if value != idle and not config.has_absolute_position:
                raise ModelError(f"{cls.name}: {key}={value!r} needs has_absolute_position=True")

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the one mixer of the model, window attention."""
        return (_MIXER,)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        config, spec = self.config, of_patches(self.spec, self.config.patch)
        with seeds.part("embedding"):
            self.embedding = InputEmbedding(spec)
        self.embedding_norm = build_norm(spec.dim, config)
        placed = replace(spec, position="learned" if config.has_absolute_position else "none")
        self.position = build_position(placed, config.position_mode, config.position_std, seeds)
        self.dropout = nn.Dropout(config.dropout)
        depths, heads = (whole_numbers(config, key, self.name) for key in _OF_STAGES)
        shares = iter([(block + 1) / sum(depths) for block in range(sum(depths))])
        self.stages = nn.ModuleList()
        for number, depth in enumerate(depths):
            own = heads[number] if len(heads) > 1 else heads[0] * 2**number
            stage = WindowStage(
                replace(spec, depth=depth, knobs={"heads": own}),
                config,
                seeds.within(f"stages.{number}"),
                merges=number > 0,
                shares=shares,
            )
            self.stages.append(stage)
            spec = stage.spec
        self.norm = build_norm(spec.dim, config) if config.norm_placement != "post" else None
        with seeds.part("head"):
            self.head = nn.Linear(spec.dim, spec.output_size)
            scaled_normal(self.head)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits `[batch, output_size]`."""
        x = normed(self.embedding_norm, self.embedding(patches(inputs, self.config.patch)))
        x = self.dropout(self.position(x))
        for stage in self.stages:
            x = stage(x)
        x = x if self.norm is None else normed(self.norm, x)
        logits: Tensor = self.head(x.mean(dim=1))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of linear maps and stages; the number of pixels `length` is ignored."""
        num_patches = of_patches(self.spec, self.config.patch).length
        before = self.embedding.flops(num_patches, batch) + self.position.flops(num_patches, batch)
        stages = (cast("WindowStage", stage).flops(batch) for stage in self.stages)
        return sum(stages, before) + batch * 2.0 * self.head.weight.numel()


class WindowStage(nn.Module):
    """A merging, if there is one, and blocks on a map of one size.

    Args:
        spec: Width and grid of the input; depth, and heads as a knob.
        config: Knobs of the model.
        seeds: Random streams of this stage.
        merges: Whether the stage begins with a merging.
        shares: Iterator over l / L for the remaining blocks; the stage takes one value per block.
    """

    def __init__(
        self,
        spec: ModelSpec,
        config: Swin.Config,
        seeds: PartSeeds,
        *,
        merges: bool,
        shares: Iterator[float],
    ) -> None:
        super().__init__()
        self.merging = None
        if merges:
            with seeds.part("merging"):
                self.merging = PatchMerging(spec, config)
            spec = self.merging.spec
        window = min(config.window, max(spec.grid or ()))
        knobs = {
            **spec.knobs,
            "window": max(window, 2),
            "shift": config.shift,
            "bias": True,
            "relative_bias": config.relative_bias,
            "score": config.score,
        }
        self.spec = replace(spec, mixer=_MIXER, position="none", knobs=knobs)
        self.blocks = nn.ModuleList()
        for layer, mixer in enumerate(build_mixers(self.spec, seeds, is_causal=False)):
            mlp = None
            if config.feed_forward != "none":
                with seeds.part(f"blocks.{layer}.mlp"):
                    mlp = FeedForward(spec.dim, config)
            block = Block(mixer, config, mlp=mlp, share=next(shares))
            if config.norm_placement == "res_post" and config.has_residual:
                _start_as_identity(block)
            self.blocks.append(block)

    def forward(self, x: Tensor) -> Tensor:
        """Return the stage's output for `[batch, time, dim]`, in the shape of `spec`."""
        if self.merging is not None:
            x = self.merging(x)
        for block in self.blocks:
            x = block(x)
        return x

    def flops(self, batch: int) -> float:
        """Return the FLOPs of the blocks and the merging."""
        blocks = (cast("Block", each).flops(self.spec.length, batch) for each in self.blocks)
        return sum(blocks, 0.0 if self.merging is None else self.merging.flops(batch))


def _start_as_identity(block: Block) -> None:
    """Set the gains of the norms in the block's branches to zero."""
    norms = [block.mixer_norm] if block.mlp is None else [block.mixer_norm, block.mlp_norm]
    for norm in norms:
        nn.init.zeros_(cast("nn.Parameter", norm.weight))


class PatchMerging(nn.Module):
    """A map from the vectors of 2 x 2 neighbours to one of twice the width.

    Attributes:
        spec: Width and grid of the output.
    """

    def __init__(self, spec: ModelSpec, config: StackConfig) -> None:
        super().__init__()
        assert spec.grid is not None, "of patches"
        self.grid = spec.grid
        rows, columns = (-(-side // 2) for side in self.grid)
        self.spec = replace(spec, dim=2 * spec.dim, length=rows * columns, grid=(rows, columns))
        self.map = linear_map(4 * spec.dim, self.spec.dim)
        self.is_normed_first = config.norm_placement == "pre"
        self.norm = build_norm((4 if self.is_normed_first else 2) * spec.dim, config)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, time, dim]` to `[batch, time / 4, 2 * dim]`, odd sides rounded up."""
        rows, columns = self.grid
        image = x.reshape(len(x), rows, columns, x.shape[-1])
        image = functional.pad(image, (0, 0, 0, columns % 2, 0, rows % 2))
        corners = [image[:, down::2, across::2] for across in (0, 1) for down in (0, 1)]
        merged = torch.cat(corners, dim=-1).flatten(1, 2)
        if self.is_normed_first:
            return cast("Tensor", self.map(normed(self.norm, merged)))
        return normed(self.norm, self.map(merged))

    def flops(self, batch: int) -> float:
        """Return the FLOPs: one product for each remaining position."""
        return 2.0 * batch * self.spec.length * self.map.weight.numel()
