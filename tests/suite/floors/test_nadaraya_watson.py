"""Kernel regression: by hand, as attention, and with a bandwidth that no test point chose."""

import math
from collections.abc import Iterator

import pytest
import torch

from suite.floors.nadaraya_watson import (
    BANDWIDTHS,
    Mean,
    NadarayaWatson,
    chosen_bandwidth,
    kernel_regression,
)
from suite.tasks.kernel_regression import KernelRegression, points_of
from suite.tasks.task import Batch, Split


class _Few(KernelRegression):
    """Notes which splits are read."""

    num_held_out = {"validation": 200, "test": 300}  # noqa: RUF012
    read: list[str]

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.read = []

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        self.read.append(split)
        return super().held_out(split, batch)


def test_two_points_by_hand() -> None:
    x, y = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 1.0]])
    middle = kernel_regression(x, y, torch.tensor([0.5]), 1.0)
    assert middle.item() == pytest.approx(0.5)
    known = math.exp(-0.5) / (1 + math.exp(-0.5))
    assert kernel_regression(x, y, torch.tensor([0.0]), 1.0).item() == pytest.approx(known)
    assert kernel_regression(x, y, torch.tensor([0.0]), 0.01).item() == pytest.approx(0.0)


def test_it_is_attention_with_the_bandwidth_for_its_temperature() -> None:
    """With keys (x_i, x_i^2) and the query (2 x, -1) the score is x^2 - (x - x_i)^2."""
    batch = next(KernelRegression(16).held_out("validation", 5))
    x, y, at = (each.double() for each in points_of(batch))
    keys = torch.stack([x, x**2], dim=2)
    query = torch.stack([2 * at, -torch.ones_like(at)], dim=1)[:, None]
    bandwidth = 0.2
    attended = torch.nn.functional.scaled_dot_product_attention(
        query, keys, y[..., None], scale=1 / (2 * bandwidth**2)
    )
    assert torch.allclose(attended[:, 0, 0], kernel_regression(x, y, at, bandwidth))


def test_the_bandwidth_is_chosen_on_the_validation_split_alone() -> None:
    task = _Few(32)
    best = chosen_bandwidth(task)
    assert set(task.read) == {"validation"}
    assert BANDWIDTHS[0] < best < BANDWIDTHS[-1]
    task.read.clear()
    NadarayaWatson().score(task)
    assert task.read[-1] == "test"
    assert task.read.count("test") == 1


def test_no_other_bandwidth_is_better_on_the_validation_split() -> None:
    task = _Few(32)
    (batch,) = task.held_out("validation", 1_000)
    x, y, at = points_of(batch)
    errors = {
        bandwidth: float((kernel_regression(x, y, at, bandwidth) - batch.targets).square().mean())
        for bandwidth in BANDWIDTHS
    }
    assert errors[chosen_bandwidth(task)] == pytest.approx(min(errors.values()), rel=1e-6)


def test_the_mean_of_the_points_is_what_an_endless_bandwidth_gives() -> None:
    task = _Few(16)
    (batch,) = task.held_out("test", 1_000)
    _, y, _ = points_of(batch)
    known = (y.double().mean(dim=1) - batch.targets).square().mean().item()
    assert Mean().score(task) == pytest.approx(known, rel=1e-9)


def test_the_kernel_beats_the_mean_by_far() -> None:
    assert NadarayaWatson().score(_Few(64)) < 0.1 * Mean().score(_Few(64))
