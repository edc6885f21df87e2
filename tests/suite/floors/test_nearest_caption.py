"""The caption of the nearest picture, and the commonest caption, where both are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from suite.floors import splits
from suite.floors.registry import floor
from suite.tasks.batch import Batch
from suite.tasks.caption_metrics import RougeL
from suite.tasks.metrics import Recall
from suite.tasks.sequence_to_sequence.digits import Reversal
from suite.tasks.task import Split
from tests.suite.floors.tiny_pictures import (
    END,
    FILLER,
    Row,
    TinyCaptions,
    TinyQuestions,
    filled,
    pictures_of,
)


class Captions(TinyCaptions):
    """[3] is the commonest caption, and right once; nearest pictures are right three times."""

    training: ClassVar[list[Row]] = [
        ([0, 0], [3]),
        ([1, 1], [3]),
        ([0, 9], [4, 5]),
        ([9, 0], [5, 4, 6]),
    ]
    test: ClassVar[list[Row]] = [
        ([2, 1], [3]),
        ([1, 6], [4, 5]),
        ([8, 8.5], [4, 5]),
        ([7, 3], [5, 4]),
    ]


def test_the_nearest_picture_has_the_caption() -> None:
    """The last one is near to one whose caption has a word more."""
    assert floor("nearest_caption").score(Captions(4)) == 3 / 4


def test_the_commonest_caption_is_written_for_all_pictures() -> None:
    assert floor("likeliest_sequence").suits(Captions)
    assert floor("likeliest_sequence").score(Captions(4)) == 1 / 4


def test_each_metric_judges_the_same_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a few pictures are read at a time: ends and fillers are no words."""

    class Judged(Captions):
        metric = RougeL(end=END)

    one_more = RougeL().score(["5", "4", "6"], ["5", "4"])
    for tokens_at_once in (8, 16_384):
        monkeypatch.setattr(splits, "_TOKENS_AT_ONCE", tokens_at_once)
        found = floor("nearest_caption").score(Judged(4))
        assert found == pytest.approx((3 + one_more) / 4)


def test_of_a_task_that_draws_its_pictures_a_fixed_number_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the first two alone the nearest is always [3]."""

    class Drawn(Captions):
        def num_training_examples(self) -> None:  # type: ignore[override]
            return None

    assert floor("nearest_caption").score(Drawn(4)) == 3 / 4
    monkeypatch.setattr(splits, "NUM_DRAWN", 2)
    assert floor("nearest_caption").score(Drawn(4)) == 1 / 4


def test_it_asks_for_a_picture_and_a_metric_of_what_is_written() -> None:
    class Single(Captions):
        metric = replace(TinyQuestions.metric)

    assert floor("nearest_caption").suits(Captions)
    for other in (Reversal, TinyQuestions, Single):
        assert not floor("nearest_caption").suits(other)
    for name in ("word_by_word", "copied_source"):  # a picture has no words
        assert floor(name).suits(Reversal)
        assert not floor(name).suits(Captions)


def test_pixels_are_no_words_even_where_there_are_as_many_channels_as_symbols() -> None:
    class OfOne(Captions):
        output_size = 1

    assert not floor("copied_source").suits(OfOne)


class Choices(TinyCaptions):
    """A picture, its candidates, and which is right."""

    asks_for = "choice"
    metric = Recall(name="recall_at_1", num_kept=1)
    training: ClassVar[list[Row]] = [([0, 0], [3, 4]), ([9, 9], [5, 6, 7])]
    asked: ClassVar[list[tuple[list[float], list[list[int]], int]]] = [
        ([1, 0], [[5, 6], [3, 8]], 1),  # one word in common
        ([8, 9], [[3, 4], [7, 6, 5]], 1),  # all words, in another order
        ([9, 8], [[5, 6, 7, 8], [5, 6, 7]], 0),  # wrong: the other has no word more
        ([0, 1], [[6, 5], [7, 8]], 0),  # wrong: none has a word in common
    ]

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        return _choices([(pixels, [words], 0) for pixels, words in rows])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        for first in range(0, len(self.asked), batch):
            yield _choices(self.asked[first : first + batch])


def _choices(rows: Sequence[tuple[list[float], list[list[int]], int]]) -> Batch:
    texts = torch.stack([filled(candidates, 4, FILLER) for _, candidates, _ in rows])
    pictures = pictures_of([(pixels, []) for pixels, _, _ in rows])
    return Batch(
        inputs={"inputs": texts, "mask": texts != FILLER, "context": pictures},
        targets=torch.tensor([target for _, _, target in rows]),
    )


def test_the_candidate_is_chosen_that_is_most_like_the_caption_of_the_nearest_picture() -> None:
    assert floor("nearest_choice").suits(Choices)
    assert not floor("nearest_choice").suits(Captions)
    assert floor("nearest_choice").score(Choices(4)) == 2 / 4
