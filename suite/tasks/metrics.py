"""Score logits against targets: what most tasks share.

Targets that are `UNSCORED` count for nothing, whether one stands for a token or for a sequence.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from suite.tasks.task import UNSCORED


def bits(outputs: Tensor, targets: Tensor) -> tuple[float, int]:
    """The sum of the bits that the scored targets cost, and their number."""
    flat = targets.flatten()
    logits = outputs.flatten(0, -2).float()
    nats = F.cross_entropy(logits, flat, reduction="none", ignore_index=UNSCORED)
    return nats.double().sum().item() / math.log(2), int((flat != UNSCORED).sum())


def num_right(outputs: Tensor, targets: Tensor) -> tuple[float, int]:
    """Of the scored targets those with the largest logit, and their number.

    The first number is NaN if a logit is: `argmax` would name a class all the same.
    """
    is_scored = targets != UNSCORED
    logits, asked = outputs[is_scored], targets[is_scored]
    if logits.isnan().any():
        return math.nan, len(asked)
    return float((logits.argmax(dim=-1) == asked).sum()), len(asked)
