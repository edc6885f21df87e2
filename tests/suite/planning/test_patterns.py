"""Tests for plans with patterns of mixers, and with knobs that were added later."""

import pytest

from bakeoff.models import ModelSpec
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import Model, SpecError, vary
from tests.suite.small_ablation import make_ablation

TASK = "fashion_mnist_patches"  # its model is not causal
PATTERN = "fnet*2+attention"


def planned(*values: object, axis: str = "mixer", **fields: object) -> Plan:
    scale = {"depth": 3, **fields.pop("scale", {})}
    return plan(make_ablation(axes=[vary(axis, list(values))], tasks=[TASK], scale=scale, **fields))


def models(found: Plan) -> list[ModelSpec]:
    return [subject for trial in found.trials for subject in trial.subjects]


def test_a_pattern_is_planned_with_the_knobs_and_versions_of_its_mixers() -> None:
    found = planned("attention", PATTERN)
    trial = next(t for t in found.trials if t.subjects[0].mixer == PATTERN)
    assert trial.subjects[0].knobs["heads"] == 4
    assert {"mixer fnet", "mixer attention"} <= trial.versions.keys()


def test_a_default_that_mixers_do_not_share_is_left_to_each() -> None:
    pattern = "attention+plain_attention"  # their defaults of `scale` are None and "none"
    (model,) = {m.mixer: m for m in models(planned(pattern)) if m.mixer == pattern}.values()
    assert "scale" not in model.knobs
    assert model.knobs["heads"] == 4
    given = planned(pattern, baseline=Model(mixer="attention", scale="none"))
    assert {model.knobs["scale"] for model in models(given)} == {"none"}


def test_the_top_of_a_pattern_is_tried_too() -> None:
    found = plan(make_ablation(axes=[vary("mixer", ["attention", "attention*2+fnet"])]))
    (reason,) = {cell.reason for cell in found.cells if cell.reason}
    assert "fnet cannot be causal" in reason


def test_a_mixer_is_measured_alone_and_a_pattern_is_not() -> None:
    scale = {"lengths": [8, 16]}
    found = planned("attention", "fnet*2", PATTERN, probes=["mixer_time"], scale=scale)
    reasons = {cell.reason for cell in found.cells if cell.reason}
    assert len(reasons) == 2
    assert all("is a pattern, and a mixer is measured alone" in each for each in reasons)


@pytest.mark.parametrize(
    ("mixer", "said"),
    [("fnet*0", "neither a name nor NAME"), ("fnet+atention", "did you mean 'attention'")],
)
def test_a_misspelt_pattern_is_refused(mixer: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        planned("attention", mixer)


def test_a_late_knob_counts_where_it_differs_from_its_default() -> None:
    found = planned("layer", "rms", axis="norm_kind")
    norms = {model.settings.get("norm_kind") for model in models(found)}
    assert norms == {None, "rms"}
    plain = planned("pre", "post", axis="norm_placement")
    assert {t.trial_id for t in found.trials} & {t.trial_id for t in plain.trials}
    assert {cell.variant for cell in found.cells} == {"norm_kind=layer", "norm_kind=rms"}
