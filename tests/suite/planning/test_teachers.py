"""Tests for teachers in a plan: a parent, shared by all of its students on the same data."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Trial
from bakeoff.suite.spec import Model, Recipe, SpecError, vary
from tests.suite.small_ablation import make_ablation

TEACHER = Model(mixer="attention", heads=2)
HOW = vary("distillation", ["none", "soft", "hard"])


def _planned(seeds: int = 1, **changes: Any) -> Plan:
    fields = {
        "teacher": TEACHER,
        "axes": [HOW],
        "baseline": Model(mixer="local_attention", window=4),
    }
    return plan(make_ablation(**(fields | changes)), seeds=seeds)


def _students(planned: Plan) -> list[Trial]:
    return [trial for trial in planned.trials if trial.teacher is not None]


def test_a_teacher_is_an_ordinary_trial_of_its_model_on_the_same_task_and_seed() -> None:
    scale = {
        "teacher_dim": 32,
        "teacher_depth": 2,
        "teacher_steps": 3,
        "teacher_learning_rate": 0.5,
    }
    planned = _planned(seeds=2, scale=scale)
    assert len(planned.trials) == 8
    assert {cell.variant for cell in planned.cells} == {
        "distillation=none",
        "distillation=soft",
        "distillation=hard",
    }
    for student in _students(planned):
        teacher = student.teacher
        assert teacher is not None
        assert teacher in planned.trials
        assert (teacher.probe, teacher.task, teacher.seed, teacher.batch) == (
            "quality",
            student.task,
            student.seed,
            student.batch,
        )
        (model,) = teacher.subjects
        assert (model.mixer, model.dim, model.depth, model.knobs["heads"]) == (
            "attention",
            32,
            2,
            2,
        )
        assert teacher.training is not None
        assert (teacher.training.steps, teacher.training.learning_rate) == (3, 0.5)
    assert len({t.teacher.trial_id for t in _students(planned) if t.teacher}) == 2, "one a seed"
    assert planned.about.settings["teacher"] == "attention (heads 2)"


def test_without_sizes_of_its_own_it_is_the_trial_that_an_ablation_of_its_model_has() -> None:
    (one, *_) = _students(_planned())
    alone = plan(make_ablation(baseline=TEACHER, axes=[vary("heads", [2, 4])]), seeds=1)
    assert one.teacher in alone.trials


def test_the_id_holds_the_teachers_and_without_one_nothing() -> None:
    fields = {
        "axes": [vary("window", [2, 4])],
        "baseline": Model(mixer="local_attention", window=4),
    }
    plain = plan(make_ablation(**fields), seeds=1)
    taught = _planned(scale={"distillation": "soft"}, axes=fields["axes"])
    assert not {t.trial_id for t in plain.trials} & {t.trial_id for t in _students(taught)}
    found = {t.trial_id for t in _planned().trials if not t.teacher}
    assert {t.trial_id for t in plain.trials} & found, "distillation=none is the plain trial"
    one, other = (
        _students(_planned(scale={"teacher_steps": steps}))[0].trial_id for steps in (2, 3)
    )
    assert one != other


CHANGES: list[tuple[str, list[Any], int]] = [
    ("distillation_weight", [0.1, 0.5], 1),
    ("distillation_temperature", [1.0, 3.0], 1),
    ("learning_rate", [1e-3, 1e-2], 1),
    ("window", [2, 4], 1),
    ("dim", [16, 32], 1),
    ("teacher_dim", [16, 32], 2),
    ("teacher_steps", [3, 4], 2),
    ("length", [8, 16], 2),
    ("teacher", [TEACHER, Model(mixer="attention", heads=4)], 2),
]


@pytest.mark.parametrize(("name", "values", "num_teachers"), CHANGES, ids=lambda v: str(v)[:20])
def test_every_field_is_an_axis_and_students_share_their_teacher(
    name: str, values: list[Any], num_teachers: int
) -> None:
    planned = _planned(axes=[vary(name, values)], recipe=Recipe(distillation="soft"))
    students = _students(planned)
    assert len({t.trial_id for t in students}) == 2
    assert len({t.teacher.trial_id for t in students if t.teacher}) == num_teachers


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(SpecError, match="distillation='soft' needs a teacher; give Ablation"):
        _planned(teacher=None, scale={"distillation": "soft"}, axes=[vary("window", [2, 4])])
    with pytest.raises(SpecError, match="no variant uses the teacher"):
        _planned(axes=[vary("window", [2, 4])])
    with pytest.raises(SpecError, match="'distillation_temperature' has no effect"):
        _planned(
            axes=[vary("distillation_temperature", [1.0, 2.0])], scale={"distillation": "hard"}
        )
    with pytest.raises(SpecError, match=r"no knob of .* is called 'head'"):
        _planned(teacher=Model(mixer="attention", head=2))
    with pytest.raises(SpecError, match=r"the teacher is impossible: .*heads=3 does not divide"):
        _planned(teacher=Model(mixer="attention", heads=3))


def test_on_workers_the_teacher_is_trained_on_them_too() -> None:
    for student in _students(_planned(scale={"workers": 2, "zero": 3})):
        assert student.teacher is not None
        assert student.parallel == student.teacher.parallel is not None


def test_a_teacher_that_cannot_serve_the_task_is_a_reason() -> None:
    planned = _planned(teacher=Model("vit", mixer="attention"))
    reasons = {c.variant: c.reason for c in planned.cells}
    assert not reasons["distillation=none"]
    assert (
        "its teacher cannot be trained on shakespeare_characters: "
        in (reasons["distillation=soft"])
    )
    model = Model("contrastive", mixer="attention")
    choices = _planned(tasks=["emoji_pairs"], baseline=model, teacher=model, scale={"length": 19})
    for asked, planned in (("number", _planned(tasks=["kernel_regression"])), ("choice", choices)):
        (task,) = planned.about.tasks
        assert {c.reason for c in planned.cells if c.reason} == {
            f"distillation={how!r} is for classes, and {task} asks for a {asked}"
            for how in ("soft", "hard")
        }


def test_a_probe_that_has_no_teacher_is_skipped() -> None:
    planned = _planned(probes=["quality", "gradient_by_distance"])
    reasons = {c.variant: c.reason for c in planned.cells if c.probe == "gradient_by_distance"}
    assert reasons["distillation=none"] == ""
    assert "not supported with a teacher" in reasons["distillation=soft"]


def test_a_journal_reads_it_back_and_the_estimate_counts_its_passes() -> None:
    planned, adapter = _planned(), TypeAdapter(Plan)
    read = adapter.validate_json(adapter.dump_json(planned))
    assert [t.trial_id for t in read.trials] == [t.trial_id for t in planned.trials]
    assert _students(read) == _students(planned)
    plain, taught, *_ = (
        seconds_of(t, planned.resources)
        for t in planned.trials
        if t.subjects[0].mixer == "local_attention"
    )
    assert taught > plain


DEIT = Model("deit", mixer="attention", heads=2)
ON_IMAGES: dict[str, Any] = {"tasks": ["fashion_mnist_images"], "baseline": DEIT}


def test_what_has_a_head_for_a_teacher_is_trained_without_one_too() -> None:
    """Check that DeiT has a row without a teacher; both of its heads then learn the targets."""
    planned = _planned(**ON_IMAGES, scale={"distillation": "hard"})
    assert {cell.variant for cell in planned.cells if not cell.reason} == {
        "distillation=none",
        "distillation=soft",
        "distillation=hard",
    }
    assert len(_students(planned)) == 2


def test_it_may_be_a_teacher_itself() -> None:
    taught = _planned(**{**ON_IMAGES, "baseline": Model("vit", mixer="attention")}, teacher=DEIT)
    teachers = {
        student.teacher.subjects[0].architecture for student in _students(taught) if student.teacher
    }
    assert teachers == {"deit"}
