"""Build samples of matrices and pictures, and record the calls of a model's mixers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import Architecture, Mixer
from bakeoff.suite.schema import Sample, SampleKind
from bakeoff.suite.tasks.task import Batch, Task

MOST_SIDE = 64  # pixels of a picture; larger pictures are downsampled
_LEVELS = 255

Look = Callable[[Architecture, Task], list[Sample]]
Call = tuple[tuple[Any, ...], dict[str, Any]]


def mixers_of(model: nn.Module) -> list[Mixer]:
    """Return the mixers of all layers, from the bottom upwards."""
    return [module for module in model.modules() if isinstance(module, Mixer)]


def has_weights(mixer: Mixer) -> bool:
    """Return True if the mixer defines `attention_weights`."""
    return type(mixer).attention_weights is not Mixer.attention_weights


@contextmanager
def calls_noted(mixers: Sequence[Mixer]) -> Iterator[dict[Mixer, Call]]:
    """Record the arguments of the first call of each mixer inside the block."""
    calls: dict[Mixer, Call] = {}

    def note(mixer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls.setdefault(mixer, (arguments, named))

    hooks = [mixer.register_forward_pre_hook(note, with_kwargs=True) for mixer in mixers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def device_of(model: nn.Module) -> str:
    """Return the device of the model."""
    return str(next(model.parameters()).device)


def validation_examples(task: Task, batch: int, most: int | None = None) -> list[Batch]:
    """Return the first `most` examples of the validation split, or all, as batches of one."""
    examples = (
        found.rows(slice(row, row + 1))
        for found in task.held_out("validation", batch)
        for row in range(len(found.targets))
    )
    return list(islice(examples, most))


def matrix_sample(
    kind: SampleKind, title: str, matrix: Tensor, *, low: float | None = None, **others: Any
) -> Sample:
    """Return a sample of `[rows, columns]`, quantised to 256 levels over the range of values.

    Args:
        kind: The kind of the sample.
        title: Its title.
        matrix: The values, `[rows, columns]`.
        low: The value of level 0, or None for the smallest value.
        others: Further fields of `Sample`.

    Raises:
        ValueError: if a value is not finite, or below `low`.
    """
    values = matrix.detach().cpu().double()
    bottom = values.min().item() if low is None else low
    top = values.max().item()
    if not values.isfinite().all() or values.min().item() < bottom:
        raise ValueError(f"{title}: a value is not finite, or below {bottom}")
    span = top - bottom
    levels = ((values - bottom) * (_LEVELS / span if span > 0 else 0.0)).round().byte()
    return Sample(
        kind=kind,
        title=title,
        num_rows=levels.shape[0],
        num_columns=levels.shape[1],
        levels=base64.b64encode(bytes(levels.flatten().tolist())).decode(),
        low=bottom,
        high=top,
        **others,
    )


def pictures_sample(kind: SampleKind, title: str, pictures: Tensor, **others: Any) -> Sample:
    """Return a sample of `[pictures, rows, columns, channels]`; see `matrix_sample`."""
    return matrix_sample(
        kind, title, pictures.flatten(1), picture=tuple(pictures.shape[1:]), **others
    )


def in_pixels(task: Task, pictures: Tensor) -> Tensor:
    """Return pictures as they were before the task normalised them, downsampled, from 0 to 1."""
    mean, deviation = map(torch.tensor, (task.pixel_mean, task.pixel_standard_deviation))
    return smaller((pictures.float().cpu() * deviation + mean).clamp(0, 1), MOST_SIDE)


def smaller(pictures: Tensor, most: int) -> Tensor:
    """Average `[pictures, rows, columns, channels]` down to sides of at most `most` pixels."""
    by = -(-max(pictures.shape[1:3]) // most)
    if by == 1:
        return pictures
    return functional.avg_pool2d(pictures.movedim(-1, 1), by, ceil_mode=True).movedim(1, -1)


def evenly_chosen(of: Sequence[int], most: int) -> list[int]:
    """Return at most `most` items, evenly spaced: the first, the last, and some between."""
    if len(of) <= most:
        return list(of)
    return [of[round(index * (len(of) - 1) / (most - 1))] for index in range(most)]
