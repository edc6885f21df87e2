"""Tests that a value of an axis equal to the baseline's is counted once, in any notation."""

from __future__ import annotations

from typing import Any

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import About
from bakeoff.suite.spec import Model, RepeatedValue, vary
from tests.suite.small_ablation import make_ablation

LSTM, WRITTEN_OUT = Model(mixer="lstm"), Model(mixer="lstm", forget_bias=0.0)


def _about(baseline: Model, *axes: Any, **fields: Any) -> About:
    return plan(make_ablation(baseline=baseline, axes=list(axes), **fields), seeds=1).about


@pytest.mark.parametrize("baseline", [LSTM, WRITTEN_OUT])
def test_the_default_of_a_knob_is_the_baseline(baseline: Model) -> None:
    one = _about(baseline, vary("forget_bias", [-1.0, 0.0, 1.0]))
    assert one.baseline == "forget_bias=0.0"
    assert one.variants == ("forget_bias=-1.0", "forget_bias=0.0", "forget_bias=1.0")
    assert "forget_bias" not in one.model  # the edition is unchanged
    whole = _about(baseline, vary("forget_bias", [-1, 0, 1]))
    assert (whole.baseline, len(whole.variants)) == ("forget_bias=0", 3)
    steps = vary("steps", [4, 8])
    each = _about(baseline, vary("forget_bias", [0, 1]), steps)
    assert each.variants == ("baseline", "forget_bias=1", "steps=8")
    assert each.axis_values["baseline"] == {"forget_bias": 0.0, "steps": 4}
    crossed = _about(baseline, vary("forget_bias", [0, 1]), steps, combine="cross")
    assert (crossed.baseline, len(crossed.variants)) == ("forget_bias=0, steps=4", 4)


def test_a_whole_model_is_the_baseline_with_its_defaults_and_any_label() -> None:
    axis = vary("model", [Model(mixer="lstm", forget_bias=0, label="plain"), Model(mixer="fnet")])
    assert _about(LSTM, axis).variants == ("model=plain", "model=fnet")
    assert _about(LSTM, axis).baseline == "model=plain"


@pytest.mark.parametrize(
    ("name", "values", "variants"),
    [
        ("layer_scale", [None, 1, 1.0], ["layer_scale=None", "layer_scale=1"]),
        ("weight_decay", [1, 1.0, 0.5], ["baseline", "weight_decay=1", "weight_decay=0.5"]),
        ("mixer", ["attention*2", "fnet"], ["mixer=attention*2", "mixer=fnet"]),
        ("model", [LSTM, WRITTEN_OUT], ["baseline", "model=lstm"]),
    ],
)
def test_two_spellings_of_a_value_count_once(
    name: str, values: list[Any], variants: list[str], recwarn: pytest.WarningsRecorder
) -> None:
    found = _about(Model(mixer="attention"), vary(name, values))
    assert list(found.variants) == variants
    assert any(one.category is RepeatedValue for one in recwarn) == (name != "mixer")
