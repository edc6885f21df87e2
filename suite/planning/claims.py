"""Check an ablation's claim and its scaling law; add the floors that a claim is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bakeoff.models.model_spec import Knob
from bakeoff.suite.errors import unknown_name
from bakeoff.suite.planning.knobs import task_named
from bakeoff.suite.planning.variants import Baseline, Variant, label_of
from bakeoff.suite.probes.probe import probe
from bakeoff.suite.schema import (
    FLOORS,
    QUALITY,
    SPEEDUPS,
    TIMED_RECIPE,
    Cell,
    ClaimSpec,
    rests_on,
)
from bakeoff.suite.spec import Ablation, Axis, Claim, Model, Scale, SpecError
from bakeoff.suite.spec.recipe import Recipe

BUDGET = "steps"  # the axis along which a side is trained to several budgets
HELD_OUT = "held out"  # in a side of a claim
MIN_VALUES = 3  # values of an axis: two points lie on any curve
_OF_DATA = ("steps", "batch")
_PROBES = (QUALITY, "parameters", "flops")
_OF_MODEL = ("dim", "depth")


def with_floors(ablation: Ablation) -> Ablation:
    """Return the ablation, with the probe of floors added if it claims a score."""
    claim, probes = ablation.claim, ablation.probes
    if claim is None or FLOORS in probes or QUALITY not in probes:
        return ablation
    varied = (axis.values for axis in ablation.axes if axis.name == "task")
    tasks = {*ablation.tasks, *(str(value) for values in varied for value in values)}
    scores = {task_named(task).metric.name for task in tasks}
    if not (claim.metric in SPEEDUPS or any(rests_on(claim.metric, score) for score in scores)):
        return ablation
    return ablation.model_copy(update={"probes": (*probes, FLOORS)})


def checked_claim(
    baseline: Baseline, reference: Variant, variants: tuple[Variant, ...], cells: list[Cell]
) -> ClaimSpec | None:
    """Return the ablation's claim with its task filled in; raise if it cannot be tested.

    Raises:
        SpecError: For an unknown variant, metric, task or coordinate, a side that cannot run, or a
            speedup that cannot be computed.
    """
    claim = _with_held_out_sides(baseline.ablation, variants)
    if claim is None:
        return None
    _refuse_foreign_sides(claim, baseline, reference, [variant.label for variant in variants])
    curve: tuple[str, ...] = ()
    counted_by = SPEEDUPS.get(claim.metric, "")
    if counted_by:
        curve = _curve(claim, variants)
        claim = _about_the_score(claim, cells)
        _refuse_uncounted(claim, counted_by, cells)
        if counted_by == SPEEDUPS["time_speedup"]:
            _refuse_other_steps(baseline, [v for v in variants if v.label in (claim.a, claim.b)])
    metrics = {metric.name for cell in cells for metric in cell.metrics}
    if claim.metric not in metrics:
        raise SpecError(f"the claim: {unknown_name('metric', claim.metric, metrics)}")
    measuring = [cell for cell in cells if claim.metric in {m.name for m in cell.metrics}]
    tasks = {cell.task for cell in measuring}
    if claim.task is not None and claim.task not in tasks:
        raise SpecError(f"the claim: {unknown_name('task', claim.task, tasks)}")
    task = claim.task or measuring[0].task  # the default is the first task with the metric
    on_task = [cell for cell in measuring if cell.task == task]
    _refuse_foreign_place(claim, on_task)
    _refuse_no_direction(claim, on_task)
    _refuse_impossible_sides(claim, (claim.a, claim.b, *curve), on_task)
    _refuse_check_of_what_varies(claim, on_task)
    return ClaimSpec(
        **{
            **claim.model_dump(),
            "task": task,
            "by": float(claim.by),
            "counted_by": counted_by,
            "curve": curve,
        }
    )


def _curve(claim: Claim, variants: Sequence[Variant]) -> tuple[str, ...]:
    """Return the variants that differ from `b` in the number of steps only, `b` included.

    Raises:
        SpecError: If they are too few for a curve, if `a` is one of them, or for an unfit `by`.
    """
    if 0 < claim.by < 1:
        raise SpecError(
            f"the claim: by={claim.by:g} must be a ratio of at least 1 for a speedup, such as 1.2; "
            "0 claims the direction only."
        )
    others = {v.label: _without(v.changes, {BUDGET}) for v in variants}
    curve = tuple(label for label in others if others[label] == others[claim.b])
    if len(curve) < MIN_VALUES:
        raise SpecError(
            f"the claim: a speedup needs {claim.b!r} at {MIN_VALUES} or more numbers of steps, and "
            f"it has {len(curve)}; vary {BUDGET!r}."
        )
    if claim.a in curve:
        raise SpecError(
            f"the claim: {claim.a!r} and {claim.b!r} differ in the number of steps only; a speedup "
            "compares two models."
        )
    return curve


def _about_the_score(claim: Claim, cells: Sequence[Cell]) -> Claim:
    """Return the claim of a speedup with the score that it rests on in place of its metric."""
    # The first metric of a cell is that of its task.
    scores = {cell.task: cell.metrics[0].name for cell in cells if cell.probe == QUALITY}
    if not scores:
        raise SpecError(f"the claim: {claim.metric} is that of a score; add the probe {QUALITY!r}.")
    score = scores.get(claim.task or "") or next(iter(scores.values()))
    return claim.model_copy(update={"metric": score})


def _refuse_foreign_sides(
    claim: Claim, baseline: Baseline, reference: Variant, labels: Sequence[str]
) -> None:
    if claim.a == claim.b:
        raise SpecError(f"the claim: a and b are both {claim.a!r}; they must be two variants.")
    for label in (claim.a, claim.b):
        if label in {baseline.label(axis.name) for axis in baseline.ablation.axes} - set(labels):
            raise SpecError(
                f"the claim: {label!r} is the value of the baseline, and with several axes the "
                f"variant of the baseline is called {reference.label!r}."
            )
        if label not in labels:
            raise SpecError(
                f"the claim: {unknown_name('variant', label, labels)} `--set claim=none` runs "
                "without the claim."
            )


def _refuse_no_direction(claim: Claim, cells: Sequence[Cell]) -> None:
    better = {m.better for cell in cells for m in cell.metrics if m.name == claim.metric}
    if better == {"none"}:
        raise SpecError(
            f"the claim: neither more nor less of {claim.metric!r} is better, so no variant can "
            "be; name another metric."
        )


def _refuse_foreign_place(claim: Claim, cells: Sequence[Cell]) -> None:
    metrics = [m for cell in cells for m in cell.metrics if m.name == claim.metric]
    places = dict.fromkeys([*(cell.at for cell in cells), *(metric.at for metric in metrics)])
    if claim.at not in places:
        allowed = (
            ", ".join(filter(None, places)) or "only at='', since the metric has no coordinates"
        )
        raise SpecError(
            f"the claim: at={claim.at!r} is not a coordinate of {claim.metric}; allowed: {allowed}."
        )


def _refuse_uncounted(claim: Claim, probe_name: str, cells: Sequence[Cell]) -> None:
    """Raise if no probe counts the budgets of a speedup."""
    if probe_name not in {cell.probe for cell in cells}:
        name = next(name for name, each in SPEEDUPS.items() if each == probe_name)
        raise SpecError(f"the claim: {name} needs the probe {probe_name!r}, which counts budgets.")


def _refuse_other_steps(baseline: Baseline, sides: Sequence[Variant]) -> None:
    """Raise if the training steps of a side do more than those that are timed."""
    for variant in sides:
        for name, plain in TIMED_RECIPE.items():
            value = variant.changes.get(name, getattr(baseline.scale, name))
            if value != plain:
                raise SpecError(
                    f"the claim: time_speedup needs the time of a training step, which is measured "
                    f"at {name}={plain} only, and {variant.label!r} has {name}={value}; the metric "
                    "'speedup' counts FLOPs."
                )


def _refuse_impossible_sides(claim: Claim, labels: Sequence[str], cells: Sequence[Cell]) -> None:
    """Raise if all cells of a side are skipped."""
    for label in labels:
        reasons = [
            cell.reason
            for cell in cells
            if cell.variant == label and claim.at in (cell.at, *(m.at for m in cell.metrics))
        ]
        if reasons and all(reasons):
            raise SpecError(
                f"the claim: {label!r} cannot be measured on {cells[0].task}: {reasons[0]}."
            )


def _refuse_check_of_what_varies(claim: Claim, cells: Sequence[Cell]) -> None:
    """Raise if `is_check` is set for a metric of trained models or a time."""
    units = {m.unit for cell in cells for m in cell.metrics if m.name == claim.metric}
    is_trained = any("training" in probe(cell.probe).depends_on for cell in cells)
    if claim.is_check and ("s" in units or is_trained):
        raise SpecError(
            "the claim: is_check=True is for claims that hold by construction, such as those "
            f"about bytes and FLOPs; {claim.metric} is "
            f"{'timed' if 's' in units else 'of trained models'}."
        )


def refuse_unfit_law(ablation: Ablation) -> None:
    """Raise if the scaling law cannot be fitted, or if its held-out values are not extrapolations.

    Raises:
        SpecError: If a rule of `bakeoff.ScalingLaw` is broken.
    """
    if ablation.scaling_law is None:
        return
    if ablation.combine != "cross":
        raise SpecError(f"scaling_law: combine={ablation.combine!r} must be 'cross'.")
    axes = {axis.name: axis for axis in ablation.axes}
    for name, value in ablation.scaling_law.held_out.items():
        _refuse_axis(name, value, axes)
    held_out = ablation.scaling_law.held_out.keys()
    data = [axes[name] for name in _OF_DATA if name in held_out]
    model = [axes[name] for name in held_out if name not in _OF_DATA]
    _refuse_few(data, "amounts of data", _OF_DATA)
    _refuse_few(model, "sizes of the model", _OF_MODEL)
    for name in _PROBES:
        if name not in ablation.probes:
            raise SpecError(f"scaling_law: it needs the probe {name!r}.")
    _refuse_tasks(ablation, axes)


def _with_held_out_sides(ablation: Ablation, variants: tuple[Variant, ...]) -> Claim | None:
    """Return the claim with labels in place of ``mixer=lstm, held out``."""
    claim, law = ablation.claim, ablation.scaling_law
    if claim is None or law is None:
        return claim
    labels = {
        ", ".join(
            filter(None, [label_of(_without(variant.values, law.held_out)), HELD_OUT])
        ): variant.label
        for variant in variants
        if law.held_out.items() <= variant.values.items()
    }
    sides = {name: getattr(claim, name) for name in ("a", "b")}
    return claim.model_copy(update={n: labels.get(side, side) for n, side in sides.items()})


def _without(values: Mapping[str, Knob | Model], names: Collection[str]) -> dict[str, Knob | Model]:
    return {name: value for name, value in values.items() if name not in names}


def _refuse_axis(name: str, value: int, axes: dict[str, Axis]) -> None:
    if name not in axes:
        raise SpecError(f"scaling_law: held_out: {unknown_name('axis', name, axes)}")
    is_other = name in Recipe.model_fields or (name in Scale.model_fields and name not in _OF_MODEL)
    if name not in _OF_DATA and (is_other or name in ("task", "model", "teacher")):
        raise SpecError(
            f"scaling_law: held_out: {name!r} is neither a size of the model nor one of "
            f"{', '.join(_OF_DATA)}."
        )
    numbers = [each for each in axes[name].values if type(each) is int]
    if len(numbers) < len(axes[name].values):
        raise SpecError(f"scaling_law: the values of the axis {name!r} must be whole numbers.")
    if value <= max(numbers):
        raise SpecError(
            f"scaling_law: held_out: {name}={value} must be above all values of the axis "
            f"({', '.join(map(str, numbers))}), so that the law has to predict it."
        )


def _refuse_few(axes: list[Axis], what: str, names: tuple[str, ...]) -> None:
    if not axes:
        raise SpecError(
            f"scaling_law: held_out must name an axis of {what}, as {' or '.join(names)}."
        )
    if max(len(axis.values) for axis in axes) < MIN_VALUES:
        raise SpecError(
            f"scaling_law: {what}: an axis of at least {MIN_VALUES} values is needed; "
            f"{' and '.join(f'{axis.name} has {len(axis.values)}' for axis in axes)}."
        )


def _refuse_tasks(ablation: Ablation, axes: dict[str, Axis]) -> None:
    tasks = [str(v) for v in axes["task"].values] if "task" in axes else ablation.tasks
    for task in tasks:
        if task_named(task).metric.unit != "bit":
            raise SpecError(
                f"scaling_law: {task} is scored by {task_named(task).metric.name}, and a law is "
                "fitted to losses in bits."
            )
