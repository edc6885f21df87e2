"""Collect small pictures from trained models that read, describe or draw images.

From an image classifier:

    images            the first validation image of each of the first three classes
    patch_attention   the weight that the head gives each patch of these images, the mean over the
                      heads of attention: the weight of the class token, or the mean over all tokens
                      if the head averages them. Once in the last layer, and once through all layers
                      by attention rollout (Abnar and Zuidema 2020, arXiv:2005.00928)
    grid_positions    cosines between the vector of a position and those of all others (Dosovitskiy
                      et al. 2020, arXiv:2010.11929, figure 7, centre), without the class token
    filters           the first principal components of a patch embedding (figure 7, left), or the
                      largest kernels of a convolution as they are

From a captioner, on four pictures of the validation split, evenly spaced from the first one on:

    captioned_images  the pictures, each with the reference caption
    caption           the caption that the model writes by the search of its task
    word_attention    for the first and third picture, the weights with which each word of the
                      reference caption is predicted, one small picture per word

From a model that draws, on the same pictures:

    asked_images      the pictures, each with its caption, if there is one
    drawn_images      ``given back``: the pictures through the code of the model; ``drawn``: the
                      pictures that the model draws from their captions

A model without any of these has no samples: windowed attention and convolutions have no attention
over patches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import Architecture, Mixer, ModelError
from bakeoff.models.interface import CONTEXT, IMAGE_TOKENS, INPUTS
from bakeoff.models.positions.absolute import Position
from bakeoff.suite.probes.samples.building import (
    MOST_SIDE,
    Look,
    calls_noted,
    device_of,
    evenly_chosen,
    has_weights,
    in_pixels,
    mixers_of,
    pictures_sample,
    smaller,
    validation_examples,
)
from bakeoff.suite.schema import Sample
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task
from bakeoff.suite.training.engines import engine

NUM_IMAGES, NUM_FILTERS, NUM_PICTURES = 3, 16, 4
LOOKED_AT = (0, 2)  # indices of captioned pictures
MOST_WORDS = 12  # the first words of a caption
MOST_OF_FILTER = 16  # pixels of a filter; larger filters are downsampled
# Positions per row or column of the grid whose similarities are shown; fewer for a finer grid.
MOST_ACROSS, MOST_OF_FINE, FINE = 8, 4, 17
PIXELS, OWN_RANGE = "pixels", "own range"
LAST_LAYER, ROLLOUT = "last layer", "rollout"
COMPONENTS, KERNELS = "principal components", "kernels"
GIVEN_BACK, DRAWN = "given back", "drawn"
_MOST_SEARCHED, _BATCH, _CAPTIONED_BATCH = 1024, 128, 250  # examples
_MOST_COMPUTED = 1024  # patches; beyond, the weights of all pairs would need too much memory
_COLOURS = (1, 3)  # numbers of channels that can be shown


def images(model: Architecture, task: Task) -> list[Sample]:
    """Return the chosen images, in their original pixels if the task defines the normalisation."""
    if task.input_size not in _COLOURS:
        return []
    shown = torch.cat([example.inputs[INPUTS] for example in chosen_images(task)]).float()
    if task.pixel_mean and task.pixel_standard_deviation:
        return [pictures_sample("images", PIXELS, in_pixels(task, shown), low=0.0)]
    low, high = shown.amin((1, 2, 3), keepdim=True), shown.amax((1, 2, 3), keepdim=True)
    shown = (shown - low) / (high - low).clamp(min=1e-9)
    return [pictures_sample("images", OWN_RANGE, smaller(shown, MOST_SIDE), low=0.0)]


def chosen_images(task: Task) -> list[Batch]:
    """Return the first validation example of each of the first classes, as batches of one."""
    found: dict[int, Batch] = {}
    wanted = range(min(NUM_IMAGES, task.output_size))
    num_searched = 0
    for batch in task.held_out("validation", _BATCH):
        for row, label in enumerate(batch.targets.tolist()):
            if label in wanted:
                found.setdefault(label, batch.rows(slice(row, row + 1)))
        num_searched += len(batch.targets)
        if len(found) == len(wanted) or num_searched >= _MOST_SEARCHED:
            break
    return [found[label] for label in sorted(found)]


def patch_attention(model: Architecture, task: Task) -> list[Sample]:
    """Return the weights of patches, if the layers have weights over all patches.

    There is no rollout without a residual connection around the mixers.
    """
    grid, mixers = model.patch_grid(), mixers_of(model)
    if grid is None or not mixers or not has_weights(mixers[-1]):
        return []
    if math.prod(grid) > _MOST_COMPUTED or task.input_size not in _COLOURS:
        return []
    found: dict[str, list[Tensor]] = {LAST_LAYER: [], ROLLOUT: []}
    is_summed: bool = getattr(model.config, "has_residual", True)
    for example in chosen_images(task):
        layers = _weights_of_layers(model, mixers, example)
        if layers[-1].shape[-1] != _num_before(model) + math.prod(grid):
            return []  # windowed attention, or a grid that was downsampled
        found[LAST_LAYER].append(_patch_weights(layers[-1], model, grid))
        is_whole = len(layers) == model.spec.depth and len({each.shape for each in layers}) == 1
        if is_summed and is_whole:
            found[ROLLOUT].append(_patch_weights(rollout(layers), model, grid))
    return [
        pictures_sample("patch_attention", title, torch.stack(maps), low=0.0)
        for title, maps in found.items()
        if maps
    ]


def _weights_of_layers(
    model: Architecture, mixers: Sequence[Mixer], example: Batch
) -> list[Tensor]:
    """Return the mean over heads, `[tokens, tokens]`, of each layer with weights, bottom first."""
    with calls_noted(mixers) as calls:
        example.to(device_of(model)).through(model)
    found = []
    for mixer in mixers:
        arguments, named = calls[mixer]
        if has_weights(mixer):
            found.append(mixer.attention_weights(*arguments, **named)[0].mean(dim=0).double())
    return found


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """Return the share of every input token in every token after some layers, `[tokens, tokens]`.

    Abnar and Zuidema 2020, equation 1: the product over the layers, the last one on the left, of
    (A + I) / 2, with rows that sum to one; one half accounts for the residual connection.

    Args:
        layers: A of each layer, bottom first.
    """
    product = identity = torch.eye(len(layers[0]), dtype=layers[0].dtype, device=layers[0].device)
    for weights in layers:
        mixed = (weights + identity) / 2
        product = (mixed / mixed.sum(dim=-1, keepdim=True)) @ product
    return product


def _patch_weights(weights: Tensor, model: Architecture, grid: tuple[int, int]) -> Tensor:
    """Return the weight that the head gives each patch, `[rows, columns, 1]`."""
    has_class_token = getattr(model.config, "pooling", "mean") == "class_token"
    row = weights[0] if has_class_token else weights.mean(dim=0)
    return row[_num_before(model) :].reshape(*grid, 1)


def _num_before(model: Architecture) -> int:
    """Return the number of tokens before the first patch."""
    found: int = getattr(model, "num_extra", 0)
    return found


def position_grids(model: Architecture, task: Task) -> list[Sample]:
    """Return the cosines between the vectors of absolute positions, one picture per position."""
    grid = model.patch_grid()
    if grid is None:
        return []
    most = MOST_ACROSS if max(grid) < FINE else MOST_OF_FINE
    rows, columns = (evenly_chosen(range(side), most) for side in grid)
    chosen = [row * grid[1] + column for row in rows for column in columns]
    num_before = _num_before(model)
    length = num_before + math.prod(grid)
    found = []
    for position in model.modules():
        if isinstance(position, Position) and position.max_length >= length:
            vectors = position.vectors(length)
            if vectors is not None:
                unit = functional.normalize(vectors[num_before:].double(), dim=-1)
                cosines = (unit[chosen] @ unit.T).reshape(len(chosen), *grid, 1)
                found.append(pictures_sample("grid_positions", "cosine similarity", cosines))
    return found


def first_filters(model: Architecture, task: Task) -> list[Sample]:
    """Return the filters of the first layer on pixels, each divided by its own largest value."""
    if task.input_size not in _COLOURS:
        return []
    for module in model.modules():
        filters = _filters_of(module, model, task.input_size)
        if filters is not None:
            is_of_patches = isinstance(module, nn.Linear) or module.stride == module.kernel_size
            return [_components(filters) if is_of_patches else _largest(filters)]
    return []


def _filters_of(module: nn.Module, model: Architecture, channels: int) -> Tensor | None:
    """Return `[filters, rows, columns, channels]`, or None if the module does not read pixels."""
    side: int = getattr(model.config, "patch", 0)
    if isinstance(module, nn.Conv2d) and module.groups == 1 and module.in_channels == channels:
        return module.weight.double().movedim(1, -1)
    if isinstance(module, nn.Linear) and side > 1 and module.in_features == side**2 * channels:
        return module.weight.double().reshape(-1, side, side, channels)
    return None


def _components(filters: Tensor) -> Sample:
    """Return the principal components of the filters, each with its share of their variance.

    The sign of a component is arbitrary: its largest value is shown as positive.
    """
    flat = filters.flatten(1)
    _, spread, components = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    shares = spread.square() / spread.square().sum().clamp(min=1e-12)
    shown = components[:NUM_FILTERS].reshape(-1, *filters.shape[1:])
    return pictures_sample(
        "filters",
        COMPONENTS,
        _to_one(shown, signed=False),
        low=-1.0,
        row_words=tuple(f"{100 * share:.0f} %" for share in shares[: len(shown)].tolist()),
    )


def _largest(filters: Tensor) -> Sample:
    order = filters.flatten(1).norm(dim=1).argsort(descending=True, stable=True)
    return pictures_sample("filters", KERNELS, _to_one(filters[order[:NUM_FILTERS]]), low=-1.0)


def _to_one(filters: Tensor, *, signed: bool = True) -> Tensor:
    """Divide each filter by its largest value, or by the magnitude of that."""
    filters = smaller(filters, MOST_OF_FILTER)
    flat = filters.flatten(1)
    largest = flat.gather(1, flat.abs().argmax(dim=1, keepdim=True))
    largest = largest.abs() if signed else largest
    scaled = flat / torch.where(largest == 0, torch.ones_like(largest), largest)
    return scaled.reshape(filters.shape)


def captions(model: Architecture, task: Task) -> list[Sample]:
    """Return the samples of a captioner; empty if the task does not ask for captions."""
    metric = task.metric
    if task.asks_for != "sequence" or not isinstance(metric, SequenceMetric) or not metric.decoder:
        return []
    chosen = [example.to(device_of(model)) for example in chosen_examples(task)]
    asked = [
        task.text([token for token in example.targets[0].tolist() if token != UNSCORED])
        for example in chosen
    ]
    shown = in_pixels(task, torch.cat([example.inputs[CONTEXT] for example in chosen]))
    words = tuple(asked)
    found = [pictures_sample("captioned_images", PIXELS, shown, low=0.0, row_words=words)]
    for number, (example, reference) in enumerate(zip(chosen, asked, strict=True), start=1):
        (row,) = engine.written(model, example, metric.decoder, metric.end).rows()
        title, text = f"picture {number}", task.text(row)
        found.append(Sample(kind="caption", title=title, text=text, reference=reference))
    with suppress(ModelError):  # the model has no weights
        found += [_word_attention(model, task, chosen[place], place + 1) for place in LOOKED_AT]
    return found


def chosen_examples(task: Task) -> list[Batch]:
    """Return the examples that are captioned or drawn, as batches of one."""
    examples = validation_examples(task, _CAPTIONED_BATCH)
    return [examples[number * len(examples) // NUM_PICTURES] for number in range(NUM_PICTURES)]


def _word_attention(model: Architecture, task: Task, example: Batch, number: int) -> Sample:
    """Return the weights of the first words of the reference caption.

    Raises:
        ModelError: if the model has no weights.
    """
    weights: Tensor = model.attention_weights(**example.inputs)[0].double().cpu()
    grid = model.source_grid()
    if grid is None or math.prod(grid) != weights.shape[1]:
        raise ModelError("the weights are not of the positions of a picture")
    words = [
        (word, place)
        for place, token in enumerate(example.targets[0].tolist())
        if token != UNSCORED and (word := task.text([token]))
    ][:MOST_WORDS]
    maps = weights[[place for _, place in words]].reshape(len(words), *grid, 1)
    return pictures_sample(
        "word_attention",
        f"picture {number}",
        maps,
        low=0.0,
        row_words=tuple(word for word, _ in words),
    )


def drawings(model: Architecture, task: Task) -> list[Sample]:
    """Return the samples of a model that draws."""
    batch = joined(chosen_examples(task)).to(device_of(model))
    has_captions = CONTEXT in batch.inputs
    rows = batch.inputs[INPUTS].tolist() if has_captions else []
    asked, words = in_pixels(task, batch.targets), tuple(map(task.text, rows))
    found = [pictures_sample("asked_images", PIXELS, asked, low=0.0, row_words=words)]
    made = {GIVEN_BACK: _given_back(model, batch)}
    if has_captions:
        made[DRAWN] = engine.drawn(model, batch)
    return found + [
        pictures_sample("drawn_images", title, in_pixels(task, pictures), low=0.0)
        for title, pictures in made.items()
        if pictures is not None
    ]


def _given_back(model: Any, batch: Batch) -> Tensor | None:
    """Return the pictures through the code of the model, or None if it has another kind of code."""
    outputs = batch.through(model)
    if CONTEXT not in batch.inputs:
        return outputs.logits
    if not hasattr(model, "tokenizer"):
        return None
    returned: Tensor = model.tokenizer.images(outputs.auxiliary[IMAGE_TOKENS])
    return returned


def looks_for(task: Task) -> tuple[Look, ...]:
    """Return the functions of this module that collect samples on that task."""
    if task.asks_for in ("image", "drawing"):
        return (drawings,)
    if any(each.kind == "image" for each in task.other_inputs(task.length).values()):
        return (captions,)
    is_of_images = task.input_kind == "image"
    return (images, patch_attention, position_grids, first_filters) if is_of_images else ()
