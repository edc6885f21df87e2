"""Write the commonest target of training for each source; of several as common the first."""

from __future__ import annotations

from collections import Counter

from suite.floors.floor import Floor
from suite.floors.splits import asked_sequences, held_out_batches, training_batches
from suite.tasks.sequence_metrics import SequenceMetric
from suite.tasks.task import Task


class LikeliestSequence(Floor):
    """One sequence for every source."""

    name = "likeliest_sequence"
    label = "likeliest sequence"
    version = 1
    needs = "targets of symbols, some of which come again, and a metric of what is written"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for == "sequence" and isinstance(task.metric, SequenceMetric)

    def score(self, task: Task) -> float:
        """From how often each target stands in training."""
        assert isinstance(task.metric, SequenceMetric), "see `suits`"
        metric = task.metric
        counts = Counter(
            tuple(target.tolist())
            for batch in training_batches(task)
            for target in asked_sequences(batch, metric.end)
        )
        ((likeliest, _),) = counts.most_common(1)
        return metric.over(
            metric.sums_of_written([likeliest] * len(batch.targets), batch)
            for batch in held_out_batches(task, "test")
        )
