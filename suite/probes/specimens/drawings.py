"""What a model that draws leaves to look at; see `Specimen.picture`.

asked_images   four pictures of the validation split, evenly spaced from the first one on, each
               with its caption, where there is one
drawn_images   ``given back``: what the model's code makes of them; ``drawn``: what the model
               draws by itself from their captions
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from models import Architecture
from models.interface import CONTEXT, IMAGE_TOKENS, INPUTS
from suite.probes.specimens.captions import chosen_examples
from suite.probes.specimens.images import MOST_SIDE, PIXELS, pictures_specimen, smaller
from suite.schema import Specimen
from suite.tasks.batch import joined
from suite.tasks.task import Batch, Task
from suite.training.engines.engine import drawn

GIVEN_BACK, DRAWN = "given back", "drawn"


def drawings(model: Architecture, task: Task) -> list[Specimen]:
    """All of the module's note; nothing where no picture is asked for."""
    if task.asks_for not in ("image", "drawing"):
        return []
    device = str(next(model.parameters()).device)
    batch = joined(chosen_examples(task)).to(device)
    found = [_specimen(task, "asked_images", PIXELS, batch.targets, _captions(task, batch))]
    if (returned := _given_back(model, batch)) is not None:
        found.append(_specimen(task, "drawn_images", GIVEN_BACK, returned))
    if CONTEXT in batch.inputs:
        found.append(_specimen(task, "drawn_images", DRAWN, drawn(model, batch)))
    return found


def _given_back(model: Any, batch: Batch) -> Tensor | None:
    """By the model's own code; None of a model that has another kind of one."""
    outputs = batch.through(model)
    if CONTEXT not in batch.inputs:
        return outputs.logits
    if not hasattr(model, "tokenizer"):
        return None
    returned: Tensor = model.tokenizer.images(outputs.auxiliary[IMAGE_TOKENS])
    return returned


def _captions(task: Task, batch: Batch) -> tuple[str, ...]:
    if CONTEXT not in batch.inputs:
        return ()
    return tuple(task.text(row) for row in batch.inputs[INPUTS].tolist())


def _specimen(
    task: Task, kind: Any, title: str, pictures: Tensor, words: tuple[str, ...] = ()
) -> Specimen:
    """Values from 0 to 1."""
    mean, deviation = map(torch.tensor, (task.pixel_mean, task.pixel_standard_deviation))
    shown = (pictures.float().cpu() * deviation + mean).clamp(0, 1)
    return pictures_specimen(kind, title, smaller(shown, MOST_SIDE), low=0.0, row_words=words)
