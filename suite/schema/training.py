"""The training settings of a trial: its recipe, with the sizes of its scale filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any, Literal

Optimizer = Literal["adamw", "sgd", "adafactor"]
Schedule = Literal["cosine", "constant_with_cooldown", "inverse_square_root", "linear"]
Precision = Literal["float32", "bf16", "tf32"]
Distillation = Literal["none", "soft", "hard"]
StepRuntime = Literal["auto", "eager", "graph", "compiled"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """The training settings of a model, as recorded in a trial; each of them affects the result.

    Fields have the same meaning as in `bakeoff.Recipe`. A field without an effect keeps its
    default, and a field at its default is left out of a trial's id. `learning_rate` is a number;
    for a tuned rate it is the first one that the search tries.
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
    runtime: StepRuntime = "auto"

    def with_steps(self, steps: int) -> Training:
        """Return the training with so many steps, of which the warm-up keeps its share."""
        return replace(
            self,
            steps=steps,
            warmup_steps=round(self.warmup_steps * steps / self.steps),
            num_evaluations=min(self.num_evaluations, steps),
        )

    @property
    def hashed(self) -> dict[str, Any]:
        """The fields that go into the id of a trial."""
        idle = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        return without_idle(asdict(self), **idle)


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """The way DeepSpeed distributes a training step; every setting changes the numbers slightly.

    `workers` are processes. Each gets a share of the batch, which it splits into `accumulation`
    parts. ZeRO stage (Rajbhandari et al. 2020): at 0 every worker holds everything; 1 divides the
    optimizer states among them, 2 also the gradients, 3 also the parameters.
    """

    workers: int
    zero: int
    precision: Precision
    accumulation: int


def without_idle(content: Mapping[str, Any], **idle: object) -> dict[str, Any]:
    """Return the content without fields at their idle value, at which they do nothing."""
    return {k: v for k, v in content.items() if k not in idle or v != idle[k]}
