"""Tests for the plan of a claim about a speedup, and for its one-sentence errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bakeoff import Arrays
from bakeoff.suite.journal.editions import bare_json, what_is_claimed
from bakeoff.suite.journal.plans import num_seeds_seen
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import ClaimSpec, Plan
from bakeoff.suite.spec import Ablation, Claim, Model, Recipe, Scale, SpecError, vary
from tests.suite.small_ablation import SCALE

CURVE = tuple(f"mixer=attention, steps={steps}" for steps in (2, 4, 8))
SIDES = {"a": "mixer=lstm, steps=4", "b": CURVE[1], "by": 1.2}
STEPS = vary("steps", [2, 4, 8])


def asked(claim: dict[str, Any], **changes: Any) -> Ablation:
    return Ablation(
        **{
            "question": "Does it need fewer FLOPs?",
            "baseline": Model(mixer="attention", heads=2),
            "axes": [vary("mixer", ["attention", "lstm"]), STEPS],
            "combine": "cross",
            "tasks": ["shakespeare_characters"],
            "probes": ["quality", "flops", "step_time"],
            "claim": Claim("it does", **{"metric": "speedup", **SIDES, **claim}),
            "scales": {"quick": Scale(**{**SCALE, "warmup_steps": 1})},
            **changes,
        }
    )


def stated(found: Plan) -> ClaimSpec:
    assert found.about.claim is not None
    return found.about.claim


@pytest.mark.parametrize(
    ("metric", "counted_by"), [("speedup", "flops"), ("time_speedup", "step_time")]
)
def test_the_claim_is_recorded_with_its_score_and_its_curve(metric: str, counted_by: str) -> None:
    found = plan(asked({"metric": metric}), seeds=3)
    claim = stated(found)
    assert (claim.metric, claim.counted_by, claim.curve) == (
        "bits_per_character",
        counted_by,
        CURVE,
    )
    assert claim.stated_metric == metric
    assert claim.task == "shakespeare_characters"
    assert "floors" in found.about.probes


def test_the_score_may_be_that_of_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    inputs = np.random.default_rng(0).integers(0, 9, (200, 16))
    np.savez(tmp_path / "vec.npz", inputs=inputs, targets=inputs[:, 0] % 2)
    made = asked({}, tasks=[Arrays(str(tmp_path / "vec.npz"))])
    assert (stated(plan(made, seeds=3)).metric, stated(plan(made, seeds=3)).task) == (
        "accuracy",
        "vec",
    )


def test_a_warm_up_that_is_not_set_is_a_sixth_of_the_steps() -> None:
    unset = {name: value for name, value in SCALE.items() if name != "warmup_steps"}
    steps = vary("steps", [12, 60, 600])
    axes = [vary("mixer", ["attention", "lstm"]), steps]
    made = asked({}, axes=axes, scales={"quick": Scale(**{**unset, "steps": 30})})
    made = made.model_copy(update={"claim": None})
    found = {
        trial.training.steps: trial.training.warmup_steps
        for trial in plan(made, seeds=1).trials
        if trial.probe == "quality" and trial.training
    }
    assert found == {12: 2, 30: 5, 60: 10, 600: 50}


def test_the_other_side_may_be_any_variant_with_three_budgets() -> None:
    claim = stated(plan(asked({"a": CURVE[1], "b": "mixer=lstm, steps=8"}), seeds=3))
    assert claim.curve == tuple(f"mixer=lstm, steps={steps}" for steps in (2, 4, 8))


def test_steps_may_be_varied_for_the_baseline_alone() -> None:
    made = asked(
        {"a": "mixer=lstm", "b": "baseline"},
        combine="one_at_a_time",
        axes=[vary("mixer", ["lstm"]), vary("steps", [2, 8])],
    )
    assert stated(plan(made, seeds=3)).curve == ("baseline", "steps=2", "steps=8")


@pytest.mark.parametrize(
    ("claim", "changes", "words"),
    [
        ({"by": 0.5}, {}, ["by=0.5 must be a ratio of at least 1", "0 claims the direction only"]),
        (
            {},
            {"axes": [vary("mixer", ["attention", "lstm"]), vary("steps", [2, 4])]},
            ["needs 'mixer=attention, steps=4' at 3 or more", "it has 2; vary 'steps'"],
        ),
        (
            {"a": "mixer=lstm", "b": "mixer=attention"},
            {"axes": [vary("mixer", ["attention", "lstm"])]},
            ["needs 'mixer=attention' at 3 or more numbers of steps, and it has 1"],
        ),
        ({"a": CURVE[0]}, {}, ["differ in the number of steps only"]),
        ({"a": CURVE[1]}, {}, ["a and b are both"]),
        ({}, {"probes": ["quality"]}, ["speedup needs the probe 'flops'"]),
        (
            {"metric": "time_speedup"},
            {"probes": ["quality", "flops"]},
            ["time_speedup needs the probe 'step_time'"],
        ),
        ({}, {"probes": ["flops"]}, ["add the probe 'quality'"]),
        (
            {"metric": "time_speedup"},
            {"recipe": Recipe(accumulation=2)},
            ["measured at accumulation=1 only", "has accumulation=2", "'speedup' counts FLOPs"],
        ),
        ({"at": "length=8"}, {}, ["at='length=8' is not a coordinate of bits_per_character"]),
        ({"task": "shakespeare"}, {}, ["the claim: ", "'shakespeare'", "shakespeare_characters"]),
        ({"is_check": True}, {}, ["bits_per_character is of trained models"]),
        ({"metric": "speedups"}, {}, ["speedups", "bits_per_character"]),
    ],
)
def test_a_claim_that_cannot_be_tested_is_refused(
    claim: dict[str, Any], changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(SpecError) as refused:
        plan(asked(claim, **changes), seeds=3)
    for word in words:
        assert word in str(refused.value)
    assert str(refused.value).count("\n") == 0


def test_a_side_of_the_curve_that_cannot_run_is_refused() -> None:
    made = asked(
        {"a": CURVE[1], "b": "mixer=fnet, steps=4"},
        axes=[vary("mixer", ["attention", "fnet"]), STEPS],
    )
    with pytest.raises(SpecError, match="fnet, steps=4' cannot be measured"):
        plan(made, seeds=3)


def test_a_result_of_any_budget_is_a_hint() -> None:
    """Check that a claim stated after a training of the curve was seen is exploratory."""
    found = plan(asked({}), seeds=3)
    other = {"a": CURVE[1], "b": "mixer=lstm, steps=4", "metric": "bits_per_character"}
    plain = plan(asked(other), seeds=3)
    seen = {
        cell.trial_id
        for cell in found.cells
        if cell.probe == "quality" and cell.variant == CURVE[2]
    }
    assert num_seeds_seen(found, seen.__contains__) == 3
    assert num_seeds_seen(plain, seen.__contains__) == 0


def test_what_is_claimed_differs_from_the_claim_about_the_score() -> None:
    found = plan(asked({}), seeds=3)
    plain = plan(asked({"metric": "bits_per_character"}), seeds=3)
    assert "counted_by" not in what_is_claimed(plain.about)
    assert what_is_claimed(found.about)["counted_by"] == "flops"
    assert b"counted_by" not in bare_json(plain)  # unchanged from before the field existed
    assert b'"counted_by":"flops"' in bare_json(found)
    assert what_is_claimed(found.about)["curve"] == CURVE
