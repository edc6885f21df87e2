"""Compare functions, points and targets with the definition of the task."""

import math

import numpy as np
import pytest
import torch

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.kernel_regression import (
    NOISE,
    NUM_WAVES,
    SMOOTHNESS,
    KernelRegression,
    points_of,
    waves,
)
from bakeoff.suite.tasks.task import UNSCORED, Batch


def test_the_last_token_asks_and_the_others_are_points() -> None:
    batch = KernelRegression(10).training_batch(3, 50, seed=1)
    x, y, at = points_of(batch)
    assert x.shape == y.shape == (50, 9)
    assert (batch.inputs["inputs"][:, :, 2] == torch.eye(10)[-1]).all()
    assert (batch.inputs["inputs"][:, -1, 1] == 0).all()
    assert torch.equal(at, batch.inputs["inputs"][:, -1, 0])
    assert batch.inputs["inputs"][:, :, 0].abs().max() <= 1
    assert -0.1 < batch.inputs["inputs"][:, :, 0].mean() < 0.1


def test_a_target_is_the_function_without_its_noise() -> None:
    """Compare the mean of a thousand points next to x with the function at x."""
    batch = KernelRegression(8_000).training_batch(0, 20, seed=0)
    x, y, at = points_of(batch)
    is_near = (x - at[:, None]).abs() < 0.01
    for row in range(20):
        near = y[row, is_near[row]]
        error = near.mean() - batch.targets[row]
        assert abs(error) < 5 * NOISE / math.sqrt(len(near)) + 0.02
        assert near.std().item() == pytest.approx(NOISE, rel=0.4)


def test_functions_are_close_to_a_gaussian_process_with_a_gaussian_kernel() -> None:
    """Check a variance of 1, and the covariance exp(-distance^2 / (2 width^2)) of two values."""
    stream = RandomStream(0, 0)
    frequencies = stream.normal(40_000, NUM_WAVES) / SMOOTHNESS
    phases = 2 * math.pi * stream.uniform(40_000, NUM_WAVES)
    places = np.tile(np.array([0.0, 0.15, 0.3, 0.9]), (40_000, 1))
    values = waves(places, frequencies, phases)
    found = (values[:, :1] * values).mean(axis=0)
    known = np.exp(-(places[0] ** 2) / (2 * SMOOTHNESS**2))
    assert found == pytest.approx(known, abs=0.03)
    assert values.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.03)


def test_score_and_loss_by_hand() -> None:
    task = KernelRegression(4)
    batch = Batch(inputs={}, targets=torch.tensor([1.0, 2.0, float(UNSCORED)]))
    outputs = Outputs(torch.tensor([[1.5], [0.0], [9.0]]))
    assert task.metric.sums(outputs, batch).tolist() == [0.25 + 4.0, 2]
    assert task.loss(outputs, batch).item() == pytest.approx(4.25 / 2)
    assert task.loss(outputs, batch, label_smoothing=0.1).item() == pytest.approx(4.25 / 2)
