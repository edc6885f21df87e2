"""Give the source back as it is: what a model of sequences must do better than."""

from __future__ import annotations

from suite.floors.floor import Floor
from suite.floors.splits import context_of, held_out_batches, sources
from suite.tasks.sequence_metrics import SequenceMetric
from suite.tasks.task import Task


class CopiedSource(Floor):
    """The symbols of the source, without padding, as what is written."""

    name = "copied_source"
    label = "copied source"
    version = 1
    needs = "a source and a target in one vocabulary, and a metric of what is written"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        if task.asks_for != "sequence" or not isinstance(task.metric, SequenceMetric):
            return False
        source = context_of(task)
        return source is not None and (source.kind, source.size) == ("tokens", task.output_size)

    def score(self, task: Task) -> float:
        """There is nothing to learn."""
        assert isinstance(task.metric, SequenceMetric), "see `suits`"
        metric, batches = task.metric, held_out_batches(task, "test")
        return metric.over(
            metric.sums_of_written((row.tolist() for row in sources(each)), each)
            for each in batches
        )
