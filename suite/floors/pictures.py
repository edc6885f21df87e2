"""Answer with a picture of the training data: the mean of all, or the one whose caption is nearest.

The second is what retrieval has for drawing: among `NUM_DRAWN` training pictures the one whose
caption has most words and pairs of neighbouring words in common with the one asked for, as a share
of all that either has.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from models.interface import INPUTS, Outputs
from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches, texts, training_batches
from suite.tasks.metrics import PictureMetric
from suite.tasks.task import Batch, Task


class MeanPicture(Floor):
    """The mean of the training pictures, pixel by pixel."""

    name = "mean_picture"
    label = "mean picture"
    version = 1
    needs = "a picture to be returned"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for == "image"

    def score(self, task: Task) -> float:
        """There is nothing to choose."""
        pictures = torch.cat([batch.targets for batch in training_batches(task)])
        mean = pictures.double().mean(dim=0).float()

        def answered(batch: Batch) -> Outputs:
            return Outputs(mean.expand(batch.targets.shape))

        return task.metric.over(
            task.metric.sums(answered(batch), batch) for batch in held_out_batches(task, "test")
        )


class NearestDrawing(Floor):
    """The picture of the training example whose caption is nearest."""

    name = "nearest_drawing"
    label = "picture of the nearest caption"
    version = 1
    needs = "a caption, a picture to be drawn, and a metric of what is drawn"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for == "drawing" and isinstance(task.metric, PictureMetric)

    def score(self, task: Task) -> float:
        """There is nothing to choose."""
        assert isinstance(task.metric, PictureMetric), "see `suits`"
        metric, found = task.metric, list(training_batches(task))
        pictures = torch.cat([batch.targets for batch in found])
        known = torch.cat([_words(batch, task.input_size) for batch in found])

        def drawn(batch: Batch) -> Tensor:
            return pictures[_nearest(_words(batch, task.input_size), known)]

        return metric.over(
            metric.sums_of(drawn(batch), batch) for batch in held_out_batches(task, "test")
        )


def _words(batch: Batch, num_symbols: int) -> Tensor:
    """`[batch, symbols + pairs]`, 1 for each that a caption has, without its start symbol."""
    found = np.zeros((len(batch.inputs[INPUTS]), num_symbols * (1 + num_symbols)), dtype=np.float32)
    for row, text in zip(found, texts(batch), strict=True):
        words = text[1:]
        row[words] = 1
        row[num_symbols + words[:-1] * num_symbols + words[1:]] = 1
    return torch.from_numpy(found)


def _nearest(asked: Tensor, known: Tensor) -> Tensor:
    """`[asked]`: of the known ones the first with the largest share in common."""
    both = asked @ known.T
    either = asked.sum(dim=1, keepdim=True) + known.sum(dim=1) - both
    return (both / either).argmax(dim=1)
