"""Tests for the plan of an ablation with a scaling law, and for its one-sentence errors."""

from __future__ import annotations

from typing import Any

import pytest

from bakeoff.suite.cli import main
from bakeoff.suite.journal.editions import bare_json
from bakeoff.suite.planning.loader import find
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import Ablation, Claim, Model, Recipe, Scale, ScalingLaw, SpecError, vary
from tests.suite.small_ablation import SCALE

LAW = ScalingLaw(held_out={"dim": 32, "steps": 16})
PROBES = ["quality", "parameters", "flops"]
AXES = [
    vary("mixer", ["attention", "lstm"]),
    vary("dim", [4, 8, 16]),
    vary("steps", [2, 4, 8]),
]


def asked(**changes: Any) -> Ablation:
    return Ablation(
        **{
            "question": "Does it scale?",
            "baseline": Model(mixer="attention", heads=2),
            "axes": AXES,
            "combine": "cross",
            "tasks": ["shakespeare_characters"],
            "probes": PROBES,
            "scaling_law": LAW,
            "scales": {"quick": Scale(**{**SCALE, "warmup_steps": 1})},
            **changes,
        }
    )


def labels(found: Plan) -> set[str]:
    return set(found.about.variants)


def test_one_larger_variant_of_each_mixer_is_added() -> None:
    with_law, without = plan(asked(), seeds=1), plan(asked(scaling_law=None), seeds=1)
    larger = {f"mixer={mixer}, dim=32, steps=16" for mixer in ("attention", "lstm")}
    assert labels(with_law) - labels(without) == larger
    assert len(without.about.variants) == 18
    assert with_law.about.held_out == {"dim": 32, "steps": 16}
    ids = {trial.trial_id for trial in without.trials}
    assert ids < {trial.trial_id for trial in with_law.trials}  # the same trials, and more


def test_a_plan_without_a_law_is_as_it_was() -> None:
    assert b"held_out" not in bare_json(plan(asked(scaling_law=None), seeds=1))
    assert b'"held_out":{"dim":32,"steps":16}' in bare_json(plan(asked(), seeds=1))


def test_a_side_of_the_claim_may_be_held_out() -> None:
    claim = Claim(
        "it is better",
        metric="bits_per_character",
        a="mixer=lstm, held out",
        b="mixer=attention, dim=4, steps=2",
        by=0.1,
    )
    found = plan(asked(claim=claim), seeds=1).about.claim
    assert found is not None
    assert (found.a, found.b) == ("mixer=lstm, dim=32, steps=16", claim.b)
    with pytest.raises(SpecError, match=r"no variant 'mixer=gru, held out'"):
        plan(asked(claim=claim.model_copy(update={"a": "mixer=gru, held out"})))


def test_quick_may_hold_out_others_and_smoke_as_much_less_as_its_axes() -> None:
    law = ScalingLaw(held_out={"dim": 64, "steps": 32}, quick={"dim": 32, "steps": 16})
    both = {
        "quick": Scale(**{**SCALE, "warmup_steps": 1}),
        "standard": Scale(**{**SCALE, "warmup_steps": 1}),
    }
    ablation = asked(scaling_law=law, scales=both)
    assert plan(ablation, seeds=1).about.held_out == {"dim": 32, "steps": 16}
    assert plan(ablation, scale="standard", seeds=1).about.held_out == {"dim": 64, "steps": 32}
    shipped = find("scaling_laws").ablation.at_scale("smoke")
    assert shipped.at_scale("smoke").scaling_law == shipped.scaling_law  # not reduced again
    assert plan("scaling_laws", scale="smoke").about.held_out == {"dim": 96, "steps": 40}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"combine": "one_at_a_time"}, "combine='one_at_a_time' must be 'cross'"),
    ({"scaling_law": ScalingLaw(held_out={"dims": 32, "steps": 16})}, "did you mean 'dim'"),
    ({"scaling_law": ScalingLaw(held_out={"dim": 16, "steps": 16})}, "dim=16 must be above"),
    ({"scaling_law": ScalingLaw(held_out={"steps": 16})}, "must name an axis of sizes"),
    ({"scaling_law": ScalingLaw(held_out={"dim": 32})}, "must name an axis of amounts of data"),
    ({"probes": ["quality", "flops"]}, "needs the probe 'parameters'"),
    ({"tasks": ["parity"]}, "is scored by accuracy, and a law is fitted to losses in bits"),
    ({"axes": [AXES[0], vary("dim", [4, 8]), AXES[2]]}, "at least 3 values is needed; dim has 2"),
    ({"axes": [AXES[0], AXES[1], vary("steps", [2, 4])]}, "steps has 2"),
    (
        {
            "axes": [*AXES, vary("length", [4, 8, 12])],
            "scaling_law": ScalingLaw(held_out={"dim": 32, "steps": 16, "length": 16}),
        },
        "'length' is neither a size of the model",
    ),
    (
        {
            "axes": [*AXES, vary("weight_decay", [0.1, 0.2])],
            "scaling_law": ScalingLaw(held_out={"dim": 32, "steps": 16, "weight_decay": 1}),
        },
        "'weight_decay' is neither a size of the model",
    ),
    (
        {
            "axes": [vary("mixer", ["attention", "lstm"]), AXES[1], AXES[2]],
            "scaling_law": ScalingLaw(held_out={"mixer": 2, "dim": 32, "steps": 16}),
        },
        "the values of the axis .mixer. must be whole numbers",
    ),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_what_no_law_can_be_fitted_to_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        plan(asked(**changes), seeds=1)


@pytest.mark.parametrize("held_out", [{}, {"dim": 0}, {"dim": "32"}, {"dim": 32.0}])
def test_what_is_held_out_is_positive_whole_numbers(held_out: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="ScalingLaw: held_out"):
        ScalingLaw(held_out=held_out)


def test_a_mistake_ends_the_command_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main_of(["plan", "scaling_laws", "--set", "dim=16,24"])
    assert end.value.code == 2
    assert "scaling_law: sizes of the model: an axis of at least 3" in capsys.readouterr().err


def main_of(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["bakeoff", *arguments])
        main()


def _rates(recipe: Recipe, **changes: Any) -> dict[int, float]:
    found = plan(asked(recipe=recipe, **changes), seeds=1).trials
    trained = [trial for trial in found if trial.training]
    return {t.subjects[0].dim: t.training.learning_rate for t in trained if t.training}


def test_a_rate_may_fall_with_the_width() -> None:
    """Check the rates; the scale has width 16."""
    falling = _rates(Recipe(learning_rate=0.01, width_power=0.5))
    assert falling == {4: 0.02, 8: 0.0141421, 16: 0.01, 32: 0.00707107}
    assert _rates(Recipe(learning_rate=0.01, width_power=1.0))[32] == 0.005
    assert set(_rates(Recipe(learning_rate=0.01)).values()) == {0.01}


def test_a_rate_that_is_searched_for_does_not_fall_with_the_width() -> None:
    with pytest.raises(SpecError, match=r"width_power=0.5 requires a numeric learning rate"):
        plan(asked(recipe=Recipe(learning_rate="tuned", width_power=0.5)))
