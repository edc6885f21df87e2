"""The interface of a world: simultaneous episodes, with all random numbers drawn beforehand.

    start     a situation for each episode, from its first row of chances
    seen      the observation of a situation, as numbers
    step      an action changes the situation, brings a reward, and may end the episode
    return    the sum of an episode's rewards; an episode also ends after `limit` steps

A world is pure. Its behaviour is a function of the actions and of the chances, numbers uniform
between 0 and 1, `[episodes, 1 + limit, NUM_CHANCES]`: row 0 is for the start, row t + 1 for step t;
the world uses the first two columns, and a recorded player the last two. A batch of episodes is
therefore a function of the stream of its chances, and two players, or a player and a model, can act
under the same random events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import RandomStream, Whole

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]

NUM_CHANCES = 4
OF_PLAYER = slice(2, 4)  # the columns of a row that a player uses
RANDOM, MEDIUM, EXPERT = range(3)  # players
PLAYERS = ("random", "medium", "expert")


class Moved(NamedTuple):
    """The result of an action, for each episode."""

    situation: Numbers  # `[episodes, size]`
    rewards: Numbers  # `[episodes]`
    has_ended: Truths  # `[episodes]`


class World(ABC):
    """A world, whose numbers are all class variables, so that a class is its whole definition.

    Attributes:
        state_size: The number of values in an observation.
        num_actions: The number of actions.
        limit: The maximum number of steps of an episode.
        mistakes: For each player, the share of its actions that are drawn uniformly.
    """

    state_size: ClassVar[int]
    num_actions: ClassVar[int]
    limit: ClassVar[int]
    mistakes: ClassVar[tuple[float, float, float]] = (1.0, 0.1, 0.1)

    @abstractmethod
    def start(self, chances: Numbers) -> Numbers:
        """Return the initial situations of episodes; `chances` is `[episodes, NUM_CHANCES]`."""

    @abstractmethod
    def seen(self, situation: Numbers) -> NDArray[np.float32]:
        """Return the observations of the situations, `[episodes, state_size]`."""

    @abstractmethod
    def step(self, situation: Numbers, actions: Whole, time: int, chances: Numbers) -> Moved:
        """Return the result of the actions `[episodes]`; `time` is the number of steps before."""

    @abstractmethod
    def chosen(self, player: int, situation: Numbers) -> Whole:
        """Return the actions `[episodes]` of the medium player or the expert without mistakes."""

    def acted(self, players: Whole, situation: Numbers, chances: Numbers) -> Whole:
        """Return the action of each episode's player, `[episodes]`.

        Args:
            players: The player of each episode, one of RANDOM, MEDIUM and EXPERT.
            situation: The situations, including values that observations do not contain.
            chances: `[episodes, 2]`: whether the player makes a mistake, and its action then.
        """
        errs = chances[:, 0] < np.array(self.mistakes)[players]
        drawn = (chances[:, 1] * self.num_actions).astype(np.int64)
        medium, expert = (self.chosen(player, situation) for player in (MEDIUM, EXPERT))
        return np.where(errs, drawn, np.where(players == EXPERT, expert, medium))

    def definition(self) -> dict[str, object]:
        """Return all numbers of the world, for the digest of its data."""
        return {
            name: value
            for kind in reversed(type(self).__mro__)
            for name, value in vars(kind).items()
            if isinstance(value, int | float | tuple) and not name.startswith("_")
        }


def draw_chances(world: World, stream: RandomStream, count: int) -> Numbers:
    """Draw the random numbers of `count` episodes, `[count, 1 + limit, NUM_CHANCES]`."""
    return stream.uniform(count, 1 + world.limit, NUM_CHANCES)
