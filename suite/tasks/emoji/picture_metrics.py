"""Metrics of pictures that models return or draw, and of the tokens of drawings.

A model draws as it would in use: token by token, each drawn from the predicted probabilities. The
random numbers of an example are a function of its symbols, so a score does not depend on the batch
or on when it is computed; see `bakeoff.suite.tasks.data_order.chances_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bakeoff.models.interface import IMAGE_TOKENS, Outputs
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.metrics import Metric, PictureMetric, as_sums
from bakeoff.suite.tasks.task import TaskError

MOST_CODES = 16_384  # largest number of codes for `CodebookPerplexity`


def image_tokens(outputs: Outputs) -> Tensor:
    """Return the tokens `[batch, places]` of the pictures that the model was given.

    Raises:
        TaskError: if the model returns none.
    """
    if IMAGE_TOKENS not in outputs.auxiliary:
        raise TaskError(f"a model must return {IMAGE_TOKENS!r} in Outputs.auxiliary")
    return outputs.auxiliary[IMAGE_TOKENS].long()


def scored_rows(batch: Batch) -> Tensor:
    """Return `[batch]` booleans: True for pictures with a scored target."""
    is_scored: Tensor = (batch.targets != UNSCORED).flatten(1).any(dim=1)
    return is_scored


@dataclass(frozen=True, kw_only=True)
class PixelError(PictureMetric):
    """The mean squared error of pixels, which tasks scale to a variance of about 1."""

    name: str = "pixel_error"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "lower"

    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """Return the sum of squared errors and the number of values."""
        is_scored = batch.targets != UNSCORED
        errors = (pictures.double() - batch.targets.double())[is_scored].square()
        return as_sums(errors.sum().item(), errors.numel())


@dataclass(frozen=True, kw_only=True)
class BitsPerImageToken(Metric):
    """The mean of -log2 of the probability of each token; comparable only within one code."""

    name: str = "bits_per_image_token"
    unit: str = "bit"
    better: Literal["higher", "lower", "none"] = "lower"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the bits and the number of tokens."""
        rows = scored_rows(batch)
        logits, tokens = outputs.logits[rows].flatten(0, 1), image_tokens(outputs)[rows].flatten()
        nats = cross_entropy(logits.float(), tokens, reduction="none").double().sum().item()
        return as_sums(nats / math.log(2), len(tokens))


@dataclass(frozen=True, kw_only=True)
class CodebookPerplexity(Metric):
    """The exponential of the entropy of the codes: the effective number of equally frequent codes.

    Unused codes lower it, and so does a canvas that is mostly of one colour.
    """

    name: str = "codebook_perplexity"
    unit: str = "codes"
    better: Literal["higher", "lower", "none"] = "none"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the number of occurrences of each code.

        Raises:
            TaskError: if the model returns no tokens, or they are not below `MOST_CODES`.
        """
        tokens = image_tokens(outputs)[scored_rows(batch)].flatten().cpu()
        if len(tokens) and int(tokens.max()) >= MOST_CODES:
            raise TaskError(f"{self.name} counts at most {MOST_CODES} codes")
        return torch.bincount(tokens, minlength=MOST_CODES).double()

    def value(self, sums: Tensor) -> float:
        """Return the perplexity from the numbers of occurrences."""
        shares = sums[sums > 0] / sums.sum()
        return float((-(shares * shares.log()).sum()).exp())
