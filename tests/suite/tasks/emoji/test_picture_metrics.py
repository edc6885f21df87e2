"""Compare metrics of pictures and of their tokens with hand-made cases."""

from __future__ import annotations

import pytest
import torch

from bakeoff.models.interface import IMAGE_TOKENS, Outputs
from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.emoji.picture_metrics import (
    MOST_CODES,
    BitsPerImageToken,
    CodebookPerplexity,
    PixelError,
    image_tokens,
)
from bakeoff.suite.tasks.task import TaskError

PICTURES = Batch(inputs={}, targets=torch.zeros(2, 2, 2, 1))
SECOND = PICTURES.only(torch.tensor([False, True]))


def told(tokens: list[list[int]], logits: torch.Tensor | None = None) -> Outputs:
    found = torch.tensor(tokens)
    return Outputs(torch.zeros(2, 2, 4) if logits is None else logits, {IMAGE_TOKENS: found})


def test_pixels_are_squared_and_counted() -> None:
    answered = Outputs(torch.tensor([[3.0, 0, 0, 0], [1, 1, 0, 0]]).reshape(2, 2, 2, 1))
    metric = PixelError()
    assert metric.over([metric.sums(answered, PICTURES)]) == pytest.approx(11 / 8)
    assert metric.over([metric.sums(answered, SECOND)]) == pytest.approx(2 / 4)


def test_bits_are_those_of_the_tokens_that_stand_there() -> None:
    logits = torch.tensor([0.5, 0.25, 0.125, 0.125]).log().expand(2, 2, -1)
    found, metric = told([[0, 1], [3, 3]], logits), BitsPerImageToken()
    assert metric.over([metric.sums(found, PICTURES)]) == pytest.approx((1 + 2 + 3 + 3) / 4)
    assert metric.over([metric.sums(found, SECOND)]) == pytest.approx(3)


def test_perplexity_is_the_number_of_codes_that_are_used_alike() -> None:
    metric = CodebookPerplexity()
    for tokens, wanted in (
        ([[0, 1], [2, 3]], 4),
        ([[7, 7], [7, 7]], 1),
        ([[0, 0], [5, 5]], 2),
        ([[0, 0], [0, 1]], 0.75**-0.75 * 0.25**-0.25),
    ):
        assert metric.over([metric.sums(told(tokens), PICTURES)]) == pytest.approx(wanted)
    assert metric.over([metric.sums(told([[0, 1], [2, 2]]), SECOND)]) == pytest.approx(1)


def test_codes_of_two_batches_are_counted_together() -> None:
    metric = CodebookPerplexity()
    sums = [metric.sums(told([[code, code]] * 2), PICTURES) for code in (1, 2)]
    assert metric.over(sums) == pytest.approx(2)


def test_a_model_must_say_which_tokens_it_means() -> None:
    with pytest.raises(TaskError, match=r"^a model must return 'image_tokens' in Outputs.auxil"):
        image_tokens(Outputs(torch.zeros(2, 2, 4)))
    with pytest.raises(TaskError, match=r"^codebook_perplexity counts at most 16384 codes$"):
        CodebookPerplexity().sums(told([[0, 1], [2, MOST_CODES]]), PICTURES)
