"""The part of a specification that says how models are trained."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from suite.schema.training import Distillation, Optimizer, Precision, Schedule, Training
from suite.spec.fields import Count, FrozenSpec, Rate

NO_START = "none"
NO_DISTILLATION: Distillation = "none"


def _not_one(steps: int) -> int:
    if steps == 1:
        raise ValueError("must be 0, or at least 2: the first pass moves nothing")
    return steps


class Recipe(FrozenSpec):
    """The training of models, at every scale that sets nothing else.

    Each field is a field of `Scale` too, and may be an axis.

    Attributes:
        optimizer: ``adamw`` (Loshchilov and Hutter 2019, arXiv:1711.05101; betas 0.9 and 0.98),
            ``sgd`` (with momentum; its decay is added to the gradient), ``adafactor`` (Shazeer and
            Stern 2018, arXiv:1804.04235; steps are relative to the size of a parameter).
        learning_rate: Peak of the schedule; ``tuned`` searches for the best one of each variant
            on validation data first, with two seeds; see `suite.probes.learning_rate`.
        width_power: The power of the width with which the rate falls: a variant of another width
            than the scale's `dim` has `learning_rate` times (that / its own) to this power. 1 is
            that of hidden matrices in Yang et al. 2022 (arXiv:2203.03466); 0 keeps the rate.
        search_steps: Steps of each training of that search; None takes a third of `steps`. A
            variant of other steps than the scale's takes the same share of its own. The rate is
            taken over unchanged.
        momentum: Of ``sgd``.
        sgd_weight_decay: Of ``sgd``, in place of `weight_decay`; None takes that one. Added to a
            gradient, and at SGD's larger rates, what suits AdamW is far too strong.
        weight_decay: On matrices only, less what a module lists in `no_weight_decay`.
        clip_norm: The gradient's largest norm, over all parameters; None does not clip.
        schedule: After a linear warm-up: ``constant_with_cooldown`` (linear to zero over the last
            fifth of all steps; Hägele et al. 2024, arXiv:2405.18392), ``cosine`` to zero,
            ``linear`` to zero, ``inverse_square_root`` (Vaswani et al. 2017, equation 3).
        label_smoothing: Share of a target's probability that the loss spreads over all classes.
        precision: Of the numbers in a step: ``float32``; ``bf16``, by autocast; ``tf32`` for the
            products of a GPU.
        accumulation: Parts that each worker cuts its share of the batch into, to save memory.
        ema: Decay of an average of the weights, which is then what is scored; 0 keeps none.
        start: A task on which the same model is trained first, or ``none``; where its architecture
            cannot serve that task, one with parts of the same names, or the task's own. Weights
            whose name and shape agree are taken over, and learned positions of another resolution
            of images.
        is_start_frozen: Whether what is taken over stays as it is, so that only other weights are
            trained: BERT's "feature-based approach" (Devlin et al. 2019, section 5.3). FLOPs are
            counted as if all were.
        pretraining_steps: Steps of that training; None takes as many as `steps` of the scale.
        pretraining_learning_rate: Its peak; None takes `learning_rate` of the scale.
        distillation: What models learn of the ablation's teacher, beside the targets: ``none``;
            ``soft``, its probabilities (Hinton et al. 2015, arXiv:1503.02531); ``hard``, its
            likeliest class (Touvron et al. 2021, arXiv:2012.12877, equation 3).
        distillation_weight: The teacher's share of the loss; the targets have the rest.
        distillation_temperature: What both models' logits are divided by in ``soft``; the loss is
            multiplied by its square.
        teacher_dim: Width of the teacher; None takes the scale's.
        teacher_depth: Its blocks, likewise.
        teacher_steps: Steps of its training, likewise.
        teacher_learning_rate: The peak of its training, likewise.
        scheduled_sampling: Share of a decoder's input tokens that its own answers replace at the
            last step; it grows from 0 in a line (Bengio et al. 2015, arXiv:1506.03099).
        flip: Whether an image is mirrored, left to right, with a chance of 1/2.
        crop: Black pixels that are laid around an image; a part of its own size is cut out. 4 is
            usual at 32 x 32; 0 cuts nothing.
        randaugment: Magnitude, 0 to 10, of two random operations on an image (Cubuk et al. 2020,
            arXiv:1909.13719); DeiT takes 9, 0 does none. See `suite.training.randaugment`.
        erasing: Chance that a rectangle of an image becomes noise (Zhong et al. 2020,
            arXiv:1708.04896); DeiT takes 0.25.
        mixup: Alpha, where an image and its target are averaged with another one's in shares drawn
            from Beta(alpha, alpha) (Zhang et al. 2018, arXiv:1710.09412); DeiT takes 0.8.
        cutmix: Alpha, where an image has a rectangle of another one (Yun et al. 2019,
            arXiv:1905.04899); DeiT takes 1. With `mixup` a coin decides for each batch.
        repeated_augmentation: How often each image stands in a batch, each time augmented anew
            (Hoffer et al. 2020, arXiv:1901.09335); DeiT takes 3, 1 repeats none.
        adversarial_steps: Passes of a step, each on images that the one before has moved to where
            their loss is larger (Bai et al. 2022, arXiv:2204.00993); HAT takes 3, 0 moves none.
    """

    optimizer: Optimizer = "adamw"
    learning_rate: Rate = 1e-3
    width_power: Annotated[float, Field(ge=0, le=4)] = 0.0
    search_steps: Count | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    sgd_weight_decay: Annotated[float, Field(ge=0, le=100)] | None = None
    weight_decay: Annotated[float, Field(ge=0, le=100)] = 0.01
    clip_norm: Annotated[float, Field(gt=0, le=1e9)] | None = 1.0
    schedule: Schedule = "constant_with_cooldown"
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    precision: Precision = "float32"
    accumulation: Annotated[int, Field(ge=1, le=65_536)] = 1
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0
    start: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,200}$")] = NO_START
    is_start_frozen: bool = False
    pretraining_steps: Count | None = None
    pretraining_learning_rate: Rate | None = None
    distillation: Distillation = NO_DISTILLATION
    distillation_weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    distillation_temperature: Annotated[float, Field(gt=0, le=1_000)] = 3.0
    teacher_dim: Annotated[int, Field(ge=1, le=65_536)] | None = None
    teacher_depth: Annotated[int, Field(ge=1, le=1_024)] | None = None
    teacher_steps: Count | None = None
    teacher_learning_rate: Rate | None = None
    scheduled_sampling: Annotated[float, Field(ge=0, le=1)] = 0.0
    flip: bool = False
    crop: Annotated[int, Field(ge=0, le=256)] = 0
    randaugment: Annotated[float, Field(ge=0, le=10)] = 0.0
    erasing: Annotated[float, Field(ge=0, le=1)] = 0.0
    mixup: Annotated[float, Field(ge=0, le=100)] = 0.0
    cutmix: Annotated[float, Field(ge=0, le=100)] = 0.0
    repeated_augmentation: Annotated[int, Field(ge=1, le=64)] = 1
    adversarial_steps: Annotated[int, Field(ge=0, le=64), AfterValidator(_not_one)] = 0

    def in_training(self) -> dict[str, Any]:
        """Return its fields of `suite.schema.Training`; one without effect keeps its default."""
        recorded = {f.name: f for f in fields(Training) if f.name in Recipe.model_fields}
        found = {name: getattr(self, name) for name in recorded if name != "learning_rate"}
        if self.optimizer != "sgd":
            del found["momentum"]
        elif self.sgd_weight_decay is not None:
            found["weight_decay"] = self.sgd_weight_decay
        if self.distillation != "soft":
            del found["distillation_temperature"]
        if self.distillation == NO_DISTILLATION:
            del found["distillation_weight"]
        # An id must not depend on how a number is written: 1 and 1.0, or 0.0 and -0.0.
        is_float = {name for name, each in recorded.items() if str(each.type).startswith("float")}
        return {
            name: float(value) + 0.0 if name in is_float and value is not None else value
            for name, value in found.items()
        }
