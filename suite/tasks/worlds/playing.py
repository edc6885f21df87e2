"""Let a model play: ask for a return, act, and subtract what was got from what is asked for.

Chen et al. 2021, arXiv:2106.01345, algorithm 1. The model is given the last steps of the episode,
as many as a window of training has, with what was still asked for in each. Its action is the
likeliest one, so that a score is a function of model and split. The paper's code for Atari draws
actions by their probabilities; in a trial of 500 steps that got 0.03 less on two of these worlds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.interface import ACTIONS, INPUTS, RETURNS, TIMES
from suite.tasks.batch import UNSCORED, Batch
from suite.tasks.data_order import Whole
from suite.tasks.metrics import Acting, PlayedMetric, as_sums
from suite.tasks.worlds.world import Numbers, World


class StepsPlayed:
    """What a model has met in episodes that go on side by side, `[episodes, limit, ...]`."""

    def __init__(self, world: World, asked: Numbers) -> None:
        count = len(asked)
        self.states = np.zeros((count, world.limit, world.state_size), dtype=np.float32)
        self.actions = np.zeros((count, world.limit), dtype=np.int64)
        self.asked = np.zeros((count, world.limit + 1))
        self.asked[:, 0] = asked

    def window(self, rows: Whole, time: int, length: int) -> dict[str, Tensor]:
        """The last `length` steps up to this one, fewer at the beginning; by a model's inputs."""
        first = max(0, time + 1 - length)
        steps = slice(first, time + 1)
        times = np.broadcast_to(np.arange(first, time + 1), (len(rows), time + 1 - first))
        found: dict[str, NDArray[Any]] = {
            INPUTS: self.states[rows, steps],
            ACTIONS: self.actions[rows, steps],
            TIMES: times,
            RETURNS: self.asked[rows, steps, None].astype(np.float32),
            "mask": np.ones(times.shape, dtype=np.bool_),
        }
        return {name: torch.from_numpy(each.copy()) for name, each in found.items()}


def play(model: Acting, world: World, batch: Batch) -> Tensor:
    """The return that the model gets in each episode, `[episodes]` in float64 on the CPU.

    Args:
        model: In evaluation mode.
        world: In which.
        batch: The starts of episodes, each with the return asked for and its chances.
    """
    assert batch.chances is not None, "what is held out are episodes"
    length, device = batch.inputs[INPUTS].shape[1], str(batch.inputs[INPUTS].device)
    chances = batch.chances.cpu().numpy()
    history = StepsPlayed(world, batch.inputs[RETURNS][:, 0, 0].double().cpu().numpy())
    situation, got = world.start(chances[:, 0]), np.zeros(len(chances))
    rows = np.arange(len(chances))  # of episodes that still go on
    for time in range(world.limit):
        luck = chances[rows, time + 1]
        history.states[rows, time] = world.seen(situation)
        window = Batch(inputs=history.window(rows, time, length), targets=torch.from_numpy(rows))
        logits = window.to(device).through(model).logits[:, -1].double().cpu().numpy()
        chosen = logits.argmax(axis=1)
        history.actions[rows, time] = chosen
        situation, rewards, has_ended = world.step(situation, chosen, time, luck)
        got[rows] += np.where(np.isnan(logits).any(axis=1), np.nan, rewards)
        history.asked[rows, time + 1] = history.asked[rows, time] - rewards
        rows, situation = rows[~has_ended], situation[~has_ended]
        if not rows.size:
            break
    return torch.from_numpy(got)


@dataclass(frozen=True, kw_only=True)
class WorldMetric(PlayedMetric):
    """Judges the returns that a model gets in a world.

    Attributes:
        world: In which it plays.
    """

    world: World

    def played(self, model: Acting, batch: Batch) -> Tensor:
        """See `PlayedMetric.played`."""
        return play(model, self.world, batch)


def counts(batch: Batch) -> Tensor:
    """`[batch]`, booleans: which rows are asked for."""
    is_asked: Tensor = (batch.targets != UNSCORED).any(dim=1).cpu()
    return is_asked


@dataclass(frozen=True, kw_only=True)
class ReturnGot(WorldMetric):
    """The mean return, having asked for the largest of those that were asked for.

    Over a whole split that is the best return that the data hold; over a part that of the part.

    Attributes:
        num_levels: Returns that are asked for of each start, the largest last; `Batch.part` says
            which of them a row has, and without it all have the last.
    """

    name: str = "return_got"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"
    num_levels: int

    def sums_of(self, returns: Tensor, batch: Batch) -> Tensor:
        """Of each level, from the largest on, the sum of returns and their number."""
        is_asked, found = counts(batch), returns.double().cpu()
        last = torch.full(is_asked.shape, self.num_levels - 1)
        level = last if batch.part is None else batch.part.cpu()
        inside = [is_asked & (level == each) for each in reversed(range(self.num_levels))]
        numbers = [(found[each].sum().item(), float(each.sum())) for each in inside]
        return as_sums(*(number for pair in numbers for number in pair))

    def value(self, sums: Tensor) -> float:
        """Of the largest level that any row has."""
        pairs = sums.view(-1, 2).tolist()
        return float(next(total / count for total, count in pairs if count))


@dataclass(frozen=True, kw_only=True)
class AskedAndGot(WorldMetric):
    """The correlation between returns asked for and got, over episodes; 0 where all got the same.

    Pearson's. Each start is asked for every level, so a player that does not read what is asked,
    and so has the same luck at all levels, has 0.
    """

    name: str = "asked_and_got"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums_of(self, returns: Tensor, batch: Batch) -> Tensor:
        """The number of episodes, the sums of both, of their squares and of their product."""
        is_asked = counts(batch)
        asked = batch.inputs[RETURNS][:, 0, 0].double().cpu()[is_asked]
        got = returns.double().cpu()[is_asked]
        products = (asked, got, asked * asked, got * got, asked * got)
        return as_sums(float(len(got)), *(each.sum().item() for each in products))

    def value(self, sums: Tensor) -> float:
        """From the moments."""
        means = (sums / sums[0]).tolist()
        _, asked, got, asked_square, got_square, product = means
        spread = (asked_square - asked**2) * (got_square - got**2)
        if spread != spread:
            return math.nan
        return float((product - asked * got) / math.sqrt(spread)) if spread > 1e-15 else 0.0
