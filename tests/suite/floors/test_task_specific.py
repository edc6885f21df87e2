"""Check floors of environments and of kernel regression."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.floors.task_specific import BANDWIDTHS, chosen_bandwidth, kernel_regression
from bakeoff.suite.tasks.kernel_regression import KernelRegression, points_of
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Batch, Split
from bakeoff.suite.tasks.worlds.world_task import WorldTask


@pytest.mark.parametrize(
    ("world", "mean"), [("corridor", 0.05), ("windy_grid", -0.13), ("cart_pole", 0.22)]
)
def test_a_random_policy_has_the_mean_return_of_random_episodes(world: str, mean: float) -> None:
    """Allow a variance of the mean of 1/64 of that of a return, for 64 start states."""
    task = build_task(f"{world}_mixed", 5)
    spread = task_class(f"{world}_random").data().returns.std()  # type: ignore[attr-defined]
    assert FLOORS["random_player"].score(task) == pytest.approx(mean, abs=4 * spread / 64**0.5)


@pytest.mark.parametrize("world", ["corridor", "windy_grid", "cart_pole"])
def test_the_mean_of_the_data_is_that_of_all_episodes_also_for_the_best_of_them(world: str) -> None:
    """Check against the mean of the best tenth, which is not a floor, as in cart_pole."""
    mixed, best = (build_task(f"{world}_{data}", 5) for data in ("mixed", "best_tenth"))
    assert isinstance(mixed, WorldTask)
    assert isinstance(best, WorldTask)
    wanted = np.mean(mixed.data().rewards.sum(axis=1))
    found = FLOORS["mean_of_data"].score(best)
    assert found == FLOORS["mean_of_data"].score(mixed) == pytest.approx(wanted)
    assert found < np.mean(best.data().rewards.sum(axis=1)) - 0.1
    assert found < mixed.data().returns.max() - 0.1  # a model can beat it


class Few(KernelRegression):
    """Kernel regression on few examples, which records the splits that are read."""

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


def test_kernel_regression_is_attention_with_the_bandwidth_as_its_temperature() -> None:
    """Use keys (x_i, x_i^2) and the query (2 x, -1), which give x^2 - (x - x_i)^2."""
    batch = next(KernelRegression(16).held_out("validation", 5))
    x, y, at = (each.double() for each in points_of(batch))
    keys = torch.stack([x, x**2], dim=2)
    query = torch.stack([2 * at, -torch.ones_like(at)], dim=1)[:, None]
    bandwidth = 0.2
    attended = torch.nn.functional.scaled_dot_product_attention(
        query, keys, y[..., None], scale=1 / (2 * bandwidth**2)
    )
    assert torch.allclose(attended[:, 0, 0], kernel_regression(x, y, at, bandwidth))


def test_the_bandwidth_is_the_best_of_the_validation_split_and_the_test_split_is_read_once() -> (
    None
):
    task = Few(32)
    best = chosen_bandwidth(task)
    assert set(task.read) == {"validation"}
    assert BANDWIDTHS[0] < best < BANDWIDTHS[-1]
    (batch,) = task.held_out("validation", 1_000)
    x, y, at = points_of(batch)
    errors = {
        bandwidth: float((kernel_regression(x, y, at, bandwidth) - batch.targets).square().mean())
        for bandwidth in BANDWIDTHS
    }
    assert errors[best] == pytest.approx(min(errors.values()), rel=1e-6)
    task.read.clear()
    FLOORS["nadaraya_watson"].score(task)
    assert task.read[-1] == "test"
    assert task.read.count("test") == 1


def test_the_mean_is_that_of_the_points_and_the_kernel_beats_it_by_far() -> None:
    task = Few(16)
    (batch,) = task.held_out("test", 1_000)
    _, y, _ = points_of(batch)
    known = (y.double().mean(dim=1) - batch.targets).square().mean().item()
    assert FLOORS["mean"].score(task) == pytest.approx(known, rel=1e-9)
    assert FLOORS["nadaraya_watson"].score(Few(64)) < 0.1 * FLOORS["mean"].score(Few(64))
