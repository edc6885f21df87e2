"""Chance and frequencies, each on a case worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.interface import Outputs
from suite.floors.majority import Majority, smoothed
from suite.floors.splits import training_batches
from suite.floors.uniform import Uniform
from suite.tasks.registry import build_task
from suite.tasks.task import UNSCORED
from tests.suite.floors.tiny import TinyClasses, TinyText


def test_chance_is_one_in_as_many_as_there_are_classes() -> None:
    assert Uniform().score(TinyClasses(1)) == 0.25
    assert Uniform().score(TinyText(2)) == math.log2(3)


def test_chance_is_that_all_answers_which_must_be_right_are_right() -> None:
    """Ten digits guessed: 1e-10, and not a tenth."""

    class TenDigits(TinyClasses):
        output_size = 10
        metric = replace(TinyClasses.metric, name="exact_match", num_symbols=10)

    class Sentences(TenDigits):
        metric = replace(TenDigits.metric, num_symbols=None)

    assert Uniform().score(TenDigits(1)) == pytest.approx(1e-10)
    assert not Majority().suits(TenDigits)
    assert not Uniform().suits(Sentences)


def test_chance_is_what_equal_logits_score() -> None:
    task = build_task("shakespeare_characters", 64)
    batch = next(task.held_out("validation", 4))
    zeros = Outputs(torch.zeros(*batch.targets.shape, task.output_size))
    score = task.metric.value(task.metric.sums(zeros, batch))
    assert score == pytest.approx(Uniform().score(task), rel=1e-6)


def test_the_most_frequent_class_of_training_is_said_always() -> None:
    assert Majority().score(TinyClasses(1)) == 2 / 4
    assert Majority().label_on(TinyClasses) == "majority"


def test_the_class_is_that_of_training_and_not_of_the_test_split() -> None:
    class Shifted(TinyClasses):
        training = (2, 2, 0)
        asked = (0, 0, 0, 2)

    assert Majority().score(Shifted(1)) == 1 / 4


def test_symbols_cost_the_logarithm_of_their_frequency_in_training() -> None:
    """Training has 3 times 0 and twice 1; scored are 0, 2 and 0 of the test piece 1 0 2 0 1 1."""
    bits = -(2 * math.log2(11 / 21) + math.log2(2 / 21)) / 3
    assert Majority().score(TinyText(2)) == pytest.approx(bits, rel=1e-12)
    assert Majority().label_on(TinyText) == "unigram"


def test_frequencies_leave_something_to_what_was_never_seen() -> None:
    assert smoothed(np.array([3, 2, 0])) == pytest.approx([11 / 21, 8 / 21, 2 / 21])


@pytest.mark.parametrize("name", ["shakespeare_masked", "mqar_small", "listops"])
def test_frequencies_score_as_a_task_scores_logits(name: str) -> None:
    """The same floor as constant logits, through the task's own score."""
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
    assert Majority().score(task) == pytest.approx(score, rel=1e-6)


def test_an_epoch_is_read_once() -> None:
    task = TinyClasses(6_000)  # two rows at a time
    batches = list(training_batches(task))
    assert [len(batch.targets) for batch in batches] == [2, 2, 1]
    assert torch.cat([batch.targets for batch in batches]).tolist() == TinyClasses.training
