"""Find which outputs of a mixer depend on which inputs, and after how many layers all do.

Measured by gradients, not read from what a mixer declares: the derivative of each output token by
each input token, in float64, at random weights and a random input. What no derivative sees (a
sort, a hash, a maximum that goes to another token) counts as no dependence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice

import torch
from torch import Tensor

from models import Mixer, ModelError, ModelSpec
from models.stack import build_mixer_of

_WIDTHS = (8, 16, 32, 64)
_MOVED_BY = 0.1  # every parameter, at random: what starts as zero would hide what it multiplies
_SAMPLED_ROWS, _FEW, _MANY = 32, 16, 64


def layers_until_all_is_seen(spec: ModelSpec, length: int) -> int | None:
    """Layers of a stack until every output depends on every input that it ever may.

    What it ever may depend on are those that some number of such layers leads to. The stack is
    made as a model makes it, each layer told its place. Draws from torch's global generator.

    Returns:
        None if `most_layers` are not enough.
    """
    reached, maps = torch.eye(length, dtype=torch.bool), _Maps()
    layers = islice(_stack(narrowed(spec)), most_layers(length))
    for num_layers, mixer in enumerate(layers, start=1):
        reached = maps.of(mixer, length).times(reached)
        if torch.equal(reached, maps.ever):
            return num_layers
    return None


def most_layers(length: int) -> int:
    """Of a stack: enough for one more token a layer, even if only every other layer mixes."""
    return 2 * length


def dependence(mixer: Mixer, length: int) -> Tensor:
    """`[time, time2]`, True where an output depends on an input.

    A few outputs first, the ends and others at random: if these depend on everything, the rest
    are taken to, since at 512 tokens it would take seconds to ask each.
    """
    drawn = torch.randperm(length)[: _SAMPLED_ROWS - 2].tolist()
    sample = sorted({0, *drawn, length - 1})
    if bool(_rows(mixer, length, sample, _FEW).all()):
        return torch.ones(length, length, dtype=torch.bool)
    return _rows(mixer, length, range(length), _MANY)


def narrowed(spec: ModelSpec) -> ModelSpec:
    """The model as narrow as its mixer can be: the width has no part in who sees whom.

    A user's own mixer keeps its width, since it may do anything.
    """
    if ":" in spec.mixer:
        return spec
    for dim in (width for width in _WIDTHS if width < spec.dim):
        narrow = replace(spec, dim=dim, input_size=dim, output_size=dim)
        try:
            build_mixer_of(narrow, is_causal=False)
        except ModelError:
            continue
        return narrow
    return spec


def _stack(spec: ModelSpec) -> Iterator[Mixer]:
    """Layers from the bottom upwards, without end."""
    first: Mixer | None = None
    for layer in count():
        mixer = build_mixer_of(spec, is_causal=False)
        first = first or mixer
        mixer.take_place(layer, first)
        mixer.double().eval()
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=_MOVED_BY)
        yield mixer


def _rows(mixer: Mixer, length: int, outputs: list[int] | range, at_once: int) -> Tensor:
    """The rows of these outputs. Each has a sequence of the batch to itself."""
    x = torch.randn(length, mixer.dim, dtype=torch.float64)
    direction = torch.randn(mixer.dim, dtype=torch.float64)
    found = []
    for start in range(0, len(outputs), at_once):
        asked = torch.tensor(outputs[start : start + at_once])
        batch = x.repeat(len(asked), 1, 1).requires_grad_()
        projected = mixer(batch) @ direction  # (batch, time)
        (gradient,) = torch.autograd.grad(projected.gather(1, asked[:, None]).sum(), batch)
        found.append((gradient != 0).any(dim=-1))
    return torch.cat(found)


@dataclass(frozen=True)
class _Map:
    """Who sees whom in one layer, `[time, time2]`."""

    sees: Tensor

    @cached_property
    def _sparse(self) -> Tensor:
        return self.sees.float().to_sparse()

    def times(self, reached: Tensor) -> Tensor:
        """What outputs depend on whose inputs depend on `reached`."""
        num_ways: Tensor = torch.sparse.mm(self._sparse, reached.float())
        return num_ways > 0


class _Maps:
    """The maps of a stack's layers: most layers are alike, and are asked for a few rows only."""

    def __init__(self) -> None:
        self._known: list[_Map] = []
        self.ever = torch.zeros(0)

    def of(self, mixer: Mixer, length: int) -> _Map:
        """The mixer's; one known before if it has the same rows at the ends and inside."""
        places = [0, length // 3, length // 2, length - 1]
        rows = _rows(mixer, length, places, _FEW) if self._known else None
        for known in self._known:
            if rows is not None and torch.equal(known.sees[places], rows):
                return known
        self._known.append(_Map(dependence(mixer, length)))
        self.ever = self._closure(length)
        return self._known[-1]

    def _closure(self, length: int) -> Tensor:
        """What any number of layers, of the kinds known, leads to."""
        reached = torch.stack([each.sees for each in self._known]).any(dim=0)
        for _ in range(length.bit_length()):
            reached = reached | ((reached.float() @ reached.float()) > 0)
        return reached
