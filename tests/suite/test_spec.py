"""Tests that a field of a specification is refused in one sentence, or kept as written."""

import math
import re
from collections.abc import Callable
from itertools import count
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from bakeoff.suite.spec import Ablation, Axis, Claim, Model, Recipe, Scale, SpecError, vary
from bakeoff.suite.spec.fields import _PATTERNS

SCALE = {"dim": 16, "depth": 1, "length": 8, "steps": 4, "batch": 2}
CLAIM = {"metric": "bits_per_character", "a": "heads=1", "b": "heads=4", "by": 0.1}
ABLATION: dict[str, Any] = {
    "question": "How many?",
    "baseline": Model(mixer="attention"),
    "axes": [vary("heads", [1, 4])],
    "tasks": ["shakespeare_characters"],
    "probes": ["quality"],
    "scales": {"quick": Scale(**SCALE)},
}


def scale(**changes: Any) -> Callable[[], Scale]:
    return lambda: Scale(**{**SCALE, **changes})


def ablation(**changes: Any) -> Callable[[], Ablation]:
    return lambda: Ablation(**{**ABLATION, **changes})


REFUSED: dict[str, tuple[Callable[[], object], list[str]]] = {
    "misspelt field of an ablation": (
        ablation(probs=["quality"]),
        ["Ablation", "'probs'", "did you mean 'probes'"],
    ),
    "missing field": (lambda: Scale(dim=16), ["Scale", "'length'"]),
    "a class for a model": (ablation(baseline=Model), ["baseline is a class", "Model(...)"]),
    "lengths for length": (lambda: Scale(lengths=[16]), ["'length'; lengths is another field"]),
    "dims for dim": (scale(dims=16), ["Scale: dims=16"]),
    "a warm-up above the steps": (scale(warmup_steps=5), ["warmup_steps=5 is above steps=4"]),
    "more evaluations than steps": (scale(num_evaluations=5), ["num_evaluations=5 is above"]),
    "a learning rate in quotes": (scale(learning_rate="1e-3"), ["'1e-3'", "must be a number"]),
    "a class for a mixer": (
        lambda: Model(mixer=Claim),
        ["is a class", "'bakeoff.suite.spec:Claim'"],
    ),
    "bool for a whole number": (scale(warmup_steps=True), ["warmup_steps", "True", "whole number"]),
    "bool for a number": (scale(gpus=True), ["gpus", "True", "number"]),
    "8.0 for a whole number": (scale(dim=8.0), ["dim", "8.0", "whole number"]),
    "learning rate 0": (scale(learning_rate=0), ["learning_rate", "0", "above 0"]),
    "unknown scale": (
        ablation(scales={"quik": Scale(**SCALE)}),
        ["'quik'", "'smoke', 'quick', 'standard' or"],
    ),
    "no scale": (ablation(scales={}), ["scales", "{}", "at least 1"]),
    "no axis": (ablation(axes=[]), ["axes", "at least 1"]),
    "an axis that is none": (ablation(axes=["heads"]), ["axes.0", "'heads'", "Axis"]),
    "no task": (ablation(tasks=[]), ["tasks", "at least 1"]),
    "a string for a list": (ablation(tasks="shakespeare_characters"), ["tasks", "must be a list"]),
    "a baseline that is none": (ablation(baseline=3), ["baseline", "3", "Model"]),
    "unknown combination": (ablation(combine="all"), ["combine", "'all'", "'cross'"]),
    "a knob that is no scalar": (
        lambda: Model(mixer="attention", heads=[8]),
        ["heads", "[8]", "finite number"],
    ),
    "a knob that is NaN": (lambda: Model(mixer="attention", heads=math.nan), ["heads", "nan"]),
    "a mixer of 3000 letters": (lambda: Model(mixer="x" * 3000), ["mixer", "200 characters"]),
    "an axis of a string": (lambda: vary("mixer", "attention"), ["'mixer'", "list of values"]),
    "an axis of a number": (lambda: vary("heads", 4), ["'heads'", "4", "list of values"]),
    "an axis of a set": (lambda: vary("heads", {1, 2}), ["'heads'", "list of values"]),
    "an axis of NaN": (lambda: vary("learning_rate", [math.nan]), ["learning_rate", "nan"]),
    "an axis of 10^26": (lambda: vary("steps", [10**26]), ["'steps'", "2**53"]),
    "an axis of tuples": (lambda: vary("heads", [(1, 2)]), ["'heads'", "(1, 2)"]),
    "a claim by a negative": (lambda: Claim("x", **{**CLAIM, "by": -1}), ["by", "-1", "0"]),
    "a claim without a metric": (lambda: Claim("x", a="a", b="b", by=1), ["Claim", "'metric'"]),
    "a misspelt field of a claim": (
        lambda: Claim("x", **CLAIM, metrik="y"),
        ["'metrik'", "did you mean 'metric'"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_by_key_and_value(case: str) -> None:
    make, fragments = REFUSED[case]
    with pytest.raises(SpecError) as caught:
        make()
    sentence = str(caught.value)
    assert [fragment for fragment in fragments if fragment not in sentence] == []
    assert "\n" not in sentence
    assert len(sentence) < 400


@pytest.mark.parametrize("field", ["dim", "depth", "length", "steps", "batch", "seeds", "cpus"])
@pytest.mark.parametrize("value", [0, -1, 10**26])
def test_a_count_has_both_bounds(field: str, value: int) -> None:
    with pytest.raises(SpecError, match=f"Scale: {field}=-?[0-9]+: should be"):
        scale(**{field: value})()


@pytest.mark.whole
@given(
    field=st.sampled_from(sorted(Scale.model_fields)),
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.just(10**400),
)
def test_a_field_of_a_scale_keeps_its_value_or_is_refused(field: str, value: object) -> None:
    try:
        kept = getattr(scale(**{field: value})(), field)
    except SpecError:  # the only error allowed
        return
    assert kept == value
    words = ("gpu_model", "precision", "optimizer", "schedule", "start", "runtime")
    is_a_word = field in words and isinstance(value, str)
    is_a_truth = field in ("flip", "is_start_frozen") and isinstance(value, bool)
    assert is_a_word or is_a_truth or not isinstance(value, bool | str | bytes)


@pytest.mark.filterwarnings("ignore::bakeoff.suite.spec.RepeatedValue")
@given(values=st.lists(st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 2.0])))
def test_values_of_an_axis_are_merged_only_where_they_are_the_same(values: list[Any]) -> None:
    if not values:
        return
    kept = [(type(value), value) for value in vary("heads", values).values]
    assert kept == list(dict.fromkeys((type(value), value) for value in values))


def test_names_given_twice_count_once() -> None:
    made = ablation(probes=["quality", "flops", "quality"], tasks=["a", "a"])()
    assert made.probes == ("quality", "flops")
    assert made.tasks == ("a",)


def test_a_specification_is_frozen() -> None:
    made = ablation()()
    with pytest.raises(ValidationError, match="frozen"):
        made.question = "Another?"


def test_a_sentence_stays_on_one_line_whatever_the_user_wrote() -> None:
    with pytest.raises(SpecError) as caught:
        Scale(**{**SCALE, "a\nb\u202ec\x1b[2J": 1})
    assert "a\\nb\\u202ec\\x1b[2J" in str(caught.value)


def test_an_endless_axis_is_refused() -> None:
    with pytest.raises(SpecError, match="list of values"):
        vary("steps", count())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"gpu_model": "A100"}, r"^Scale: gpu_model='A100' needs gpus above 0\.$"),
        ({"gpus": 1.5}, "must be a whole number, or a fraction below 1"),
        ({"gpus": 1.0, "gpu_model": "A 100"}, "gpu_model"),
        ({"zero": 4}, "zero"),
        ({"precision": "fp16"}, "precision"),
        ({"optimizer": "adam"}, "optimizer='adam': should be 'adamw', 'sgd' or 'adafactor'"),
        ({"schedule": "wsd"}, "schedule"),
        ({"ema": 1.0}, "ema"),
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"workers": 0}, "workers"),
        ({"memory_gib": -1.0}, "memory_gib"),
    ],
)
def test_what_a_trial_may_use_is_checked(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as refused:
        Scale(dim=8, depth=1, length=8, steps=10, batch=2, **fields)
    assert "\n" not in str(refused.value)


def test_a_scale_takes_from_the_recipe_what_it_does_not_say() -> None:
    one = Scale(dim=8, depth=1, length=8, steps=10, batch=2, schedule="linear")
    made = ablation(recipe=Recipe(optimizer="sgd", schedule="cosine"), scales={"quick": one})()
    assert made.scale("quick").optimizer == "sgd"
    assert made.scale("quick").schedule == "linear"
    assert ablation(scales={"quick": one})().scale("quick") is one


def test_settings_name_what_is_not_the_default_of_a_recipe() -> None:
    plain = Scale(dim=8, depth=1, length=8, steps=10, batch=2)
    asked = plain.model_copy(update={"optimizer": "sgd", "clip_norm": None})
    assert set(asked.settings().items()) - set(plain.settings().items()) == {
        ("optimizer", "sgd"),
        ("clip_norm", None),
    }


def test_smoke_is_a_small_quick_without_a_claim() -> None:
    quick = Scale(
        dim=16,
        depth=1,
        length=8,
        steps=900,
        batch=64,
        seeds=7,
        lengths=[8, 16, 32],
        dims=[4, 8, 16],
        dims_length=16,
    )
    made = ablation(scales={"quick": quick}, axes=[vary("heads", [1, 2, 4], quick=[1, 2])])()
    small = made.at_scale("smoke")
    scale = small.scale("smoke")
    assert (scale.steps, scale.batch, scale.num_evaluations, scale.seeds) == (20, 8, 1, None)
    assert (scale.lengths, scale.dims, scale.dims_length) == ((8, 16), (4, 8), 16)
    assert (scale.dim, scale.depth, scale.length) == (quick.dim, quick.depth, quick.length)
    assert small.axes[0].values == (1, 2)
    assert small.claim is None
    assert small.at_scale("smoke") == small


def test_an_axis_may_be_left_out_at_quick() -> None:
    both = [vary("heads", [1, 2]), vary("dim", [8, 16], quick=[])]
    made = ablation(scales={"quick": Scale(**SCALE), "paper": Scale(**SCALE)}, axes=both)()
    for scale, axes in (("quick", ["heads"]), ("smoke", ["heads"]), ("paper", ["heads", "dim"])):
        assert [axis.name for axis in made.at_scale(scale).axes] == axes
    with pytest.raises(SpecError, match=re.escape("axes: all have quick=[]; at quick scale")):
        ablation(axes=both[1:])().at_scale("quick")


def test_smoke_has_room_for_the_warm_up_that_is_asked_for() -> None:
    quick = Scale(**{**SCALE, "steps": 900, "warmup_steps": 30})
    made = ablation(scales={"quick": quick})()
    assert made.at_scale("smoke").scale("smoke").steps == 30
    varied = ablation(scales={"quick": quick}, axes=[vary("warmup_steps", [30, 70])])()
    assert varied.at_scale("smoke").scale("smoke").steps == 70


def test_at_smoke_what_is_trained_before_is_hardly_trained_too() -> None:
    steps = {"pretraining_steps": 3_000, "teacher_steps": 2_000}
    for place in ({"recipe": Recipe(**steps)}, {"scales": {"quick": Scale(**SCALE, **steps)}}):
        small = ablation(**place)().at_scale("smoke").scale("smoke")
        assert (small.pretraining_steps, small.teacher_steps) == (20, 20)
    varied = ablation(axes=[vary("teacher_steps", [None, 500, 1_000])])().at_scale("smoke")
    assert [*varied.axes[0].values] == [None, 10, 20]
    assert ablation()().at_scale("smoke").scale("smoke").teacher_steps is None


def test_a_file_may_say_what_smoke_is() -> None:
    own = Scale(**{**SCALE, "steps": 3})
    made = ablation(scales={"smoke": own})().at_scale("smoke")
    assert made.scale("smoke") == own
    assert made.claim is None


def test_a_word_where_a_list_is_meant_is_said_in_our_words() -> None:
    with pytest.raises(SpecError) as refused:
        Ablation(
            question="Why?",
            baseline=Model("attention"),
            axes=[vary("heads", [1, 2])],
            tasks="listops",
            probes=["quality"],
            scales={"quick": Scale(length=8, steps=1, batch=1)},
        )
    assert str(refused.value) == "Ablation: tasks='listops': it must be a list, as ['listops']."


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Model("attention", label="a=b"), "Model: label='a=b': it must have 1 to 40"),
        (
            lambda: Scale(length=8, steps=1, batch=1, gpu_model="a b"),
            "gpu_model='a b': it must have at",
        ),
    ],
)
def test_no_pattern_of_ours_is_shown(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as refused:
        make()
    assert "pattern" not in str(refused.value)


def test_every_pattern_of_a_field_is_explained_in_words() -> None:
    patterned = {
        (spec.__name__, name)
        for spec in (Ablation, Axis, Claim, Model, Recipe, Scale)
        for name, field in spec.model_fields.items()
        if any(getattr(each, "pattern", None) for each in metadata_of(field))
    }
    assert patterned <= _PATTERNS.keys()
    assert ("Model", "label") in patterned


def metadata_of(field: FieldInfo) -> list[object]:
    """Return the metadata of the field, within ``| None`` too."""
    inner = [each for hint in get_args(field.annotation) for each in get_args(hint)[1:]]
    found = [*field.metadata, *inner]
    return [*found, *(m for each in found for m in getattr(each, "metadata", ()))]
