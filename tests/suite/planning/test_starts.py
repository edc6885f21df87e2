"""Tests for starts in a plan: a parent, shared by trials with the same model and seed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import TypeAdapter

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Trial
from bakeoff.suite.spec import Model, SpecError, vary
from tests.suite.small_ablation import make_ablation

ON = "shakespeare_masked"


def _planned(**changes: Any) -> Plan:
    return plan(make_ablation(axes=[vary("start", ["none", ON])], **changes), seeds=2)


def _parents(planned: Plan) -> list[Trial]:
    return [trial.start for trial in planned.trials if trial.start is not None]


def test_a_parent_is_the_same_model_and_seed_on_the_other_task() -> None:
    planned = _planned(scale={"pretraining_steps": 3, "pretraining_learning_rate": 0.5})
    for child in (t for t in planned.trials if t.start):
        parent = child.start
        assert parent is not None
        assert parent in planned.trials
        assert (parent.probe, parent.task, parent.seed) == ("quality", ON, child.seed)
        assert parent.training is not None
        assert (parent.training.steps, parent.training.learning_rate) == (3, 0.5)
        own, other = child.subjects[0], parent.subjects[0]
        assert (own.mixer, own.dim, own.depth, own.knobs) == (
            other.mixer,
            other.dim,
            other.depth,
            other.knobs,
        )
    assert len(planned.trials) == 6
    assert {cell.variant for cell in planned.cells} == {"start=none", f"start={ON}"}
    assert set(planned.about.data_sets) == {"shakespeare_characters", ON}


def test_a_parent_is_the_trial_that_the_task_itself_would_be() -> None:
    steps = {"scale": {"pretraining_steps": 4}}
    (parent,) = {t.trial_id for t in _parents(_planned(**steps)) if t.seed == 0}
    alone = plan(make_ablation(tasks=[ON], axes=[vary("heads", [4, 2])]), seeds=1)
    assert parent in {t.trial_id for t in alone.trials}


def test_the_id_holds_the_parents_id_and_without_one_nothing() -> None:
    plain = plan(make_ablation(axes=[vary("heads", [4, 2])]), seeds=1)
    found = {t.trial_id: t for t in _planned().trials if not t.start}
    assert plain.trials[0].trial_id in found
    one, other = (
        next(t for t in _planned(scale={"pretraining_steps": steps}).trials if t.start)
        for steps in (2, 3)
    )
    assert one.trial_id != other.trial_id
    assert dataclasses.replace(one, start=None) == dataclasses.replace(other, start=None)
    assert dataclasses.replace(one, start=None).trial_id in found


def test_variants_that_differ_in_their_own_training_share_a_parent() -> None:
    def parents(name: str, values: list[Any]) -> int:
        scale = {"start": ON, "pretraining_steps": 2}
        planned = plan(make_ablation(axes=[vary(name, values)], scale=scale), seeds=1)
        assert len([t for t in planned.trials if t.start]) == 2
        return len({parent.trial_id for parent in _parents(planned)})

    assert parents("learning_rate", [1e-3, 1e-2]) == 1
    assert parents("steps", [4, 6]) == 1
    assert parents("optimizer", ["adamw", "sgd"]) == 1
    assert parents("heads", [4, 2]) == 2
    assert parents("dim", [16, 32]) == 2
    assert parents("pretraining_steps", [2, 3]) == 2


def test_a_child_on_workers_has_a_parent_on_those_of_the_baseline() -> None:
    planned = _planned(scale={"workers": 2, "zero": 3})
    assert [t.parallel for t in _parents(planned)] == [
        t.parallel for t in planned.trials if t.start
    ]
    alone = plan(
        make_ablation(axes=[vary("workers", [1, 2])], scale={"start": ON, "pretraining_steps": 2}),
        seeds=1,
    )
    (parent,) = {t.trial_id for t in _parents(alone)}
    assert {t.num_workers for t in alone.trials if t.start} == {1, 2}
    assert {t.parallel for t in alone.trials if t.trial_id == parent} == {None}


def test_a_journal_reads_a_plan_with_parents_back() -> None:
    planned, adapter = _planned(), TypeAdapter(Plan)
    read = adapter.validate_json(adapter.dump_json(planned))
    assert [t.trial_id for t in read.trials] == [t.trial_id for t in planned.trials]
    assert _parents(read) == _parents(planned)


def test_what_has_no_task_or_no_sense_is_refused() -> None:
    with pytest.raises(SpecError, match="no task 'shakespear'"):
        plan(make_ablation(axes=[vary("start", ["none", "shakespear"])]))
    with pytest.raises(SpecError, match="'pretraining_steps' has no effect"):
        plan(make_ablation(axes=[vary("pretraining_steps", [2, 3])]))


def test_a_probe_of_what_was_drawn_is_skipped() -> None:
    planned = _planned(probes=["quality", "gradient_by_distance"])
    reasons = {c.variant: c.reason for c in planned.cells if c.probe == "gradient_by_distance"}
    assert reasons["start=none"] == ""
    assert "starts from other weights" in reasons[f"start={ON}"]


# A model with parts that another architecture trains.

DRAWING = {
    "baseline": Model("image_tokens", mixer="attention", heads=4, codes=32),
    "tasks": ["emoji_tokens"],
}


def test_a_parent_may_be_the_tasks_own_architecture_with_the_knobs_of_both() -> None:
    planned = plan(
        make_ablation(
            **DRAWING,
            axes=[vary("codes", [32, 16])],
            scale={"start": "emoji_pictures", "length": 19, "pretraining_steps": 3},
        ),
        seeds=1,
    )
    children = [t for t in planned.trials if t.start]
    assert [t.subjects[0].settings["codes"] for t in children] == [32, 16]
    for child in children:
        assert child.start is not None
        (parent,), (own,) = child.start.subjects, child.subjects
        assert (child.start.task, parent.architecture) == ("emoji_pictures", "discrete_vae")
        assert (parent.mixer, parent.dim, parent.depth) == ("", 0, 0)
        shared = parent.settings.keys() & own.settings.keys()
        assert {"codes", "quantiser", "cell", "code_dim"} <= shared
        assert all(parent.settings[key] == own.settings[key] for key in shared)


BOTH = ["scaled_normal", "xavier_uniform"]


def test_variants_that_differ_in_what_only_the_child_has_share_a_parent() -> None:
    scale = {"start": "emoji_pictures", "length": 19}
    for axis in (vary("heads", [4, 2]), vary("dim", [16, 32]), vary("initialisation", BOTH)):
        planned = plan(make_ablation(**DRAWING, axes=[axis], scale=scale), seeds=1)
        assert len([t for t in planned.trials if t.start]) == 2
        assert len({parent.trial_id for parent in _parents(planned)}) == 1


@pytest.mark.parametrize("start", ["none", "emoji_scenes"])
def test_parts_that_nobody_trains_are_refused(start: str) -> None:
    with pytest.raises(SpecError, match="does not train all its parts; give start=, a task that"):
        plan(
            make_ablation(
                **DRAWING, axes=[vary("heads", [4, 2])], scale={"start": start, "length": 19}
            )
        )
