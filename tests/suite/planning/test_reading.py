"""Tests for reading-only knobs: one training is scored with each of their values."""

from typing import Any

from bakeoff.models.model_spec import reading_knob
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import LEARNING_RATE, QUALITY, Plan, Trial
from bakeoff.suite.schema.trial import TRAINED
from bakeoff.suite.spec import Model, Recipe, vary
from tests.suite.small_ablation import make_ablation

BASELINE = Model(mixer="lsh_attention", heads=2, chunk=4)


def planned(**fields: Any) -> Plan:
    axes = [vary("rounds", [1, 2]), vary("read_rounds", [None, 0, 4])]
    asked = make_ablation(baseline=BASELINE, axes=axes, combine="cross", **fields)
    return plan(asked, seeds=2)


def of_probe(found: Plan, probe: str = QUALITY) -> list[Trial]:
    return [trial for trial in found.trials if trial.probe == probe]


def test_each_reading_is_scored_and_each_training_runs_once() -> None:
    trials = of_probe(planned())
    trained = {trial.trial_id for trial in trials if trial.training}
    read = [trial for trial in trials if not trial.training]
    assert (len(trained), len(read)) == (4, 8)
    for trial in read:
        parent = trial.parents[TRAINED]
        assert parent.trial_id in trained
        assert parent.seed == trial.seed
        assert parent.subjects[0].knobs["rounds"] == trial.subjects[0].knobs["rounds"]
        assert "read_rounds" not in parent.subjects[0].knobs
        assert trial.subjects[0].knobs["read_rounds"] in (0, 4)


def test_a_training_that_nobody_varies_has_the_id_that_it_had() -> None:
    """Check that this holds with a search for the learning rate."""
    recipe = Recipe(learning_rate="tuned")
    axes = [vary("rounds", [1, 2])]
    before = plan(make_ablation(baseline=BASELINE, axes=axes, recipe=recipe), seeds=2)
    ids = {trial.trial_id for trial in planned(recipe=recipe).trials}
    assert {trial.trial_id for trial in before.trials} <= ids


def test_the_rate_is_searched_for_once() -> None:
    found = planned(recipe=Recipe(learning_rate="tuned"))
    assert len(of_probe(found, LEARNING_RATE)) == 2
    assert all((trial.search is None) == (trial.training is None) for trial in of_probe(found))


def test_a_teacher_that_is_read_otherwise_is_impossible() -> None:
    found = plan(
        make_ablation(
            baseline=BASELINE,
            axes=[vary("distillation", ["none", "soft"])],
            teacher=Model(mixer="lsh_attention", heads=2, read_rounds=0),
        )
    )
    (reason,) = {cell.reason for cell in found.cells if cell.reason}
    assert "its teacher has knobs that apply only to decoding" in reason


def test_reading_knobs_are_late() -> None:
    """Check that their defaults are in no hash."""
    assert {"is_late", "reading_only"} <= set(reading_knob(None).metadata)
