"""What has a trained model made of places? How alike they are, or what distances add to scores."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from models import Mixer, Skeleton
from models.positions.absolute import Position
from models.positions.relative import RelativePosition
from suite.attention_maps import MAX_HEADS, MAX_LAYERS, MAX_TOKENS, mixers_of
from suite.matrices import evenly_chosen, matrix_specimen
from suite.schema import Specimen
from suite.tasks.task import Task

MAX_PLACES = 64
COSINE = "cosine similarity"


def position_matrices(model: Skeleton, task: Task) -> list[Specimen]:
    """Of an absolute position the cosines between its vectors, of a bias the matrix of each head.

    Positions that act in another way (none, rope, shaw) have no such matrix.
    """
    return [*_cosines(model), *_biases(model)]


def _cosines(model: Skeleton) -> Iterator[Specimen]:
    for position in model.modules():
        if isinstance(position, Position):
            vectors = position.vectors(min(MAX_PLACES, position.max_length))
            if vectors is not None:
                unit = functional.normalize(vectors.double(), dim=-1)
                yield matrix_specimen("positions", COSINE, unit @ unit.T)


def _biases(model: Skeleton) -> Iterator[Specimen]:
    """Layers that add what the first of them adds are left out: ALiBi's are all alike."""
    mixers = mixers_of(model)
    places = torch.arange(
        min(MAX_TOKENS, model.spec.length), device=next(model.parameters()).device
    )
    first: Tensor | None = None
    for layer in evenly_chosen(range(len(mixers)), MAX_LAYERS):
        bias = _bias(mixers[layer], places[None, :] - places[:, None])
        if bias is None or (first is not None and torch.equal(bias, first)):
            continue
        first = bias if first is None else first
        for head in evenly_chosen(range(len(bias)), MAX_HEADS):
            yield matrix_specimen("positions", f"layer {layer + 1}, head {head + 1}", bias[head])


def _bias(mixer: Mixer, distance: Tensor) -> Tensor | None:
    """What is added to the scaled scores, `[heads, time, time]`."""
    for module in mixer.modules():
        if isinstance(module, RelativePosition):
            return module.bias(distance, torch.float32)
    return None
