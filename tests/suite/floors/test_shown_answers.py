"""The best guess among what an example shows is one in as many as there are different answers."""

import numpy as np
import pytest

from suite.floors.registry import floor
from suite.tasks.registry import build_task
from suite.tasks.task import UNSCORED


@pytest.mark.parametrize("length", [32, 64])
def test_of_recall_it_is_one_in_as_many_as_there_are_pairs(length: int) -> None:
    task = build_task("mqar_small", length)
    pairs = [4] if length == 32 else [4, 8]  # as many examples of each
    assert floor("shown_answers").score(task) == pytest.approx(len(pairs) / sum(pairs))


def test_of_copying_it_is_the_share_of_the_most_frequent_symbol() -> None:
    task = build_task("selective_copying", 64)
    right = total = 0
    for batch in task.held_out("test", 100):
        for row in batch.targets.numpy():
            asked = row[row != UNSCORED]
            right, total = right + np.bincount(asked).max(), total + len(asked)
    assert floor("shown_answers").score(task) == right / total > 2 / 16
