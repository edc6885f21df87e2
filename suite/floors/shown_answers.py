"""Guess among the answers that an example itself shows, without knowing which belongs where."""

from __future__ import annotations

from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches
from suite.tasks.metrics import Accuracy
from suite.tasks.task import UNSCORED, Task


class ShownAnswers(Floor):
    """Always the answer that is asked for most often in the example.

    What a model reaches that notices which symbols an example shows, and recalls nothing of where
    they stood: one in as many as there are pairs, for recall.
    """

    name = "shown_answers"
    label = "guess among shown"
    version = 1
    needs = "examples that show all of their answers, each of which counts by itself"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.answers_are_shown and isinstance(task.metric, Accuracy)

    def score(self, task: Task) -> float:
        """Of the test split; there is nothing to learn."""
        right = total = 0
        for batch in held_out_batches(task, "test"):
            for row in batch.targets:
                _, counts = row[row != UNSCORED].unique(return_counts=True)
                right += int(counts.max()) if len(counts) else 0
                total += int(counts.sum())
        return right / total
