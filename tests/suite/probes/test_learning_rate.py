"""Test the search for a learning rate on curves with known optima and within a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary
from bakeoff.suite.errors import Diverged
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import learning_rate
from bakeoff.suite.probes.learning_rate import LearningRate, best_rate, neighbour, next_rate
from bakeoff.suite.schema import LEARNING_RATE, Measurement, Plan, Status, Training, Trial
from bakeoff.suite.training.checkpoint import Checkpointer
from tests.suite.probes.conftest import language_model, trial_on_text

SETTINGS = Training(
    steps=2, learning_rate=5e-3, warmup_steps=0, weight_decay=0.0, num_evaluations=1
)


def rates_tried(goodness: Callable[[float], float], first: float = 5e-3) -> dict[float, float]:
    tried: dict[float, float] = {}
    while (rate := next_rate(tried, first)) is not None:
        tried[rate] = goodness(rate)
    return tried


def test_rates_are_one_two_and_five_times_powers_of_ten() -> None:
    found = [1e-4]
    while found[-1] < 0.05:
        found.append(neighbour(found[-1], 1))
    assert found == [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2]
    assert [neighbour(rate, -1) for rate in found[1:]] == found[:-1]
    assert neighbour(3e-3, 1) == 5e-3
    assert neighbour(3e-3, -1) == 2e-3


@pytest.mark.parametrize("optimum", [1e-5, 1e-4, 2e-3, 5e-3, 1e-2, 0.1, 1.0])
def test_it_goes_on_until_the_best_lies_between_two_that_are_worse(optimum: float) -> None:
    tried = rates_tried(lambda rate: -abs(math.log(rate / optimum)))
    assert best_rate(tried) == optimum
    assert min(tried) < optimum < max(tried)


def test_an_optimum_in_the_middle_takes_three_rates() -> None:
    assert sorted(rates_tried(lambda rate: -abs(math.log(rate / 5e-3)))) == [2e-3, 5e-3, 1e-2]


def test_a_rate_that_diverges_is_the_worst() -> None:
    tried = rates_tried(lambda rate: -math.inf if rate > 3e-4 else math.log(rate))
    assert best_rate(tried) == 2e-4


def test_it_ends_where_there_is_no_optimum() -> None:
    assert max(rates_tried(lambda rate: rate)) == learning_rate.HIGHEST
    assert min(rates_tried(lambda rate: -rate)) == learning_rate.LOWEST


def test_of_equally_good_rates_the_lowest_is_taken() -> None:
    assert best_rate({1e-2: 1.0, 5e-3: 1.0, 2e-3: 0.5}) == 5e-3


@pytest.fixture
def trial() -> Trial:
    return trial_on_text(LEARNING_RATE, language_model(), 4, training=SETTINGS)


def searched(trial: Trial, folder: Path) -> list[Measurement]:
    checkpointer = Checkpointer(folder / trial.trial_id, math.inf)
    said = LearningRate().measure_resuming(trial, "cpu", checkpointer)
    return [each for each in said if isinstance(each, Measurement)]


def test_a_rate_is_judged_by_the_mean_of_two_seeds(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use bits, for which lower is better; with seed 0 alone, 0.01 would win."""
    bits = {2e-3: (3.0, 3.0), 5e-3: (2.0, 2.0), 1e-2: (1.5, 2.8), 2e-2: (4.0, 4.0)}
    monkeypatch.setattr(learning_rate, "_score", lambda trial, rate, seed, *_: bits[rate][seed])
    rate, *scores = searched(trial, tmp_path)
    assert (rate.metric, rate.value) == (LEARNING_RATE, 5e-3)
    assert {each.at: each.value for each in scores} == {
        "learning_rate=0.002": 3.0,
        "learning_rate=0.005": 2.0,
        "learning_rate=0.01": 2.15,
    }


def test_what_diverged_is_a_row_and_all_of_it_a_divergence(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bits(trial: Trial, rate: float, seed: int, *rest: object) -> float:
        return math.nan if rate > 3e-3 else 2.0 + rate

    monkeypatch.setattr(learning_rate, "_score", bits)
    found = {each.at: each for each in searched(trial, tmp_path / "some")}
    assert found["learning_rate=0.005"].status is Status.DIVERGED
    assert found["learning_rate=0.005"].value is None
    monkeypatch.setattr(learning_rate, "_score", lambda *_: math.nan)
    with pytest.raises(Diverged, match="each learning rate"):
        searched(trial, tmp_path / "all")


def test_an_interrupted_search_trains_nothing_twice(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[float, int]] = []

    def bits(trial: Trial, rate: float, seed: int, *rest: object) -> float:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append((rate, seed))
        return abs(math.log(rate / 5e-3)) / 3

    monkeypatch.setattr(learning_rate, "_score", bits)
    with pytest.raises(KeyboardInterrupt):
        searched(trial, tmp_path)
    before = trained.copy()
    trained.clear()
    found = searched(replace(trial), tmp_path) if len(before) == 3 else []
    assert not set(before) & set(trained)
    assert found[0].value == 5e-3


@pytest.mark.usefixtures("few_scored")
def test_it_trains_for_real_and_differs_by_rate(trial: Trial, tmp_path: Path) -> None:
    rate, *scores = searched(trial, tmp_path)
    values = [each.value for each in scores if each.value is not None]
    assert len(set(values)) == len(scores) >= 3
    assert f"learning_rate={rate.value:g}" in {each.at for each in scores}


def tuned(**scale: object) -> Plan:
    return plan(
        Ablation(
            question="How many heads?",
            baseline=Model("language_model", mixer="attention", heads=4),
            axes=[vary("heads", [1, 4])],
            tasks=["shakespeare_characters"],
            probes=["quality"],
            claim=Claim(
                "four beat one",
                metric="bits_per_character",
                a="heads=4",
                b="heads=1",
                by=0.0,
                source="Vaswani et al. 2017",
            ),
            recipe=Recipe(learning_rate="tuned"),
            scales={
                "quick": Scale(dim=8, depth=1, length=16, steps=30, batch=4, seeds=3, **scale),
            },
        )
    )


def test_every_variant_waits_for_a_search_of_its_own() -> None:
    found = tuned()
    searches = {t.trial_id: t for t in found.trials if t.probe == LEARNING_RATE}
    trainings = [t for t in found.trials if t.probe == "quality"]
    assert len(searches) == 2
    assert {t.search.trial_id for t in trainings if t.search} == set(searches)
    heads = {t.subjects[0].knobs["heads"]: t.search for t in trainings}
    assert all(search.subjects[0].knobs["heads"] == n for n, search in heads.items() if search)
    assert [t.training.steps for t in searches.values() if t.training] == [10, 10]
    assert "10 steps" in str(found.about.settings["learning_rate"])
    cells = [cell for cell in found.cells if cell.probe == LEARNING_RATE]
    assert [cell.variant for cell in cells] == ["heads=1", "heads=4"]


def test_the_rule_of_the_search_is_part_of_the_id_and_what_it_finds_is_not() -> None:
    (first, *_), (other, *_) = (
        [t for t in tuned(**asked).trials if t.probe == "quality"]
        for asked in ({}, {"search_steps": 20})
    )
    assert first.trial_id != other.trial_id
    assert replace(first, found_rate=0.02).trial_id == first.trial_id
    assert replace(first, found_rate=0.02).settled_training.learning_rate == 0.02
