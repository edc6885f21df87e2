"""Correct before fast: a mixer that is not what it says is named, and not timed."""

from __future__ import annotations

import pytest
import torch

from models import MIXERS, ModelSpec
from suite.timing.parity import Disproved, refuse_wrong_mixers
from tests.suite.timing.subjects import Drawing, NotANumber, Unproven, Wrong, alone, own


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("mixer", list(MIXERS))
def test_every_shipped_mixer_is_what_it_says(mixer: str) -> None:
    for length in (4, 64):
        knobs = {"projected_length": 4} if mixer == "linformer" else {}
        refuse_wrong_mixers(alone(mixer, length, **knobs), "cpu", 0)


def test_a_wrong_one_is_named() -> None:
    with pytest.raises(Disproved, match=r"mixer '.*subjects:Wrong' differs from its reference by"):
        refuse_wrong_mixers(alone(own(Wrong)), "cpu", 0)


def test_what_is_no_number_agrees_with_nothing() -> None:
    with pytest.raises(Disproved, match=r"by up to nan on 16 tokens, so it is not timed"):
        refuse_wrong_mixers(alone(own(NotANumber)), "cpu", 0)


def test_one_without_a_reference_passes() -> None:
    refuse_wrong_mixers(alone(own(Unproven)), "cpu", 0)


def test_what_is_drawn_inside_is_drawn_alike() -> None:
    refuse_wrong_mixers(alone(own(Drawing)), "cpu", 0)


def test_mixers_inside_a_model_are_checked_too() -> None:
    spec = ModelSpec(
        skeleton="tagger", mixer=own(Wrong), knobs={}, position="none", dim=8, depth=2, length=8,
        input_kind="tokens", input_size=5, output_size=5,
    )  # fmt: skip
    with pytest.raises(Disproved, match="Wrong"):
        refuse_wrong_mixers(spec, "cpu", 0)
