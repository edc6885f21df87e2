"""What must be known of each trial to say how a sweep stands, without reading its whole plan?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from suite.labels import labels_of
from suite.schema import Plan


class Listed(NamedTuple):
    """A trial of a sweep, in a few columns.

    Attributes:
        label: Its name for people.
        num_workers: Processes that it takes.
        num_cpus: Of one worker; so is `num_gpus`.
        is_alone: Whether it runs alone on its node, in the phase of the timings.
    """

    ablation: str
    scale: str
    trial_id: str
    probe: str
    label: str
    num_workers: int
    num_cpus: float
    num_gpus: float
    is_alone: bool

    @property
    def kind(self) -> tuple[str, str, str]:
        """Trials of one kind take about the same time."""
        return self.ablation, self.scale, self.probe


def listed(plan: Plan) -> Iterator[Listed]:
    """The plan's trials, in its order."""
    from suite.probes.registry import probe  # takes torch, which those who only read do without

    labels = labels_of([plan])
    asked = plan.resources
    for trial in plan.trials:
        yield Listed(
            *plan.key, trial.trial_id, trial.probe, labels.get(trial.trial_id, trial.trial_id),
            trial.num_workers, float(asked.num_cpus), asked.num_gpus,
            probe(trial.probe).is_timing,
        )  # fmt: skip
