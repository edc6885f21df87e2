"""Check that a scaling law can be fitted to what an ablation trains, and name what it holds out."""

from __future__ import annotations

from suite.errors import unknown_name
from suite.schema import QUALITY
from suite.spec import Ablation, Axis, Claim, Scale, SpecError
from suite.spec.recipe import Recipe
from suite.tasks.registry import TASKS, task_class

HELD_OUT = "held out"  # in a side of a claim
MIN_VALUES = 3  # of sizes, and of amounts of data: two points lie on any curve
_OF_DATA = ("steps", "batch")
_PROBES = (QUALITY, "parameters", "flops")
_OF_MODEL = ("dim", "depth")


def refuse_unfit_law(ablation: Ablation) -> None:
    """Refuse what no law could be fitted to, or what it need not predict.

    Raises:
        SpecError: see `suite.ScalingLaw`.
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


def with_held_out_sides(ablation: Ablation) -> Claim | None:
    """The claim with labels in place of ``mixer=lstm, held out``."""
    claim, law = ablation.claim, ablation.scaling_law
    if claim is None or law is None:
        return claim
    held_out = {name: f"{name}={value}" for name, value in law.held_out.items()}
    sides = {name: _label(getattr(claim, name), ablation, held_out) for name in ("a", "b")}
    return claim.model_copy(update=sides)


def _label(side: str, ablation: Ablation, held_out: dict[str, str]) -> str:
    """Its parts in the order of the axes, as labels have them."""
    *others, last = side.split(", ")
    if last != HELD_OUT:
        return side
    named = {part.partition("=")[0]: part for part in others} | held_out
    return ", ".join(named.pop(axis.name) for axis in ablation.axes if axis.name in named)


def _refuse_axis(name: str, value: int, axes: dict[str, Axis]) -> None:
    if name not in axes:
        raise SpecError(f"scaling_law: held_out: {unknown_name('axis', name, axes)}")
    is_other = name in Recipe.model_fields or (name in Scale.model_fields and name not in _OF_MODEL)
    if name not in _OF_DATA and (is_other or name in ("task", "model", "teacher")):
        raise SpecError(
            f"scaling_law: held_out: {name!r} is no size of the model, and none of "
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
        if task in TASKS and task_class(task).metric.unit != "bit":
            raise SpecError(
                f"scaling_law: {task} is scored by {task_class(task).metric.name}, and a law is "
                "fitted to losses in bits."
            )
