"""The contract of a world: episodes of steps, many at once, with all chance drawn beforehand.

    start     a situation for each episode, from its first row of chances
    seen      what a player is shown of a situation, as numbers
    step      an action changes the situation, brings a reward, and may end the episode
    return    the sum of an episode's rewards; an episode also ends after `limit` steps

A world is pure. What happens is a function of the actions and of the chances, numbers uniform
between 0 and 1, `[episodes, 1 + limit, NUM_CHANCES]`: row 0 is for the start, row t + 1 for step t,
of which the world has the first two columns and a player of the data the last two. So a batch of
episodes is a function of the stream that its chances come from, and two players, or a player and a
model, can meet the same luck.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from suite.tasks.data_order import RandomStream, Whole

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]

NUM_CHANCES = 4
OF_PLAYER = slice(2, 4)  # those columns of a row that a player may use
RANDOM, MEDIUM, EXPERT = range(3)  # players
PLAYERS = ("random", "medium", "expert")


class Moved(NamedTuple):
    """What an action leads to, for each episode."""

    situation: Numbers  # `[episodes, size]`
    rewards: Numbers  # `[episodes]`
    has_ended: Truths  # `[episodes]`


class World(ABC):
    """One world. All its numbers are class variables, so that a class is its whole definition.

    Attributes:
        state_size: Numbers that a player is shown.
        num_actions: That there are.
        limit: Steps after which an episode ends at the latest.
        mistakes: For each player, the share of its actions that are drawn from all alike.
    """

    state_size: ClassVar[int]
    num_actions: ClassVar[int]
    limit: ClassVar[int]
    mistakes: ClassVar[tuple[float, float, float]] = (1.0, 0.1, 0.1)

    @abstractmethod
    def start(self, chances: Numbers) -> Numbers:
        """The situations that episodes begin in; `chances` is `[episodes, NUM_CHANCES]`."""

    @abstractmethod
    def seen(self, situation: Numbers) -> NDArray[np.float32]:
        """`[episodes, state_size]`."""

    @abstractmethod
    def step(self, situation: Numbers, actions: Whole, time: int, chances: Numbers) -> Moved:
        """What the actions `[episodes]` lead to; `time` is the number of steps before."""

    @abstractmethod
    def chosen(self, player: int, situation: Numbers) -> Whole:
        """What the medium player or the expert does when it makes no mistake, `[episodes]`."""

    def acted(self, players: Whole, situation: Numbers, chances: Numbers) -> Whole:
        """What each episode's player does, `[episodes]`.

        Args:
            players: Of each episode, one of RANDOM, MEDIUM and EXPERT.
            situation: Which it may know better than it is shown.
            chances: `[episodes, 2]`: whether it errs, and what it then does.
        """
        errs = chances[:, 0] < np.array(self.mistakes)[players]
        drawn = (chances[:, 1] * self.num_actions).astype(np.int64)
        medium, expert = (self.chosen(player, situation) for player in (MEDIUM, EXPERT))
        return np.where(errs, drawn, np.where(players == EXPERT, expert, medium))

    def definition(self) -> dict[str, object]:
        """All of its numbers, for the digest of its data."""
        return {
            name: value
            for kind in reversed(type(self).__mro__)
            for name, value in vars(kind).items()
            if isinstance(value, int | float | tuple) and not name.startswith("_")
        }


def draw_chances(world: World, stream: RandomStream, count: int) -> Numbers:
    """`[count, 1 + limit, NUM_CHANCES]`."""
    return stream.uniform(count, 1 + world.limit, NUM_CHANCES)
