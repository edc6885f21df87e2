"""Test that pretraining and training on labels alone have equal FLOPs and fair floors."""

from __future__ import annotations

import pytest

from bakeoff.models import build_shapes
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import FLOORS, LEARNING_RATE, Plan, Trial

pytestmark = pytest.mark.whole

SCALES = ["quick", "standard"]


@pytest.fixture(params=SCALES)
def found(request: pytest.FixtureRequest) -> Plan:
    return plan("pretraining", scale=request.param, seeds=1)


def trial_of(found: Plan, variant: str, probe: str = "quality") -> Trial:
    """Return the trial on the task of the claim."""
    assert found.about.claim
    wanted = (variant, probe, found.about.claim.task)
    (name,) = {c.trial_id for c in found.cells if (c.variant, c.probe, c.task) == wanted}
    return next(trial for trial in found.trials if trial.trial_id == name)


def total_flops(trial: Trial | None) -> float:
    """Return the FLOPs of its training and of those before it, counted as by the probe `flops`."""
    if trial is None:
        return 0.0
    assert trial.training
    (model,) = trial.subjects
    forward = build_shapes(model).flops(trial.length, trial.batch)
    return 3 * forward * trial.training.steps + total_flops(trial.start)


def test_the_sides_of_the_claim_spend_equal_flops(found: Plan) -> None:
    claim = found.about.claim
    assert claim
    reads, labels_only = (trial_of(found, side) for side in (claim.a, claim.b))
    assert reads.start is not None
    assert labels_only.start is None
    assert total_flops(reads) == pytest.approx(total_flops(labels_only), rel=0.05)


def test_they_and_the_floors_learn_from_the_same_labels(found: Plan) -> None:
    claim = found.about.claim
    assert claim
    numbers = {trial_of(found, side).num_training_examples for side in (claim.a, claim.b)}
    floors = {t.num_training_examples for t in found.trials if t.probe == FLOORS}
    assert numbers == floors == {1_000}


def test_the_longer_training_has_a_rate_of_trainings_as_long(found: Plan) -> None:
    """Check the search: with a third of the steps, its rate made the rest collapse."""
    claim = found.about.claim
    assert claim
    trial = trial_of(found, claim.b)
    assert trial.search
    assert trial.search.probe == LEARNING_RATE
    assert trial.training
    assert trial.search.training
    assert trial.search.training.steps == trial.training.steps


@pytest.mark.parametrize("scale", SCALES)
def test_masking_compares_with_floors_of_as_many_labels(scale: str) -> None:
    """Check also that all kinds of masking have the same number of pretraining steps."""
    found = plan("masking", scale=scale, seeds=1)
    of_quality = [t for t in found.trials if t.probe == "quality"]
    trained = {t.num_training_examples for t in of_quality if t.task == "glosses_in_words"}
    (floors,) = (t for t in found.trials if t.probe == FLOORS)
    assert trained == {floors.num_training_examples}
    assert len({t.start.training.steps for t in of_quality if t.start and t.start.training}) == 1
