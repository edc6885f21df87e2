"""The commonest answer to each question, counted by hand."""

from __future__ import annotations

from typing import ClassVar

import pytest

from suite.floors import splits
from suite.floors.registry import floor
from suite.tasks.registry import task_class
from tests.suite.floors.tiny_pictures import Row, TinyCaptions, TinyQuestions

PICTURE = [0.0, 0.0]


class Questions(TinyQuestions):
    """(3, 4) is answered by 7 twice and by 8 once, (4, 3) by 8, (3) by 9 three times."""

    training: ClassVar[list[Row]] = [
        (PICTURE, symbols)
        for symbols in ([3, 4, 8], [3, 4, 7], [3, 4, 7], [4, 3, 8], [3, 9], [3, 9], [3, 9])
    ]
    test: ClassVar[list[Row]] = [
        (PICTURE, symbols)
        for symbols in ([3, 4, 7], [3, 4, 8], [4, 3, 8], [3, 9], [5, 9], [5, 4, 7])
    ]


@pytest.mark.parametrize("tokens_at_once", [8, 16_384])
def test_a_question_is_all_of_its_words_in_their_order(
    monkeypatch: pytest.MonkeyPatch, tokens_at_once: int
) -> None:
    """Right are 7, the 8 of (4, 3), 9, and of two unknown questions the one whose answer is 9."""
    monkeypatch.setattr(splits, "_TOKENS_AT_ONCE", tokens_at_once)
    assert floor("question_alone").score(Questions(4)) == 4 / 6
    assert floor("majority").score(Questions(4)) == 2 / 6


def test_it_asks_for_a_question_about_a_picture() -> None:
    assert floor("question_alone").suits(Questions)
    for other in (TinyCaptions, task_class("listops"), task_class("fashion_mnist_images")):
        assert not floor("question_alone").suits(other)
