"""Compare answers with a plain reader of the symbols, and test the level of guessing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.sort_of_clevr import SortOfClevr

ANSWERS = ["yes", "no", "square", "circle", "1", "2", "3", "4", "5", "6"]
QUESTIONS = ["shape", "left", "upper", "nearest", "farthest", "count"]
TASK = SortOfClevr(66)
BATCH = TASK.training_batch(1, 3_000, seed=2)
ROWS = BATCH.inputs["inputs"].tolist()


def objects_of(row: list[int]) -> dict[int, tuple[int, int, str]]:
    """Return {colour: (row, column, shape)}."""
    return {
        (symbol - 1) // 2: (at // 8, at % 8, ["square", "circle"][(symbol - 1) % 2])
        for at, symbol in enumerate(row[2:])
        if symbol
    }


def answer(row: list[int]) -> str:
    objects, question = objects_of(row), QUESTIONS[row[0] - 13]
    r, c, shape = objects.pop(row[1] - 19)
    if question in ("left", "upper"):
        return "yes" if (c if question == "left" else r) < 4 else "no"
    if question == "count":
        return str(1 + sum(other == shape for _, _, other in objects.values()))
    if question == "shape":
        return shape
    ordered = sorted(((y - r) ** 2 + (x - c) ** 2, other) for y, x, other in objects.values())
    assert ordered[0][0] < ordered[1][0]
    assert ordered[-1][0] > ordered[-2][0]
    return ordered[0 if question == "nearest" else -1][1]


def test_each_question_has_its_answer() -> None:
    for row, target in zip(ROWS, BATCH.targets.tolist(), strict=True):
        assert sorted(objects_of(row)) == list(range(6))
        assert ANSWERS[target] == answer(row)


def test_questions_colours_and_the_answers_to_each_question_are_alike() -> None:
    first = BATCH.inputs["inputs"][:, :2].numpy()
    assert np.bincount(first[:, 0])[13:].min() > 420
    assert np.bincount(first[:, 1])[19:].min() > 420
    for question, kind in enumerate(QUESTIONS, start=13):
        counts = Counter(BATCH.targets[torch.from_numpy(first[:, 0] == question)].tolist())
        assert len(counts) == (6 if kind == "count" else 2)
        shares = np.array(list(counts.values())) / sum(counts.values())
        assert abs(shares - 1 / len(counts)).max() < 0.07


def test_who_knows_the_question_alone_guesses() -> None:
    found = FLOORS["first_symbol"].score(build_task("sort_of_clevr", 66))
    assert found == pytest.approx((5 / 2 + 1 / 6) / 6, abs=0.04)


def test_who_compares_no_distances_names_the_shape_of_most_others() -> None:
    right = []
    for row in ROWS:
        if QUESTIONS[row[0] - 13] in ("nearest", "farthest"):
            objects = objects_of(row)
            objects.pop(row[1] - 19)
            most = Counter(shape for _, _, shape in objects.values()).most_common(1)[0][0]
            right.append(most == answer(row))
    assert np.mean(right) == pytest.approx(0.6875, abs=0.04)


def test_relational_questions_are_a_part() -> None:
    parts = TASK.in_parts(BATCH)
    for row, one, all_six in zip(ROWS, *parts.values(), strict=True):
        is_relational = QUESTIONS[row[0] - 13] in ("nearest", "farthest", "count")
        assert (bool(one), bool(all_six)) == (not is_relational, is_relational)
