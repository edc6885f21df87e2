"""Recompute answers from the pixels, and check that the question alone does not give them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.emoji.atlas import atlas
from bakeoff.suite.tasks.emoji.emoji_questions import (
    LENGTH,
    EmojiQuestions,
    answer_texts,
    plural,
    question,
)
from bakeoff.suite.tasks.emoji.scenes import CANVAS, GLYPH
from bakeoff.suite.tasks.task import Batch

TASK = EmojiQuestions(LENGTH)
Place = tuple[str, int, int]
NUMBERS = ("zero", "one", "two", "three")


@cache
def _batch(num_questions: int, step: int = 2) -> Batch:
    return TASK.training_batch(step, num_questions, seed=4)


def _found(picture: NDArray[np.float32]) -> list[Place]:
    """Return the objects with top and left, found where all pixels match those of a glyph."""
    held, found = atlas(), []
    glyphs = held.glyphs.reshape(-1, GLYPH, 2, GLYPH, 2, 3).astype(float).mean(axis=(2, 4))
    windows = np.lib.stride_tricks.sliding_window_view(picture, (GLYPH, GLYPH), axis=(0, 1))
    windows = windows.transpose(0, 1, 3, 4, 2)
    middle = windows[:, :, 6:10, 6:10]
    for name, glyph in zip(held.objects, glyphs, strict=True):
        is_near = (abs(middle - glyph[6:10, 6:10]) < 0.1).all(axis=(2, 3, 4))
        for top, left in np.argwhere(is_near).tolist():
            if (abs(windows[top, left] - glyph) < 0.1).all():
                found.append((name, top, left))
    return found


def _answer(words: str, objects: list[Place]) -> str:
    """Return the answer by a plain reading of the question."""
    if words.startswith("how many"):
        return NUMBERS[sum(words == f"how many {plural(name)}" for name, _, _ in objects)]
    if words.startswith("is there"):
        return "yes" if any(words.endswith(f" {name}") for name, _, _ in objects) else "no"
    ((name, top, left),) = [each for each in objects if words.endswith(f"the {each[0]}")]
    if words.startswith("where"):
        middle = (CANVAS - GLYPH) / 2
        assert min(abs(top - middle), abs(left - middle)) >= 3
        return f"{'top' if top < middle else 'bottom'} {'left' if left < middle else 'right'}"
    relation = words.removeprefix("what is ").removesuffix(f" the {name}")
    (answer,) = [
        other
        for other, its_top, its_left in objects
        if other != name and _relation(its_top - top, its_left - left) == relation
    ]
    return answer


def _relation(down: int, across: int) -> str:
    assert abs(abs(down) - abs(across)) >= 3
    if abs(across) > abs(down):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"


def test_the_picture_answers_the_question() -> None:
    batch = _batch(64)
    deviation, mean = map(torch.tensor, (TASK.pixel_standard_deviation, TASK.pixel_mean))
    pictures = ((batch.inputs["context"] * deviation + mean) * 255).numpy()
    for picture, symbols, target in zip(
        pictures, batch.inputs["inputs"].tolist(), batch.targets.tolist(), strict=True
    ):
        objects = _found(picture)
        assert 2 <= len(objects) <= 4
        assert _answer(TASK.text(symbols), objects) == answer_texts()[target]


@pytest.mark.parametrize(
    ("part", "answers"),
    [
        (1, atlas().objects),
        (2, ("top left", "top right", "bottom left", "bottom right")),
        (3, NUMBERS),
        (4, ("yes", "no")),
    ],
)
def test_all_answers_to_a_question_are_alike(part: int, answers: tuple[str, ...]) -> None:
    """Bound Pearson's statistic, with mean answers - 1, at five standard deviations."""
    batches = [_batch(1_000, step) for step in range(4)]
    targets = torch.cat([each.targets[TASK.in_parts(each)[f"question={part}"]] for each in batches])
    counts = np.bincount(targets, minlength=len(answer_texts()))
    chosen = np.array([answer_texts().index(answer) for answer in answers])
    assert counts.sum() == counts[chosen].sum() > 850
    expected = counts.sum() / len(answers)
    freedom = len(answers) - 1
    statistic = ((counts[chosen] - expected) ** 2 / expected).sum()
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


def test_one_question_has_all_of_its_answers() -> None:
    """Use questions that are drawn about six times per thousand, so all answers occur."""
    batches = [_batch(1_000, step) for step in range(4)]
    asked: dict[str, set[int]] = {}
    for batch in batches:
        for symbols, target in zip(batch.inputs["inputs"].tolist(), batch.targets, strict=True):
            asked.setdefault(TASK.text(symbols), set()).add(int(target))
    numbers = [len(asked[question(2, 0, name)]) for name in atlas().objects]
    assert np.mean(numbers) > 3.9


def test_who_knows_the_question_alone_guesses() -> None:
    """Guess one of 40 objects, four places, four numbers, or yes and no."""
    found = FLOORS["question_alone"].score(TASK)
    assert found == pytest.approx((1 / 40 + 1 / 4 + 1 / 4 + 1 / 2) / 4, abs=0.03)


def test_parts_are_by_the_first_word() -> None:
    batch = _batch(200)
    first = [TASK.text(row[:1].tolist()) for row in batch.inputs["inputs"]]
    for part, word in enumerate(("what", "where", "how", "is"), start=1):
        is_part = TASK.in_parts(batch)[f"question={part}"].tolist()
        assert is_part == [each == word for each in first]


@pytest.mark.parametrize(
    ("name", "several"),
    [
        ("dog", "dogs"),
        ("butterfly", "butterflies"),
        ("key", "keys"),
        ("cactus", "cactuses"),
        ("fish", "fish"),
        ("red apple", "red apples"),
    ],
)
def test_a_plural_is_spelt_as_in_english(name: str, several: str) -> None:
    assert plural(name) == several
