"""Score answers that are drawn uniformly: the exact expectation, without reading data."""

from __future__ import annotations

import math

from suite.floors.floor import Floor
from suite.tasks.task import Task


class Uniform(Floor):
    """One in as many as there are classes, to the power of the answers that must all be right.

    Of bits, the logarithm of the number of symbols.
    """

    name = "uniform"
    label = "uniform"
    version = 1
    needs = "classes or symbols as answers, and a fixed number of them that must be right"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for != "number" and task.metric.num_symbols is not None

    def score(self, task: Task) -> float:
        """By the number of classes and of answers alone."""
        if task.metric.unit == "bit":
            return math.log2(task.output_size)
        assert task.metric.num_symbols is not None, "see `suits`"
        return (1.0 / task.output_size) ** task.metric.num_symbols
