"""A corridor with a key at its left end and a door at its right end.

The environment follows the key-to-door worlds of Hung et al. 2019 (arXiv:1810.06721) and Mesnard et
al. 2021 (arXiv:2011.09464), on which Chen et al. 2021 (arXiv:2106.01345, section 5.4) test credit
assignment over time.

    situation  the cell, and whether the player has the key
    seen       the cell as a one-hot vector of 9; then 1 if the key is in the player's cell, else 0.
               The state does not show whether the key was taken: a player without memory of that
               cannot know the right direction
    actions    left, right, use: takes the key in its cell; at the door, ends the episode
    floor      slippery: four of ten steps to the left or right have no effect, so the time does
               not reveal the earlier positions
    reward     at the door, 1 with the key, a quarter without it: a nearer exit. Either is
               multiplied by 1 - t / limit, with t the number of steps before
    start      one of the three cells in the middle
    medium     goes to the door without the key
    expert     goes to the key, then to the door

The last two take a random action in one of ten steps; the random player always does. The mean
returns of the random player, the medium one and the expert, over 2,000 episodes, are 0.05, 0.22 and
0.61. On a floor that is not slippery, one step of context was as good as 20 (0.66 and 0.67 in a
trial with one seed), because time and cell revealed whether the player had the key. On this floor
the returns are 0.54 and 0.66.
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

CELL, HAS_KEY = range(2)
LEFT, RIGHT, USE = range(3)


class Corridor(World):
    """The corridor environment."""

    num_cells: ClassVar[int] = 9
    state_size = num_cells + 1
    num_actions = 3
    limit = 60
    without_key: ClassVar[float] = 0.25
    slip: ClassVar[float] = 0.4

    def start(self, chances: Numbers) -> Numbers:
        """Return one of the three middle cells for each episode, without the key."""
        cells = self.num_cells // 2 - 1 + np.floor(3 * chances[:, 0])
        return np.stack([cells, np.zeros_like(cells)], axis=1)

    def seen(self, situation: Numbers) -> NDArray[np.float32]:
        """Return the cell as a one-hot vector, and 1 if the key is in the player's cell."""
        found = np.zeros((len(situation), self.state_size), dtype=np.float32)
        found[np.arange(len(situation)), situation[:, CELL].astype(np.int64)] = 1
        found[:, -1] = (situation[:, CELL] == 0) & (situation[:, HAS_KEY] == 0)
        return found

    def step(self, situation: Numbers, actions: Whole, time: int, chances: Numbers) -> Moved:
        """Return the next situation, which depends on whether the player slips."""
        cell, has_key = situation[:, CELL], situation[:, HAS_KEY]
        is_used = actions == USE
        has_ended = is_used & (cell == self.num_cells - 1)
        prize = np.where(has_key == 1, 1.0, self.without_key) * (1 - time / self.limit)
        moves = np.where(actions == RIGHT, 1, np.where(actions == LEFT, -1, 0))
        moved = np.clip(cell + moves * (chances[:, 0] >= self.slip), 0, self.num_cells - 1)
        taken = np.where(is_used & (cell == 0), 1.0, has_key)
        return Moved(np.stack([moved, taken], axis=1), np.where(has_ended, prize, 0.0), has_ended)

    def chosen(self, player: int, situation: Numbers) -> Whole:
        """Return the player's action without a mistake, towards the key or the door."""
        cell = situation[:, CELL]
        to_door = np.where(cell == self.num_cells - 1, USE, RIGHT)
        if player != EXPERT:
            return to_door
        return np.where(situation[:, HAS_KEY] == 1, to_door, np.where(cell == 0, USE, LEFT))


CORRIDOR = Corridor()
_TITLE = "A corridor with a key and a door"
_ORIGIN = "Mesnard et al. 2021, arXiv:2011.09464"


class CorridorMixed(WorldTask):
    """The corridor with episodes of all three players."""

    name = "corridor_mixed"
    world = CORRIDOR
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorBestTenth(WorldTask):
    """The corridor with the best tenth of the mixed episodes, by return."""

    name = "corridor_best_tenth"
    world = CORRIDOR
    best = BEST_TENTH
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorRandom(WorldTask):
    """The corridor with episodes of the random player."""

    name = "corridor_random"
    world = CORRIDOR
    shares = ONLY_RANDOM
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorMedium(WorldTask):
    """The corridor with episodes of the medium player."""

    name = "corridor_medium"
    world = CORRIDOR
    shares = ONLY_MEDIUM
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorExpert(WorldTask):
    """The corridor with episodes of the expert."""

    name = "corridor_expert"
    world = CORRIDOR
    shares = ONLY_EXPERT
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)
