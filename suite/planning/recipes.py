"""Fill in how a variant is trained, and refuse what no engine can do. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from suite.planning.knobs import Impossible
from suite.planning.variants import Baseline, Variant
from suite.schema import Training
from suite.spec import MODEL_FIELDS, WHOLE_MODEL, Scale
from suite.spec.recipe import NO_START


def checked_recipe(scale: Scale, *, is_spread: bool) -> dict[str, Any]:
    """Fields of `Training`; what has no effect keeps its default, and so does the id.

    Args:
        scale: With the variant's changes.
        is_spread: Whether DeepSpeed runs the step; precision and parts are then in `Parallel`.

    Raises:
        Impossible: for what DeepSpeed, or a CPU, cannot do.
    """
    if is_spread:
        _refuse_on_workers(scale)
    if scale.precision == "tf32" and not scale.gpus:
        raise Impossible("precision='tf32' needs a GPU, and the scale has gpus=0")
    in_parallel = ("precision", "accumulation") if is_spread else ()
    return {k: value for k, value in scale.in_training().items() if k not in in_parallel}


def _refuse_on_workers(scale: Scale) -> None:
    asked = {
        f"optimizer={scale.optimizer!r}": scale.optimizer != Training.optimizer,
        f"ema={scale.ema}": bool(scale.ema),
        f"precision={scale.precision!r}": scale.precision == "tf32",
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise Impossible(f"{what} is for trials of one process, without DeepSpeed")


# Fields of a scale that shape the model; the others are how it is trained, or where.
_OF_THE_MODEL = frozenset({"dim", "depth", "length"})


def pretraining_of(
    baseline: Baseline, variant: Variant, scale: Scale, knobs: Collection[str]
) -> tuple[Baseline, Variant]:
    """What the training on the task `scale.start` is planned from.

    The model is the variant's; its training is the baseline's. So variants that differ only in
    their own training share it.

    Args:
        baseline: The ablation's.
        variant: That which starts from it.
        scale: With the variant's changes.
        knobs: Those that its model may have on that task; the others are left out.
    """
    own = {
        name: value
        for name, value in variant.changes.items()
        if name in (_OF_THE_MODEL | MODEL_FIELDS | {WHOLE_MODEL}) or name in knobs
    }
    before = baseline.scale
    steps = scale.pretraining_steps or before.steps
    asked: dict[str, Any] = {
        "steps": steps, "start": NO_START, "test_lengths": (),
        "learning_rate": scale.pretraining_learning_rate or before.learning_rate,
    }  # fmt: skip
    for name in {"warmup_steps", "num_evaluations"} & before.model_fields_set:
        asked[name] = min(steps, getattr(before, name))
    changed = Scale(**{**before.model_dump(exclude_unset=True), **asked})
    return replace(baseline, scale=changed), Variant(label=variant.label, changes=own)
