"""Test the task of Table 2 of the Reformer paper."""

import pytest
import torch

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.long_range.duplication import BEGIN, Duplication
from bakeoff.suite.tasks.task import UNSCORED, TaskError


def test_the_papers_word_has_511_letters_of_127() -> None:
    inputs = Duplication(1024).training_batch(0, 40, seed=0).inputs["inputs"]
    first, second = inputs[:, :512], inputs[:, 512:]
    assert torch.equal(first, second)
    assert (first[:, 0] == BEGIN).all()
    assert set(first[:, 1:].flatten().tolist()) == set(range(1, 128))


def test_asked_for_is_each_letter_of_the_second_word_from_the_symbol_before_it() -> None:
    batch = Duplication(64).training_batch(2, 20, seed=1)
    inputs, targets = batch.inputs["inputs"], batch.targets
    assert torch.equal(targets[:, 32:-1], inputs[:, 33:])
    assert (targets[:, :32] == UNSCORED).all()
    assert (targets[:, -1] == UNSCORED).all()


def test_letters_are_uniform() -> None:
    words = Duplication(256).training_batch(0, 200, seed=0).inputs["inputs"][:, 1:128]
    counts = words.flatten().bincount(minlength=128)[1:].double()
    chi_squared = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert chi_squared < 179.6  # 99.9 % of chi-squared with 126 degrees of freedom


def test_knowing_the_letters_without_their_order_is_of_little_use() -> None:
    assert FLOORS["shown_answers"].score(Duplication(1024)) < 0.03


def test_an_odd_length_has_no_two_halves() -> None:
    with pytest.raises(TaskError, match="an even number of 16 to 65536 tokens, not 65"):
        Duplication(65)
