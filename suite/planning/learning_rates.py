"""Look up the learning rate of a model on a task, as the ablation `learning_rate` found it.

The file is committed, and its numbers are part of the trials that use them: nothing adapts while
a sweep runs. They were chosen on validation data, with the same rates tried for each mixer;
`reports.results.best_learning_rates` writes the file from the results of that ablation.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

from models import ARCHITECTURES, MIXERS, ModelSpec
from suite.errors import unknown_name
from suite.schema import Trial
from suite.spec import SCALES, SMOKE, SpecError
from suite.tasks.registry import TASKS, task_class

FILE = "ablations/learning_rates.csv"
COLUMNS = ("scale", "task", "architecture", "mixer", "learning_rate")
ANY_MIXER = "*"  # the row for a model that was not tried, as a user's own
TASKS_OWN = ""  # stands for the architecture that a task takes where a model names none
# Tasks on which trying rates costs too much, and those whose rates they take.
STAND_INS: Mapping[str, str] = {"fashion_mnist_pixels": "fashion_mnist_patches"}
_HIGHEST = 100.0  # as `Scale.learning_rate`

_Key = tuple[str, str, str, str]  # scale, task, architecture, mixer
Rates = Mapping[_Key, float]  # the peaks of the schedules


def tuned_rate(
    scale: str,
    task: str,
    mixer: str,
    rates: Rates | None = None,
    *,
    architecture: str = TASKS_OWN,
) -> float:
    """The peak of the schedule, by a table of rates; by default by the committed one.

    Where the task has no rates, those of its substitute are taken; a model that was not tried gets
    the rate for any.

    Raises:
        SpecError: where no rate was tried on the task at that scale, or for a malformed file.
    """
    rates, scale = _shipped() if rates is None else rates, _tried(scale)
    known = {on for at, on, _, _ in rates if at == scale}
    if not known:
        raise SpecError(
            f"learning_rate='tuned': {FILE} has no rates at scale {scale!r}; give a number instead."
        )
    source = source_of(task, known)
    if source not in known:
        raise SpecError(
            f"learning_rate='tuned': {FILE} has no rates for this task at scale {scale!r}: "
            f"{unknown_name('task', task, known)} Or give a number instead."
        )
    key = (scale, source, _or_own(task, architecture), mixer)
    return rates.get(key, rates[_any(scale, source)])


def _tried(scale: str) -> str:
    """The scale whose rates it takes."""
    return "quick" if scale == SMOKE else scale


def _or_own(task: str, architecture: str) -> str:
    return TASKS_OWN if architecture == task_class(task).architecture else architecture


def _any(scale: str, task: str) -> _Key:
    return scale, task, TASKS_OWN, ANY_MIXER


def source_of(task: str, known: Iterable[str]) -> str:
    """The task whose rates are taken, of those on which rates were tried."""
    return task if task in known else STAND_INS.get(task, task)


def rates_in_words(trials: Iterable[Trial], scale: str) -> str:
    """Which model trains at which rate: ``attention 0.003, lstm 0.01 on listops; ...``.

    A model without a row of its own at the ablation's scale is marked.
    """
    by_task: dict[str, dict[str, None]] = {}
    for trial in trials:
        if trial.training is not None:
            model, rate = trial.subjects[0], trial.training.learning_rate
            mark = " (fallback, not tuned)" if _is_fallback(scale, trial.task, model, rate) else ""
            own = _or_own(trial.task, model.architecture)
            said = " ".join(filter(None, [own, model.mixer, f"{rate:g}{mark}"]))
            by_task.setdefault(trial.task, {})[said] = None
    return "; ".join(f"{', '.join(said)} on {task}" for task, said in by_task.items())


def _is_fallback(scale: str, task: str, model: ModelSpec, rate: float) -> bool:
    """Whether the rate is the table's for any model; an axis may set others."""
    rates, scale = _shipped(), _tried(scale)
    source = source_of(task, {on for at, on, _, _ in rates if at == scale})
    key = (scale, source, _or_own(task, model.architecture), model.mixer)
    return key not in rates and rates.get(_any(scale, source)) == rate


@cache
def _shipped() -> Rates:
    try:
        text = (resources.files("ablations") / "learning_rates.csv").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{FILE} cannot be read: {error}.") from None
    return read_rates(text)


def read_rates(text: str) -> Rates:
    """The content of the file.

    Raises:
        SpecError: with the line, the column, and what is allowed there.
    """
    reader = csv.reader(io.StringIO(text))
    header = next(reader, [])
    if tuple(header) != COLUMNS:
        raise SpecError(f"{FILE}: the first line must be {','.join(COLUMNS)}, not {header}.")
    found: dict[_Key, float] = {}
    for row in reader:
        place = f"{FILE}, line {reader.line_num}"
        key, rate = _row(place, row)
        if key in found:
            raise SpecError(f"{place}: {','.join(key)} has a rate already.")
        found[key] = rate
    for scale, task, _, _ in found:
        if _any(scale, task) not in found:
            raise SpecError(
                f"{FILE}: scale={scale}, task={task} needs a row with mixer={ANY_MIXER}, the rate "
                "of models that were not tried."
            )
    return found


def _row(place: str, row: list[str]) -> tuple[_Key, float]:
    if len(row) != len(COLUMNS):
        raise SpecError(f"{place} has {len(row)} columns; it must have {','.join(COLUMNS)}.")
    scale, task, architecture, mixer, text = row
    named: list[tuple[str, str, Iterable[str]]] = [("scale", scale, SCALES), ("task", task, TASKS)]
    if architecture:
        named.append(("architecture", architecture, ARCHITECTURES))
    if mixer or not architecture:
        named.append(("mixer", mixer, (*MIXERS, ANY_MIXER)))
    for kind, name, allowed in named:
        if name not in allowed:
            raise SpecError(f"{place}: {unknown_name(kind, name, allowed)}")
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= _HIGHEST:  # so too where it is NaN
        raise SpecError(
            f"{place}: learning_rate={text!r} must be a number above 0 and at most {_HIGHEST:g}."
        )
    return (scale, task, architecture, mixer), rate
