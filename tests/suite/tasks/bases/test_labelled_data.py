"""Test training on a limited number of labelled examples."""

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.bases.labelled_data import balanced_subset
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistPatches
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Task, TaskError

NAME, LENGTH = "fashion_mnist_patches", 49


def test_the_first_of_each_class_come_first() -> None:
    labels = np.array([2, 2, 0, 2, 1, 0, 2])
    subsets = [balanced_subset(labels, count).tolist() for count in range(1, 8)]
    assert subsets == [
        [2],
        [2, 4],
        [0, 2, 4],
        [0, 2, 4, 5],
        [0, 1, 2, 4, 5],
        [0, 1, 2, 3, 4, 5],
        [*range(7)],
    ]


@pytest.mark.parametrize("count", [500, 1_237, 8_990])
def test_subsets_nest_and_hold_the_classes_alike(count: int) -> None:
    labels = FashionMnistPatches.data().training.labels
    subset = balanced_subset(labels, count)
    assert set(subset) < set(balanced_subset(labels, count + 10))
    assert len(set(subset)) == len(subset) == count
    numbers = np.bincount(labels[subset])
    whole = np.bincount(labels)
    assert (np.minimum(numbers.max(), whole) - numbers <= 1).all()


def _epoch(task: Task, count: int, seed: int) -> set[bytes]:
    inputs = task.training_batch(0, count, seed).inputs["inputs"]
    return {row.numpy().tobytes() for row in inputs}


def test_an_epoch_is_the_subset_whatever_the_seed() -> None:
    task = build_task(NAME, LENGTH, 500)
    assert task.num_training_examples() == 500
    assert _epoch(task, 500, seed=0) == _epoch(task, 500, seed=7)
    assert len(_epoch(task, 500, seed=0)) == 500
    assert task.training_batch(0, 500, seed=0).targets.bincount().tolist() == [50] * 10
    assert _epoch(task, 500, seed=0) < _epoch(build_task(NAME, LENGTH, 600), 600, seed=0)
    again = task.training_batch(1, 500, seed=0).inputs["inputs"]
    assert not torch.equal(task.training_batch(0, 500, seed=0).inputs["inputs"], again)


def test_all_examples_are_what_a_task_without_a_number_has() -> None:
    few, every = build_task(NAME, LENGTH, 9_000), build_task(NAME, LENGTH)
    for step in (0, 3):
        a, b = (each.training_batch(step, 64, seed=2) for each in (few, every))
        assert torch.equal(a.inputs["inputs"], b.inputs["inputs"])
        assert torch.equal(a.targets, b.targets)


def test_a_number_stays_with_its_task() -> None:
    build_task(NAME, LENGTH, 10)
    assert build_task(NAME, LENGTH).num_training_examples() == 9_000


def test_held_out_examples_stay() -> None:
    few, every = build_task(NAME, LENGTH, 10), build_task(NAME, LENGTH)
    for a, b in zip(few.held_out("test", 500), every.held_out("test", 500), strict=True):
        assert torch.equal(a.inputs["inputs"], b.inputs["inputs"])


@pytest.mark.parametrize("count", [0, -1, 9_001])
def test_a_number_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(TaskError, match=f"num_training_examples must be 1 to 9000, not {count}"):
        build_task(NAME, LENGTH, count)


@pytest.mark.parametrize("name", ["parity", "shakespeare_characters", "shakespeare_plays"])
def test_a_task_that_draws_its_examples_has_no_number_of_them(name: str) -> None:
    with pytest.raises(TaskError, match=f"{name}: num_training_examples=500 is for tasks on label"):
        build_task(name, 64, 500)
