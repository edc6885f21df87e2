"""Test localised attention: shares by counting pixels, chance level, the peak, a real model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff import Ablation, Model, Scale, vary
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.attention.localisation import (
    MOST_EXAMPLES,
    Localisation,
    covered_shares,
    examples,
    looks_at,
    middles_inside,
)
from bakeoff.suite.schema import Measurement
from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.emoji.emoji_scenes import LENGTH, EmojiScenes
from bakeoff.suite.tasks.registry import build_task, task_class
from tests.suite.probes.conftest import said_after_training

PICTURE, GRID = (12, 20), (3, 4)  # positions of 4 x 5 pixels
BOXES = torch.tensor([[0, 0, 4, 5], [2, 3, 9, 11], [11, 19, 12, 20]])


class Looker:
    """A stub that returns given attention weights, `[batch, time, places]`."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def source_grid(self) -> tuple[int, int]:
        return GRID

    def attention_weights(self, **inputs: Tensor) -> Tensor:
        return self.weights


def looked(weights: Tensor) -> Tensor:
    """Measure one sentence: an article, then three words that each name a box."""
    boxes = torch.cat([torch.full((1, 4), -1), BOXES]).unsqueeze(0)
    tokens = torch.zeros(1, 4, dtype=torch.long)
    picture = torch.zeros(1, *PICTURE, 3)
    batch = Batch(inputs={"inputs": tokens, "context": picture}, targets=tokens, boxes=boxes)
    article = torch.full((1, weights.shape[1]), torch.nan)
    model: Any = Looker(torch.cat([article, weights]).unsqueeze(0))
    return looks_at(model, batch)


def by_pixels() -> Tensor:
    """Return the share of each box in each grid cell, `[boxes, rows, columns]`, pixel by pixel."""
    down, across = PICTURE[0] // GRID[0], PICTURE[1] // GRID[1]
    found = torch.zeros(len(BOXES), *GRID).double()
    for number, (top, left, bottom, right) in enumerate(BOXES.tolist()):
        for row in range(top, bottom):
            for column in range(left, right):
                found[number, row // down, column // across] += 1 / (down * across)
    return found


def test_a_place_counts_by_what_the_box_covers_of_it() -> None:
    found = covered_shares(BOXES.double(), GRID, PICTURE)
    torch.testing.assert_close(found, by_pixels().flatten(1))


def test_the_middle_of_a_place_is_in_the_box_or_not() -> None:
    found = middles_inside(BOXES.double(), GRID, PICTURE).reshape(len(BOXES), *GRID)
    assert found[0].nonzero().tolist() == [[0, 0]]
    # cell centres at 2 and 6 down, 7.5 across
    assert found[1].nonzero().tolist() == [[0, 1], [1, 1]]
    assert not found[2].any()


def test_even_weights_are_chance_and_weights_inside_are_one() -> None:
    num_places = GRID[0] * GRID[1]
    even = looked(torch.full((3, num_places), 1 / num_places).double())
    torch.testing.assert_close(even[:, 0], even[:, 1])
    areas = (BOXES[:, 2] - BOXES[:, 0]) * (BOXES[:, 3] - BOXES[:, 1])
    torch.testing.assert_close(even[:, 1], areas.double() / (PICTURE[0] * PICTURE[1]))
    sharp = looked(torch.nn.functional.one_hot(torch.tensor([0, 1, 0]), num_places).double())
    torch.testing.assert_close(sharp[:, 0], torch.tensor([1.0, 0.5, 0.0]).double())
    assert sharp[:, 2].tolist() == [1, 1, 0]


def test_examples_are_of_the_whole_split() -> None:
    task = build_task("emoji_scenes", LENGTH)
    found = list(examples(task, 150))
    num = sum(len(each.targets) for each in found)
    parts = [each.part.float().mean() for each in found if each.part is not None]
    assert MOST_EXAMPLES // 2 <= num <= MOST_EXAMPLES
    assert float(torch.stack(parts).mean()) == pytest.approx(0.5, abs=0.1)


def test_a_trained_model_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmojiScenes, "num_held_out", {"validation": 40, "test": 40})
    made = plan(
        Ablation(
            question="Where does it look?",
            baseline=Model("show_attend_tell", attention="soft", encoder_width=8),
            axes=[vary("has_gate", [True, False])],
            tasks=["emoji_scenes"],
            probes=["quality", "localisation"],
            scales={
                "quick": Scale(
                    dim=8,
                    length=LENGTH,
                    steps=2,
                    batch=8,
                    num_evaluations=1,
                    seeds=1,
                    learning_rate=1e-3,
                )
            },
        )
    )
    trial = next(each for each in made.trials if each.probe == "localisation")
    said = [x for x in said_after_training(trial, tmp_path) if isinstance(x, Measurement)]
    found = {each.metric: each.value for each in said}
    assert list(found) == [spec.name for spec in Localisation.specs]
    shares = [value for value in found.values() if value is not None]
    assert all(0 < share < 1 for share in shares)
    assert found["chance_localisation"] == pytest.approx((16 / 48) ** 2)


@pytest.mark.parametrize("task", ["bible_en_de", "emoji_names"])
def test_a_task_without_boxes_is_refused(task: str) -> None:
    assert "has none" in Localisation().why_not_on(task_class(task))
