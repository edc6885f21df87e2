"""Finds the models that are measured: baselines of shipped ablations, and one of each kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from bakeoff.models.registry import architecture_class
from bakeoff.suite.errors import UsageError
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import QUALITY, Trial
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.tasks.registry import TASKS, task_class

_SMALL: dict[str, Any] = {"dim": 64, "depth": 2, "batch": 8}
_TINY: dict[str, Any] = {"dim": 16, "depth": 1, "batch": 2}
_LENGTH = 64  # unless the task has a fixed one
_GRID_TASKS = ("fashion_mnist_patches", "fashion_mnist_images")


def baseline(
    ablation: str, *, scale: str = "standard", steps: int = 200, batch: int | None = None
) -> Trial:
    """Return the first training of the ablation's baseline, with neither search nor evaluation."""
    planned = plan(ablation, scale=scale)
    labels = {cell.trial_id: cell.variant for cell in planned.cells if cell.probe == QUALITY}
    trial = next(t for t in planned.trials if labels.get(t.trial_id) == planned.about.baseline)
    assert trial.training is not None
    training = replace(trial.training, steps=steps, num_evaluations=0, warmup_steps=0)
    return replace(trial, training=training, search=None, batch=batch or trial.batch)


def of_architecture(name: str, *, is_tiny: bool = False) -> Trial:
    """Return a small training of the architecture, on the first task that it can learn.

    Raises:
        UsageError: no task without a download fits it; with the first reason.
    """
    kind = architecture_class(name)
    parts: dict[str, Any] = {"mixer": "attention", "position": "learned"}
    taken: dict[str, Any] = {part: parts[part] for part in parts if part in kind.takes}
    model = Model(name, **taken)
    fitting = [each for each in _tasks_without_download() if _answer(each) in kind.answers]
    return _first(model, sorted(fitting, key=_length_of), _TINY if is_tiny else _SMALL)


def of_mixer(name: str, *, is_causal: bool, is_tiny: bool = False) -> Trial:
    """Return a small training of the mixer in one direction or in both, if it has that form.

    Raises:
        UsageError: it has not; with the reason.
    """
    tasks = ["shakespeare_characters"] if is_causal else ["shakespeare_masked", *_GRID_TASKS]
    return _first(Model(mixer=name), tasks, _TINY if is_tiny else _SMALL)


def _first(model: Model, tasks: list[str], sizes: dict[str, Any]) -> Trial:
    why = ""
    for task in tasks:
        try:
            return next(_trainings(model, task, sizes))
        except UsageError as error:
            why = why or str(error)
        except StopIteration:
            continue
    raise UsageError(why or "no task asks for what it answers")


@cache
def _tasks_without_download() -> tuple[str, ...]:
    """Return the tasks whose data ship or are generated, and whose packages are installed."""
    found = []
    for name in TASKS:
        try:
            files = task_class(name).source.files
        except ImportError:  # tasks of photos, which are fetched
            continue
        if not any(file.is_fetched for file in files):
            found.append(name)
    return tuple(found)


def _answer(task: str) -> str:
    return task_class(task).asks_for


def _length_of(task: str) -> int:
    kind = task_class(task)
    least, most = kind.lengths
    return kind.fixed_length or min(max(least, _LENGTH), most)


def _trainings(model: Model, task: str, sizes: dict[str, Any]) -> Iterator[Trial]:
    scale = Scale(length=_length_of(task), steps=3, seeds=1, **sizes)
    ablation = Ablation(
        question="Does it train?",
        baseline=model,
        axes=[vary("batch", [4])],
        tasks=[task],
        probes=[QUALITY],
        scales={"quick": scale},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trials = plan(ablation).trials
    yield from (t for t in trials if t.subjects and t.training is not None)
