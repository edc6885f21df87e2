"""What architectures share: reading the inputs, the block, the trunk of blocks.

Block and trunk have a second form, one token at a time, for models that put out token by token.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from models.architecture import Architecture
from models.errors import ModelError
from models.initialisation import PartSeeds, scaled_normal
from models.mixer import Mixer, State
from models.model_spec import ModelSpec
from models.positions.absolute import NoPosition, Position
from models.registry import (
    construct_mixer,
    mixer_class,
    mixer_config,
    position_class,
    relative_position,
)


class TokenEmbedding(nn.Module):
    """Tokens `[batch, time]` -> `[batch, time, dim]`, multiplied by sqrt(dim).

    Section 3.4 of Vaswani et al. 2017 (arXiv:1706.03762): the factor lets one matrix serve as
    input and as output. Entries are drawn from normal(0, 1 / dim), so that tokens enter with unit
    variance and are not drowned by position encodings of unit amplitude, while the same matrix,
    unscaled, gives logits of unit variance. Drawn from normal(0, 0.02) without the factor, a
    model of width 64 ends 300 steps a bit per character worse.
    """

    def __init__(self, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, dim)
        self.scale = math.sqrt(dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look the tokens up."""
        embedded: Tensor = self.table(tokens)
        return embedded * self.scale


class InputEmbedding(nn.Module):
    """Inputs -> `[batch, time, dim]`: tokens by a table, vectors by a linear map.

    The map keeps torch's own initialisation: outputs of about the size of the inputs.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.map: nn.Module = (
            TokenEmbedding(spec.input_size, spec.dim)
            if spec.input_kind == "tokens"
            else nn.Linear(spec.input_size, spec.dim)
        )

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """`[batch, time]` integers, or `[batch, time, input_size]` floats.

        Padding is zeroed before anything is computed: NaN would reach the gradients of weights.
        """
        if mask is not None:
            is_pad = ~mask if inputs.ndim == 2 else ~mask.unsqueeze(-1)
            inputs = inputs.masked_fill(is_pad, 0)
        read: Tensor = self.map(inputs)
        return read

    def flops(self, length: int, batch: int = 1) -> float:
        """The linear map of vectors; a table look-up is 0."""
        if isinstance(self.map, nn.Linear):
            return float(batch * length * 2 * self.map.weight.numel())
        return 0.0


class FeedForward(nn.Module):
    """Two linear maps with a GELU between; the hidden width is 4 dim."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.expand = nn.Linear(dim, 4 * dim)
        self.contract = nn.Linear(4 * dim, dim)
        scaled_normal(self.expand)
        scaled_normal(self.contract)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, time, dim]` -> the same shape, each token for itself."""
        mapped: Tensor = self.contract(nn.functional.gelu(self.expand(x)))
        return mapped

    def flops(self, length: int, batch: int = 1) -> float:
        """Two products of dim by 4 dim for each token."""
        return float(batch * length * 2 * 2 * 4 * self.dim**2)


class Block(nn.Module):
    """Mixer, then feed-forward, each with its norm and residual: see `Architecture.Config`."""

    def __init__(self, mixer: Mixer, mlp: FeedForward, config: Architecture.Config) -> None:
        super().__init__()
        self.mixer_norm = nn.LayerNorm(mixer.dim)
        self.mixer = mixer
        self.mlp_norm = nn.LayerNorm(mixer.dim)
        self.mlp = mlp
        self.dropout = nn.Dropout(config.dropout)
        self.is_pre_norm = config.norm_placement == "pre"
        self.has_residual = config.has_residual

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`[batch, time, dim]` -> the same shape."""
        return self._around_mixed(
            x, self.mixer(self.mixer_norm(x) if self.is_pre_norm else x, mask)
        )

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One token `[batch, dim]`, and the mixer's state before it; see `Mixer.step`."""
        mixed, state = self.mixer.step(self.mixer_norm(x_t) if self.is_pre_norm else x_t, state)
        return self._around_mixed(x_t, mixed), state

    def _around_mixed(self, x: Tensor, mixed: Tensor) -> Tensor:
        """What surrounds the mixer, whose output for `x` is `mixed`."""
        x = self._add(x, mixed)
        if self.is_pre_norm:
            return self._add(x, self.mlp(self.mlp_norm(x)))
        x = self.mixer_norm(x)
        normed: Tensor = self.mlp_norm(self._add(x, self.mlp(x)))
        return normed

    def _add(self, x: Tensor, change: Tensor) -> Tensor:
        change = self.dropout(change)
        return x + change if self.has_residual else change

    def flops(self, length: int, batch: int = 1) -> float:
        """Mixer and feed-forward; norms and sums are elementwise."""
        return self.mixer.flops(length, batch) + self.mlp.flops(length, batch)


class ConcatenatedPosition(nn.Module):
    """A position joined to the token's side: [x; p] W, back to dim.

    Adding is the case in which W is two identity blocks, one above the other.
    """

    def __init__(self, position: Position) -> None:
        super().__init__()
        self.position = position
        self.join = nn.Linear(2 * position.dim, position.dim, bias=False)
        scaled_normal(self.join)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, time, dim]` -> the same shape."""
        return self._joined(x, x.shape[1], slice(None))

    def at(self, x_t: Tensor, place: int) -> Tensor:
        """See `Position.at`."""
        return self._joined(x_t, place + 1, place)

    def _joined(self, x: Tensor, length: int, places: int | slice) -> Tensor:
        vectors = self.position.vectors(length)
        assert vectors is not None, "the trunk refuses positions without vectors"
        vectors = vectors[places].expand_as(x).to(x.dtype)
        joined: Tensor = self.join(torch.cat([x, vectors], dim=-1))
        return joined

    def flops(self, length: int, batch: int = 1) -> float:
        """A product of 2 dim by dim for each token."""
        return float(batch * length * 2 * 2 * self.position.dim**2)


class Trunk(nn.Module):
    """Position, blocks, final norm: all that lies between embedding and head.

    A relative position is handed to every mixer, and nothing is added to the embeddings.
    """

    def __init__(
        self, spec: ModelSpec, config: Architecture.Config, seeds: PartSeeds, *, is_causal: bool
    ) -> None:
        super().__init__()
        self.position = _build_position(spec, config, seeds)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList()
        for layer, mixer in enumerate(build_mixers(spec, seeds, is_causal=is_causal)):
            with seeds.part(f"blocks.{layer}.mlp"):
                self.blocks.append(Block(mixer, FeedForward(spec.dim), config))
        is_pre_norm = config.norm_placement == "pre"
        self.norm = nn.LayerNorm(spec.dim) if is_pre_norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`[batch, time, dim]` -> the same shape."""
        x = self.dropout(self.position(x))
        for block in self.blocks:
            x = block(x, mask)
        normed: Tensor = self.norm(x)
        return normed

    def initial_states(self, batch: int) -> tuple[State, ...]:
        """Of every layer's mixer, before the first token.

        Raises:
            ModelError: the mixer has no step form, or sees later tokens.
        """
        return tuple(block.mixer.initial_state(batch) for block in self._layers)

    def step(
        self, x_t: Tensor, place: int, states: tuple[State, ...]
    ) -> tuple[Tensor, tuple[State, ...]]:
        """One token `[batch, dim]` that stands at `place`, and what layers know of earlier ones.

        Raises:
            ModelError: a place beyond those that the position knows.
        """
        x_t = self.dropout(self.position.at(x_t, place))
        new = []
        for block, state in zip(self._layers, states, strict=True):
            x_t, after = block.step(x_t, state)
            new.append(after)
        normed: Tensor = self.norm(x_t)
        return normed, tuple(new)

    @property
    def _layers(self) -> list[Block]:
        return cast("list[Block]", list(self.blocks))  # a ModuleList forgets its members' type

    def flops(self, length: int, batch: int = 1) -> float:
        """Blocks, and what joins positions to tokens."""
        layers = (block.flops(length, batch) for block in self._layers)
        return sum(layers, self.position.flops(length, batch))


def _build_position(
    spec: ModelSpec, config: Architecture.Config, seeds: PartSeeds
) -> Position | ConcatenatedPosition:
    relative = relative_position(spec.position)
    kind = NoPosition if relative else cast("type[Position]", position_class(spec.position))
    with seeds.part("position"):
        position = kind(dim=spec.dim, max_length=spec.length)
    if config.position_mode == "added":
        return position
    if isinstance(position, NoPosition):
        why = "acts inside the mixer" if relative else "has no vectors"
        raise ModelError(
            f"position={spec.position!r} {why}: there is nothing to concatenate with the "
            "embeddings (position_mode='concatenated')"
        )
    with seeds.part("position.join"):
        return ConcatenatedPosition(position)


def build_mixers(spec: ModelSpec, seeds: PartSeeds, *, is_causal: bool) -> list[Mixer]:
    """One for each layer, from the bottom upwards, each from the stream of its name."""
    mixers: list[Mixer] = []
    for layer in range(spec.depth):
        with seeds.part(f"blocks.{layer}.mixer"):
            mixers.append(build_mixer_of(spec, is_causal=is_causal))
            mixers[layer].take_place(layer, mixers[0])
    return mixers


def build_mixer_of(spec: ModelSpec, *, is_causal: bool) -> Mixer:
    """One mixer of the model that the spec names.

    Raises:
        ModelError: a mixer that has no causal form where one is needed; whatever it refuses.
    """
    config = mixer_config(spec.mixer, dim=spec.dim, knobs=spec.knobs)
    mixer = mixer_class(spec.mixer)
    if is_causal and not mixer.supports_causal:
        raise ModelError(
            f"{spec.mixer} cannot stand in {spec.architecture}, which is causal: "
            f"{mixer.why_not_causal}"
        )
    return construct_mixer(
        spec.mixer,
        dim=spec.dim,
        max_length=spec.length,
        is_causal=is_causal,
        config=config,
        position=relative_position(spec.position),
    )
