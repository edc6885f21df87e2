"""Compare the three worlds with slow loops and closed forms, and their players with each other."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.worlds.cart_pole import CART_POLE, CartPole
from bakeoff.suite.tasks.worlds.corridor import CORRIDOR, LEFT, RIGHT, USE
from bakeoff.suite.tasks.worlds.episodes import Episodes, play_out
from bakeoff.suite.tasks.worlds.windy_grid import DOWN, EAST, UP, WEST, WINDY_GRID
from bakeoff.suite.tasks.worlds.world import NUM_CHANCES, PLAYERS, Moved, World, draw_chances

WORLDS = {"corridor": CORRIDOR, "windy_grid": WINDY_GRID, "cart_pole": CART_POLE}
# The mean return of each player over very many episodes, as in the module docstrings.
MEANS = {
    "corridor": (0.05, 0.22, 0.61),
    "windy_grid": (-0.13, 0.35, 0.84),
    "cart_pole": (0.22, 0.44, 1),
}
NUM = 600

every_world = pytest.mark.parametrize("name", WORLDS)


def played(world: World, player: int, count: int = NUM, seed: int = 5) -> Episodes:
    return play_out(
        world, np.full(count, player), draw_chances(world, RandomStream(seed, 0), count)
    )


@every_world
def test_players_get_the_better_the_more_they_know(name: str) -> None:
    for player, wanted in enumerate(MEANS[name]):
        returns = played(WORLDS[name], player).returns
        error = returns.std() / math.sqrt(NUM)
        assert abs(returns.mean() - wanted) < 4 * error + 0.01, PLAYERS[player]


@every_world
def test_an_episode_is_a_function_of_its_own_chances(name: str) -> None:
    world = WORLDS[name]
    chances = draw_chances(world, RandomStream(3, 1), 12)
    assert chances.shape == (12, 1 + world.limit, NUM_CHANCES)
    players = np.arange(12) % 3
    together = play_out(world, players, chances)
    for row in range(12):
        alone = play_out(world, players[row : row + 1], chances[row : row + 1])
        for found, wanted in zip(vars(alone).values(), vars(together).values(), strict=True):
            assert np.array_equal(found[0], wanted[row])


@every_world
def test_nothing_happens_after_the_end(name: str) -> None:
    """Check that the last step has a reward and that all later ones are zero."""
    world = WORLDS[name]
    for player in range(3):
        found = played(world, player, 200)
        is_over = np.arange(world.limit) >= found.lengths[:, None]
        assert not found.rewards[is_over].any()
        assert not found.actions[is_over].any()
        assert not found.states[is_over].any()
        assert (found.lengths >= 1).all()
        assert (found.lengths <= world.limit).all()
        assert found.states.shape == (200, world.limit, world.state_size)
        assert np.abs(found.states).max() < 10


@pytest.mark.whole
def test_the_corridor_is_that_of_its_rules() -> None:
    """Compare each step under uniformly drawn actions."""
    drawn = np.random.default_rng(0)
    for _ in range(200):
        chances = drawn.random((1, NUM_CHANCES))
        situation = CORRIDOR.start(chances)
        cell, has_key = int(situation[0, 0]), False
        assert cell in (3, 4, 5)
        for time in range(CORRIDOR.limit):
            seen = CORRIDOR.seen(situation)[0]
            assert seen.tolist() == [
                *(float(cell == each) for each in range(9)),
                float(cell == 0 and not has_key),
            ]
            action = int(drawn.integers(3))
            luck = drawn.random((1, NUM_CHANCES))
            situation, rewards, ended = CORRIDOR.step(situation, np.array([action]), time, luck)
            stays = luck[0, 0] < 0.4
            reward, is_over = 0.0, False
            if action == USE and cell == 8:
                reward, is_over = (1 if has_key else 0.25) * (1 - time / 60), True
            elif action == USE and cell == 0:
                has_key = True
            elif action == LEFT and not stays:
                cell = max(0, cell - 1)
            elif action == RIGHT and not stays:
                cell = min(8, cell + 1)
            assert (rewards[0], ended[0]) == (pytest.approx(reward), is_over)
            if is_over:
                break


def test_wind_blows_up_in_its_columns_as_often_as_it_should() -> None:
    count = 20_000
    chances = np.random.default_rng(0).random((count, NUM_CHANCES))
    for column in range(WINDY_GRID.side):
        situation = np.tile([3.0, float(column)], (count, 1))
        east, *_ = WINDY_GRID.step(situation, np.full(count, EAST), 0, chances)
        share = (east[:, 0] == 2).mean()
        wanted = 0.5 if column in (2, 3, 4) else 0.0
        assert abs(share - wanted) < 4 * 0.5 / math.sqrt(count) * (wanted > 0) + 1e-12
        assert set(east[:, 0]) <= {2.0, 3.0}
        assert (east[:, 1] == min(column + 1, 6)).all()


@pytest.mark.parametrize(
    ("start", "action", "end", "reward", "is_over"),
    [
        ((5, 1), DOWN, (6, 1), 0.39, True),
        ((6, 0), EAST, (6, 1), 0.39, True),
        ((3, 5), EAST, (3, 6), 0.99, True),
        ((0, 0), UP, (0, 0), -0.01, False),
        ((0, 0), WEST, (0, 0), -0.01, False),
        ((6, 6), EAST, (6, 6), -0.01, False),
    ],
)
def test_goals_end_an_episode_and_edges_hold(
    start: tuple[int, int], action: int, end: tuple[int, int], reward: float, is_over: bool
) -> None:
    still = np.ones((1, NUM_CHANCES))
    moved, rewards, ended = WINDY_GRID.step(
        np.array([start], dtype=float), np.array([action]), 0, still
    )
    assert tuple(moved[0]) == end
    assert (rewards[0], ended[0]) == (pytest.approx(reward), is_over)


def pushed(world: CartPole, situation: Sequence[float], action: int = 1, steps: int = 1) -> Moved:
    """Return the result of `steps` pushes to one side."""
    moved = Moved(np.array([situation]), np.zeros(1), np.zeros(1, dtype=np.bool_))
    for time in range(steps):
        none = np.zeros((1, NUM_CHANCES))
        moved = world.step(moved.situation, np.array([action]), time, none)
    return moved


class FinelyTimed(CartPole):
    """A cart-pole with steps of one microsecond, where Euler's method is nearly exact."""

    interval = 1e-6


class LeftAlone(CartPole):
    """A cart-pole that is not pushed."""

    force = 0.0
    interval = 1e-4


def test_the_pole_has_the_constants_of_gym() -> None:
    """Compare with CartPole-v1: gravity, masscart, masspole, length, force_mag, tau, limits."""
    world = CART_POLE
    assert (world.gravity, world.cart_mass, world.pole_mass) == (9.8, 1.0, 0.1)
    assert (world.half_length, world.force, world.interval) == (0.5, 10.0, 0.02)
    assert (world.farthest, world.steepest) == (2.4, 12 * 2 * math.pi / 360)


@pytest.mark.parametrize(("action", "side"), [(1, 1), (0, -1)])
def test_a_first_push_from_rest_is_as_computed_by_hand(action: int, side: int) -> None:
    """Compare the accelerations, for 0.02 s from rest and upright, in metres, radians and seconds.

    They are a'' = -(10 / 1.1) / (0.5 (4/3 - 0.1 / 1.1)) = -600 / 41 and
    x'' = 10 / 1.1 + 0.05 (600 / 41) / 1.1 = 400 / 41.
    """
    situation, rewards, ended = pushed(CART_POLE, [0, 0, 0, 0], action)
    assert situation[0].tolist() == pytest.approx([0, side * 8 / 41, 0, -side * 12 / 41])
    assert situation[0, 1] == pytest.approx(side * 0.195122, abs=1e-6)
    assert (rewards[0], ended[0]) == (pytest.approx(1 / 100), False)
    second = pushed(CART_POLE, [0, 0, 0, 0], action, steps=2).situation[0]
    assert second[[0, 2]].tolist() == pytest.approx([side * 0.16 / 41, -side * 0.24 / 41])


def momentum_and_energy(situation: NDArray[np.float64]) -> tuple[float, float]:
    """Return both for a cart of 1 kg and a uniform rod of 0.1 kg and 1 m (inertia m l^2 / 3)."""
    _, speed, angle, turning = situation[0].tolist()
    along, across = speed + 0.5 * turning * math.cos(angle), -0.5 * turning * math.sin(angle)
    momentum = 1.0 * speed + 0.1 * along
    moving = 0.5 * speed**2 + 0.05 * (along**2 + across**2)
    spinning = 0.5 * (0.1 * 0.5**2 / 3) * turning**2
    return momentum, moving + spinning + 0.1 * 9.8 * 0.5 * math.cos(angle)


@pytest.mark.parametrize(("action", "force"), [(1, 10.0), (0, -10.0)])
@pytest.mark.parametrize("start", [(0.0, 0.7, 0.15, -1.2), (1.0, -0.4, -0.2, 0.9), (0, 2, 0.1, 3)])
def test_a_push_changes_momentum_by_its_force_and_energy_by_its_work(
    start: tuple[float, ...], action: int, force: float
) -> None:
    """Check two laws, which together determine both accelerations."""
    world = FinelyTimed()
    before = momentum_and_energy(np.array([start]))
    after = momentum_and_energy(pushed(world, start, action).situation)
    rates = [(new - old) / world.interval for new, old in zip(after, before, strict=True)]
    assert rates == pytest.approx([force, force * start[1]], abs=2e-3)


def test_a_pole_that_is_left_alone_falls_as_a_small_angle_does() -> None:
    """Compare with a(0) cosh(w t), where w^2 = 9.8 / (0.5 (4/3 - 0.1 / 1.1)) = 15.776.

    Check also that energy is conserved.
    """
    start = [0.0, 0.0, 0.001, 0.0]
    found = pushed(LeftAlone(), start, steps=5_000).situation
    assert found[0, 2] == pytest.approx(0.001 * math.cosh(math.sqrt(15.776) * 0.5), rel=2e-3)
    kept = momentum_and_energy(np.array([start]))
    assert momentum_and_energy(found) == pytest.approx(kept, abs=1e-6)


@pytest.mark.parametrize(
    ("situation", "is_over"),
    [
        ((2.39, 0.0, 0.0, 0.0), False),
        ((2.39, 1.0, 0.0, 0.0), True),
        ((-2.39, -1.0, 0, 0), True),
        ((0.0, 0.0, 0.2, 0.4), False),
        ((0.0, 0.0, 0.2, 0.5), True),
        ((0, 0, -0.2, -0.5), True),
    ],
)
def test_it_ends_beyond_the_edge_and_where_the_pole_has_fallen(
    situation: tuple[float, ...], is_over: bool
) -> None:
    """Check the limits of 2.4 m and of 12 degrees, or 0.2094 rad."""
    assert pushed(CART_POLE, situation).has_ended[0] == is_over


def test_the_pole_begins_nearly_upright() -> None:
    starts = CART_POLE.start(np.random.default_rng(1).random((1_000, NUM_CHANCES)))
    assert -0.05 <= starts.min() < -0.049 < 0.049 < starts.max() <= 0.05


@every_world
def test_the_random_player_takes_all_actions_alike(name: str) -> None:
    found = played(WORLDS[name], 0)
    is_on = np.arange(WORLDS[name].limit) < found.lengths[:, None]
    counts = np.bincount(found.actions[is_on])
    share = 1 / WORLDS[name].num_actions
    assert np.abs(counts / counts.sum() - share).max() < 4 * math.sqrt(share / counts.sum())


def test_the_expert_fetches_the_key_first_and_the_medium_player_does_not() -> None:
    situation = CORRIDOR.start(np.full((1, NUM_CHANCES), 0.5))
    steps: dict[int, list[int]] = {}
    for player in (1, 2):
        now, steps[player] = situation, []
        for time in range(CORRIDOR.limit):
            action = CORRIDOR.chosen(player, now)
            steps[player].append(int(action[0]))
            now, _, ended = CORRIDOR.step(now, action, time, np.ones((1, NUM_CHANCES)))
            if ended[0]:
                break
    assert steps[1] == [RIGHT] * 4 + [USE]
    assert steps[2] == [LEFT] * 4 + [USE] + [RIGHT] * 8 + [USE]


def test_a_definition_has_every_number_of_its_world() -> None:
    made: Callable[[str], dict[str, object]] = lambda name: WORLDS[name].definition()  # noqa: E731
    assert made("corridor")["limit"] == 60
    assert made("windy_grid")["wind"] == 0.5
    assert {"gravity", "force", "mistakes", "limit"} <= made("cart_pole").keys()
