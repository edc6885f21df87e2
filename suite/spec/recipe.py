"""The part of a specification that describes the training of models."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from bakeoff.suite.schema.training import (
    Distillation,
    Optimizer,
    Precision,
    Schedule,
    StepRuntime,
    Training,
)
from bakeoff.suite.spec.fields import Count, FrozenSpec, Rate
from bakeoff.suite.spec.own_data import TaskName

NO_START = "none"
NO_DISTILLATION: Distillation = "none"


def _not_one(steps: int) -> int:
    if steps == 1:
        raise ValueError("must be 0, or at least 2: the first pass moves nothing")
    return steps


class Recipe(FrozenSpec):
    """The training recipe; a scale may override any of its fields.

    Each field is also a field of `Scale`, and may be an axis.

    Attributes:
        optimizer: ``adamw`` (Loshchilov and Hutter 2019, arXiv:1711.05101; betas 0.9 and 0.98),
            ``sgd`` (with momentum; weight decay is added to the gradient) or ``adafactor`` (Shazeer
            and Stern 2018, arXiv:1804.04235; the step is relative to the scale of the parameter).
        learning_rate: Peak learning rate of the schedule, or ``tuned``, which first searches for
            the best rate of each variant on validation data, with two seeds; see
            `bakeoff.suite.probes.learning_rate`.
        width_power: Exponent by which the learning rate decreases with the width: a variant whose
            width differs from the scale's `dim` trains with `learning_rate` times (`dim` / its
            width) to this power. 1 is the rule for hidden matrices of Yang et al. 2022
            (arXiv:2203.03466); 0 keeps the rate.
        search_steps: Steps of each training of the learning-rate search; by default a third of
            `steps`. For a variant whose number of steps differs from the scale's, it is scaled in
            proportion. The rate that is found is used unchanged.
        momentum: Momentum of ``sgd``.
        sgd_weight_decay: Weight decay of ``sgd``, in place of `weight_decay`; by default
            `weight_decay`. SGD adds the decay to the gradient and has larger learning rates, so
            that a decay that suits AdamW is far too strong.
        weight_decay: Weight decay, applied to matrices only, except those that a module lists in
            `no_weight_decay`.
        clip_norm: Maximum norm of the gradient over all parameters, or None for no clipping.
        schedule: Learning-rate schedule after a linear warm-up: ``constant_with_cooldown`` (linear
            to zero over the last fifth of all steps; Hägele et al. 2024, arXiv:2405.18392),
            ``cosine`` to zero, ``linear`` to zero, or ``inverse_square_root`` (Vaswani et al. 2017,
            equation 3).
        label_smoothing: Share of a target's probability that the loss spreads over all classes.
        precision: Precision of a training step: ``float32``; ``bf16``, by autocast; ``tf32``, for
            matrix products on a GPU.
        accumulation: Number of parts into which each worker splits its share of the batch, to save
            memory.
        ema: Decay of the exponential moving average of the weights, which is then evaluated; 0
            keeps no average.
        start: A task on which the same model is pre-trained, or ``none``. If its architecture does
            not support that task, an architecture with parts of the same names is pre-trained, or
            the default of that task. Weights with the same name and shape are transferred, and
            learned positions are resized to another image resolution.
        is_start_frozen: Whether the transferred weights are frozen, so that only the other weights
            are trained: BERT's "feature-based approach" (Devlin et al. 2019, section 5.3). FLOPs
            are counted as if all weights were trained.
        pretraining_steps: Steps of the pre-training; by default `steps` of the scale.
        pretraining_learning_rate: Peak learning rate of the pre-training; by default
            `learning_rate` of the scale.
        distillation: Part of the teacher's output that is learned in addition to the targets:
            ``none``; ``soft``, its probabilities (Hinton et al. 2015, arXiv:1503.02531); ``hard``,
            its most likely class (Touvron et al. 2021, arXiv:2012.12877, equation 3).
        distillation_weight: Weight of the teacher's part in the loss; the targets have the rest.
        distillation_temperature: Temperature that divides the logits of both models in ``soft``;
            the loss is multiplied by its square.
        teacher_dim: Width of the teacher; by default the scale's.
        teacher_depth: Number of blocks of the teacher; by default the scale's.
        teacher_steps: Training steps of the teacher; by default the scale's.
        teacher_learning_rate: Peak learning rate of the teacher; by default the scale's.
        scheduled_sampling: Share of a decoder's input tokens that are replaced with its own
            predictions at the last step; it grows linearly from 0 (Bengio et al. 2015,
            arXiv:1506.03099).
        flip: Whether images are flipped horizontally with probability 1/2.
        crop: Pixels of black padding around an image, from which a crop of the original size is
            taken at random. 4 is usual at 32 x 32; 0 does not crop.
        randaugment: Magnitude, 0 to 10, of two random operations on an image (Cubuk et al. 2020,
            arXiv:1909.13719); DeiT uses 9, 0 applies none. See
            `bakeoff.suite.training.randaugment`.
        erasing: Probability that a rectangle of an image is replaced with noise (Zhong et al. 2020,
            arXiv:1708.04896); DeiT uses 0.25.
        mixup: Alpha of mixup: images and targets are averaged in pairs, with weights drawn from
            Beta(alpha, alpha) (Zhang et al. 2018, arXiv:1710.09412); DeiT uses 0.8, 0 applies none.
        cutmix: Alpha of CutMix: a rectangle of an image is replaced with that of another image (Yun
            et al. 2019, arXiv:1905.04899); DeiT uses 1, 0 applies none. If `mixup` is set too, each
            batch uses one of the two at random.
        repeated_augmentation: Number of copies of each image in a batch, each augmented anew
            (Hoffer et al. 2020, arXiv:1901.09335); DeiT uses 3, 1 does not repeat.
        adversarial_steps: Number of passes per step, each on images that the previous pass has
            perturbed so as to increase their loss (Bai et al. 2022, arXiv:2204.00993); HAT uses 3,
            0 does not perturb.
        runtime: How training steps are executed: ``eager``, operation by operation; ``graph``, each
            as one CUDA graph; ``compiled``, with the model compiled by torch and, on a GPU, each as
            one CUDA graph; ``auto``, eagerly on a CPU, and on a GPU compiled if the training is
            long enough to make up for the time of compiling, else as a graph, or eagerly if no
            graph can hold the steps. Losses are the same up to rounding. Timings are of compiled
            models at ``compiled``, and of the models as written at each other value; on a GPU, both
            as CUDA graphs and as launched.
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
    start: TaskName = NO_START
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
    runtime: StepRuntime = "auto"

    def in_training(self) -> dict[str, Any]:
        """Return the fields of `schema.Training`; one without effect keeps its default."""
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
