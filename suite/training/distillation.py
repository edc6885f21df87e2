"""Lets a model learn from the outputs of a trained one, its teacher.

The loss is `(1 - w) L + w D`: L is the task's own loss, w `distillation_weight`. Of the student's
logits z and the teacher's t, at the targets that are scored, D is the mean over these of

    soft    T^2 KL(softmax(t / T) || softmax(z / T)), at the temperature T (Hinton et al. 2015,
            arXiv:1503.02531, section 2; Touvron et al. 2021, arXiv:2012.12877, equation 2)
    hard    cross-entropy of softmax(z) with the class argmax(t) (Touvron et al. 2021, equation 3)

A model that returns `auxiliary["distillation"]`, as the logits of a distillation token, learns from
the teacher by these, and by its own `logits` from the targets. Without a teacher both learn from
the targets, in equal shares. Label smoothing is of L alone.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from models.interface import DISTILLATION, Outputs
from suite.schema import Training
from suite.tasks.task import UNSCORED, Batch, Task


class TeacherMisfit(ValueError):
    """A teacher whose logits are not of the student's shape: one sentence."""


def without_teacher(
    loss: Tensor, outputs: Outputs, batch: Batch, task: Task, training: Training
) -> Tensor:
    """The loss, where no second answer waits for a teacher; else the mean of both answers' own."""
    second = outputs.auxiliary.get(DISTILLATION)
    if second is None:
        return loss
    return (loss + task.loss(Outputs(second), batch, training.label_smoothing)) / 2


def with_teacher(
    loss: Tensor, outputs: Outputs, taught: Outputs, batch: Batch, training: Training
) -> Tensor:
    """The loss with the teacher's part, a scalar in nats.

    Args:
        loss: The task's own, a scalar.
        outputs: The student's, with logits `[..., classes]`.
        taught: The teacher's, without gradient.
        batch: With the targets, which say where anything is asked.
        training: Says how it is distilled.

    Raises:
        TeacherMisfit: the two have other shapes.
    """
    weight = training.distillation_weight
    return (1 - weight) * loss + weight * _distilled(outputs, taught, batch, training)


def _distilled(outputs: Outputs, taught: Outputs, batch: Batch, training: Training) -> Tensor:
    learned = outputs.auxiliary.get(DISTILLATION, outputs.logits)
    if learned.shape != taught.logits.shape:
        raise TeacherMisfit(
            f"the teacher's logits have shape {[*taught.logits.shape]}, and what learns from them "
            f"has {[*learned.shape]}"
        )
    is_scored = batch.is_scored(outputs.logits)
    own, wanted = learned.flatten(0, -2), taught.logits.flatten(0, -2)
    is_left_out = ~is_scored.flatten()
    if training.distillation == "hard":
        classes = wanted.argmax(dim=-1).masked_fill(is_left_out, UNSCORED)
        return functional.cross_entropy(own, classes, ignore_index=UNSCORED)
    temperature = training.distillation_temperature
    parts = functional.kl_div(
        (own / temperature).log_softmax(dim=-1),
        (wanted / temperature).log_softmax(dim=-1),
        reduction="none",
        log_target=True,
    )
    # Cutting rows out by a mask would make a shape depend on data: a GPU would be waited for.
    total = parts.masked_fill(is_left_out.unsqueeze(-1), 0.0).sum()
    return temperature**2 * (total / is_scored.sum())
