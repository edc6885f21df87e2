"""Compare where a captioner looks, as it names an object, with where the object is.

The model reads the reference, and its weights at a place of the caption are those with which it
predicts the word there, as in `alignment_error`. Over all words that name an object, of the first
examples of the test split,

    localisation         the mean share of the weights that lies in the object's true box. A place
                         of the model's grid stands for a rectangle of pixels, and counts by the
                         share of it that the box covers. After Liu et al. 2017, "Attention
                         Correctness in Neural Image Captioning" (arXiv:1605.09553)
    chance_localisation  that of weights which are the same everywhere: the share of the picture
                         that the boxes cover
    pointing             how often the middle of the place with the largest weight is in the box,
                         the pointing game of Zhang et al. 2016 (arXiv:1608.00507) without
                         its tolerance

A place of a convolutional map, or a patch after some blocks, knows more of the picture than its
rectangle. So a model may be right about an object at which it does not look.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from models import Architecture, ModelSpec, architecture_class
from models.interface import CONTEXT
from suite.probes.probe import ORIGIN, Said, TrainedModelProbe, measurement, trained_model
from suite.schema import Parallel, Trial, metric_spec
from suite.tasks.registry import build_task
from suite.tasks.task import Batch, Task
from suite.training.checkpoint import Checkpointer
from suite.training.engines.engine import in_evaluation_mode

MOST_EXAMPLES = 1_000  # of the test split, evenly spaced

Grid = tuple[int, int]


class Localisation(TrainedModelProbe):
    """How much of the attention lies on what a word names, and how much would by chance."""

    name = "localisation"
    version = 1
    depends_on = TrainedModelProbe.depends_on | ORIGIN
    specs = (
        metric_spec("localisation"),
        metric_spec("chance_localisation"),
        metric_spec("pointing"),
    )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """The model must have weights of the picture."""
        blind = architecture_class(model.architecture).why_blind(model)
        return blind or super().why_not(model, parallel)

    def why_not_on(self, task: type[Task]) -> str:
        """It must say where its objects are."""
        if task.has_boxes:
            return ""
        return f"it needs boxes of what words name, and {task.name} has none"

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """One pass over examples of the test split, as many of its beginning as of its end."""
        model = trained_model(trial, checkpointer, device)
        task = build_task(trial.task, trial.length)
        with in_evaluation_mode(model), torch.inference_mode():
            found = torch.cat(
                [looks_at(model, batch.to(device)) for batch in examples(task, trial.batch)]
            )
        for spec, value in zip(self.specs, found.mean(dim=0).tolist(), strict=True):
            yield measurement(spec, value)


def examples(task: Task, batch: int) -> Iterator[Batch]:
    """Every second, third, ... of the test split, so that there are not too many."""
    batches = list(task.held_out("test", batch))
    by = -(-sum(len(each.targets) for each in batches) // MOST_EXAMPLES)
    first = 0
    for each in batches:
        rows = torch.arange(len(each.targets))
        chosen = rows[(rows + first) % by == 0]
        first += len(rows)
        if len(chosen):
            yield each.map(partial(torch.index_select, dim=0, index=chosen))


def looks_at(model: Architecture, batch: Batch) -> Tensor:
    """`[words, 3]`: of each word that names an object what the probe measures, in float64."""
    assert batch.boxes is not None, "tasks without boxes are refused while planning"
    picture = batch.inputs[CONTEXT].shape[1:3]
    grid = model.source_grid()
    assert grid is not None, "the source is a picture"
    names = batch.boxes[..., 0] >= 0
    weights = model.attention_weights(**batch.inputs).double()[names]
    covered = covered_shares(batch.boxes[names].double(), grid, (picture[0], picture[1]))
    weights, covered = weights.cpu(), covered.cpu()
    # The rows sum to one, but for attention that looks at a part of its source.
    shares = (weights * covered).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-12)
    best = weights.argmax(dim=1, keepdim=True)
    is_inside = middles_inside(batch.boxes[names].double().cpu(), grid, (picture[0], picture[1]))
    pointed = is_inside.gather(1, best).squeeze(1).double()
    return torch.stack([shares, covered.mean(dim=1), pointed], dim=1)


def covered_shares(boxes: Tensor, grid: Grid, picture: Grid) -> Tensor:
    """What share of each place of the grid a box covers, `[boxes, places]`, row by row.

    Args:
        boxes: `[boxes, 4]`, see `Batch.boxes`.
        grid: Rows and columns of the places, which divide the picture evenly.
        picture: Rows and columns of its pixels.
    """
    shares = []
    for axis, (places, pixels) in enumerate(zip(grid, picture, strict=True)):
        size = pixels / places
        starts = torch.arange(places, device=boxes.device) * size
        low = torch.maximum(boxes[:, axis, None], starts)
        high = torch.minimum(boxes[:, axis + 2, None], starts + size)
        shares.append((high - low).clamp(min=0) / size)
    return (shares[0].unsqueeze(2) * shares[1].unsqueeze(1)).flatten(1)


def middles_inside(boxes: Tensor, grid: Grid, picture: Grid) -> Tensor:
    """Whether the middle of each place lies in a box, `[boxes, places]`; see `covered_shares`."""
    inside = []
    for axis, (places, pixels) in enumerate(zip(grid, picture, strict=True)):
        middles = (torch.arange(places) + 0.5) * (pixels / places)
        inside.append((boxes[:, axis, None] <= middles) & (middles < boxes[:, axis + 2, None]))
    return (inside[0].unsqueeze(2) & inside[1].unsqueeze(1)).flatten(1)
