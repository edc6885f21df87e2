"""What a trained vision model leaves to look at, as small pictures; see `Specimen.picture`.

    images            the first validation image of each of the first three classes
    patch_attention   of each image, what the head's reader takes from each patch, the mean over
                      heads: the reader is the class token, or, where the head reads the mean over
                      the tokens, their mean. In the last layer; and through all layers, by
                      attention rollout (Abnar and Zuidema 2020, arXiv:2005.00928)
    grid_positions    cosines between a place's vector and that of every other (Dosovitskiy et al.
                      2020, arXiv:2010.11929, figure 7, centre); without the class token
    filters           of a map of patches the first principal components of its filters (figure 7,
                      left), of a convolution its largest kernels as they are

What a model has not, it leaves out: windows and convolutions give no attention over the patches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from models import Architecture, Mixer
from models.interface import INPUTS
from models.positions.absolute import Position
from suite.probes.specimens.calls import calls_noted, has_weights, mixers_of
from suite.probes.specimens.matrix import evenly_chosen, matrix_specimen
from suite.schema import Specimen
from suite.tasks.task import Batch, Task

NUM_IMAGES, NUM_FILTERS = 3, 16
MOST_SIDE, MOST_OF_FILTER = 64, 16  # pixels that are shown; what has more is made smaller
# Places of a row or a column of the grid whose similarities are shown; of a finer grid fewer.
MOST_ACROSS, MOST_OF_FINE, FINE = 8, 4, 17
PIXELS, OWN_RANGE = "pixels", "own range"
LAST_LAYER, ROLLOUT = "last layer", "rollout"
COMPONENTS, KERNELS = "principal components", "kernels"
_MOST_SEARCHED, _BATCH = 1024, 128  # examples
_MOST_COMPUTED = 1024  # patches; beyond, the weights of all pairs would need too much memory
_COLOURS = (1, 3)  # numbers of channels that can be shown


def images(model: Architecture, task: Task) -> list[Specimen]:
    """The images by the module's rule, each value between 0 and 1."""
    if task.input_kind != "image" or task.input_size not in _COLOURS:
        return []
    shown = torch.cat([example.inputs[INPUTS] for example in chosen_images(task)]).float()
    mean, deviation = map(torch.tensor, (task.pixel_mean, task.pixel_standard_deviation))
    if len(mean) and len(deviation):
        title, shown = PIXELS, (shown * deviation + mean).clamp(0, 1)
    else:
        title, low, high = OWN_RANGE, shown.amin((1, 2, 3)), shown.amax((1, 2, 3))
        span = (high - low).clamp(min=1e-9)
        shown = (shown - low[:, None, None, None]) / span[:, None, None, None]
    return [pictures_specimen("images", title, smaller(shown, MOST_SIDE), low=0.0)]


def smaller(pictures: Tensor, most: int) -> Tensor:
    """`[pictures, rows, columns, channels]` of sides of at most so many pixels, by means."""
    by = -(-max(pictures.shape[1:3]) // most)
    if by == 1:
        return pictures
    return functional.avg_pool2d(pictures.movedim(-1, 1), by, ceil_mode=True).movedim(1, -1)


def pictures_specimen(kind: str, title: str, pictures: Tensor, **words: object) -> Specimen:
    """Of `[pictures, rows, columns, channels]`; see `matrix_specimen`."""
    return matrix_specimen(
        kind,
        title,
        pictures.flatten(1),
        picture=tuple(pictures.shape[1:]),
        **words,  # type: ignore[arg-type]
    )


def chosen_images(task: Task) -> list[Batch]:
    """The first one of each of the first classes in the validation split, each a batch of one."""
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


def patch_attention(model: Architecture, task: Task) -> list[Specimen]:
    """In the last layer and by rollout, as far as the layers have weights over all patches.

    Without a sum around the mixers there is no rollout.
    """
    grid, mixers = model.patch_grid(), mixers_of(model)
    if grid is None or not mixers or not has_weights(mixers[-1]):
        return []
    if math.prod(grid) > _MOST_COMPUTED or task.input_size not in _COLOURS:
        return []
    found: dict[str, list[Tensor]] = {LAST_LAYER: [], ROLLOUT: []}
    for example in chosen_images(task):
        layers = _weights_of_layers(model, mixers, example)
        if layers[-1].shape[-1] != _num_before(model) + math.prod(grid):
            return []  # of windows, or of a grid that has become coarser
        found[LAST_LAYER].append(_read(layers[-1], model, grid))
        if len({tuple(each.shape) for each in layers}) == 1 and _can_roll(model, layers):
            found[ROLLOUT].append(_read(rollout(layers), model, grid))
    return [
        pictures_specimen("patch_attention", title, torch.stack(maps), low=0.0)
        for title, maps in found.items()
        if maps
    ]


def _can_roll(model: Architecture, layers: Sequence[Tensor]) -> bool:
    is_summed: bool = getattr(model.config, "has_residual", True)
    return is_summed and len(layers) == model.spec.depth


def _weights_of_layers(
    model: Architecture, mixers: Sequence[Mixer], example: Batch
) -> list[Tensor]:
    """`[tokens, tokens]`, the mean over heads, of each layer that has weights, bottom first."""
    with calls_noted(mixers) as calls:
        example.to(str(next(model.parameters()).device)).through(model)
    found = []
    for mixer in mixers:
        arguments, named = calls[mixer]
        if has_weights(mixer):
            found.append(mixer.attention_weights(*arguments, **named)[0].mean(dim=0).double())
    return found


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """How much of every input token stands in every token after some layers, `[tokens, tokens]`.

    Abnar and Zuidema 2020, equation 1: the product over the layers, the last one on the left, of
    (A + I) / 2, with rows that sum to one; half for what the sum around a mixer carries past it.

    Args:
        layers: A of each, bottom first.
    """
    joined = identity = torch.eye(len(layers[0]), dtype=layers[0].dtype, device=layers[0].device)
    for weights in layers:
        mixed = (weights + identity) / 2
        joined = (mixed / mixed.sum(dim=-1, keepdim=True)) @ joined
    return joined


def _read(weights: Tensor, model: Architecture, grid: tuple[int, int]) -> Tensor:
    """What the head's reader takes from each patch, `[rows, columns, 1]`."""
    has_class_token = getattr(model.config, "pooling", "mean") == "class_token"
    row = weights[0] if has_class_token else weights.mean(dim=0)
    return row[_num_before(model) :].reshape(*grid, 1)


def _num_before(model: Architecture) -> int:
    """Tokens before the first patch."""
    found: int = getattr(model, "num_extra", 0)
    return found


def position_grids(model: Architecture, task: Task) -> list[Specimen]:
    """Of absolute positions that have vectors; a picture a place, row by row."""
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
                found.append(pictures_specimen("grid_positions", "cosine similarity", cosines))
    return found


def first_filters(model: Architecture, task: Task) -> list[Specimen]:
    """What the first map sees of the pixels; each divided by its own largest value."""
    if task.input_kind != "image" or task.input_size not in _COLOURS:
        return []
    for module in model.modules():
        filters = _filters_of(module, model, task.input_size)
        if filters is not None:
            is_of_patches = isinstance(module, nn.Linear) or module.stride == module.kernel_size
            return [_components(filters) if is_of_patches else _largest(filters)]
    return []


def _filters_of(module: nn.Module, model: Architecture, channels: int) -> Tensor | None:
    """`[filters, rows, columns, channels]` of what reads pixels; None of anything else."""
    side: int = getattr(model.config, "patch", 0)
    if isinstance(module, nn.Conv2d) and module.groups == 1 and module.in_channels == channels:
        return module.weight.double().movedim(1, -1)
    if isinstance(module, nn.Linear) and side > 1 and module.in_features == side**2 * channels:
        return module.weight.double().reshape(-1, side, side, channels)
    return None


def _components(filters: Tensor) -> Specimen:
    """The principal components of the filters, each with its share of their variance.

    A component has no sign: its largest value is shown as positive.
    """
    flat = filters.flatten(1)
    _, spread, components = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    shares = spread.square() / spread.square().sum().clamp(min=1e-12)
    shown = components[:NUM_FILTERS].reshape(-1, *filters.shape[1:])
    return pictures_specimen(
        "filters",
        COMPONENTS,
        _to_one(shown, signed=False),
        low=-1.0,
        row_words=tuple(f"{100 * share:.0f} %" for share in shares[: len(shown)].tolist()),
    )


def _largest(filters: Tensor) -> Specimen:
    order = filters.flatten(1).norm(dim=1).argsort(descending=True, stable=True)
    return pictures_specimen("filters", KERNELS, _to_one(filters[order[:NUM_FILTERS]]), low=-1.0)


def _to_one(filters: Tensor, *, signed: bool = True) -> Tensor:
    """Each divided by its largest value, or by the size of that."""
    filters = smaller(filters, MOST_OF_FILTER)
    flat = filters.flatten(1)
    largest = flat.gather(1, flat.abs().argmax(dim=1, keepdim=True))
    largest = largest.abs() if signed else largest
    scaled = flat / torch.where(largest == 0, torch.ones_like(largest), largest)
    return scaled.reshape(filters.shape)


LOOKS = (images, patch_attention, position_grids, first_filters)
