"""A small grid with random wind and two goals.

The environment follows the windy gridworld of Sutton and Barto 2018, "Reinforcement Learning: An
Introduction", example 6.5, where the wind is deterministic, and there is one goal.

    situation  row and column of 7 x 7
    seen       the row and the column, each as a one-hot vector of 7
    actions    up, down, left, right; a step beyond an edge has no effect
    wind       in the three columns in the middle it blows one row up with probability 1/2
    reward     each step costs 1/100; the near goal, below the start, gives 0.4, and the far one,
               on the other side of the wind, 1; either ends the episode
    start      one of the seven rows at the left edge
    medium     goes to the near goal
    expert     goes to the far goal, first across the windy columns, then up or down

The last two take a random action in one of ten steps; the random player always does. The mean
returns of the random player, the medium one and the expert, over 2,000 episodes, are -0.13, 0.35
and 0.84.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import Whole
from bakeoff.suite.tasks.worlds.world import EXPERT, Moved, Numbers, World
from bakeoff.suite.tasks.worlds.world_task import (
    BEST_TENTH,
    ONLY_EXPERT,
    ONLY_MEDIUM,
    ONLY_RANDOM,
    WorldTask,
    world_source,
)

ROW, COLUMN = range(2)
UP, DOWN, WEST, EAST = range(4)


class WindyGrid(World):
    """The windy grid environment."""

    side: ClassVar[int] = 7
    state_size = 2 * side
    num_actions = 4
    limit = 40
    windy: ClassVar[tuple[int, ...]] = (2, 3, 4)
    wind: ClassVar[float] = 0.5
    cost: ClassVar[float] = 0.01
    near: ClassVar[tuple[int, int]] = (6, 1)
    far: ClassVar[tuple[int, int]] = (3, 6)
    prizes: ClassVar[tuple[float, float]] = (0.4, 1.0)

    def start(self, chances: Numbers) -> Numbers:
        """Return a uniform row at the left edge for each episode."""
        rows = np.floor(self.side * chances[:, 0])
        return np.stack([rows, np.zeros_like(rows)], axis=1)

    def seen(self, situation: Numbers) -> NDArray[np.float32]:
        """Return the row and the column as one-hot vectors."""
        places = np.eye(self.side, dtype=np.float32)[situation.astype(np.int64)]
        return places.reshape(len(situation), self.state_size)

    def step(self, situation: Numbers, actions: Whole, time: int, chances: Numbers) -> Moved:
        """Return the next situation; the wind of a column acts on a player that leaves it."""
        row, column = situation.T
        is_blown = np.isin(column, self.windy) & (chances[:, 0] < self.wind)
        moves = np.stack(
            [
                row + (actions == DOWN) - (actions == UP) - is_blown,
                column + (actions == EAST) - (actions == WEST),
            ],
            axis=1,
        )
        moved = np.clip(moves, 0, self.side - 1)
        at = [(moved == np.array(goal)).all(axis=1) for goal in (self.near, self.far)]
        rewards = at[0] * self.prizes[0] + at[1] * self.prizes[1] - self.cost
        return Moved(moved, rewards, at[0] | at[1])

    def chosen(self, player: int, situation: Numbers) -> Whole:
        """Return the player's action without a mistake: first across the wind, then up or down."""
        row, column = situation.T
        goal_row, goal_column = self.far if player == EXPERT else self.near
        along = np.where(column < goal_column, EAST, WEST)
        across = np.where(row < goal_row, DOWN, UP)
        return np.where(column == goal_column, across, along)


WINDY_GRID = WindyGrid()
_TITLE = "A grid with wind and two goals"
_ORIGIN = "Sutton and Barto 2018, example 6.5"


class WindyGridMixed(WorldTask):
    """The windy grid with episodes of all three players."""

    name = "windy_grid_mixed"
    world = WINDY_GRID
    source = world_source(WINDY_GRID, name, _TITLE, _ORIGIN)


class WindyGridBestTenth(WorldTask):
    """The windy grid with the best tenth of the mixed episodes, by return."""

    name = "windy_grid_best_tenth"
    world = WINDY_GRID
    best = BEST_TENTH
    source = world_source(WINDY_GRID, name, _TITLE, _ORIGIN)


class WindyGridRandom(WorldTask):
    """The windy grid with episodes of the random player."""

    name = "windy_grid_random"
    world = WINDY_GRID
    shares = ONLY_RANDOM
    source = world_source(WINDY_GRID, name, _TITLE, _ORIGIN)


class WindyGridMedium(WorldTask):
    """The windy grid with episodes of the medium player."""

    name = "windy_grid_medium"
    world = WINDY_GRID
    shares = ONLY_MEDIUM
    source = world_source(WINDY_GRID, name, _TITLE, _ORIGIN)


class WindyGridExpert(WorldTask):
    """The windy grid with episodes of the expert."""

    name = "windy_grid_expert"
    world = WINDY_GRID
    shares = ONLY_EXPERT
    source = world_source(WINDY_GRID, name, _TITLE, _ORIGIN)
