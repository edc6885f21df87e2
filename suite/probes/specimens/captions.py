"""What a captioner leaves to look at; see `Specimen.picture`.

    captioned_images  four pictures of the validation split, evenly spaced from the first one on,
                      each with the caption that is asked for
    caption           what the model writes about each by itself, by the search of its task
    word_attention    of the first and the third, the weights with which each word of the right
                      caption is predicted, one small picture a word

What a model has not, it leaves out: one that does not look gives no weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor

from models import Architecture, ModelError
from models.interface import CONTEXT
from suite.probes.specimens.images import MOST_SIDE, PIXELS, pictures_specimen, smaller
from suite.schema import Specimen
from suite.tasks.sequence_metrics import SequenceMetric
from suite.tasks.task import UNSCORED, Batch, Task
from suite.training.engines import engine

NUM_PICTURES = 4
LOOKED_AT = (0, 2)  # of them
MOST_WORDS = 12  # whose weights are shown, the first ones
_BATCH = 250


def captions(model: Architecture, task: Task) -> list[Specimen]:
    """All of the module's note; nothing where no caption is asked for."""
    metric = task.metric
    source = task.other_inputs(task.length).get(CONTEXT)
    if source is None or source.kind != "image" or task.asks_for != "sequence":
        return []
    if not isinstance(metric, SequenceMetric) or metric.decoder is None:
        return []
    device = str(next(model.parameters()).device)
    chosen = [example.to(device) for example in chosen_examples(task)]
    asked = [_asked(task, example) for example in chosen]
    found = [_images(task, chosen, asked)]
    for number, (example, reference) in enumerate(zip(chosen, asked, strict=True), start=1):
        (row,) = engine.written(model, example, metric.decoder, metric.end).rows()
        found.append(
            Specimen(
                kind="caption", title=f"picture {number}", text=task.text(row), reference=reference
            )
        )
    with suppress(ModelError):  # it has no weights
        found += [_looks(model, task, chosen[place], place + 1) for place in LOOKED_AT]
    return found


def chosen_examples(task: Task) -> list[Batch]:
    """By the module's rule, each a batch of one."""
    batches = list(task.held_out("validation", _BATCH))
    total = sum(len(each.targets) for each in batches)
    wanted = [number * total // NUM_PICTURES for number in range(NUM_PICTURES)]
    return [_row(batches, place) for place in wanted]


def _row(batches: list[Batch], place: int) -> Batch:
    for batch in batches:
        if place < len(batch.targets):
            return batch.rows(slice(place, place + 1))
        place -= len(batch.targets)
    raise IndexError(place)


def _asked(task: Task, example: Batch) -> str:
    return task.text([token for token in example.targets[0].tolist() if token != UNSCORED])


def _images(task: Task, chosen: list[Batch], asked: list[str]) -> Specimen:
    """In their own pixels, from 0 to 1."""
    shown = torch.cat([example.inputs[CONTEXT] for example in chosen]).float().cpu()
    mean, deviation = map(torch.tensor, (task.pixel_mean, task.pixel_standard_deviation))
    shown = (shown * deviation + mean).clamp(0, 1)
    return pictures_specimen(
        "captioned_images", PIXELS, smaller(shown, MOST_SIDE), low=0.0, row_words=tuple(asked)
    )


def _looks(model: Architecture, task: Task, example: Batch, number: int) -> Specimen:
    """Of the first words of the right caption.

    Raises:
        ModelError: the model has no weights.
    """
    weights: Tensor = model.attention_weights(**example.inputs)[0].double().cpu()
    grid = model.source_grid()
    if grid is None or math.prod(grid) != weights.shape[1]:
        raise ModelError("weights are not of the places of a picture")
    words = list(_words(task, example))[:MOST_WORDS]
    maps = weights[[place for _, place in words]].reshape(len(words), *grid, 1)
    return pictures_specimen(
        "word_attention",
        f"picture {number}",
        maps,
        low=0.0,
        row_words=tuple(word for word, _ in words),
    )


def _words(task: Task, example: Batch) -> Iterator[tuple[str, int]]:
    """The words that are asked for, each with its place."""
    for place, token in enumerate(example.targets[0].tolist()):
        if token != UNSCORED and (word := task.text([token])):
            yield word, place
