"""Give each variant as much of something as the baseline has; see `bakeoff.Scale.equal`. Pure.

``flops`` and ``tokens`` set the number of training steps: as many as the baseline's FLOPs or tokens
pay for. The warm-up keeps its share of the steps. FLOPs are those of all training steps, forward
and backward, with the passes that a recipe adds (a teacher's, an adversary's). Trainings that come
before are not counted: a pre-training and that of a teacher keep their steps, and a search for the
learning rate keeps its share of the steps that it is for.

``seconds`` sets the number of steps too, but only when a trial has timed a step of the variant
beside one of the baseline (`bakeoff.suite.probes.pace`): the rule is part of the trial's id, and
its result is the number. The search for the learning rate then has its share of the baseline's
steps.

``parameters`` sets the width of the feed-forward, which stays at least half as wide as the model.
If that does not suffice, it sets the width of the model, in steps that its heads divide, and then
that of the feed-forward again. A width that an axis sets stays.

The baseline of an ablation is its own measure, on each task; an axis ``steps`` sets the baseline's
steps too. A variant that cannot come within `TOLERANCE` is impossible. Only at smoke scale, where
a training is too short for that, the nearest number of steps is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache

from bakeoff.models import ModelSpec, build_shapes
from bakeoff.models.model_spec import Knob
from bakeoff.suite.errors import words_of
from bakeoff.suite.planning.knobs import Impossible, knob_names, load_architecture
from bakeoff.suite.planning.loader import tried
from bakeoff.suite.planning.own_modules import own_versions
from bakeoff.suite.planning.resolve import as_trained, variant_on
from bakeoff.suite.planning.variants import Baseline, Variant
from bakeoff.suite.probes.probe import flops_per_step
from bakeoff.suite.schema import Training, Trial
from bakeoff.suite.spec import EQUAL, SMOKE
from bakeoff.suite.training.engines.engine import num_trained

TOLERANCE = 0.01
_RATIO, _WIDTH = "feed_forward_ratio", "dim"
_LEAST_RATIO, _MOST_RATIO = 0.5, 64
_PARTS = 64  # parts of a ratio of 1, where an architecture has no single width
_MOST_WIDTHS = 64  # that are tried
_NOT_PACED = {"start": "a pre-training", "teacher": "a teacher", "parallel": "several workers"}
_Changed = Callable[[Mapping[str, Knob]], Trial]


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The cost of a training.

    Attributes:
        num_steps: Training steps, or None if they are found by timing them.
        training_flops: FLOPs of all steps, or None if the steps are not known, or the FLOPs of a
            user's own model.
        num_parameters: Trained parameters of the model.
    """

    num_steps: int | None
    training_flops: float | None
    num_parameters: int


def spending_of(trial: Trial) -> Spending:
    """Return the cost of the training of a trial with one model."""
    steps, flops = None if trial.pace else _training(trial).steps, None
    with suppress(Impossible):
        flops = steps * _flops_of_a_step(trial) if steps else None
    return Spending(
        num_steps=steps,
        training_flops=flops,
        num_parameters=_size(trial),
    )


def on_equal_terms(baseline: Baseline, variant: Variant, task_name: str) -> Trial:
    """Return the variant on the task, with the steps or the widths that its budget allows.

    Raises:
        SpecError: In the same cases as `variant_on`.
        Impossible: In the same cases, and if nothing comes within `TOLERANCE` of the budget.
    """
    found = variant_on(baseline, variant, task_name)
    equal = str(variant.settings.get(EQUAL, baseline.scale.equal))
    if equal == "steps":
        return found
    measure = {name: v for name, v in variant.changes.items() if name in ("task", "steps")}
    try:
        reference = variant_on(baseline, Variant(label="baseline", changes=measure), task_name)
    except Impossible as reason:
        raise Impossible(f"equal={equal!r} refers to the baseline: {reason}") from None

    def changed(changes: Mapping[str, Knob]) -> Trial:
        every = {**variant.changes, **changes}
        return variant_on(baseline, replace(variant, changes=every), task_name)

    if equal == "seconds":
        return _of_equal_time(found, reference)
    if equal == "parameters":
        return _of_equal_size(found, _size(reference), variant, changed)
    is_rounded = baseline.scale_name == SMOKE
    return _of_equal_amount(equal, found, reference, changed, is_rounded=is_rounded)


# Steps


def _of_equal_amount(
    equal: str, found: Trial, reference: Trial, changed: _Changed, *, is_rounded: bool
) -> Trial:
    """Return the variant with the number of steps that takes as much as the reference does."""
    planned = _training(found)
    budget = _training(reference).steps * _amount_per_step(equal, reference)
    per_step = _amount_per_step(equal, found)
    steps = max(1, round(budget / per_step))
    error = steps * per_step / budget - 1
    if abs(error) > TOLERANCE and not is_rounded:
        raise Impossible(
            f"{steps} steps are {_percent(abs(error))} {'above' if error > 0 else 'below'} the "
            f"baseline's {equal}, and no other number is nearer; equal={equal!r} allows "
            f"{_percent(TOLERANCE)}, so take more steps"
        )
    if steps == planned.steps:
        return found
    warmup_steps = round(planned.warmup_steps * steps / planned.steps)
    num_evaluations = min(planned.num_evaluations, steps)
    return changed(
        {"steps": steps, "warmup_steps": warmup_steps, "num_evaluations": num_evaluations}
    )


def _of_equal_time(found: Trial, reference: Trial) -> Trial:
    """Return the variant with a trial before it that finds the steps of the reference's time."""
    own, other = (
        replace(as_trained(each), search=None, test_lengths=()) for each in (found, reference)
    )
    if own == other:
        return found
    for name, what in _NOT_PACED.items():
        if getattr(found, name) is not None or getattr(reference, name) is not None:
            raise Impossible(f"equal='seconds' is not supported with {what}")
    if _training(found).adversarial_steps or _training(reference).adversarial_steps:
        raise Impossible(
            "equal='seconds' is not supported with adversarial training, whose steps differ"
        )
    return replace(found, pace=replace(own, reference=other))


def _training(trial: Trial) -> Training:
    assert trial.training is not None, "only a training has a budget"
    return trial.training


def _amount_per_step(equal: str, trial: Trial) -> float:
    if equal == "tokens":
        return trial.batch * trial.length
    return _flops_of_a_step(trial)


def _flops_of_a_step(trial: Trial) -> float:
    """Return the FLOPs by formula; those of a user's own model without one are counted.

    Raises:
        Impossible: If a user's own model runs an operation of unknown cost.
    """
    model, teacher = trial.subjects[0], trial.teacher.subjects[0] if trial.teacher else None
    is_own = model.is_own or (teacher is not None and teacher.is_own)
    try:
        with tried() if is_own else nullcontext():
            found = flops_per_step(trial, model, teacher, is_counted=True)
    except Exception as error:  # a user's code may raise anything
        if not is_own:
            raise
        raise Impossible(f"its FLOPs cannot be counted: {words_of(error)}") from None
    assert found is not None, "all FLOPs are counted"
    return found


# Widths


def _of_equal_size(found: Trial, target: int, variant: Variant, changed: _Changed) -> Trial:
    """Return the variant with the widths at which it has about `target` parameters."""
    is_free = {name: name not in {**variant.values, **variant.changes} for name in (_RATIO, _WIDTH)}
    known = [found]
    if _size(found) != target and is_free[_RATIO]:
        known += _with_feed_forward(found, target, changed)
    if _error(_nearest(known, target), target) > TOLERANCE and is_free[_WIDTH]:
        widths = sorted(
            _of_other_widths(found, target, changed), key=lambda each: _error(each, target)
        )
        known += widths
        for each in widths[:2] if is_free[_RATIO] else ():  # one on each side of the target
            if _error(_nearest(known, target), target) > TOLERANCE:
                known += _with_feed_forward(each, target, changed)
    nearest = _nearest(known, target)
    if _error(nearest, target) > TOLERANCE:
        raise Impossible(_why_unequal(nearest, target, is_free))
    return nearest


def _with_feed_forward(found: Trial, target: int, changed: _Changed) -> Iterator[Trial]:
    """Yield the variant with the best width of its feed-forward, if it has one."""
    (spec,) = found.subjects
    if _RATIO not in knob_names(load_architecture(spec.architecture)):
        return
    config = load_architecture(spec.architecture).Config(**spec.settings)
    if getattr(config, "feed_forward", "") == "none":
        return
    parts = spec.dim or _PARTS
    own = round(getattr(config, _RATIO) * parts)
    wider = replace(spec, settings={**spec.settings, _RATIO: (own + parts) / parts})
    per_part = (_num_parameters(wider) - _size(found)) / parts
    if per_part <= 0:
        return
    wanted = round(own + (target - _size(found)) / per_part)  # the number grows linearly
    least = min(own, round(_LEAST_RATIO * parts))
    width = {_WIDTH: spec.dim} if spec.dim else {}
    yield changed({**width, _RATIO: min(max(wanted, least), _MOST_RATIO * parts) / parts})


def _of_other_widths(found: Trial, target: int, changed: _Changed) -> Iterator[Trial]:
    """Yield the variant at widths that its heads divide, up to the first beyond the target."""
    (spec,) = found.subjects
    if not spec.dim:
        return
    heads = {**spec.settings, **spec.knobs}.get("heads")
    step = heads if isinstance(heads, int) and heads > 0 else 1
    # Nearly all parameters are in matrices, so that their number grows with the square.
    width = max(1, round(spec.dim * (target / _size(found)) ** 0.5 / step)) * step
    direction = 0
    for _ in range(_MOST_WIDTHS):
        try:
            trial = changed({_WIDTH: width})
        except Impossible:  # for example an odd width, where a position needs an even one
            trial = None
        if trial is not None:
            yield trial
            missing = target - _size(trial)
            if missing * direction < 0 or not missing:
                return
            direction = direction or (1 if missing > 0 else -1)
        width += (direction or 1) * step
        if width < step:
            return


def _nearest(trials: list[Trial], target: int) -> Trial:
    return min(trials, key=lambda trial: _error(trial, target))


def _error(trial: Trial, target: int) -> float:
    return abs(_size(trial) - target) / target


def _why_unequal(nearest: Trial, target: int, is_free: Mapping[str, bool]) -> str:
    size, (spec,) = _size(nearest), nearest.subjects
    at = f" at dim={spec.dim}" if spec.dim else ""
    held = [name for name, is_unset in is_free.items() if not is_unset]
    why = f"; an axis sets {' and '.join(held)}" if held else ""
    return (
        f"it has {size:,} parameters{at}, the nearest to the baseline's {target:,} that its widths "
        f"allow; equal='parameters' allows a difference of {_percent(TOLERANCE)}{why}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _size(trial: Trial) -> int:
    return _num_parameters(trial.subjects[0])


def _num_parameters(spec: ModelSpec) -> int:
    return _counted(spec.spelling, own_versions(spec))


@cache
def _counted(spelling: str, versions: tuple[int | str, ...]) -> int:
    """Return the number of trained parameters; the versions only distinguish a user's models."""
    spec = ModelSpec.of_spelling(spelling)
    with tried() if spec.is_own else nullcontext():
        return num_trained(build_shapes(spec))
