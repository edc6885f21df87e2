"""Test episodes, the best of them, and windows of them."""

import numpy as np
import pytest
import torch

from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import UNSCORED
from bakeoff.suite.tasks.worlds.episodes import draw_windows, windows
from bakeoff.suite.tasks.worlds.world_task import LEVELS, NUM_EPISODES, WorldTask, asked_of

WORLDS = ("corridor", "windy_grid", "cart_pole")
every_world = pytest.mark.parametrize("world", WORLDS)


def kind(world: str, data: str = "mixed") -> type[WorldTask]:
    found = task_class(f"{world}_{data}")
    assert issubclass(found, WorldTask)
    return found


@every_world
def test_what_is_to_go_is_the_sum_of_the_rewards_from_there_on(world: str) -> None:
    data = kind(world).data()
    for row in range(0, NUM_EPISODES, 97):
        for time in range(int(data.lengths[row])):
            wanted = sum(data.rewards[row, time:])
            assert data.returns_to_go[row, time] == pytest.approx(wanted, abs=1e-12)
    assert data.returns_to_go[:, 0] == pytest.approx(data.returns)


@every_world
def test_the_best_tenth_is_the_best_tenth(world: str) -> None:
    whole, best = kind(world).data(), kind(world, "best_tenth").data()
    assert len(best.returns) == NUM_EPISODES // 10
    assert sorted(best.returns) == sorted(whole.returns)[-NUM_EPISODES // 10 :]
    assert best.returns.mean() > kind(world, "medium").data().returns.mean() + 0.1


@every_world
def test_mixed_data_are_of_all_players(world: str) -> None:
    means = [kind(world, each).data().returns.mean() for each in ("random", "medium", "expert")]
    assert means == sorted(means)
    mixed = kind(world).data().returns.mean()
    assert mixed == pytest.approx(np.dot(means, (0.4, 0.4, 0.2)), abs=0.05)


@every_world
def test_a_window_is_what_stands_there(world: str) -> None:
    data, length = kind(world).data(), 7
    firsts = [0, int(data.lengths[4]) - 1, int(data.lengths[700]) // 2]
    batch = windows(data, np.array([4, 4, 700]), np.array(firsts), length)
    for row, (episode, first) in enumerate(zip([4, 4, 700], firsts, strict=True)):
        for place in range(length):
            time = first + place
            if time >= data.lengths[episode]:
                assert not batch.inputs["mask"][row, place]
                assert batch.targets[row, place] == UNSCORED
                assert not any(batch.inputs[n][row, place].any() for n in (INPUTS, RETURNS, TIMES))
                assert batch.inputs[ACTIONS][row, place] == 0
                continue
            assert batch.inputs["mask"][row, place]
            assert batch.inputs[INPUTS][row, place].tolist() == data.states[episode, time].tolist()
            assert batch.inputs[TIMES][row, place] == time
            assert batch.targets[row, place] == data.actions[episode, time]
            assert batch.inputs[ACTIONS][row, place] == data.actions[episode, time]
            togo = data.rewards[episode, time:].sum()
            assert batch.inputs[RETURNS][row, place, 0].item() == pytest.approx(togo, abs=1e-6)


def test_every_step_of_every_episode_begins_as_many_windows() -> None:
    data = kind("corridor").data().only(np.array([0, 450, 999]))
    count, total = 30_000, int(data.lengths.sum())
    batch = draw_windows(data, RandomStream(0, 0), count, 1)
    firsts = batch.inputs[TIMES][:, 0].numpy()
    wanted = (data.lengths[:, None] > np.arange(60)).sum(axis=0) / total
    found = np.bincount(firsts, minlength=60) / count
    assert np.abs(found - wanted).max() < 4 * 0.5 / np.sqrt(count)
    assert not (found > 0)[wanted == 0].any()


def test_all_tasks_of_a_world_ask_for_the_same() -> None:
    returns = kind("corridor").data().returns
    low, high = returns.min(), returns.max()
    assert asked_of(kind("corridor").world) == pytest.approx(
        [low + level / 100 * (high - low) for level in LEVELS], abs=5e-4
    )
    asked = [
        next(build_task(f"corridor_{data}", 4).held_out("test", 8)).inputs[RETURNS][:, 0, 0]
        for data in ("mixed", "best_tenth")
    ]
    assert torch.equal(*asked)
    assert asked[0][:4].tolist() == pytest.approx(asked_of(kind("corridor").world).tolist())


@every_world
def test_what_is_held_out_has_luck_of_its_own(world: str) -> None:
    """Random numbers differ between the splits but are shared by all returns asked for."""
    task = build_task(f"{world}_mixed", 4)
    luck = {
        split: torch.cat([batch.chances for batch in task.held_out(split, 64)])
        for split in ("validation", "test")
    }
    assert {split: len(each) for split, each in luck.items()} == {"validation": 64, "test": 256}
    for each in luck.values():
        rows = {row.numpy().tobytes() for row in each}
        assert len(rows) == len(each) // len(LEVELS)
        assert torch.equal(each[0], each[3])
    assert not {r.numpy().tobytes() for r in luck["test"]} & {
        r.numpy().tobytes() for r in luck["validation"]
    }
