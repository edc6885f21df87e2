"""Test that the baseline is described if its label does not do so."""

from __future__ import annotations

import pytest

from bakeoff.reports.results.axis_values import number
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.results.variant_labels import (
    AS_BASELINE,
    label_axis,
    what_baseline_is,
)
from bakeoff.suite.schema import About
from bakeoff.suite.schema.old_labels import named_values
from tests.reports import conftest as synthetic
from tests.reports import hostile, made_along, mixers_alone
from tests.reports.conftest import known


def test_the_mixer_and_the_axes_that_are_varied() -> None:
    said = mixers_alone.about()
    assert what_baseline_is(said) == "attention, kernel=fused"
    assert shown_name(said, "baseline") == "attention"
    assert shown_name(said, "mixer=fnet") == "FNet"


def test_an_axis_of_the_scale_is_read_off_the_settings() -> None:
    said = mixers_alone.about(variants=("baseline", "dim=32", "heads=8"), subjects={})
    assert what_baseline_is(said) == "attention, dim=64, heads=4"


def test_a_label_that_says_it_needs_no_note() -> None:
    said = synthetic.about()
    assert what_baseline_is(said) == ""
    assert shown_name(said, "heads=8") == "8 heads"


def _about(*labels: str, **changes: object) -> About:
    fields = {"variants": labels, "baseline": labels[0], "tasks": ("t",), "claim": None} | changes
    return synthetic.about(**fields)


def test_a_cross_has_a_line_a_group() -> None:
    axis = known(label_axis(made_along.recall().about, "mqar_small"))
    assert (axis.name, axis.others) == ("dim", ("mixer",))
    assert [group.name for group in axis.groups] == [f"mixer={m}" for m in made_along.MIXERS]
    assert axis.groups[1].variants == {
        16.0: "mixer=conv, dim=16",
        64.0: "mixer=conv, dim=64",
        128.0: "mixer=conv, dim=128",
    }


def test_the_first_with_each_other_has_the_first_as_its_number() -> None:
    axis = known(label_axis(made_along.scaling().about, "shakespeare_characters"))
    assert axis.name == "key_dim"  # temperature is a number too, but some labels lack it
    plain, unscaled = axis.groups[:2]
    assert plain.name == AS_BASELINE
    assert plain.note == "scale 1/sqrt(d), score dot, temperature 1.0"
    assert list(plain.variants) == [8.0, 64.0, 512.0]
    assert unscaled.variants[512.0] == "key_dim=512, scale=none"


def test_a_list_of_single_changes_has_no_lines() -> None:
    assert label_axis(synthetic.about(), "majority") is None  # heads=1, heads=2, ...
    said = _about("baseline", "heads=1", "heads=2", "depth=4", "depth=8")
    assert label_axis(said, "t") is None
    words = _about("mixer=a, score=dot", "mixer=b, score=dot")
    assert label_axis(words, "t") is None


def test_a_baseline_outside_a_cross_stands_where_its_model_is() -> None:
    labels = ("baseline", "mixer=conv, dim=16", "mixer=conv, dim=64", "mixer=lstm, dim=16")
    model = {"mixer": "conv", "dim": 32}
    axis = known(label_axis(_about(*labels, model=model), "t"))
    assert axis.groups[0].variants == {
        16.0: "mixer=conv, dim=16",
        32.0: "baseline",
        64.0: "mixer=conv, dim=64",
    }
    unknown = known(label_axis(_about(*labels, model={}, settings={}), "t"))
    assert "baseline" not in unknown.groups[0].variants.values()


def test_a_task_that_is_an_axis_is_no_group() -> None:
    labels = [f"task={task}, mixer={m}, dim={d}" for task in "ab" for m in "xy" for d in (1, 2)]
    said = _about(*labels, tasks=("a", "b"))
    axis = known(label_axis(said, "b"))
    assert [group.name for group in axis.groups] == ["mixer=x", "mixer=y"]
    assert axis.groups[0].variants[2.0] == "task=b, mixer=x, dim=2"


@pytest.mark.parametrize("name", hostile.NAMES)
def test_strange_labels_are_left_alone(name: str) -> None:
    assert label_axis(_about(name, f"{name}, x=1", f"{name}, x=2"), "t") is None


def test_what_is_a_number() -> None:
    numbers = {"512": 512.0, "0.003": 0.003, "3e-3": 0.003, "-1": -1.0}
    assert {text: number(text) for text in numbers} == numbers
    for text in ("1/sqrt(d)", "none", "nan", "inf", "1_000", "١", "1e999", "9" * 400, "", " 1"):
        assert number(text) is None
    assert named_values("a=1, b=x=y") == {"a": "1", "b": "x=y"}
    for text in ("baseline", "a=1, b", "=1", "a=", "a=1, a=2", ""):
        assert named_values(text) == {}
