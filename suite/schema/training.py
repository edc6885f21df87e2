"""How a trial trains its model: its recipe with the sizes of its scale filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal

Optimizer = Literal["adamw", "sgd", "adafactor"]
Schedule = Literal["cosine", "constant_with_cooldown", "inverse_square_root", "linear"]
Precision = Literal["float32", "bf16", "tf32"]
Distillation = Literal["none", "soft", "hard"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained; everything here moves the number.

    Fields with a default are left out of a trial's id where they have it.

    Attributes:
        learning_rate: The peak of the schedule.
        label_smoothing: Share of a target's probability that is spread over all classes.
        momentum: Of SGD; at its default for the other optimisers.
        clip_norm: The gradient is scaled down to this norm, over all parameters; None does not.
        precision: Of the products in a step on one device; see `Parallel` for several.
        accumulation: Parts of the batch that go through the model one after the other.
        ema: Decay of the average of the weights that is scored; 0 scores the weights themselves.
        distillation: What is learned of the teacher, which `Trial.teacher` has trained.
        distillation_weight: The teacher's share of the loss.
        distillation_temperature: Of soft distillation; at its default for the others.
        scheduled_sampling: Share of the inputs that are the model's own answers at the last step.
        flip: Of images, as all that follow; see `suite.training.augmentation`.
        crop: Pixels of the border from which crops are drawn.
        randaugment: The magnitude, 0 to 10.
        erasing: The chance of an image.
        mixup: Of the Beta distribution, alpha.
        cutmix: Likewise.
        repeated_augmentation: How often each image stands in a batch.
        adversarial_steps: Passes of a step; see `suite.training.adversarial`.
        is_start_frozen: Whether weights that `Trial.start` has left stay as they are.
    """

    steps: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    num_evaluations: int
    label_smoothing: float = 0.0
    optimizer: Optimizer = "adamw"
    momentum: float = 0.9
    schedule: Schedule = "cosine"
    clip_norm: float | None = 1.0
    precision: Precision = "float32"
    accumulation: int = 1
    ema: float = 0.0
    distillation: Distillation = "none"
    distillation_weight: float = 0.5
    distillation_temperature: float = 3.0
    scheduled_sampling: float = 0.0
    flip: bool = False
    crop: int = 0
    randaugment: float = 0.0
    erasing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    repeated_augmentation: int = 1
    adversarial_steps: int = 0
    is_start_frozen: bool = False

    @property
    def hashed(self) -> dict[str, Any]:
        """What goes into the id of a trial."""
        idle = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        return without_idle(asdict(self), **idle)


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """How a training step is spread over workers by DeepSpeed; all of it moves the number a little.

    `workers` are processes with a share of the batch each, which they cut into `accumulation`
    parts. ZeRO stage (Rajbhandari et al. 2020): 0 every worker holds everything; 1 optimiser
    states, 2 gradients too, 3 parameters too are divided among them.
    """

    workers: int
    zero: int
    precision: Precision
    accumulation: int


def without_idle(content: Mapping[str, Any], **idle: object) -> dict[str, Any]:
    """Without the fields that have the value at which they do nothing."""
    return {k: v for k, v in content.items() if k not in idle or v != idle[k]}
