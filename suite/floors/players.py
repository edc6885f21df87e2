"""Act without having learned: as the random player does; or get what the players of the data got.

The first plays the starts of the test split, with their luck. The second is the mean return of all
episodes that were recorded: what one gets who copies their players, each as often as it played. It
is the same where a task trains on the best tenth of them: these were chosen by their return, so
that their mean holds their luck, and in the world of the pole is the largest return there is. Who
copies their players has no such luck.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches
from suite.tasks.metrics import PlayedMetric
from suite.tasks.task import Batch, Task
from suite.tasks.worlds.episodes import play_out
from suite.tasks.worlds.world import RANDOM
from suite.tasks.worlds.world_task import WorldTask

_NEEDS = "a world to act in (suite.tasks.worlds)"


class RandomPlayer(Floor):
    """All actions alike, whatever is seen."""

    name = "random_player"
    label = "random player"
    version = 1
    needs = _NEEDS

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return issubclass(task, WorldTask)

    def score(self, task: Task) -> float:
        """There is nothing to learn."""
        assert isinstance(task, WorldTask), "see `suits`"
        world = task.world

        def got(batch: Batch) -> Tensor:
            assert batch.chances is not None, "what is held out are episodes"
            players = np.full(len(batch.targets), RANDOM)
            return torch.from_numpy(play_out(world, players, batch.chances.numpy()).returns)

        return _scored(task, got)


class MeanOfData(Floor):
    """The mean return of the episodes that the training data were chosen from."""

    name = "mean_of_data"
    label = "mean of all episodes"
    version = 2
    needs = _NEEDS

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return issubclass(task, WorldTask)

    def score(self, task: Task) -> float:
        """Of all episodes alike."""
        assert isinstance(task, WorldTask), "see `suits`"
        mean = float(task.recorded().returns.mean())
        return _scored(task, lambda batch: torch.full((len(batch.targets),), mean).double())


def _scored(task: Task, got: Callable[[Batch], Tensor]) -> float:
    assert isinstance(task.metric, PlayedMetric), "worlds are for playing"
    metric = task.metric
    return metric.over(metric.sums_of(got(b), b) for b in held_out_batches(task, "test"))
