"""The source itself is right where it equals its target, and counts without its padding."""

from collections.abc import Iterator

import torch

from suite.floors.registry import floor
from suite.tasks.metrics import Metric
from suite.tasks.sequence_metrics import Bleu
from suite.tasks.sequence_to_sequence.digits import Reversal
from suite.tasks.task import UNSCORED, Batch, Split


class Given(Reversal):
    """Four sources: a palindrome, another with padding, and two that are none."""

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        sources = [[3, 4, 4, 3], [5, 6, 5, 0], [3, 4, 5, 6], [7, 8, 0, 0]]
        context = torch.tensor(sources)
        targets = torch.full((4, 5), UNSCORED)
        for row, source in enumerate(sources):
            digits = [digit for digit in source if digit]
            targets[row, : len(digits) + 1] = torch.tensor([*digits[::-1], 2])
        yield Batch(inputs={"context": context, "context_mask": context != 0}, targets=targets)


class Judged(Given):
    metric: Metric = Bleu(end=2)


def test_a_palindrome_is_right() -> None:
    assert floor("copied_source").score(Given(5)) == 0.5


def test_a_longer_metric_reads_the_same_source() -> None:
    assert 0 < floor("copied_source").score(Judged(5)) < 100
