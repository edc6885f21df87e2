"""Test scores by position: the bands cover the window, and their sums equal the whole."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bakeoff.suite.probes.probe import probe
from bakeoff.suite.probes.score_by_position import ScoreByPosition, bands
from bakeoff.suite.schema import Measurement, Training, Trial
from bakeoff.suite.tasks.shakespeare_characters import ShakespeareCharacters
from tests.suite.probes.conftest import language_model, said_after_training, trial_on_text

TRAINING = Training(
    steps=2, learning_rate=1e-2, warmup_steps=0, weight_decay=0.0, num_evaluations=1
)


def trial() -> Trial:
    model = language_model(length=32)
    trained = trial_on_text("quality", model, 8, training=TRAINING)
    return trial_on_text(
        "score_by_position", model, 8, trained=trained, test_lengths=(64,), versions={}
    )


def test_bands_are_powers_of_two_within_the_window() -> None:
    assert bands(1) == [1]
    assert bands(64) == [1, 2, 4, 8, 16, 32, 64]
    assert bands(100) == [1, 2, 4, 8, 16, 32, 64]


def test_the_mean_over_the_bands_is_the_score_of_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weight each band by its number of positions: 2^k from 2^k on, and one for the last."""
    few: dict[str, int] = {"validation": 64, "test": 256}
    monkeypatch.setattr(ShakespeareCharacters, "num_scored", few)
    said = said_after_training(trial(), tmp_path)
    found = {each.at: each.value for each in said if isinstance(each, Measurement)}
    whole = found.pop("")
    assert set(found) == {f"position={first}" for first in bands(64)}
    widths = {first: min(first, 65 - first) for first in bands(64)}
    mean = math.fsum(widths[n] * (found[f"position={n}"] or 0.0) for n in widths) / 64
    assert whole == pytest.approx(mean, rel=1e-9)


def test_it_announces_the_bands_of_the_longest_window() -> None:
    assert probe("score_by_position").further_coordinates(trial()) == tuple(
        f"position={first}" for first in bands(64)
    )


def test_it_refuses_a_model_that_gives_one_answer_for_all() -> None:
    model = language_model(architecture="classifier")
    assert "one answer for all" in ScoreByPosition().why_not(model, None)
    assert ScoreByPosition().why_not(language_model(), None) == ""
