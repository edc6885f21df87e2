"""Floors of worlds: the random player, and the mean return of the data."""

import numpy as np
import pytest

from suite.floors.registry import floor
from suite.tasks.registry import build_task, task_class
from suite.tasks.worlds.world_task import WorldTask


@pytest.mark.parametrize(
    ("world", "mean"), [("corridor", 0.05), ("windy_grid", -0.13), ("cart_pole", 0.22)]
)
def test_the_random_player_gets_what_it_does(world: str, mean: float) -> None:
    """Over 64 starts, whose mean strays by a 64th of the variance."""
    task = build_task(f"{world}_mixed", 5)
    assert isinstance(task, WorldTask)
    spread = task_class(f"{world}_random").data().returns.std()  # type: ignore[attr-defined]
    assert floor("random_player").score(task) == pytest.approx(mean, abs=4 * spread / 64**0.5)


def test_the_mean_of_the_data_is_that() -> None:
    for data in ("mixed", "best_tenth"):
        task = build_task(f"corridor_{data}", 5)
        assert isinstance(task, WorldTask)
        wanted = np.mean(task.data().rewards.sum(axis=1))
        assert floor("mean_of_data").score(task) == pytest.approx(wanted)


def test_both_need_a_world() -> None:
    for name in ("random_player", "mean_of_data"):
        assert not floor(name).suits(task_class("parity"))
        assert floor(name).suits(task_class("cart_pole_mixed"))
