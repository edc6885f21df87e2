"""Look up the learning rate of a mixer on a task, as the ablation `learning_rate` found it.

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

from models import MIXERS
from suite.errors import unknown_name
from suite.schema import Trial
from suite.spec import SCALES, SpecError
from suite.tasks.registry import TASKS

FILE = "ablations/learning_rates.csv"
COLUMNS = ("scale", "task", "mixer", "learning_rate")
ANY_MIXER = "*"  # the row for a mixer that was not tried, as a user's own
# Tasks on which trying rates costs too much, and those whose rates they take.
STAND_INS: Mapping[str, str] = {"fashion_mnist_pixels": "fashion_mnist_patches"}
_HIGHEST = 100.0  # as `Scale.learning_rate`

Rates = Mapping[tuple[str, str, str], float]  # scale, task, mixer -> the peak of the schedule


def tuned_rate(scale: str, task: str, mixer: str, rates: Rates | None = None) -> float:
    """The peak of the schedule.

    Args:
        scale: ``quick``, ``standard`` or ``paper``.
        task: Its own rates are taken, else those of the task that stands in for it.
        mixer: One that was not tried gets the rate for any mixer.
        rates: The table; None takes the committed one.

    Raises:
        SpecError: where no rate was tried on the task at that scale, or for a malformed file.
    """
    rates = _shipped() if rates is None else rates
    known = {on for at, on, _ in rates if at == scale}
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
    return rates.get((scale, source, mixer), rates[scale, source, ANY_MIXER])


def source_of(task: str, known: Iterable[str]) -> str:
    """The task whose rates are taken, of those on which rates were tried."""
    return task if task in known else STAND_INS.get(task, task)


def rates_in_words(trials: Iterable[Trial], scale: str) -> str:
    """Which mixer trains at which rate: ``attention 0.003, lstm 0.01 on listops; ...``.

    A mixer without a row of its own at the ablation's scale is marked.
    """
    by_task: dict[str, dict[str, None]] = {}
    for trial in trials:
        if trial.training is not None:
            mixer, rate = trial.subjects[0].mixer, trial.training.learning_rate
            mark = " (fallback, not tuned)" if _is_fallback(scale, trial.task, mixer, rate) else ""
            by_task.setdefault(trial.task, {})[f"{mixer} {rate:g}{mark}"] = None
    return "; ".join(f"{', '.join(said)} on {task}" for task, said in by_task.items())


def _is_fallback(scale: str, task: str, mixer: str, rate: float) -> bool:
    """Whether the rate is the table's for any mixer; an axis may set others."""
    rates = _shipped()
    source = source_of(task, {on for at, on, _ in rates if at == scale})
    return (scale, source, mixer) not in rates and rates.get((scale, source, ANY_MIXER)) == rate


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
    found: dict[tuple[str, str, str], float] = {}
    for row in reader:
        place = f"{FILE}, line {reader.line_num}"
        key, rate = _row(place, row)
        if key in found:
            raise SpecError(f"{place}: {','.join(key)} has a rate already.")
        found[key] = rate
    for scale, task, _ in found:
        if (scale, task, ANY_MIXER) not in found:
            raise SpecError(
                f"{FILE}: scale={scale}, task={task} needs a row with mixer={ANY_MIXER}, the rate "
                "of mixers that were not tried."
            )
    return found


def _row(place: str, row: list[str]) -> tuple[tuple[str, str, str], float]:
    if len(row) != len(COLUMNS):
        raise SpecError(f"{place} has {len(row)} columns; it must have {','.join(COLUMNS)}.")
    scale, task, mixer, text = row
    for kind, name, allowed in (
        ("scale", scale, SCALES), ("task", task, TASKS), ("mixer", mixer, (*MIXERS, ANY_MIXER)),
    ):  # fmt: skip
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
    return (scale, task, mixer), rate
