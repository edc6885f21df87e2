"""Scores count what is asked for, and nothing else."""

import math

import pytest
import torch

from models.outputs import Outputs
from suite.tasks.batch import UNSCORED, Batch
from suite.tasks.metrics import Accuracy, Bits

OUTPUTS = torch.tensor([[[0.0, 2.0], [3.0, 0.0]], [[1.0, 0.0], [0.0, 9.0]]])
TARGETS = torch.tensor([[1, 1], [0, UNSCORED]])


def num_right(outputs: torch.Tensor, targets: torch.Tensor) -> list[float]:
    return Accuracy().sums(Outputs(outputs), Batch(inputs={}, targets=targets)).tolist()


def bits(outputs: torch.Tensor, targets: torch.Tensor) -> list[float]:
    return Bits(name="bits").sums(Outputs(outputs), Batch(inputs={}, targets=targets)).tolist()


def test_what_is_not_asked_for_counts_for_nothing() -> None:
    nats = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(3)), math.log(1 + math.exp(-1))]
    total, count = bits(OUTPUTS, TARGETS)
    assert (total, count) == (pytest.approx(sum(nats) / math.log(2)), 3)
    assert num_right(OUTPUTS, TARGETS) == [2.0, 3]


def test_a_logit_that_is_not_a_number_gives_nan_where_it_is_asked_for() -> None:
    outputs = OUTPUTS.clone()
    outputs[1, 1] = torch.nan
    assert num_right(outputs, TARGETS) == [2.0, 3]
    outputs[0, 1, 0] = torch.nan
    assert math.isnan(num_right(outputs, TARGETS)[0])
    assert math.isnan(bits(outputs, TARGETS)[0])
