"""Fill in how a variant is trained, and refuse what no engine can do. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from suite.planning.knobs import Impossible
from suite.planning.variants import Baseline, Variant
from suite.schema import Precision, Training
from suite.spec import MODEL_FIELDS, TEACHER, WHOLE_MODEL, Model, Scale
from suite.spec.recipe import NO_DISTILLATION, NO_START
from suite.tasks.task import Task
from suite.training.augmentation import why_not_augmented
from suite.training.sampling import why_no_sampling


def checked_recipe(scale: Scale, task: type[Task], *, is_spread: bool) -> dict[str, Any]:
    """Fields of `Training`; what has no effect keeps its default, and so does the id.

    Args:
        scale: With the variant's changes.
        task: What is trained on.
        is_spread: Whether DeepSpeed runs the step; precision and parts are then in `Parallel`.

    Raises:
        Impossible: for what DeepSpeed, a CPU, or a model of that task cannot do.
    """
    if is_spread:
        _refuse_on_workers(scale)
    checked_precision(scale)
    if scale.is_start_frozen and scale.start == NO_START:
        raise Impossible("is_start_frozen=True needs a start, whose weights it keeps")
    if scale.scheduled_sampling and (why := why_no_sampling(task)):
        raise Impossible(f"scheduled_sampling={scale.scheduled_sampling} is impossible: {why}")
    recipe = scale.in_training()
    if why := why_not_augmented(task, recipe, scale.batch):
        raise Impossible(why)
    in_parallel = ("precision", "accumulation") if is_spread else ()
    return {k: value for k, value in recipe.items() if k not in in_parallel}


def checked_precision(scale: Scale) -> Precision:
    """The scale's.

    Raises:
        Impossible: it is one of GPUs, and there is none.
    """
    if scale.precision == "tf32" and not scale.gpus:
        raise Impossible("precision='tf32' needs a GPU, and the scale has gpus=0")
    return scale.precision


def _refuse_on_workers(scale: Scale) -> None:
    asked = {
        f"optimizer={scale.optimizer!r}": scale.optimizer != Training.optimizer,
        f"ema={scale.ema}": bool(scale.ema),
        f"adversarial_steps={scale.adversarial_steps}": bool(scale.adversarial_steps),
        f"precision={scale.precision!r}": scale.precision == "tf32",
        f"is_start_frozen={scale.is_start_frozen}": scale.is_start_frozen,
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise Impossible(f"{what} is for trials of one process, without DeepSpeed")


# Where the search for a learning rate begins, of a new model; it goes as far as it must.
_FIRST_RATES = {"adamw": 5e-3, "sgd": 0.1, "adafactor": 1e-2}
_SEARCH_SHARE = 3  # of the steps, the trainings of a search take one in so many


def first_rate(scale: Scale, is_fine_tuned: bool) -> float:
    """The learning rate that the search tries first, and the one of a scale that has no search.

    A model that is trained already is changed at lower rates than a new one learns at (Devlin et
    al. 2019, arXiv:1810.04805: 1e-4, then 2e-5 to 5e-5). From the rates of a new one the search can
    end at a lower peak of high rates.
    """
    return _FIRST_RATES[scale.optimizer] / (10 if is_fine_tuned else 1)


def searching(scale: Scale, training: Training, usual_steps: int) -> Training:
    """How each training of the search for the learning rate of `training` goes.

    Args:
        scale: With the variant's changes.
        training: The variant's.
        usual_steps: Of the scale, which `search_steps` is for. A variant of more steps or fewer
            takes the same share of its own: a rate of far shorter trainings would not suit it.
    """
    steps = -(-scale.steps // _SEARCH_SHARE)
    if scale.search_steps:
        steps = -(-scale.search_steps * scale.steps // usual_steps)
    return replace(
        training,
        steps=steps,
        warmup_steps=round(training.warmup_steps * steps / scale.steps),
        num_evaluations=1,
    )


# Fields of a scale that shape the model; the others are how it is trained, or where.
_OF_THE_MODEL = frozenset({"dim", "depth", "length"})


def pretraining_of(
    baseline: Baseline,
    variant: Variant,
    scale: Scale,
    knobs: Collection[str],
    instead: Model | None,
) -> tuple[Baseline, Variant]:
    """What the training on the task `scale.start` is planned from.

    The model is the variant's; its training is the baseline's. So variants that differ only in
    their own training share it.

    Args:
        baseline: The ablation's.
        variant: That which starts from it.
        scale: With the variant's changes.
        knobs: Those that its model may have on that task; the others are left out.
        instead: The model that is trained there, where it is another one.
    """
    kept = _OF_THE_MODEL if instead else _OF_THE_MODEL | MODEL_FIELDS | {WHOLE_MODEL}
    own = {n: value for n, value in variant.changes.items() if n in kept or n in knobs}
    changed = _before_others(
        baseline.scale,
        scale.pretraining_steps,
        scale.pretraining_learning_rate,
        scheduled_sampling=0.0,
        num_training_examples=None,
    )
    if instead:
        ablation = baseline.ablation.model_copy(update={"baseline": instead})
        baseline = replace(baseline, ablation=ablation)
    return replace(baseline, scale=changed), Variant(label=variant.label, changes=own)


def teaching_of(
    baseline: Baseline, variant: Variant, scale: Scale, teacher: Model
) -> tuple[Baseline, Variant]:
    """What the training of the teacher is planned from.

    Its data are the variant's; its training, and the sizes that the scale does not give it, are the
    baseline's. So variants on the same data share it.

    Args:
        baseline: The ablation's.
        variant: That which learns from it.
        scale: With the variant's changes.
        teacher: The model.
    """
    of_data = ("task", "length", "num_training_examples")
    own = {name: value for name, value in variant.changes.items() if name in of_data}
    changed = _before_others(
        baseline.scale,
        scale.teacher_steps,
        scale.teacher_learning_rate,
        dim=scale.teacher_dim or baseline.scale.dim,
        depth=scale.teacher_depth or baseline.scale.depth,
    )
    ablation = baseline.ablation.model_copy(update={"baseline": teacher})
    taught = replace(baseline, ablation=ablation, scale=changed)
    return taught, Variant(label=f"{TEACHER} of {variant.label}", changes=own)


def _before_others(
    before: Scale, steps: int | None, learning_rate: float | str | None, **changes: Any
) -> Scale:
    """The scale of a training that others start or learn from, and that does neither itself."""
    steps = steps or before.steps
    asked: dict[str, Any] = {
        "steps": steps,
        "start": NO_START,
        "is_start_frozen": False,
        "distillation": NO_DISTILLATION,
        "test_lengths": (),
        "learning_rate": learning_rate or before.learning_rate,
        **changes,
    }
    for name in {"warmup_steps", "num_evaluations"} & before.model_fields_set:
        asked[name] = min(steps, getattr(before, name))
    return Scale(**{**before.model_dump(exclude_unset=True), **asked})
