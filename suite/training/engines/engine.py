"""Define the interface of engines for training and checkpoints, and score a split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bakeoff.models.decoding import Decoded, Decoder, generate
from bakeoff.models.interface import CONTEXT, INPUTS, PENALTY, Outputs
from bakeoff.suite.events import Condition
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.data_order import chances_of
from bakeoff.suite.tasks.metrics import Metric, PictureMetric, PlayedMetric
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task
from bakeoff.suite.training.distillation import with_teacher, without_teacher
from bakeoff.suite.training.tensor_io import Tensors, refuse_non_tensors


class Engine(Protocol):
    """The interface of an engine, which runs training steps on whole batches.

    Each of several workers has one. All workers must call a method at once. The results of `mean`,
    `evaluate`, `agreed`, `largest` and `state_sha256` cover all workers and are equal on all of
    them.

    Attributes:
        device: The device on which it computes, named as in torch.
        rank: The index of this worker, from 0.
        num_workers: The number of workers that share the batch.
        how_steps_run: Whether steps are compiled and recorded, or why they run eagerly; empty if
            neither was requested.
        kernels: Which kernels computed attention and matrix states in the first recorded step.
    """

    device: str
    rank: int
    num_workers: int
    kernels: tuple[Condition, ...]

    @property
    def how_steps_run(self) -> str: ...  # noqa: D102 - see above

    def step(self, batch: Batch, task: Task) -> Tensor:
        """Make one update from the whole batch.

        Returns:
            The mean loss of this worker's share of it, a scalar in nats, left on the device.
        """

    def mean(self, losses: Sequence[Tensor]) -> float:
        """Return the mean loss over steps, and over workers."""

    def evaluate(self, task: Task, split: Split, batch: int) -> float:
        """Return the task's metric over a whole split, with the model in evaluation mode."""

    def finish(self) -> None:
        """Give the model the weights with which it is scored; no step follows."""

    def weights(self) -> Tensors:
        """Return parameters and buffers of the whole model, each once; see `weights_of`.

        Raises:
            CheckpointError: if the state holds anything but tensors.
        """

    def save(self, folder: Path) -> None:
        """Write this worker's part of the state into a folder.

        Raises:
            OSError: if it could not be written; other workers may have written theirs.
            CheckpointError: if the state cannot be saved, or safetensors is missing.
        """

    def load(self, folder: Path) -> None:
        """Resume from a checkpoint of the same number of workers, before the first step.

        Raises:
            CheckpointError: if it does not fit, on all workers alike; nothing was changed.
        """

    def state_sha256(self) -> str:
        """Return a hash of parameters, buffers and the optimiser's state.

        Raises:
            CheckpointError: if a tensor has no plain bytes.
        """

    def agreed(self, is_so: bool) -> bool:
        """Return the first worker's value."""

    def largest(self, value: float) -> float:
        """Return the largest value of any worker."""


def weights_of(model: nn.Module) -> Tensors:
    """Return parameters, persistent buffers and extra state; a shared one by its first name.

    Raises:
        CheckpointError: if the state holds anything but tensors.
    """
    state = model.state_dict(keep_vars=True)
    refuse_non_tensors(state)
    names = {id(tensor): name for name, tensor in reversed(state.items())}
    return {name: t.detach() for name, t in state.items() if names[id(t)] == name}


def num_trained(model: nn.Module) -> int:
    """Return the number of trained real numbers of a model; a complex parameter counts as two."""
    trained = (p for p in model.parameters() if p.requires_grad)
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in trained)


def part_of(batch: Batch, index: int, num_parts: int) -> Batch:
    """Return part `index` of `num_parts` nearly equal parts of the rows; it may be empty."""
    rows = rows_of(len(batch.targets), index, num_parts)
    return batch.map(lambda tensor: tensor[rows])


def rows_of(num_rows: int, index: int, num_parts: int) -> slice:
    """Return the rows of part `index` of `num_parts` nearly equal parts."""
    return slice(num_rows * index // num_parts, num_rows * (index + 1) // num_parts)


def shares_of(batch: Batch, num_parts: int) -> Iterator[tuple[Batch, float]]:
    """Yield the parts of a batch, each with its share of the scored targets.

    The loss of a part is a mean over these, so the sum of losses times shares is the loss of the
    batch.
    """
    num_scored = int((batch.targets != UNSCORED).sum()) if num_parts > 1 else 0
    if not num_scored:
        yield batch, 1.0
        return
    for index in range(num_parts):
        part = part_of(batch, index, num_parts)
        own = int((part.targets != UNSCORED).sum())
        if own:
            yield part, own / num_scored


def weight_of(part: Batch, batch: Batch, num_parts: int) -> float:
    """Return the weight of a part's loss with which the mean over parts is the batch's loss.

    A loss is a mean over scored targets, of which parts may have more or fewer; the weight is 1 if
    all parts have equally many.
    """
    num_scored = int((batch.targets != UNSCORED).sum())
    own = int((part.targets != UNSCORED).sum())
    return own * num_parts / num_scored if num_scored else 1.0


def learned_loss(
    outputs: Outputs,
    taught: Outputs | None,
    batch: Batch,
    task: Task,
    model: nn.Module,
    training: Training,
) -> Tensor:
    """Return the mean loss of a part of a batch: the task's, with terms of model and recipe.

    Args:
        outputs: The outputs of the model in training, in float32.
        taught: The outputs of its teacher, or None without one.
        batch: The part.
        task: The task, which defines the loss.
        model: The model, which holds the buffers of some losses, such as an average cost.
        training: The settings, with label smoothing and distillation.
    """
    loss = task.loss(outputs, batch, training.label_smoothing)
    if outputs.auxiliary:
        loss = _with_auxiliary(loss, outputs, batch, task, model, training)
        if taught is None:
            loss = without_teacher(loss, outputs, batch, task, training)
    return loss if taught is None else with_teacher(loss, outputs, taught, batch, training)


def _with_auxiliary(
    loss: Tensor, outputs: Outputs, batch: Batch, task: Task, model: nn.Module, training: Training
) -> Tensor:
    """Add the score-function loss of sampled choices, and the model's penalty.

    The penalty is the mean over examples, each weighted by its scored targets as in the loss, so
    that the parts of a batch add up.
    """
    from bakeoff.suite.training.score_function import with_score

    loss = with_score(loss, outputs, batch, task, model, training)
    if PENALTY not in outputs.auxiliary:
        return loss
    is_scored = batch.is_scored(outputs.logits).reshape(len(outputs.logits), -1)
    shares = is_scored.sum(dim=1) / is_scored.sum().clamp(min=1)
    return loss + (outputs.auxiliary[PENALTY] * shares).sum()


def evaluate(
    model: nn.Module,
    task: Task,
    split: Split,
    batch: int,
    device: str,
    metric: Metric | None = None,
) -> float:
    """Return a metric, by default the task's, over a whole split, in evaluation mode."""
    asked = metric or task.metric
    with in_evaluation_mode(model), torch.inference_mode():
        batches = (held_out.to(device) for held_out in task.held_out(split, batch))
        return asked.over(score_batch(model, asked, each)(each) for each in batches)


def evaluate_in_parts(
    model: nn.Module,
    task: Task,
    split: Split,
    batch: int,
    device: str,
    others: Sequence[Metric] = (),
) -> dict[str, float]:
    """Return the task's metric over a whole split, and over each part that has targets.

    Args:
        model: The model to score.
        task: The task, with the split, its parts and the metric.
        split: The split to score.
        batch: The number of rows at once.
        device: The device of the model.
        others: Further metrics of the whole split; metrics of played episodes share the episodes.

    Returns:
        The metric by coordinate, such as ``pairs=8``; that of the whole split is first, under
        ``""``. The further metrics follow by their names.
    """
    sums: dict[str, list[Tensor]] = {at: [] for at in ("", *task.parts())}
    further: dict[str, list[Tensor]] = {each.name: [] for each in others}
    own = task.metric
    with in_evaluation_mode(model), torch.inference_mode():
        for held_out in task.held_out(split, batch):
            on_device = held_out.to(device)
            returns = own.played(model, on_device) if isinstance(own, PlayedMetric) else None
            sums_of = score_batch(model, own, on_device, returns)
            for at, asked in in_parts(task, on_device):
                sums[at].append(sums_of(asked))
            for each in others:
                further[each.name].append(score_batch(model, each, on_device, returns)(on_device))
    found = {at: own.over(some) for at, some in sums.items() if some}
    return found | {each.name: each.over(further[each.name]) for each in others}


def in_parts(task: Task, batch: Batch) -> Iterator[tuple[str, Batch]]:
    """Yield the whole batch, then the part of its targets at each coordinate, if any."""
    yield "", batch
    for at, is_in_part in task.in_parts(batch).items():
        asked = batch.only(is_in_part)
        if (asked.targets != UNSCORED).any():
            yield at, asked


def writes(metric: Metric) -> bool:
    """Return True if the metric scores generated sequences or pictures, or played episodes."""
    if isinstance(metric, PlayedMetric):
        return True
    if isinstance(metric, PictureMetric):
        return metric.is_drawn
    return isinstance(metric, SequenceMetric) and metric.decoder is not None


def score_batch(
    model: nn.Module, metric: Metric, batch: Batch, returns: Tensor | None = None
) -> Callable[[Batch], Tensor]:
    """Run the model, in evaluation mode, once on the batch; return a function that scores it.

    Args:
        model: The model to score.
        metric: The metric.
        batch: The batch.
        returns: The returns of these episodes, if the model has already played them.

    Returns:
        A function that returns the metric's sums over the batch, or over the batch with some of its
        targets left out.
    """
    if isinstance(metric, SequenceMetric) and metric.decoder is not None:
        found = written(model, batch, metric.decoder, metric.end)
        return partial(metric.sums_of_written, found.rows())
    if isinstance(metric, PictureMetric) and metric.is_drawn:
        return partial(metric.sums_of, drawn(model, batch))
    if isinstance(metric, PlayedMetric):
        got = metric.played(model, batch) if returns is None else returns
        return partial(metric.sums_of, got)
    return partial(metric.sums, batch.through(model))


def written(model: nn.Module, batch: Batch, decoder: Decoder, end: int | None) -> Decoded:
    """Decode each row, given all inputs before the first target.

    No row becomes longer than its targets may be, `[batch, time]`; it is cut there. The model must
    be in evaluation mode.
    """
    own = (INPUTS, "mask")
    sources = {name: tensor for name, tensor in batch.inputs.items() if name not in own}
    first = int((batch.targets != UNSCORED).any(dim=0).int().argmax())
    limits = torch.full(batch.targets.shape[:1], batch.targets.shape[1] - first)
    start = batch.inputs[INPUTS][:, : first + 1]
    return generate(model, sources, decoder, start=start, end=end, limits=limits)


def drawn(model: Any, batch: Batch) -> Tensor:
    """Generate the picture of each row, given all inputs but the picture.

    The model must be in evaluation mode.
    """
    given = {name: tensor for name, tensor in batch.inputs.items() if name != CONTEXT}
    symbols = given[INPUTS]
    chances = torch.from_numpy(chances_of(symbols.cpu().numpy(), model.num_image_tokens))
    pictures: Tensor = model.draw(**given, chances=chances.float().to(symbols.device))
    return pictures


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode for the block, and restore the former mode after it."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
