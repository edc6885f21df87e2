"""Answer with the caption of the training picture that is nearest, by squared distance over pixels.

Write it, or choose the candidate that has most words in common with it.

The baseline that captioning is held against (Devlin et al. 2015, arXiv:1505.04467), on pixels where
they compare features of a network, and with one neighbour where they choose among many. A picture
that is moved by a pixel lies far away.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from models.interface import CONTEXT, INPUTS, Outputs
from suite.floors.floor import Floor
from suite.floors.nearest import nearest
from suite.floors.splits import (
    asked_sequences,
    context_of,
    held_out_batches,
    numbers_of,
    training_batches,
)
from suite.tasks.sequence_metrics import SequenceMetric
from suite.tasks.task import Batch, Task


class NearestCaption(Floor):
    """The sequence of the nearest training example."""

    name = "nearest_caption"
    label = "nearest caption"
    version = 1
    needs = "a source that is an image, a target of symbols, and a metric of what is written"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        is_written = task.asks_for == "sequence" and isinstance(task.metric, SequenceMetric)
        source = context_of(task)
        return is_written and source is not None and source.kind == "image"

    def score(self, task: Task) -> float:
        """There is nothing to choose; of a task without an epoch, among `NUM_DRAWN` pictures."""
        assert isinstance(task.metric, SequenceMetric), "see `suits`"
        metric = task.metric
        rows, captions = _examples(training_batches(task), metric.end)

        def written(batch: Batch) -> Iterable[list[int]]:
            asked = torch.from_numpy(numbers_of([batch], CONTEXT))
            return (captions[place].tolist() for place in nearest(rows, asked, 1).flatten())

        return metric.over(
            metric.sums_of_written(written(batch), batch)
            for batch in held_out_batches(task, "test")
        )


class NearestChoice(Floor):
    """The candidate that is most like the caption of the nearest training example, by its words."""

    name = "nearest_choice"
    label = "words of the nearest caption"
    version = 1
    needs = "a source that is an image, and candidates of symbols"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        source = context_of(task)
        return task.asks_for == "choice" and source is not None and source.kind == "image"

    def score(self, task: Task) -> float:
        """There is nothing to choose; among `NUM_DRAWN` pictures where no epoch ends."""
        found = list(training_batches(task))
        rows = torch.from_numpy(numbers_of(found, CONTEXT))
        known = torch.cat([_words(batch, task.input_size)[:, 0] for batch in found])

        def chosen(batch: Batch) -> Outputs:
            asked = torch.from_numpy(numbers_of([batch], CONTEXT))
            near = known[nearest(rows, asked, 1).flatten()][:, None]
            words = _words(batch, task.input_size)
            return Outputs((near & words).sum(dim=-1) / (near | words).sum(dim=-1))

        return task.metric.over(
            task.metric.sums(chosen(batch), batch) for batch in held_out_batches(task, "test")
        )


def _words(batch: Batch, num_symbols: int) -> torch.Tensor:
    """`[batch, candidates, symbols]`: which symbols a text has; fillers are none."""
    texts, mask = batch.inputs[INPUTS], batch.inputs["mask"]
    counts = torch.zeros(*texts.shape[:2], num_symbols).scatter_add_(2, texts, mask.float())
    return counts > 0


def _examples(
    batches: Iterable[Batch], end: int | None
) -> tuple[torch.Tensor, list[NDArray[np.int64]]]:
    """Pictures as rows of numbers, `[examples, numbers]`, and what is asked for of each."""
    found = list(batches)
    captions = [caption for batch in found for caption in asked_sequences(batch, end)]
    return torch.from_numpy(numbers_of(found, CONTEXT)), captions
