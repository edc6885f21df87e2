"""Let a model play: ask for a return, act, and subtract each reward from the return to go.

Chen et al. 2021, arXiv:2106.01345, algorithm 1. The model is given the last steps of the episode,
as many as a training window has, with the return to go of each. Its action is the likeliest one, so
a score is a function of model and split. The paper's code for Atari samples actions from their
probabilities; in a trial of 500 steps sampling reduced the return by 0.03 on two of these worlds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.data_order import Whole
from bakeoff.suite.tasks.metrics import Acting, PlayedMetric, as_sums
from bakeoff.suite.tasks.worlds.world import Numbers, World


class StepsPlayed:
    """The history of simultaneous episodes of a model, `[episodes, limit, ...]`."""

    def __init__(self, world: World, asked: Numbers) -> None:
        count = len(asked)
        self.states = np.zeros((count, world.limit, world.state_size), dtype=np.float32)
        self.actions = np.zeros((count, world.limit), dtype=np.int64)
        self.asked = np.zeros((count, world.limit + 1))
        self.asked[:, 0] = asked

    def window(self, rows: Whole, time: int, length: int) -> dict[str, Tensor]:
        """Return a model's inputs: the last `length` steps up to this one, or fewer at first."""
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
    """Return the return of the model in each episode, `[episodes]` in float64 on the CPU.

    Args:
        model: The model, in evaluation mode.
        world: The world to play in.
        batch: The starts of episodes, each with the return asked for and its chances.
    """
    assert batch.chances is not None, "what is held out are episodes"
    length, device = batch.inputs[INPUTS].shape[1], str(batch.inputs[INPUTS].device)
    chances = batch.chances.cpu().numpy()
    history = StepsPlayed(world, batch.inputs[RETURNS][:, 0, 0].double().cpu().numpy())
    situation, got = world.start(chances[:, 0]), np.zeros(len(chances))
    rows = np.arange(len(chances))  # indices of the episodes that have not ended
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
    """A metric of the returns that a model gets in a world.

    Attributes:
        world: The world to play in.
    """

    world: World

    def played(self, model: Acting, batch: Batch) -> Tensor:
        """Return the return of each row, `[batch]` on the CPU."""
        return play(model, self.world, batch)


def counts(batch: Batch) -> Tensor:
    """Return `[batch]` booleans: True for rows with a scored target."""
    is_asked: Tensor = (batch.targets != UNSCORED).any(dim=1).cpu()
    return is_asked


@dataclass(frozen=True, kw_only=True)
class ReturnGot(WorldMetric):
    """The mean return when the largest of the given returns is asked for.

    Over a whole split that is the highest level of the split; over a part it is the level of the
    part.

    Attributes:
        num_levels: The number of returns asked for from each start, the largest last; `Batch.part`
            holds the level of each row, and without it all rows have the last level.
    """

    name: str = "return_got"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"
    num_levels: int

    def sums_of(self, returns: Tensor, batch: Batch) -> Tensor:
        """Return for each level, from the largest on, the sum and the number of returns."""
        is_asked, found = counts(batch), returns.double().cpu()
        last = torch.full(is_asked.shape, self.num_levels - 1)
        level = last if batch.part is None else batch.part.cpu()
        inside = [is_asked & (level == each) for each in reversed(range(self.num_levels))]
        numbers = [(found[each].sum().item(), float(each.sum())) for each in inside]
        return as_sums(*(number for pair in numbers for number in pair))

    def value(self, sums: Tensor) -> float:
        """Return the mean return of the largest level that any row has."""
        pairs = sums.view(-1, 2).tolist()
        return float(next(total / count for total, count in pairs if count))


@dataclass(frozen=True, kw_only=True)
class AskedAndGot(WorldMetric):
    """The Pearson correlation of returns asked for and got, over episodes.

    It is 0 if all returns got are equal. Every level is asked for from each start, so a model that
    ignores the return asked for, and therefore gets the same one at all levels, has 0.
    """

    name: str = "asked_and_got"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums_of(self, returns: Tensor, batch: Batch) -> Tensor:
        """Return the number of episodes and the sums of both returns, squares and products."""
        is_asked = counts(batch)
        asked = batch.inputs[RETURNS][:, 0, 0].double().cpu()[is_asked]
        got = returns.double().cpu()[is_asked]
        products = (asked, got, asked * asked, got * got, asked * got)
        return as_sums(float(len(got)), *(each.sum().item() for each in products))

    def value(self, sums: Tensor) -> float:
        """Return the correlation from the moments."""
        means = (sums / sums[0]).tolist()
        _, asked, got, asked_square, got_square, product = means
        spread = (asked_square - asked**2) * (got_square - got**2)
        if spread != spread:
            return math.nan
        return float((product - asked * got) / math.sqrt(spread)) if spread > 1e-15 else 0.0
