"""Recorded episodes of players in a world, and windows of them to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.task import UNSCORED, Batch
from bakeoff.suite.tasks.worlds.world import OF_PLAYER, Numbers, World


@dataclass(frozen=True)
class Episodes:
    """Recorded steps of episodes; zero after the end of an episode.

    Attributes:
        states: `[episodes, limit, state_size]`, the observations.
        actions: `[episodes, limit]`.
        rewards: `[episodes, limit]`.
        lengths: `[episodes]`, the number of steps.
    """

    states: NDArray[np.float32]
    actions: Whole
    rewards: Numbers
    lengths: Whole

    @property
    def returns(self) -> Numbers:
        """The sum of the rewards of each episode, `[episodes]`."""
        found: Numbers = self.rewards.sum(axis=1)
        return found

    @property
    def returns_to_go(self) -> Numbers:
        """The sum of the rewards from each step on, `[episodes, limit]`."""
        return np.cumsum(self.rewards[:, ::-1], axis=1)[:, ::-1]

    def only(self, chosen: Whole) -> Episodes:
        """Return the chosen episodes, in that order."""
        return Episodes(
            self.states[chosen], self.actions[chosen], self.rewards[chosen], self.lengths[chosen]
        )

    def best(self, share: float) -> Episodes:
        """Return the share of episodes with the largest returns; ties go to the earlier ones."""
        count = max(1, round(share * len(self.lengths)))
        return self.only(np.sort(np.argsort(-self.returns, kind="stable")[:count]))


def play_out(world: World, players: Whole, chances: Numbers) -> Episodes:
    """Let each player play one episode.

    Args:
        world: The world to play in.
        players: `[episodes]`.
        chances: `[episodes, 1 + limit, NUM_CHANCES]`.
    """
    count = len(players)
    states = np.zeros((count, world.limit, world.state_size), dtype=np.float32)
    actions = np.zeros((count, world.limit), dtype=np.int64)
    rewards = np.zeros((count, world.limit))
    lengths = np.zeros(count, dtype=np.int64)
    situation, is_on = world.start(chances[:, 0]), np.ones(count, dtype=np.bool_)
    for time in range(world.limit):
        luck = chances[:, time + 1]
        acted = world.acted(players, situation, luck[:, OF_PLAYER])
        states[is_on, time] = world.seen(situation)[is_on]
        actions[is_on, time] = acted[is_on]
        situation, gained, has_ended = world.step(situation, acted, time, luck)
        rewards[is_on, time] = gained[is_on]
        lengths += is_on
        is_on &= ~has_ended
    return Episodes(states, actions, rewards, lengths)


def draw_windows(episodes: Episodes, stream: RandomStream, count: int, length: int) -> Batch:
    """Draw windows of `length` steps, with the action of each step as its target.

    Like the paper's code, this draws an episode in proportion to its length, and its first step
    uniformly, which is equivalent to a uniform draw from all steps. A window ends with its episode.
    """
    ends = episodes.lengths.cumsum()
    chosen = stream.integers(count, low=0, high=int(ends[-1]))
    rows = np.searchsorted(ends, chosen, side="right")
    firsts = chosen - (ends - episodes.lengths)[rows]
    return windows(episodes, rows, firsts, length)


def windows(episodes: Episodes, rows: Whole, firsts: Whole, length: int) -> Batch:
    """Return windows of these episodes from these steps on, padded after the end of an episode."""
    times = firsts[:, None] + np.arange(length)
    is_real = times < episodes.lengths[rows][:, None]
    times = np.where(is_real, times, 0)
    at = rows[:, None], times
    states = np.where(is_real[..., None], episodes.states[at], np.float32(0))
    actions = np.where(is_real, episodes.actions[at], 0)
    returns = np.where(is_real, episodes.returns_to_go[at], 0)[..., None].astype(np.float32)
    inputs = {INPUTS: states, ACTIONS: actions, RETURNS: returns, TIMES: times, "mask": is_real}
    targets = np.where(is_real, actions, UNSCORED)
    return Batch(
        inputs={name: torch.from_numpy(each) for name, each in inputs.items()},
        targets=torch.from_numpy(targets),
    )
