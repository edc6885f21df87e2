"""Check that scores count exactly the targets that are asked for."""

import math
from dataclasses import FrozenInstanceError

import pytest
import torch

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.metrics import Accuracy, Bits, MeanSquaredError, as_sums
from bakeoff.suite.tasks.parity import Parity

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


SOFT = torch.tensor([[0.7, 0.3], [0.1, 0.9], [0.6, 0.4], [float(UNSCORED)] * 2])
LOGITS = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0], [0.0, 5.0]])


def test_of_probabilities_the_likeliest_class_is_right() -> None:
    batch = Batch(inputs={}, targets=SOFT)
    assert Accuracy().sums(Outputs(LOGITS), batch).tolist() == [2.0, 3]


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_of_probabilities_is_their_cross_entropy(smoothing: float) -> None:
    wanted = (1 - smoothing) * SOFT[:3] + smoothing / 2
    by_hand = -(wanted * LOGITS[:3].log_softmax(dim=-1)).sum(dim=-1).mean()
    loss = Parity(2).loss(Outputs(LOGITS), Batch(inputs={}, targets=SOFT), smoothing)
    torch.testing.assert_close(loss, by_hand)


def test_certain_probabilities_are_classes() -> None:
    classes = torch.tensor([0, 1, 0])
    certain = torch.nn.functional.one_hot(classes, 2).float()
    losses = [
        Parity(2).loss(Outputs(LOGITS[:3]), Batch(inputs={}, targets=targets), 0.1)
        for targets in (classes, certain)
    ]
    torch.testing.assert_close(*losses)


def test_squared_errors_are_of_numbers_that_are_asked_for() -> None:
    batch = Batch(inputs={}, targets=torch.tensor([1.0, 2.0, float(UNSCORED)]))
    outputs = Outputs(torch.tensor([[1.5], [0.0], [9.0]]))
    assert MeanSquaredError().sums(outputs, batch).tolist() == [4.25, 2]


def test_a_mean_is_over_targets_and_not_over_batches() -> None:
    metric = Accuracy()
    assert metric.over([as_sums(1, 1), as_sums(0, 3)]) == 0.25
    with pytest.raises(FrozenInstanceError):
        metric.name = "other"  # type: ignore[misc]
