"""Tests for the number of training examples as an axis, which affects the training alone."""

from __future__ import annotations

from typing import Any

import pytest

from bakeoff.models import build_model
from bakeoff.suite.floors.constant import Majority
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.floors import Floors
from bakeoff.suite.probes.probe import exercise
from bakeoff.suite.schema import FLOORS, LEARNING_RATE, Plan, Trial
from bakeoff.suite.spec import Ablation, Model, SpecError, vary
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistPatches
from bakeoff.suite.tasks.task import Task
from tests.suite.small_ablation import make_ablation

IMAGES = "fashion_mnist_patches"
NAME = "num_training_examples"


def ablation(*, scale: dict[str, Any] | None = None, **changes: Any) -> Ablation:
    fields: dict[str, Any] = {"tasks": [IMAGES], "axes": [vary(NAME, [500, 2_000, None])]}
    return make_ablation(**(fields | changes), scale={"length": 49, **(scale or {})})


def planned(**changes: Any) -> Plan:
    return plan(ablation(**changes), seeds=1)


def of(probe: str, found: Plan) -> list[Trial]:
    return [trial for trial in found.trials if trial.probe == probe]


def test_each_number_is_a_training_of_its_own() -> None:
    found = of("quality", planned())
    assert [trial.num_training_examples for trial in found] == [500, 2_000, None]
    assert len({trial.trial_id for trial in found}) == 3


def test_without_a_number_ids_are_what_they_were() -> None:
    other = planned(axes=[vary("heads", [4, 1])])
    assert {t.trial_id for t in of("quality", planned()) if t.num_training_examples is None} < {
        t.trial_id for t in of("quality", other)
    }


def test_floors_learn_from_as_many_as_the_baseline() -> None:
    (usual,) = of(FLOORS, planned(probes=["quality", FLOORS]))
    (few,) = of(FLOORS, planned(probes=["quality", FLOORS], scale={NAME: 1_000}))
    assert (usual.num_training_examples, few.num_training_examples) == (None, 1_000)
    assert usual.trial_id != few.trial_id


def test_what_trains_nothing_knows_no_number() -> None:
    found = planned(probes=["quality", "step_time", "parameters"])
    for probe in ("step_time", "parameters"):
        assert {trial.num_training_examples for trial in of(probe, found)} == {None}
        assert len(of(probe, found)) == 1


def test_a_search_and_a_look_at_training_data_are_on_the_same_examples() -> None:
    found = planned(probes=["quality", "training_score"], scale={"learning_rate": "tuned"})
    for probe in (LEARNING_RATE, "training_score"):
        numbers = [trial.num_training_examples for trial in of(probe, found)]
        assert sorted(numbers, key=str) == [2_000, 500, None]
    for trial in of("training_score", found):
        assert trial.trained is not None
        assert trial.trained.num_training_examples == trial.num_training_examples


def test_a_teacher_learns_from_the_same_examples() -> None:
    teacher = Model(mixer="attention", heads=2)
    found = planned(teacher=teacher, scale={"distillation": "soft"})
    students = [trial for trial in found.trials if trial.teacher is not None]
    assert [trial.num_training_examples for trial in students] == [500, 2_000, None]
    for student in students:
        assert student.teacher is not None
        assert student.teacher.num_training_examples == student.num_training_examples


def test_a_training_before_it_has_all_examples_of_its_own_task() -> None:
    found = planned(scale={"start": "fashion_mnist_pixels", NAME: 1_000})
    starts = {trial.start.trial_id: trial.start for trial in found.trials if trial.start}
    assert [start.num_training_examples for start in starts.values()] == [None]
    assert all(t.start is not None for t in of("quality", found) if t.task == IMAGES)


def test_more_than_there_are_is_a_row_with_its_reason() -> None:
    found = planned(axes=[vary(NAME, [500, 10_000])])
    (reason,) = {cell.reason for cell in found.cells if cell.reason}
    assert reason == f"{IMAGES}: num_training_examples must be 1 to 9000, not 10000"


def test_a_baseline_with_more_than_there_are_is_refused() -> None:
    with pytest.raises(SpecError, match="must be 1 to 9000, not 10000"):
        planned(axes=[vary("heads", [1, 4])], scale={NAME: 10_000})


def test_it_is_refused_where_examples_are_not_labelled() -> None:
    with pytest.raises(SpecError, match="is for tasks on labelled examples from a file"):
        planned(tasks=["shakespeare_characters"], axes=[vary("heads", [1, 4])], scale={NAME: 500})


def test_data_that_are_not_here_are_not_asked() -> None:
    axes = [vary(NAME, [500, None])]
    found = planned(tasks=["imdb"], axes=axes, scale={"length": 16})
    assert [trial.num_training_examples for trial in of("quality", found)] == [500, None]


def test_settings_say_it_only_where_it_is_set() -> None:
    assert NAME not in ablation().scale("quick").settings()
    assert ablation(scale={NAME: 500}).scale("quick").settings()[NAME] == 500


def test_a_trial_trains_on_as_many() -> None:
    for trial in of("quality", planned()):
        count = trial.num_training_examples or 9_000
        model = build_model(trial.subjects[0])
        assert exercise(trial, model).task.num_training_examples() == count


def test_a_floor_is_given_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    (trial,) = of(FLOORS, planned(probes=["quality", FLOORS], scale={NAME: 1_000}))
    given: list[int | None] = []

    def score(self: object, task: Task) -> float:
        given.append(task.num_training_examples())
        return 0.5

    monkeypatch.setattr(Majority, "score", score)
    monkeypatch.setattr(FashionMnistPatches, "floors", ("majority",))
    assert [said.value for said in Floors().measure(trial, "cpu")] == [0.5]  # type: ignore[union-attr]
    assert given == [1_000]
