"""Blocks of sub-layers, and stacks of blocks with their positions.

Both also have a form that processes one token at a time, for models that write token by token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import build_position
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.mixer import Context, Mask, Mixer, State
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.registry import (
    construct_mixer,
    knobs_of_mixer,
    mixer_class,
    mixer_config,
    mixer_pattern,
    relative_position,
)
from bakeoff.models.reversible import Branch, after, mean_of, through
from bakeoff.models.sublayers import FeedForward, Residual, StackConfig, build_norm, normed

Mix = Callable[[Tensor], Tensor]


class SubLayer(NamedTuple):
    """A norm, a residual sum, a module, and the function that calls the module."""

    norm: nn.Module
    add: Residual
    module: nn.Module
    call: Mix

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The parameters of the norm, the sum and the module."""
        return tuple(p for part in self[:3] for p in part.parameters())


class Block(nn.Module):
    """Mixer, context mixer and feed-forward, each with its norm and sum; see `StackConfig`.

    Args:
        mixer: The mixer through which positions exchange information.
        config: Knobs of the stack.
        mlp: The feed-forward, or None.
        context_mixer: The mixer that reads another sequence, or None; never causal.
        share: Relative depth of the block, l / L for block l of L.
    """

    def __init__(
        self,
        mixer: Mixer,
        config: StackConfig,
        *,
        mlp: FeedForward | None,
        context_mixer: Mixer | None = None,
        share: float = 1.0,
    ) -> None:
        super().__init__()
        self.placement = config.norm_placement
        self.is_reversible = config.residual == "reversible"
        self.mixer_norm = build_norm(mixer.dim, config)
        self.mixer = mixer
        self.mixer_sum = Residual(mixer.dim, config, share)
        self.context_mixer = context_mixer
        if context_mixer is not None:
            self.context_norm = build_norm(mixer.dim, config)
            self.context_sum = Residual(mixer.dim, config, share)
        if mlp is not None:
            self.mlp_norm = build_norm(mixer.dim, config)
        self.mlp = mlp
        if mlp is not None:
            self.mlp_sum = Residual(mixer.dim, config, share)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Map `[batch, time, dim]` to the same shape; `context` is for the context mixer."""
        for sub_layer in self._sub_layers(mask, context, context_mask):
            x = self._around(sub_layer, x, mask)
        return x

    def branches(self, mask: Mask, context: Context, context_mask: Mask) -> list[Branch]:
        """Return the sub-layers without their sums, for `bakeoff.models.reversible`."""
        return [
            Branch(partial(self._change, each, mask=mask), each.parameters)
            for each in self._sub_layers(mask, context, context_mask)
        ]

    def step(self, x_t: Any, state: State, prepared: State = ()) -> tuple[Any, State]:
        """Process one token `[batch, dim]`, given the mixer's state and the prepared context.

        If the residual is reversible, `x_t` is a pair of streams.
        """

        def mix(x_t: Tensor) -> Tensor:
            nonlocal state
            mixed, state = self.mixer.step(x_t, state)
            return mixed

        def mix_context(x_t: Tensor) -> Tensor:
            assert self.context_mixer is not None, "called only where there is one"
            return self.context_mixer.attend(x_t.unsqueeze(1), prepared).squeeze(1)

        for sub_layer in self._ordered(mix, mix_context):
            if self.is_reversible:
                x_t = after(x_t, self._change(sub_layer, x_t[1]))
            else:
                x_t = self._around(sub_layer, x_t)
        return x_t, state

    def _sub_layers(self, mask: Mask, context: Context, context_mask: Mask) -> list[SubLayer]:
        def mix_context(x: Tensor) -> Tensor:
            assert self.context_mixer is not None, "called only where there is one"
            mixed: Tensor = self.context_mixer(x, mask, context, context_mask)
            return mixed

        return self._ordered(lambda x: self.mixer(x, mask), mix_context)

    def _ordered(self, mix: Mix, mix_context: Mix) -> list[SubLayer]:
        found = [SubLayer(self.mixer_norm, self.mixer_sum, self.mixer, mix)]
        if self.context_mixer is not None:
            parts = self.context_norm, self.context_sum, self.context_mixer
            found.append(SubLayer(*parts, mix_context))
        if self.mlp is not None:
            found.append(SubLayer(self.mlp_norm, self.mlp_sum, self.mlp, self.mlp))
        return found

    def _around(self, sub_layer: SubLayer, x: Tensor, mask: Mask = None) -> Tensor:
        """Apply a sub-layer with its sum, and its norm in the configured place."""
        norm, add, _, call = sub_layer
        if self.placement == "pre":
            summed: Tensor = add(x, call(normed(norm, x, mask)))
            return summed
        if self.placement == "post":
            return normed(norm, add(x, call(x)), mask)
        summed = add(x, normed(norm, call(x), mask))
        return summed

    def _change(self, sub_layer: SubLayer, x: Tensor, mask: Mask = None) -> Tensor:
        """Return the change that a sub-layer adds, with its norm inside."""
        norm, add, _, call = sub_layer
        if self.placement == "pre":
            return add.change(call(normed(norm, x, mask)))
        return add.change(normed(norm, call(x), mask))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the sub-layers; norms and sums are elementwise."""
        total = self.mixer.flops(length, batch)
        if self.context_mixer is not None:
            total += self.context_mixer.flops(length, batch, context_length)
        return total if self.mlp is None else total + self.mlp.flops(length, batch)


class Trunk(nn.Module):
    """Position, blocks and final norm: everything between embedding and head.

    A relative position is passed to every mixer; nothing is then added to the embeddings.

    Args:
        spec: Sizes, mixer and position.
        config: Knobs of the stack.
        seeds: Random streams of this stack; give each stack of a model `seeds.within(...)`.
        is_causal: Whether a token attends only to itself and earlier ones.
        context_mixer: Function that builds the mixer for another sequence, called once for each
            block, or None if there is no other sequence.
        has_embedding_norm: Whether the sum of tokens and positions is normed before the first
            block, as in BERT.

    Raises:
        ModelError: The options are incompatible.
    """

    def __init__(
        self,
        spec: ModelSpec,
        config: StackArchitecture.Config,
        seeds: PartSeeds,
        *,
        is_causal: bool,
        context_mixer: Callable[[], Mixer] | None = None,
        has_embedding_norm: bool = False,
    ) -> None:
        if is_causal and config.norm_kind == "batch":
            raise ModelError(
                f"{spec.architecture} is causal, and norm_kind='batch' lets a token see later ones"
            )
        super().__init__()
        self.is_reversible = config.residual == "reversible"
        self.position = build_position(spec, config.position_mode, config.position_std, seeds)
        self.embedding_norm = build_norm(spec.dim, config) if has_embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList()
        for layer, mixer in enumerate(build_mixers(spec, seeds, is_causal=is_causal)):
            mlp = context = None
            if config.feed_forward != "none":
                with seeds.part(f"blocks.{layer}.mlp"):
                    mlp = FeedForward(spec.dim, config)
            if context_mixer is not None:
                with seeds.part(f"blocks.{layer}.context_mixer"):
                    context = context_mixer()
            for each in (mixer, context) if self.is_reversible else ():
                refuse_state(each)
            share = (layer + 1) / spec.depth
            self.blocks.append(Block(mixer, config, mlp=mlp, context_mixer=context, share=share))
        has_norm = config.norm_placement != "post"
        self.norm = build_norm(spec.dim, config) if has_norm else nn.Identity()

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Map `[batch, time, dim]` to the same shape; `context` is for the context mixers."""
        return normed(self.norm, self.mixed(x, mask, context, context_mask), mask)

    def mixed(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Compute the result of `forward` before the final norm."""
        x = self.dropout(normed(self.embedding_norm, self.position(x), mask))
        if self.is_reversible:
            return through(partial(self._branches, mask, context_mask), x, context)
        for block in self.blocks:
            x = block(x, mask, context, context_mask)
        return x

    def _branches(self, mask: Mask, context_mask: Mask, context: Context) -> list[Branch]:
        found = (block.branches(mask, context, context_mask) for block in self._layers)
        return [branch for branches in found for branch in branches]

    def initial_states(self, batch: int) -> tuple[State, ...]:
        """Return the state of every layer's mixer before the first token.

        Raises:
            ModelError: The mixer has no step form, or is not causal.
        """
        return tuple(block.mixer.initial_state(batch) for block in self._layers)

    def prepare(self, context: Tensor, context_mask: Mask = None) -> tuple[State, ...]:
        """Prepare a context for every layer's context mixer; see `Mixer.prepare`."""
        return tuple(mixer.prepare(context, context_mask) for mixer in self.context_mixers())

    def context_mixers(self) -> list[Mixer]:
        """Return the context mixers, from the bottom layer upwards."""
        mixers = (block.context_mixer for block in self._layers)
        return [mixer for mixer in mixers if mixer is not None]

    def step(
        self,
        x_t: Tensor,
        place: int,
        states: tuple[State, ...],
        prepared: tuple[State, ...] | None = None,
    ) -> tuple[Tensor, tuple[State, ...]]:
        """Process one token `[batch, dim]` at position `place`, given the states of all layers.

        Raises:
            ModelError: `place` is beyond the positions of the position encoding.
        """
        x_t = self.dropout(normed(self.embedding_norm, self.position.at(x_t, place)))
        x: Any = (x_t, x_t) if self.is_reversible else x_t
        new = []
        contexts = prepared or ((),) * len(states)
        for block, state, context in zip(self._layers, states, contexts, strict=True):
            x, known = block.step(x, state, context)
            new.append(known)
        return normed(self.norm, mean_of(x) if self.is_reversible else x), tuple(new)

    def state_bytes(self, length: int, context_length: int | None = None) -> int:
        """Return the bytes of what `step` carries on after `length` tokens, with the context."""
        total = sum(block.mixer.state_bytes(length) for block in self._layers)
        if context_length is None:
            return total
        return total + sum(mixer.context_bytes(context_length) for mixer in self.context_mixers())

    @property
    def _layers(self) -> list[Block]:
        return cast("list[Block]", list(self.blocks))  # a ModuleList has no type of its members

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the blocks and of combining positions with tokens."""
        layers = (block.flops(length, batch, context_length) for block in self._layers)
        return sum(layers, self.position.flops(length, batch))


def refuse_state(mixer: Mixer | None) -> None:
    """Raise for a mixer that cannot be computed twice: one that changes as it trains, or samples.

    Raises:
        ModelError: The mixer defines `get_extra_state`, or returns True from `learns_by_score`.
    """
    if mixer is not None and type(mixer).get_extra_state is not nn.Module.get_extra_state:
        raise ModelError(
            f"{mixer.name} changes as it trains, and residual='reversible' computes it twice"
        )
    if mixer is not None and mixer.learns_by_score(mixer.config):
        raise ModelError(
            f"{mixer.name} learns by what it samples, and residual='reversible' keeps none of that"
        )


def build_mixers(spec: ModelSpec, seeds: PartSeeds, *, is_causal: bool) -> list[Mixer]:
    """Return one mixer for each layer, from the bottom upwards, each drawn from its own stream.

    The pattern of `spec.mixer` repeats; layers with the same mixer are numbered among themselves.
    """
    pattern = mixer_pattern(spec.mixer) or ("",)  # an empty name raises below
    mixers: list[Mixer] = []
    placed: dict[str, list[Mixer]] = {name: [] for name in pattern}
    for key in spec.knobs:
        if not any(key in knobs_of_mixer(name) for name in pattern):
            mixer_config(pattern[0], dim=spec.dim, knobs={key: spec.knobs[key]})  # raises
    for layer in range(spec.depth):
        name = pattern[layer % len(pattern)]
        with seeds.part(f"blocks.{layer}.mixer"):
            mixer = build_mixer_of(spec, name, is_causal=is_causal)
            mixer.take_place(len(placed[name]), [*placed[name], mixer][0])
        if spec.grid:
            mixer.take_grid(spec.grid, spec.length - math.prod(spec.grid))
        placed[name].append(mixer)
        mixers.append(mixer)
    return mixers


def build_mixer_of(spec: ModelSpec, name: str, *, is_causal: bool) -> Mixer:
    """Return one mixer of the model that the spec describes, with the knobs that it has.

    Raises:
        ModelError: The mixer must be causal and has no causal form, or raises for its sizes or
            knobs.
    """
    mixer = mixer_class(name)
    own = knobs_of_mixer(name)
    knobs = {key: value for key, value in spec.knobs.items() if key in own}
    config = mixer_config(name, dim=spec.dim, knobs=knobs)
    if is_causal and not mixer.supports_causal:
        raise ModelError(
            f"{name} cannot stand in {spec.architecture}, which is causal: {mixer.why_not_causal}"
        )
    return construct_mixer(
        name,
        dim=spec.dim,
        max_length=spec.length,
        is_causal=is_causal,
        config=config,
        position=relative_position(spec.position),
    )
