"""The contract of a probe that measures trials of several workers too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from suite.probes.probe import Probe, Said
from suite.schema import Trial
from suite.training.checkpoint import Checkpointer


class SpreadProbe(Probe):
    """A probe whose trials may be spread; those that are not take `measure`."""

    is_spread: ClassVar[bool] = True

    @abstractmethod
    def measure_on_workers(
        self, trial: Trial, device: str, checkpointer: Checkpointer
    ) -> Iterator[Said]:
        """As `measure`, on every worker of the trial at once; all of them say the same.

        Raises:
            Diverged: where the training loss is not finite, on all alike.
        """
