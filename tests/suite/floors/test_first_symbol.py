"""The class that most often follows a first symbol, counted by hand on ListOps."""

from collections import Counter, defaultdict

import pytest

from suite.floors.registry import floor
from suite.floors.splits import held_out_batches, training_batches
from suite.tasks.registry import build_task, task_class


def test_of_nested_lists_it_is_the_outermost_operator() -> None:
    task = build_task("listops", 32)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for batch in training_batches(task):
        for first, value in zip(batch.inputs["inputs"][:, 0], batch.targets, strict=True):
            seen[int(first)][int(value)] += 1
    right = total = 0
    for batch in held_out_batches(task, "test"):
        for first, value in zip(batch.inputs["inputs"][:, 0], batch.targets, strict=True):
            right += int(seen[int(first)].most_common(1)[0][0] == int(value))
            total += 1
    found = floor("first_symbol").score(task)
    assert found == pytest.approx(right / total, abs=0.01)  # ties
    assert found > floor("majority").score(task) + 0.1


@pytest.mark.parametrize("name", ["shakespeare_characters", "fashion_mnist_patches", "sorting"])
def test_it_is_for_a_class_of_a_sequence_of_symbols(name: str) -> None:
    assert not floor("first_symbol").suits(task_class(name))
