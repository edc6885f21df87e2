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


@pytest.mark.parametrize("world", ["corridor", "windy_grid", "cart_pole"])
def test_the_mean_of_the_data_is_that_of_all_episodes_also_for_the_best_of_them(world: str) -> None:
    """The mean of the best tenth is no floor: the pole's is the largest return that there is."""
    mixed, best = (build_task(f"{world}_{data}", 5) for data in ("mixed", "best_tenth"))
    assert isinstance(mixed, WorldTask)
    assert isinstance(best, WorldTask)
    wanted = np.mean(mixed.data().rewards.sum(axis=1))
    found = floor("mean_of_data").score(best)
    assert found == floor("mean_of_data").score(mixed) == pytest.approx(wanted)
    assert found < np.mean(best.data().rewards.sum(axis=1)) - 0.1
    assert found < mixed.data().returns.max() - 0.1  # so that it can be beaten


def test_both_need_a_world() -> None:
    for name in ("random_player", "mean_of_data"):
        assert not floor(name).suits(task_class("parity"))
        assert floor(name).suits(task_class("cart_pole_mixed"))
