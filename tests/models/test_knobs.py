import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from bakeoff.models import ModelError
from bakeoff.models.model_spec import config_from_knobs, whole_numbers


@dataclass(frozen=True, kw_only=True)
class Config:
    heads: int = 4
    rate: float = 0.1
    kind: Literal["relu", "elu", 2] = "relu"
    is_shared: bool = False
    rank: int | None = None
    label: str = ""


def build(**knobs: Any) -> Config:
    made: Config = config_from_knobs(Config, knobs, owner="linformer")
    return made


def test_what_is_not_given_keeps_its_default() -> None:
    assert build() == Config()
    assert build(heads=2, rank=None, kind=2) == Config(heads=2, kind=2)


def test_a_whole_number_is_a_number_and_names_the_same_trial() -> None:
    assert type(build(rate=1).rate) is float
    assert build(rate=1) == build(rate=1.0)


@pytest.mark.parametrize(
    ("knob", "value", "allowed"),
    [
        ("heads", True, "a whole number"),
        ("heads", 8.0, "a whole number"),
        ("heads", "8", "a whole number"),
        ("heads", None, "a whole number"),
        ("rate", "1e-3", "a finite number"),
        ("rate", True, "a finite number"),
        ("rate", math.nan, "a finite number"),
        ("rate", math.inf, "a finite number"),
        ("kind", "rely", "'relu' or 'elu' or 2"),
        ("kind", 2.0, "'relu' or 'elu' or 2"),
        ("is_shared", 1, "True or False"),
        ("rank", "none", "a whole number or None"),
        ("rank", False, "a whole number or None"),
        ("label", 3, "a string"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(knob: str, value: Any, allowed: str) -> None:
    with pytest.raises(ModelError) as error:
        build(**{knob: value})
    assert str(error.value) == f"linformer: knob {knob}={value!r} is not allowed, give {allowed}"


def test_an_unknown_knob_gets_near_names_and_the_list() -> None:
    with pytest.raises(ModelError, match="linformer has no knob 'head'; did you mean 'heads'"):
        build(head=3)
    with pytest.raises(ModelError, match="its knobs are heads, rate, kind, is_shared, rank, label"):
        build(zzz=3)


def test_a_string_of_whole_numbers_is_read() -> None:
    assert whole_numbers(build(label="2-12-6"), "label", "swin") == [2, 12, 6]
    assert whole_numbers(build(label="3"), "label", "swin") == [3]
    assert whole_numbers(build(label="1,20"), "label", "bytenet", separator=",") == [1, 20]


@pytest.mark.parametrize(
    "text", ["", "-", "2-", "-2", "2--2", "2-0", "02", "2,2", "2 - 2", "1.5", "x", "2\n", "\u0662"]
)
def test_another_string_is_no_whole_numbers(text: str) -> None:
    with pytest.raises(ModelError) as error:
        whole_numbers(build(label=text), "label", "swin")
    said = f"swin: label={text!r} are not whole numbers of at least 1, joined by '-'"
    assert str(error.value) == said
