"""Compare the attention of a captioner to an object that it names with the object's box.

The model reads the reference, and its weights at a position of the caption are those with which it
predicts the word there, as in `alignment_error`. The metrics are means over all words that name an
object, in examples of the test split:

    localisation         the mean share of the weights that lies in the object's true box. A
                         position of the model's grid covers a rectangle of pixels, and counts by
                         the share of it that the box covers. After Liu et al. 2017, "Attention
                         Correctness in Neural Image Captioning" (arXiv:1605.09553)
    chance_localisation  the same for uniform weights: the share of the picture that the boxes cover
    pointing             how often the centre of the position with the largest weight is in the box,
                         the pointing game of Zhang et al. 2016 (arXiv:1608.00507) without its
                         tolerance

A position of a convolutional feature map, or a patch after some blocks, depends on more of the
picture than its rectangle. So a model may be right about an object to which it does not attend.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from bakeoff.models import Architecture, ModelSpec, architecture_class
from bakeoff.models.interface import CONTEXT
from bakeoff.suite.probes.probe import ORIGIN, Said, TrainedModelProbe, measurement, trained_model
from bakeoff.suite.schema import Parallel, Trial, metric_spec
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode

MOST_EXAMPLES = 1_000  # the number of evenly spaced examples of the test split

Grid = tuple[int, int]


class Localisation(TrainedModelProbe):
    """The share of the attention on the object that a word names, and the share by chance."""

    name = "localisation"
    version = 1
    depends_on = TrainedModelProbe.depends_on | ORIGIN
    specs = (
        metric_spec("localisation"),
        metric_spec("chance_localisation"),
        metric_spec("pointing"),
    )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; the model must have attention weights over the picture."""
        blind = architecture_class(model.architecture).why_blind(model)
        return blind or super().why_not(model, parallel)

    def why_not_on(self, task: type[Task]) -> str:
        """Return why a trial is skipped; the task must have boxes of its objects."""
        if task.has_boxes:
            return ""
        return f"it needs boxes of what words name, and {task.name} has none"

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Run one pass over evenly spaced examples of the test split."""
        model = trained_model(trial, checkpointer, device)
        task = build_task(trial.task, trial.length)
        with in_evaluation_mode(model), torch.inference_mode():
            found = torch.cat(
                [looks_at(model, batch.to(device)) for batch in examples(task, trial.batch)]
            )
        for spec, value in zip(self.specs, found.mean(dim=0).tolist(), strict=True):
            yield measurement(spec, value)


def examples(task: Task, batch: int) -> Iterator[Batch]:
    """Yield evenly spaced examples of the test split, at most `MOST_EXAMPLES`."""
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
    """Return the three metrics for each word that names an object, `[words, 3]`, in float64."""
    assert batch.boxes is not None, "tasks without boxes are refused while planning"
    picture = batch.inputs[CONTEXT].shape[1:3]
    grid = model.source_grid()
    assert grid is not None, "the source is a picture"
    names = batch.boxes[..., 0] >= 0
    weights = model.attention_weights(**batch.inputs).double()[names]
    covered = covered_shares(batch.boxes[names].double(), grid, (picture[0], picture[1]))
    weights, covered = weights.cpu(), covered.cpu()
    # The rows sum to one, except with attention to a part of the source only.
    shares = (weights * covered).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-12)
    best = weights.argmax(dim=1, keepdim=True)
    is_inside = middles_inside(batch.boxes[names].double().cpu(), grid, (picture[0], picture[1]))
    pointed = is_inside.gather(1, best).squeeze(1).double()
    return torch.stack([shares, covered.mean(dim=1), pointed], dim=1)


def covered_shares(boxes: Tensor, grid: Grid, picture: Grid) -> Tensor:
    """Return the share of each grid position that a box covers, `[boxes, positions]`, row by row.

    Args:
        boxes: The boxes, `[boxes, 4]`, in the format of `Batch.boxes`.
        grid: Rows and columns of the positions, which divide the picture evenly.
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
    """Return True for each position whose centre is in a box, `[boxes, positions]`.

    The arguments are those of `covered_shares`.
    """
    inside = []
    for axis, (places, pixels) in enumerate(zip(grid, picture, strict=True)):
        middles = (torch.arange(places) + 0.5) * (pixels / places)
        inside.append((boxes[:, axis, None] <= middles) & (middles < boxes[:, axis + 2, None]))
    return (inside[0].unsqueeze(2) & inside[1].unsqueeze(1)).flatten(1)
