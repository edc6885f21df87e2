"""A corridor with a key at its left end and a door at its right end.

After the key-to-door worlds of Hung et al. 2019 (arXiv:1810.06721) and Mesnard et al. 2021
(arXiv:2011.09464), on which Chen et al. 2021 (arXiv:2106.01345, section 5.4) test credit over time.

    situation  the cell, and whether the player has the key
    seen       the cell, one of 9 numbers is 1; a last one is 1 where the key lies under the player.
               Whether it was taken is not shown: who forgets that does not know where to go
    actions    left, right, use: takes the key where it lies; at the door, ends the episode
    floor      slippery: of ten steps to the left or right four lead nowhere, so that the time does
               not tell who has been where
    reward     at the door, with the key 1, without it a quarter: a way out that is nearer. Either
               times 1 - t / limit, with t the steps before
    start      one of the three cells in the middle
    medium     goes to the door without the key
    expert     goes to the key, then to the door

Both err at one action of ten; the random player does nothing else. Mean returns of the three, over
2,000 episodes: 0.05, 0.22, 0.61. On a floor that is not slippery one step of context was as good as
20, 0.66 and 0.67 in a trial with one seed: time and cell told who had the key. Here 0.54 and 0.66.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from suite.tasks.data_order import Whole
from suite.tasks.worlds.world import EXPERT, Moved, Numbers, World
from suite.tasks.worlds.world_task import (
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
    """See the module's note."""

    num_cells: ClassVar[int] = 9
    state_size = num_cells + 1
    num_actions = 3
    limit = 60
    without_key: ClassVar[float] = 0.25
    slip: ClassVar[float] = 0.4

    def start(self, chances: Numbers) -> Numbers:
        """See `World.start`."""
        cells = self.num_cells // 2 - 1 + np.floor(3 * chances[:, 0])
        return np.stack([cells, np.zeros_like(cells)], axis=1)

    def seen(self, situation: Numbers) -> NDArray[np.float32]:
        """See `World.seen`."""
        found = np.zeros((len(situation), self.state_size), dtype=np.float32)
        found[np.arange(len(situation)), situation[:, CELL].astype(np.int64)] = 1
        found[:, -1] = (situation[:, CELL] == 0) & (situation[:, HAS_KEY] == 0)
        return found

    def step(self, situation: Numbers, actions: Whole, time: int, chances: Numbers) -> Moved:
        """See `World.step`."""
        cell, has_key = situation[:, CELL], situation[:, HAS_KEY]
        is_used = actions == USE
        has_ended = is_used & (cell == self.num_cells - 1)
        prize = np.where(has_key == 1, 1.0, self.without_key) * (1 - time / self.limit)
        moves = np.where(actions == RIGHT, 1, np.where(actions == LEFT, -1, 0))
        moved = np.clip(cell + moves * (chances[:, 0] >= self.slip), 0, self.num_cells - 1)
        taken = np.where(is_used & (cell == 0), 1.0, has_key)
        return Moved(np.stack([moved, taken], axis=1), np.where(has_ended, prize, 0.0), has_ended)

    def chosen(self, player: int, situation: Numbers) -> Whole:
        """See `World.chosen`."""
        cell = situation[:, CELL]
        to_door = np.where(cell == self.num_cells - 1, USE, RIGHT)
        if player != EXPERT:
            return to_door
        return np.where(situation[:, HAS_KEY] == 1, to_door, np.where(cell == 0, USE, LEFT))


CORRIDOR = Corridor()
_TITLE = "A corridor with a key and a door"
_ORIGIN = "Mesnard et al. 2021, arXiv:2011.09464"


class CorridorMixed(WorldTask):
    """Episodes of all three players."""

    name = "corridor_mixed"
    world = CORRIDOR
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorBestTenth(WorldTask):
    """The best tenth of the same episodes, by return."""

    name = "corridor_best_tenth"
    world = CORRIDOR
    best = BEST_TENTH
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorRandom(WorldTask):
    """Episodes of the random player."""

    name = "corridor_random"
    world = CORRIDOR
    shares = ONLY_RANDOM
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorMedium(WorldTask):
    """Episodes of the medium player."""

    name = "corridor_medium"
    world = CORRIDOR
    shares = ONLY_MEDIUM
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)


class CorridorExpert(WorldTask):
    """Episodes of the expert."""

    name = "corridor_expert"
    world = CORRIDOR
    shares = ONLY_EXPERT
    source = world_source(CORRIDOR, name, _TITLE, _ORIGIN)
