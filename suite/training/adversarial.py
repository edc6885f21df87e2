"""Train on images that are perturbed, within a training step, to increase their loss.

HAT (Bai et al. 2022, "Improving vision transformers by revisiting high-frequency components",
arXiv:2204.00993, and its code): for the first two thirds of the training each step has n forward
and backward passes, three in their recipe, whose gradients are added before the single update.

    pass 1         the image x: loss L
    pass 2 to n    the image x + d: (3 L + 0.01 S) / (n - 1)

S is the symmetric divergence (KL(p || q) + KL(q || p)) / 2 of the outputs p for x, which get no
gradient from it, and q for x + d. d starts at 0; after each pass all its elements move by 1/255 in
the direction that increases the loss, and stay within 2/255 of 0. The last third is trained
normally.

Departures: 1/255 is one of 256 steps of a pixel here, as in the paper; the code adds as much to
images that are normalised already, which is about four times less. p are the outputs of pass 1; the
code has a separate pass for them, with different dropout. The reported loss is that of pass 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.interface import INPUTS
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.task import Batch, Task

SHARE = 2 / 3  # the share of the steps: 200 of 300 epochs
_STEP, _FARTHEST = 1 / 255, 2 / 255
_LOSS_WEIGHT, _DIVERGENCE_WEIGHT = 3.0, 0.01


def passes_at(step: int, training: Training) -> int:
    """Return the number of forward and backward passes in the step of that index, from 0."""
    is_early = step < SHARE * training.steps
    return max(1, training.adversarial_steps) if is_early else 1


def passes_per_step(training: Training | None) -> float:
    """Return the mean number of passes per step over a training."""
    more = training.adversarial_steps - 1 if training and training.adversarial_steps else 0
    return 1 + SHARE * more


def adversarial_losses(
    loss_of: Callable[[Batch], tuple[Tensor, Tensor]], batch: Batch, task: Task, num: int
) -> Iterator[Tensor]:
    """Yield the losses of a step, one for each pass.

    Call backward on each loss before the next one is requested, because the perturbation is updated
    from the gradient of the image.

    Args:
        loss_of: Function from a batch to its scalar loss and its logits, `[batch, classes]`.
        batch: A batch of images, on the device of the model.
        task: The task, which defines how the images were normalised.
        num: The number of passes.
    """
    images, clean = batch.inputs[INPUTS], None
    pixel = 1 / torch.tensor(task.pixel_standard_deviation).to(images)
    moved = torch.zeros_like(images)
    for _ in range(num):
        moved.requires_grad_(num > 1)
        loss, logits = loss_of(replace(batch, inputs={**batch.inputs, INPUTS: images + moved}))
        if clean is None:
            clean = logits.detach().log_softmax(dim=-1)
            yield loss
        else:
            divergence = _symmetric(clean, logits.log_softmax(dim=-1))
            yield (_LOSS_WEIGHT * loss + _DIVERGENCE_WEIGHT * divergence) / (num - 1)
        if moved.grad is not None:
            farthest, further = _FARTHEST * pixel, _STEP * pixel * moved.grad.sign()
            moved = (moved.detach() + further).clamp(-farthest, farthest)


def _symmetric(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return the mean of both divergences, averaged over the batch."""
    both = ((log_p, log_q), (log_q, log_p))
    return torch.stack(
        [functional.kl_div(a, b, reduction="batchmean", log_target=True) for a, b in both]
    ).mean()
