"""Train a model on the outputs of a trained one, its teacher.

The loss is `(1 - w) L + w D`: L is the task's own loss, w `distillation_weight`. For the student's
logits z and the teacher's t, at the scored targets, D is the mean over these of

    soft    T^2 KL(softmax(t / T) || softmax(z / T)), at the temperature T (Hinton et al. 2015,
            arXiv:1503.02531, section 2; Touvron et al. 2021, arXiv:2012.12877, equation 2)
    hard    cross-entropy of softmax(z) with the class argmax(t) (Touvron et al. 2021, equation 3)

If a model returns `auxiliary["distillation"]`, such as the logits of a distillation token, D uses
these logits, and L its own `logits`. Without a teacher both are trained on the targets, in equal
shares. Label smoothing applies to L only.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from bakeoff.models.interface import DISTILLATION, Outputs
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task


class TeacherMisfit(ValueError):
    """Raised if the teacher's logits do not have the student's shape."""


def without_teacher(
    loss: Tensor, outputs: Outputs, batch: Batch, task: Task, training: Training
) -> Tensor:
    """Return the loss without a teacher, the mean over both outputs if there is a second one."""
    second = outputs.auxiliary.get(DISTILLATION)
    if second is None:
        return loss
    return (loss + task.loss(Outputs(second), batch, training.label_smoothing)) / 2


def with_teacher(
    loss: Tensor, outputs: Outputs, taught: Outputs, batch: Batch, training: Training
) -> Tensor:
    """Return the loss with the teacher's part, a scalar in nats.

    Args:
        loss: The task's own loss, a scalar.
        outputs: The student's outputs, with logits `[..., classes]`.
        taught: The teacher's outputs, without gradient.
        batch: The batch, whose targets define the scored positions.
        training: The settings of distillation.

    Raises:
        TeacherMisfit: if the shapes of the two differ.
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
    # Selecting rows by a mask would make a shape depend on data, which synchronises with the GPU.
    total = parts.masked_fill(is_left_out.unsqueeze(-1), 0.0).sum()
    return temperature**2 * (total / is_scored.sum())
