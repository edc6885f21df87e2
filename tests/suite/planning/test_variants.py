"""Tests for the variants of axes: labels, order, and refusals before any expansion."""

from collections.abc import Mapping
from typing import Any

import pytest

from bakeoff.models.model_spec import Knob
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.planning.variants import Baseline, variants_of
from bakeoff.suite.spec import Ablation, Axis, Model, SpecError, vary
from tests.suite.small_ablation import make_ablation


def _expanded(ablation: Ablation, knobs: Mapping[str, Knob]) -> tuple[str, dict[str, dict]]:
    baseline = Baseline(ablation=ablation, scale=ablation.scales["quick"], knobs=knobs)
    reference, variants = variants_of(baseline)
    return reference.label, {variant.label: dict(variant.changes) for variant in variants}


EXPANDED: dict[str, tuple[str, dict[str, Any], str, dict[str, dict[str, Any]]]] = {
    "one axis that holds the baseline has its value as baseline": (
        "one_at_a_time",
        {"heads": [1, 4, 16]},
        "heads=4",
        {"heads=1": {"heads": 1}, "heads=4": {}, "heads=16": {"heads": 16}},
    ),
    "one axis without the baseline is compared with it": (
        "one_at_a_time",
        {"heads": [1]},
        "baseline",
        {"baseline": {}, "heads=1": {"heads": 1}},
    ),
    "several axes are set one at a time": (
        "one_at_a_time",
        {"heads": [1, 4], "depth": [1, 2]},
        "baseline",
        {"baseline": {}, "heads=1": {"heads": 1}, "depth=2": {"depth": 2}},
    ),
    "a cross holds every combination and only what changes": (
        "cross",
        {"heads": [1, 4], "depth": [1, 2]},
        "heads=4, depth=1",
        {
            "heads=1, depth=1": {"heads": 1},
            "heads=1, depth=2": {"heads": 1, "depth": 2},
            "heads=4, depth=1": {},
            "heads=4, depth=2": {"depth": 2},
        },
    ),
    "an architecture's knob is labelled with the value of the baseline": (
        "one_at_a_time",
        {"has_residual": [False, True]},
        "has_residual=true",
        {"has_residual=false": {"has_residual": False}, "has_residual=true": {}},
    ),
}


@pytest.mark.parametrize("case", EXPANDED)
def test_axes_are_expanded(case: str) -> None:
    combine, axes, *expected = EXPANDED[case]
    ablation = make_ablation(
        axes=[vary(name, values) for name, values in axes.items()], combine=combine
    )
    found = _expanded(ablation, {"heads": 4, "has_residual": True})
    assert found == tuple(expected)
    assert list(found[1]) == list(expected[1])


def test_a_cross_without_the_baseline_is_compared_with_it() -> None:
    axes = [vary("heads", [1, 2]), vary("depth", [2, 3])]
    label, variants = _expanded(make_ablation(axes=axes, combine="cross"), {"heads": 4})
    assert label == "baseline"
    assert next(iter(variants)) == "baseline"
    assert len(variants) == 5


@pytest.mark.parametrize(
    ("value", "axis"), [(True, "bias=true"), (None, "bias=None"), (0.001, "bias=0.001")]
)
def test_a_label_spells_the_value(value: Knob, axis: str) -> None:
    _, variants = _expanded(make_ablation(axes=[vary("bias", [value])]), {"bias": False})
    assert axis in variants


def test_true_is_not_the_baselines_one() -> None:
    label, variants = _expanded(make_ablation(axes=[vary("heads", [True])]), {"heads": 1})
    assert label == "baseline"
    assert variants["heads=true"] == {"heads": True}


def test_an_axis_of_whole_models_is_labelled_by_what_they_say() -> None:
    local = Model(mixer="local_attention", position="none", window=8)
    ablation = make_ablation(
        baseline=Model(mixer="attention"), axes=[vary("model", [Model(mixer="attention"), local])]
    )
    assert _expanded(ablation, {"heads": 4}) == (
        "model=attention",
        {
            "model=attention": {},
            "model=local_attention (position none; window 8)": {"model": local},
        },
    )


def test_a_model_is_called_by_its_label() -> None:
    """Check that a label changes no trial, and that the settings explain it."""
    own, called = (
        make_ablation(
            baseline=Model(mixer="attention"),
            axes=[
                vary(
                    "model",
                    [
                        Model(mixer="attention"),
                        Model(mixer="local_attention", position="none", window=8, label=label),
                    ],
                ),
            ],
        )
        for label in (None, "near ones")
    )
    assert [*_expanded(called, {"heads": 4})[1]] == ["model=attention", "model=near ones"]
    plans = plan(own), plan(called)
    first, second = ({trial.trial_id for trial in found.trials} for found in plans)
    assert first == second
    settings = plans[1].about.settings
    assert settings["near ones"] == "local_attention (position none; window 8)"
    with pytest.raises(SpecError, match="Model: label='a=b'"):
        Model(mixer="conv", label="a=b")


def test_two_models_of_one_label_are_refused() -> None:
    models = [Model(mixer=mixer, label="one") for mixer in ("attention", "conv")]
    with pytest.raises(SpecError, match="'model' has two values with the same text"):
        _expanded(make_ablation(axes=[vary("model", models)]), {"heads": 4})


TASKS = ["shakespeare_characters", "fashion_mnist_patches"]


@pytest.mark.parametrize(
    ("axes", "tasks", "sentence"),
    [
        ([vary("heads", [1]), vary("heads", [2])], TASKS[:1], "'heads' is given twice"),
        ([vary("heads", [1, "1"])], TASKS[:1], "'heads' has two values with the same text"),
        ([vary("task", TASKS)], TASKS, "'task' requires exactly one task"),
    ],
)
def test_ambiguous_axes_are_refused(axes: list[Axis], tasks: list[str], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        _expanded(make_ablation(axes=axes, tasks=tasks), {"heads": 4})


def test_a_baseline_may_hold_a_knob_of_a_mixer_that_is_varied() -> None:
    mixers = vary("mixer", ["attention", "separable_conv"])
    made = make_ablation(
        axes=[mixers], baseline=Model(mixer="attention", kernel_size=7), claim=None
    )
    knobs = {t.subjects[0].mixer: t.subjects[0].knobs for t in plan(made).trials if t.subjects}
    assert knobs["separable_conv"]["kernel_size"] == 7
    assert "kernel_size" not in knobs["attention"]
    alone = make_ablation(
        axes=[vary("heads", [1, 2])], claim=None, baseline=Model(mixer="attention", kernel_size=7)
    )
    with pytest.raises(SpecError, match="kernel_size"):
        plan(alone)


def test_a_scale_may_have_tasks_of_its_own() -> None:
    own = make_ablation(scale={"tasks": ["listops"], "length": 16}, claim=None)
    assert plan(own).about.tasks == ("listops",)
    assert plan(own, scale="smoke").about.tasks == plan(own).about.tasks
    assert "tasks" not in plan(own).about.settings


def test_a_value_of_the_baselines_is_set_in_another_whole_model() -> None:
    """Check that another model sets the baseline's value of a field, but not a scale's field."""
    theirs = Model(mixer="conv")
    axes = [
        vary("model", [Model(mixer="attention"), theirs]),
        vary("feed_forward", ["gelu", "none"]),
        vary("depth", [1, 2]),
    ]
    ablation = make_ablation(baseline=Model(mixer="attention"), axes=axes, combine="cross")
    _, found = _expanded(ablation, {"feed_forward": "gelu"})
    assert found["model=attention, feed_forward=gelu, depth=1"] == {}
    assert found["model=conv, feed_forward=gelu, depth=1"] == {
        "model": theirs,
        "feed_forward": "gelu",
    }
    one_each = make_ablation(
        baseline=Model(mixer="attention"), axes=axes[:2], combine="first_with_each"
    )
    _, found = _expanded(one_each, {"feed_forward": "gelu"})
    assert [*found] == [
        "model=attention",
        "model=attention, feed_forward=none",
        "model=conv",
        "model=conv, feed_forward=gelu",
        "model=conv, feed_forward=none",
    ]
