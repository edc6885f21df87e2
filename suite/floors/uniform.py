"""Chance: what is expected of answers that are drawn uniformly, exactly."""

from __future__ import annotations

import math

from suite.floors.floor import Floor
from suite.tasks.task import Task


class Uniform(Floor):
    """One in as many as there are classes; of bits, the logarithm of the number of symbols."""

    name = "uniform"
    label = "uniform"
    version = 1
    needs = "classes or symbols as answers"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return not task.asks_for_numbers

    def score(self, task: Task) -> float:
        """By the number of classes alone; no data are read."""
        if task.metric.unit == "bit":
            return math.log2(task.output_size)
        return 1.0 / task.output_size
