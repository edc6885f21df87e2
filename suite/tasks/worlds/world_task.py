"""Base class of tasks whose model acts in a world.

data       1,000 episodes, the same for every seed: of a random, a medium and an expert player of
           the world, in the shares that the task defines, or the best tenth of these by return
inputs     windows of an episode: states; actions, those taken in the states; returns, the sum of
           the rewards from each step on; times, the steps since the episode began. They are padded
           after an episode's end
target     the action of each step
held out   starts of episodes, each with its random numbers, and with a return that is asked for: at
           25, 50, 75 and 100 percent of the way from the lowest to the highest return of the mixed
           data of the world, to three places (``asked=0.883``), whatever data a task trains on
score      the mean return that the model gets by playing when the highest one is asked for; see
           `bakeoff.suite.tasks.worlds.playing`. Also the correlation of asked and got, and the
           return for each return asked for: the nearer to that the better

There is one departure: the paper pads before a window, and every task here after it. A causal model
does not attend to padding after a window; for one without positions in its window, like the
paper's, the two are equivalent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES, Input
from bakeoff.suite.tasks.bases.generated import definition_source
from bakeoff.suite.tasks.data_order import RandomStream, Whole, held_out_stream
from bakeoff.suite.tasks.task import UNSCORED, Batch, DataSource, Split, Task
from bakeoff.suite.tasks.worlds.episodes import Episodes, draw_windows, play_out
from bakeoff.suite.tasks.worlds.playing import AskedAndGot, ReturnGot
from bakeoff.suite.tasks.worlds.world import EXPERT, PLAYERS, Numbers, World, draw_chances

VERSION = 2
NUM_EPISODES = 1_000
EPISODES_SEED = 2**64 - 2  # used by no training and no other held-out data
LEVELS = (25, 50, 75, 100)  # percent
_PLACES = 3  # decimal places of a return asked for, all of which its coordinate shows
NUM_STARTS: dict[Split, int] = {"validation": 16, "test": 64}
MIXED = (0.4, 0.4, 0.2)
ONLY_RANDOM, ONLY_MEDIUM, ONLY_EXPERT = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
BEST_TENTH = 0.1


class WorldTask(Task):
    """A task of acting in a world so as to get the return that is asked for.

    Attributes:
        world: The world to act in.
        shares: The shares of the random, the medium and the expert player in the episodes.
        best: The share of the episodes to learn from, the best by return.
    """

    version = VERSION
    architecture = "decision_transformer"
    asks_for = "action"
    input_kind = "vectors"
    is_padded = True
    token_name = "steps"
    lengths = (1, 1_024)
    floors = ("random_player", "mean_of_data")
    world: ClassVar[World]
    shares: ClassVar[tuple[float, float, float]] = MIXED
    best: ClassVar[float] = 1.0
    part_titles: ClassVar[dict[str, str]] = {"asked": "return asked for"}
    aimed_at = "asked"

    def __init_subclass__(cls) -> None:
        """Set the sizes and the metrics of the world."""
        cls.input_size, cls.output_size = cls.world.state_size, cls.world.num_actions
        cls.metric = ReturnGot(world=cls.world, num_levels=len(LEVELS))
        cls.also_scored = (AskedAndGot(world=cls.world),)

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return actions, returns and times."""
        return {
            ACTIONS: Input(kind="tokens", size=cls.world.num_actions, length=length),
            RETURNS: Input(kind="vectors", size=1, length=length),
            TIMES: Input(kind="tokens", size=cls.world.limit, length=length),
        }

    @classmethod
    def data(cls) -> Episodes:
        """Return the episodes that the task trains on, drawn once per process."""
        return episodes_of(cls.world, cls.shares, cls.best)

    @classmethod
    def recorded(cls) -> Episodes:
        """Return all episodes, of which the task may train on the best only."""
        return episodes_of(cls.world, cls.shares, 1.0)

    @classmethod
    def num_actions_taken(cls, num_evaluations: int) -> int:
        """Return the number of steps of all episodes, each with the world's maximum length.

        There is one episode from every start for each return asked for; validation starts are used
        in every evaluation, test starts once.
        """
        starts = num_evaluations * NUM_STARTS["validation"] + NUM_STARTS["test"]
        return starts * len(LEVELS) * cls.world.limit

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return windows at uniformly drawn steps of the episodes."""
        return draw_windows(self.data(), RandomStream(seed, step), batch, self.length)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield each start with all returns asked for, one after the other."""
        whole = starts_of(self.world, split, self.length)
        for first in range(0, len(whole.targets), batch):
            yield whole.rows(slice(first, first + batch))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each return that is asked for."""
        return tuple(f"asked={asked:g}" for asked in asked_of(self.world).tolist())

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by `Batch.part`; training windows belong to none."""
        none = torch.zeros_like(batch.targets, dtype=torch.bool)
        if batch.part is None:
            return dict.fromkeys(self.parts(), none)
        return {at: none | (batch.part == i)[:, None] for i, at in enumerate(self.parts())}


def world_source(world: World, name: str, title: str, origin: str) -> DataSource:
    """Return the data source of a task: all numbers of its world and of the draw of episodes."""
    definition = {
        **world.definition(),
        "players": PLAYERS,
        "num_episodes": NUM_EPISODES,
        "data": name,
        "mixed": MIXED,
        "best": BEST_TENTH,
        "levels": LEVELS,
        "starts": NUM_STARTS,
    }
    return definition_source(
        name=name, title=title, origin=origin, definition=definition, version=VERSION
    )


@lru_cache(maxsize=8)
def episodes_of(world: World, shares: tuple[float, float, float], best: float) -> Episodes:
    """Return the episodes of each player, with the same random numbers for all tasks of a world."""
    counts = [round(share * NUM_EPISODES) for share in shares]
    players = np.repeat(np.arange(len(PLAYERS)), counts)
    stream = RandomStream(EPISODES_SEED, 0)
    played = play_out(world, players, draw_chances(world, stream, NUM_EPISODES))
    return played.best(best) if best < 1 else played


def asked_of(world: World) -> Numbers:
    """Return the returns that are asked for, `[levels]`."""
    returns = episodes_of(world, MIXED, 1.0).returns
    low, high = returns.min(), returns.max()
    found: Numbers = np.round(low + np.array(LEVELS) / 100 * (high - low), _PLACES)
    return found


@lru_cache(maxsize=8)
def starts_of(world: World, split: Split, length: int) -> Batch:
    """Return every start with every level, and with its random numbers.

    The target is the expert's action at the start. No score uses its value; it only marks the row
    as scored.
    """
    chances = draw_chances(world, held_out_stream(split), NUM_STARTS[split])
    luck = np.repeat(chances, len(LEVELS), axis=0)
    situation, count = world.start(luck[:, 0]), len(luck)
    level = np.tile(np.arange(len(LEVELS)), NUM_STARTS[split])
    states = np.zeros((count, length, world.state_size), dtype=np.float32)
    states[:, 0] = world.seen(situation)
    asked = np.zeros((count, length, 1), dtype=np.float32)
    asked[:, 0, 0] = asked_of(world)[level]
    inputs = {
        INPUTS: states,
        ACTIONS: _none(count, length),
        RETURNS: asked,
        TIMES: _none(count, length),
        "mask": np.broadcast_to(np.arange(length) == 0, (count, length)).copy(),
    }
    targets = np.full((count, length), UNSCORED)
    targets[:, 0] = world.chosen(EXPERT, situation)
    return Batch(
        inputs={name: torch.from_numpy(each) for name, each in inputs.items()},
        targets=torch.from_numpy(targets),
        part=torch.from_numpy(level),
        chances=torch.from_numpy(luck),
    )


def _none(count: int, length: int) -> Whole:
    return np.zeros((count, length), dtype=np.int64)
