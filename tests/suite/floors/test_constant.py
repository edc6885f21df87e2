"""Check chance, frequencies and constant answers on cases that are worked out by hand."""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from bakeoff.models.interface import Outputs
from bakeoff.suite.floors.constant import smoothed
from bakeoff.suite.floors.floor import training_batches
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.emoji.picture_metrics import PixelError
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import UNSCORED, Task
from tests.suite.floors.tiny import (
    Row,
    TinyCaptions,
    TinyClasses,
    TinyDrawings,
    TinyText,
    TinyTranslations,
)


class TenDigits(TinyClasses):
    output_size = 10
    metric = replace(TinyClasses.metric, name="exact_match", num_symbols=10)


class Shifted(TinyClasses):
    training: ClassVar = [2, 2, 0]
    test: ClassVar = [0, 0, 0, 2]


class Captions(TinyCaptions):
    training: ClassVar[list[Row]] = [([0, 0], [3]), ([1, 1], [3]), ([0, 9], [4, 5])]
    test: ClassVar[list[Row]] = [([1, 6], [4, 5]), ([2, 1], [3]), ([8, 8], [4, 5]), ([7, 3], [5])]


class Translations(TinyTranslations):
    training: ClassVar = [([3, 4], [7, 8]), ([5], [9]), ([6], [9])]
    test: ClassVar = [([4, 3], [8, 7]), ([3, 6], [7, 6]), ([5], [9])]


class Returned(TinyDrawings):
    asks_for = "image"
    metric = PixelError()
    training: ClassVar[list[Row]] = [([number, 0], [1]) for number in (1, 2, 3, 4)]
    test: ClassVar[list[Row]] = [([1, 0], [1]), ([2, 0], [1]), ([3, 2], [1])]


@pytest.mark.parametrize(
    ("name", "task", "expected"),
    [
        ("uniform", TinyClasses(1), 0.25),
        ("uniform", TinyText(2), math.log2(3)),
        ("uniform", TenDigits(1), 1e-10),  # all ten digits must be right
        ("majority", TinyClasses(1), 2 / 4),
        ("majority", Shifted(1), 1 / 4),  # the majority class of training, not of the test split
        # The training text has 0 three times and 1 twice; 0, 2 and 0 are scored.
        ("majority", TinyText(2), -(2 * math.log2(11 / 21) + math.log2(2 / 21)) / 3),
        ("likeliest_sequence", Captions(4), 1 / 4),
        ("likeliest_sequence", Translations(4), 1 / 3),
        ("mean_picture", Returned(6), (1.5**2 + 0.5**2 + 0.5**2 + 2**2) / 6),
    ],
)
def test_a_constant_has_the_score_that_is_worked_out(
    name: str, task: Task, expected: float
) -> None:
    assert FLOORS[name].suits(type(task))
    assert FLOORS[name].score(task) == pytest.approx(expected, rel=1e-6)


def test_several_answers_that_must_all_be_right_have_no_majority() -> None:
    class Sentences(TenDigits):
        metric = replace(TenDigits.metric, num_symbols=None)

    assert not FLOORS["majority"].suits(TenDigits)
    assert not FLOORS["uniform"].suits(Sentences)


def test_the_majority_of_a_text_is_called_unigram() -> None:
    assert FLOORS["majority"].label_on(TinyClasses) == "majority"
    assert FLOORS["majority"].label_on(TinyText) == "unigram"


def test_chance_is_the_score_of_equal_logits() -> None:
    task = build_task("shakespeare_characters", 64)
    batch = next(task.held_out("validation", 4))
    zeros = Outputs(torch.zeros(*batch.targets.shape, task.output_size))
    score = task.metric.value(task.metric.sums(zeros, batch))
    assert score == pytest.approx(FLOORS["uniform"].score(task), rel=1e-6)


def test_smoothed_frequencies_are_above_zero() -> None:
    assert smoothed(np.array([3, 2, 0])) == pytest.approx([11 / 21, 8 / 21, 2 / 21])


@pytest.mark.parametrize("name", ["shakespeare_masked", "mqar_small", "listops"])
def test_frequencies_score_as_a_task_scores_logits(name: str) -> None:
    """Compare the floor with constant logits that are scored by the task."""
    task = build_task(name, 64)
    counts = torch.zeros(task.output_size, dtype=torch.float64)
    if name == "shakespeare_masked":
        counts += torch.bincount(torch.from_numpy(task.read().training), minlength=81)  # type: ignore[attr-defined]
    else:
        for batch in training_batches(task):
            asked = batch.targets[batch.targets != UNSCORED]
            counts += torch.bincount(asked, minlength=task.output_size)
    logits = torch.from_numpy(np.log(smoothed(counts.long().numpy())))
    score = task.metric.over(
        task.metric.sums(Outputs(logits.expand(*batch.targets.shape, task.output_size)), batch)
        for batch in task.held_out("test", 100)
    )
    assert FLOORS["majority"].score(task) == pytest.approx(score, rel=1e-6)


@pytest.mark.parametrize("length", [32, 64])
def test_a_guess_of_shown_answers_is_one_in_the_number_of_pairs(length: int) -> None:
    pairs = [4] if length == 32 else [4, 8]  # equally many examples of each
    score = FLOORS["shown_answers"].score(build_task("mqar_small", length))
    assert score == pytest.approx(len(pairs) / sum(pairs))


def test_a_guess_of_shown_answers_is_the_share_of_the_most_frequent_symbol() -> None:
    task = build_task("selective_copying", 64)
    right = total = 0
    for batch in task.held_out("test", 100):
        for row in batch.targets.numpy():
            asked = row[row != UNSCORED]
            right, total = right + np.bincount(asked).max(), total + len(asked)
    assert FLOORS["shown_answers"].score(task) == right / total > 2 / 16


def test_an_epoch_is_read_once() -> None:
    batches = list(training_batches(TinyClasses(6_000)))  # two rows per batch
    assert [len(batch.targets) for batch in batches] == [2, 2, 1]
    assert torch.cat([batch.targets for batch in batches]).tolist() == TinyClasses.training
