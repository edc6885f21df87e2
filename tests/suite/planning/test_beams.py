"""Tests for axes of beam search, which share the trained models."""

from __future__ import annotations

from typing import Any

import pytest

from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import LEARNING_RATE, Plan, Trial
from bakeoff.suite.spec import Model, Scale, SpecError, vary
from tests.suite.small_ablation import make_ablation


def planned(*, scale: dict[str, Any] | None = None, seeds: int = 2, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "baseline": Model("seq2seq"),
        "tasks": ["bible_en_de"],
        "axes": [vary("beam", [1, 2, 4])],
        "probes": ["quality", "written_scores"],
    }
    return plan(
        make_ablation(**(fields | changes), scale={"length": 16, **(scale or {})}), seeds=seeds
    )


def of(probe: str, found: Plan) -> list[Trial]:
    return [trial for trial in found.trials if trial.probe == probe]


def test_beams_share_a_training_and_a_search_for_its_rate() -> None:
    found = planned(scale={"learning_rate": "tuned"})
    assert len(of(LEARNING_RATE, found)) == 1
    assert sorted(trial.seed for trial in of("quality", found)) == [0, 1]
    writing = of("written_scores", found)
    assert sorted((t.seed, t.beam) for t in writing) == [(s, b) for s in (0, 1) for b in (1, 2, 4)]
    for trial in writing:
        assert trial.trained in of("quality", found)
        assert trial.trained.seed == trial.seed
    cells = [cell for cell in found.cells if cell.probe == "quality" and cell.seed == 0]
    assert len(cells) == 3  # one per variant, all filled by the same trial
    assert len({cell.trial_id for cell in cells}) == 1


def test_a_training_is_the_one_that_other_ablations_have() -> None:
    """Check that the id of a training does not depend on the beam of another probe."""
    plain = planned(axes=[vary("summary", ["states", "context"])], probes=["quality"])
    beam = planned(scale={"beam": 4, "length_penalty": 1.0}, axes=[vary("beam", [4, 8])])
    assert {t.trial_id for t in of("quality", beam)} < {t.trial_id for t in of("quality", plain)}


def test_a_penalty_counts_where_several_hypotheses_are_open() -> None:
    axes = [vary("beam", [1, 4]), vary("length_penalty", [0.0, 0.6, 1.0])]
    found = planned(axes=axes, combine="cross", seeds=1)
    assert sorted((t.beam, t.length_penalty) for t in of("written_scores", found)) == [
        (1, 0.6),
        (4, 0.0),
        (4, 0.6),
        (4, 1.0),
    ]
    assert len(of("quality", found)) == 1


def test_an_axis_that_no_probe_looks_at_is_refused() -> None:
    with pytest.raises(SpecError, match="'beam' has no effect"):
        planned(probes=["quality"])


@pytest.mark.parametrize(
    ("fields", "said"), [({"beam": 0}, "beam"), ({"length_penalty": -0.5}, "length_penalty")]
)
def test_what_is_no_search_is_refused_in_a_sentence(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        Scale(length=8, steps=1, batch=1, **fields)
    assert str(caught.value).startswith(f"Scale: {said}=")
    assert "\n" not in str(caught.value)
    name, value = next(iter(fields.items()))
    with pytest.raises(SpecError, match=said):
        planned(scale={"beam": 2}, axes=[vary(name, [2, value])])


def test_settings_say_the_beam_only_where_it_is_asked_for() -> None:
    fields = {"length": 8, "steps": 1, "batch": 1}
    assert not {"beam", "length_penalty"} & Scale(**fields).settings().keys()
    assert Scale(**fields, beam=4).settings()["beam"] == 4


def test_a_wider_search_is_estimated_to_take_longer() -> None:
    found = planned(seeds=1)
    one, two, four = (seconds_of(t, found.resources) for t in of("written_scores", found))
    assert one < two < four
    assert four - two == pytest.approx(2 * (two - one))
