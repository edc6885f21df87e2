"""A dictionary by co-occurrence, and the commonest target, on examples whose answer is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from suite.floors.registry import floor
from suite.floors.word_by_word import dictionary
from suite.tasks.sequence_to_sequence.digits import Sorting
from suite.tasks.task import UNSCORED, Batch, Split

END = 2
TRAINING = [
    ([3, 4], [7, 8]),  # 3 is 7 and 4 is 8, whatever stands beside them
    ([3, 5], [7, 9]),
    ([4, 5], [8, 9]),
    ([5], [9]),
    ([5], [9]),
]
TEST = [([4, 3], [8, 7]), ([3, 6], [7, 6]), ([5], [9])]  # 6 was never seen


def batch_of(pairs: Sequence[tuple[list[int], list[int]]]) -> Batch:
    context = torch.zeros(len(pairs), 2, dtype=torch.long)
    targets = torch.full((len(pairs), 3), UNSCORED)
    for row, (source, target) in enumerate(pairs):
        context[row, : len(source)] = torch.tensor(source)
        targets[row, : len(target) + 1] = torch.tensor([*target, END])
    return Batch(inputs={"context": context, "context_mask": context != 0}, targets=targets)


class Pairs(Sorting):
    def num_training_examples(self) -> int:
        return len(TRAINING)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        return batch_of(TRAINING[step * batch : (step + 1) * batch])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        yield batch_of(TEST)


def test_each_symbol_is_what_it_stands_with_and_an_unseen_one_stays() -> None:
    known = dictionary(Pairs(3), END)
    assert known[[3, 4, 5, 6]].tolist() == [7, 8, 9, 6]
    assert floor("word_by_word").score(Pairs(3)) == 1.0


def test_a_symbol_that_is_everywhere_is_not_the_translation_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the full stop: it stands with each symbol, and with most of them oftener than theirs."""
    common = [([*source, 10][:2], [target[0], 11]) for source, target in TRAINING]
    monkeypatch.setattr(f"{__name__}.TRAINING", common)
    assert dictionary(Pairs(3), END)[3] == 7


def test_the_commonest_target_is_written_for_all() -> None:
    assert floor("likeliest_sequence").score(Pairs(3)) == pytest.approx(1 / 3)
