"""A Perceiver: a few learned latents attend to many inputs, then to one another.

Paper: Jaegle et al. 2021, "Perceiver: General Perception with Iterative Attention"
    (arXiv:2103.03206), section 3.
Inputs: a token's embedding, or an unmapped vector or pixel, concatenated with the Fourier features
    of its position: sin(f pi p), cos(f pi p) for each of `bands` frequencies f, evenly spaced in
    1..mu/2 with mu the positions of an axis, and p itself, which is in -1..1. An image has two such
    axes, its rows and its columns (section 4.1). The first version of the paper has logarithmic
    spacing; its authors' code has even spacing. These features replace any other position.
Equation: z <- z + O softmax(Q z (K x)^T / sqrt(c)) V x, with one head of the inputs' width c and a
    norm of z and of x inside, then z <- z + MLP(norm(z)): a cross-attend. `depth` blocks of latents
    follow. This is repeated `cross_attends` times. The head reads the mean over latents.
Sharing: all cross-attends and their blocks share parameters except the first ones, whose sharing
    the paper found to be unstable.
Cost: linear in the inputs: n m c + depth m^2 d for m latents. Keys and values of the inputs are
    computed once for all cross-attends that share their parameters.
Departures: the blocks take any mixer, since latents are distinct and need no position; the paper's
    is attention with 8 heads. There is a norm before the head, as in every stack here. Linear maps
    are drawn by `initialisation`, latents from normal(0, 0.02) truncated at 0.04. The sizes of
    ImageNet's model are latents=512, dim=1024, cross_attends=8, depth=6, bands=64. An image may be
    read patch by patch, with positions on the coarser grid; the paper reads pixels.
Padding: exact; positions are scaled to the longest sequence, regardless of a batch's padding.
    Latents get zeros if all inputs are padding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import Initialisation, PartSeeds, scaled_normal
from bakeoff.models.interface import Answer, InputKind
from bakeoff.models.kernels.softmax_attention import fused_attention, whole_sequence
from bakeoff.models.mixer import Mask, Mixer, without_padding
from bakeoff.models.model_spec import late_knob
from bakeoff.models.stack import Block, SubLayer, build_mixers
from bakeoff.models.sublayers import FeedForward, StackConfig, build_norm, check_stack, normed
from bakeoff.models.vision.patches import of_patches, patches

Prepared = tuple[Tensor, Tensor, Mask]  # keys, values, and the mask of real inputs


class Perceiver(StackArchitecture):
    """Tokens, vectors or an image -> `[batch, output_size]`; see the module's note."""

    name = "perceiver"
    takes = ("mixer", "dim", "depth")
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens", "vectors", "image")
    }
    answers: ClassVar[tuple[Answer, ...]] = ("class", "number")
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Knobs; dim is the width of a latent, depth the blocks after each cross-attend.

        Attributes:
            initialisation: Initialisation of all linear maps; see `bakeoff.models.initialisation`.
            latents: Number of latents.
            cross_attends: Number of cross-attends.
            bands: Number of frequencies of each axis; 0 for no positions, so that inputs are
                unordered.
            share: Sharing of parameters: `paper` shares all but the first cross-attend and its
                blocks, `all` shares these too, `none` shares nothing.
            input_width: Width of a token's embedding, or None for dim. It does not apply to vectors
                and pixels.
            patch: Side in pixels of an image's patches; must divide the image's sides.
        """

        initialisation: Initialisation = "scaled_normal"
        latents: int = 32
        cross_attends: int = 3
        bands: int = 16
        share: Literal["paper", "all", "none"] = "paper"
        input_width: int | None = None
        patch: int = late_knob(1)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        check_stack(config, owner=cls.name)
        least_of = {"latents": 1, "cross_attends": 1, "bands": 0, "input_width": 1, "patch": 1}
        for key, least in least_of.items():
            value = getattr(config, key)
            if value is not None and value < least:
                raise ModelError(f"{cls.name}: {key}={value} is not at least {least}")
        if config.residual == "reversible":
            raise ModelError(f"{cls.name}: residual='reversible' knows no cross-attends")

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, config = self.spec, self.config
        axes: tuple[int, ...] = (spec.length,)
        if spec.input_kind == "image":
            spec = of_patches(spec, config.patch)
            axes = spec.grid or axes
        elif config.patch != 1:
            raise ModelError(
                f"{self.name}: patch={config.patch} is of images, not of {spec.input_kind}"
            )
        self.table = self._table(seeds)
        self.register_buffer("places", fourier_features(axes, config.bands), persistent=False)
        width = (spec.input_size if self.table is None else self.table.table.embedding_dim) + len(
            self.get_buffer("places")[0]
        )
        with seeds.part("latents"):
            self.latents = Latents(config.latents, spec.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.stages = nn.ModuleList(self._stages(width, seeds))
        has_norm = config.norm_placement != "post"
        self.norm = build_norm(spec.dim, config) if has_norm else nn.Identity()
        with seeds.part("head"):
            self.head = nn.Linear(spec.dim, spec.output_size)
            scaled_normal(self.head)

    def _table(self, seeds: PartSeeds) -> TokenEmbedding | None:
        """Return the embedding of tokens, or None for vectors and pixels."""
        spec, width = self.spec, self.config.input_width
        if spec.input_kind == "tokens":
            with seeds.part("embedding"):
                return TokenEmbedding(spec.input_size, width or spec.dim)
        if width is not None:
            raise ModelError(
                f"{self.name}: input_width={width} is of tokens, and {spec.input_kind} is read as "
                "it is"
            )
        return None

    def _stages(self, width: int, seeds: PartSeeds) -> list[Stage]:
        config = self.config
        own = {"all": 1, "paper": 2, "none": config.cross_attends}[config.share]
        of_latents = replace(self.spec, length=config.latents, grid=None, position="none")
        stages = []
        for number in range(min(own, config.cross_attends)):
            within = seeds.within(f"stages.{number}")
            mixers = build_mixers(of_latents, within, is_causal=False)
            stages.append(Stage(mixers, width, config, within, before=number, total=own))
        return stages

    def stage_of(self, cross_attend: int) -> Stage:
        """Return the stage that a cross-attend, counted from 0, uses."""
        return cast("Stage", self.stages[min(cross_attend, len(self.stages) - 1)])

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, output_size]`; an image has no mask."""
        latents = self.attend(self.read(inputs, mask), mask)
        logits: Tensor = self.head(latents.mean(dim=1))
        return logits

    def read(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return inputs concatenated with their position features, `[batch, time, width]`."""
        if self.table is not None:
            x: Tensor = self.table(inputs, mask)
        else:
            is_image = self.spec.input_kind == "image"
            x = without_padding(patches(inputs, self.config.patch) if is_image else inputs, mask)
        places = self.get_buffer("places")
        if x.shape[1] > len(places):
            raise ModelError(f"{self.name} takes at most length={len(places)}, not {x.shape[1]}")
        places = places[: x.shape[1]].to(x.dtype)
        return torch.cat([x, places.expand(len(x), -1, -1)], dim=-1)

    def attend(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the latents after all stages, `[batch, latents, dim]`; `x` is from `read`."""
        x = self.dropout(x)
        prepared = {stage: cast("Stage", stage).cross.prepare(x, mask) for stage in self.stages}
        latents: Tensor = self.latents(len(x)).to(x.dtype)
        for number in range(self.config.cross_attends):
            stage = self.stage_of(number)
            latents = stage(latents, prepared[stage])
        return normed(self.norm, latents)

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of keys and values, of each cross-attend, and of the head."""
        length //= self.config.patch**2
        once = sum(cast("Stage", each).cross.flops_of_inputs(length) for each in self.stages)
        uses = (self.stage_of(number) for number in range(self.config.cross_attends))
        each_use = sum(stage.flops(self.config.latents, length) for stage in uses)
        return batch * (once + each_use + 2 * self.head.weight.numel())


class Latents(nn.Module):
    """Learned vectors, the same at the start of every sequence."""

    keeps_own_draw = no_weight_decay = ("table",)

    def __init__(self, number: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(number, dim))
        nn.init.trunc_normal_(self.table, std=0.02, a=-0.04, b=0.04)

    def forward(self, batch: int) -> Tensor:
        """Return `[batch, number, dim]`."""
        return self.table.repeat(batch, 1, 1)


class Stage(nn.Module):
    """A cross-attend and the blocks after it.

    Args:
        mixers: Mixers of the blocks.
        width: Width of the inputs.
        config: Knobs of the model.
        seeds: Random streams of this stage.
        before: Number of earlier stages with their own parameters.
        total: Number of all such stages; both determine the depth of a block.
    """

    def __init__(
        self,
        mixers: list[Mixer],
        width: int,
        config: StackConfig,
        seeds: PartSeeds,
        *,
        before: int,
        total: int,
    ) -> None:
        super().__init__()
        blocks: list[Block] = []
        for place, mixer in enumerate([None, *mixers]):
            share = (before + (place + 1) / (len(mixers) + 1)) / total
            mlp, path = None, f"blocks.{place - 1}" if mixer else "cross"
            if config.feed_forward != "none":
                with seeds.part(f"{path}.mlp"):
                    mlp = FeedForward(mixers[0].dim, config)
            if mixer is not None:
                blocks.append(Block(mixer, config, mlp=mlp, share=share))
                continue
            with seeds.part("cross.mixer"):
                attention = CrossAttention(mixers[0].dim, width)
            self.cross = CrossAttend(attention, config, mlp=mlp, share=share)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, latents: Tensor, prepared: Prepared) -> Tensor:
        """Map latents `[batch, latents, dim]` to the same shape."""
        latents = self.cross.look(latents, prepared)
        for block in self.blocks:
            latents = block(latents)
        return latents

    def flops(self, num_latents: int, length: int) -> float:
        """Return the FLOPs of one sequence, without keys and values."""
        blocks = cast("list[Block]", list(self.blocks))
        return sum(
            (each.flops(num_latents) for each in blocks),
            self.cross.flops_of_latents(num_latents, length),
        )


class CrossAttention(nn.Module):
    """Attention of latents of width `dim` to inputs, by one head of the inputs' width."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.dim = dim
        self.query = nn.Linear(dim, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, dim)
        for each in (self.query, self.key, self.value, self.output):
            scaled_normal(each)

    def forward(self, latents: Tensor, prepared: Prepared) -> Tensor:
        """Map latents `[batch, latents, dim]` to the same shape."""
        keys, values, real = prepared
        queries = self.query(latents)
        visible = whole_sequence(latents, None, keys, real, is_causal=False)
        queries, keys, values = (each.unsqueeze(1) for each in (queries, keys, values))
        heads = fused_attention(queries, keys, values, visible, scale=keys.shape[-1] ** -0.5)
        mixed: Tensor = self.output(heads.squeeze(1))
        return mixed


class CrossAttend(Block):
    """A block whose mixer is cross-attention; inputs are normed in every placement."""

    def __init__(
        self,
        attention: CrossAttention,
        config: StackConfig,
        *,
        mlp: FeedForward | None,
        share: float,
    ) -> None:
        super().__init__(cast("Mixer", attention), config, mlp=mlp, share=share)
        self.input_norm = build_norm(attention.key.in_features, config)

    @property
    def attention(self) -> CrossAttention:
        """The mixer of the block."""
        return cast("CrossAttention", self.mixer)

    def prepare(self, x: Tensor, mask: Mask) -> Prepared:
        """Return keys and values `[batch, time, width]`, and the mask."""
        x = normed(self.input_norm, x, mask)
        return self.attention.key(x), self.attention.value(x), mask

    def look(self, latents: Tensor, prepared: Prepared) -> Tensor:
        """Map latents `[batch, latents, dim]` to the same shape."""
        sub_layers: list[SubLayer] = self._ordered(
            lambda x: self.attention(x, prepared), lambda x: x
        )
        for each in sub_layers:
            latents = self._around(each, latents)
        return latents

    def flops_of_inputs(self, length: int) -> float:
        """Return the FLOPs of keys and values of one sequence."""
        return 2.0 * length * 2 * self.attention.key.weight.numel()

    def flops_of_latents(self, num_latents: int, length: int) -> float:
        """Return the FLOPs of queries, scores, sums, outputs and feed-forward."""
        maps = 2 * self.attention.query.weight.numel() + 2 * length * self.attention.key.in_features
        mlp = 0.0 if self.mlp is None else self.mlp.flops(num_latents)
        return 2.0 * num_latents * maps + mlp


def fourier_features(axes: tuple[int, ...], bands: int) -> Tensor:
    """Return features of all positions of a grid, `[positions, axes * (2 * bands + 1)]`.

    Positions are row by row. Each axis has its sines, its cosines and the coordinate; without
    bands there are no features.
    """
    if bands == 0:
        return torch.zeros(math.prod(axes), 0)
    ticks = [torch.linspace(-1, 1, size, dtype=torch.float64) for size in axes]
    features = []
    for size, p in zip(axes, torch.meshgrid(*ticks, indexing="ij"), strict=True):
        frequencies = torch.linspace(1, size / 2, bands, dtype=torch.float64)
        angles = math.pi * p.flatten().unsqueeze(1) * frequencies
        features += [angles.sin(), angles.cos(), p.flatten().unsqueeze(1)]
    return torch.cat(features, dim=1).to(torch.get_default_dtype())
