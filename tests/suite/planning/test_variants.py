"""Axes become variants: labels, order, and what is refused before anything is expanded."""

import time
from collections.abc import Callable, Mapping

import pytest

from models.model_spec import Knob
from suite.planning.variants import Baseline, variants_of
from suite.spec import Ablation, Model, SpecError, vary

MakeAblation = Callable[..., Ablation]


def _expanded(ablation: Ablation, knobs: Mapping[str, Knob]) -> tuple[str, dict[str, dict]]:
    baseline = Baseline(ablation=ablation, scale=ablation.scales["quick"], knobs=knobs)
    reference, variants = variants_of(baseline)
    return reference.label, {variant.label: dict(variant.changes) for variant in variants}


def test_one_axis_that_holds_the_baseline_has_its_value_as_baseline(
    make_ablation: MakeAblation,
) -> None:
    ablation = make_ablation(axes=[vary("heads", [1, 4, 16])])
    assert _expanded(ablation, {"heads": 4}) == (
        "heads=4",
        {"heads=1": {"heads": 1}, "heads=4": {}, "heads=16": {"heads": 16}},
    )


def test_one_axis_without_the_baseline_is_compared_with_it(make_ablation: MakeAblation) -> None:
    label, variants = _expanded(make_ablation(axes=[vary("heads", [1])]), {"heads": 4})
    assert label == "baseline"
    assert variants == {"baseline": {}, "heads=1": {"heads": 1}}


def test_several_axes_are_set_one_at_a_time(make_ablation: MakeAblation) -> None:
    ablation = make_ablation(axes=[vary("heads", [1, 4]), vary("depth", [1, 2])])
    assert _expanded(ablation, {"heads": 4}) == (
        "baseline",
        {"baseline": {}, "heads=1": {"heads": 1}, "depth=2": {"depth": 2}},
    )


def test_a_cross_holds_every_combination_and_only_what_changes(
    make_ablation: MakeAblation,
) -> None:
    axes = [vary("heads", [1, 4]), vary("depth", [1, 2])]
    assert _expanded(make_ablation(axes=axes, combine="cross"), {"heads": 4}) == (
        "heads=4, depth=1",
        {
            "heads=1, depth=1": {"heads": 1},
            "heads=1, depth=2": {"heads": 1, "depth": 2},
            "heads=4, depth=1": {},
            "heads=4, depth=2": {"depth": 2},
        },
    )


def test_a_cross_without_the_baseline_is_compared_with_it(make_ablation: MakeAblation) -> None:
    axes = [vary("heads", [1, 2]), vary("depth", [2, 3])]
    label, variants = _expanded(make_ablation(axes=axes, combine="cross"), {"heads": 4})
    assert label == "baseline"
    assert next(iter(variants)) == "baseline"
    assert len(variants) == 5


@pytest.mark.parametrize(
    ("value", "axis"), [(True, "bias=true"), (None, "bias=None"), (0.001, "bias=0.001")]
)
def test_a_label_spells_the_value(make_ablation: MakeAblation, value: Knob, axis: str) -> None:
    _, variants = _expanded(make_ablation(axes=[vary("bias", [value])]), {"bias": False})
    assert axis in variants


def test_a_skeletons_knob_is_labelled_with_the_value_that_the_baseline_has(
    make_ablation: MakeAblation,
) -> None:
    ablation = make_ablation(axes=[vary("has_residual", [False, True])])
    assert _expanded(ablation, {"heads": 4, "has_residual": True}) == (
        "has_residual=true",
        {"has_residual=false": {"has_residual": False}, "has_residual=true": {}},
    )


def test_true_is_not_the_baselines_one(make_ablation: MakeAblation) -> None:
    label, variants = _expanded(make_ablation(axes=[vary("heads", [True])]), {"heads": 1})
    assert label == "baseline"
    assert variants["heads=true"] == {"heads": True}


def test_an_axis_of_whole_models_is_labelled_by_what_they_say(make_ablation: MakeAblation) -> None:
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


def test_a_cross_of_a_milliard_is_refused_at_once(make_ablation: MakeAblation) -> None:
    axes = [vary(name, range(1, 1001)) for name in ("heads", "steps", "batch")]
    start = time.perf_counter()
    with pytest.raises(SpecError, match="1000000000 combinations; at most 10000"):
        _expanded(make_ablation(axes=axes, combine="cross"), {"heads": 4})
    assert time.perf_counter() - start < 1


def test_an_axis_given_twice_is_refused(make_ablation: MakeAblation) -> None:
    axes = [vary("heads", [1]), vary("heads", [2])]
    with pytest.raises(SpecError, match="'heads' is given twice"):
        _expanded(make_ablation(axes=axes), {})


def test_values_that_read_alike_are_refused(make_ablation: MakeAblation) -> None:
    with pytest.raises(SpecError, match="'heads' has two values that read alike"):
        _expanded(make_ablation(axes=[vary("heads", [1, "1"])]), {"heads": 4})


def test_a_task_axis_goes_with_one_task(make_ablation: MakeAblation) -> None:
    tasks = ["shakespeare_characters", "fashion_mnist_patches"]
    ablation = make_ablation(
        baseline=Model(mixer="attention"), axes=[vary("task", tasks)], tasks=tasks
    )
    with pytest.raises(SpecError, match="'task' goes with one task"):
        _expanded(ablation, {})
