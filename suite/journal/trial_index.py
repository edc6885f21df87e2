"""Lists the trials of a sweep in a few columns, so that its status needs no whole plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from suite.schema import Cell, Plan, Trial


class Listed(NamedTuple):
    """A trial of a sweep, in a few columns.

    Attributes:
        label: Its readable name.
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
    labels = labels_of([plan])
    asked = plan.resources
    for trial in plan.trials:
        yield Listed(
            *plan.key, trial.trial_id, trial.probe, labels.get(trial.trial_id, trial.trial_id),
            trial.num_workers, float(asked.num_cpus), asked.num_gpus, trial.is_timing,
        )  # fmt: skip


def labels_of(plans: Sequence[Plan]) -> dict[str, str]:
    """trial_id -> a short readable name, after the first cell that the trial fills."""
    labels: dict[str, str] = {}
    for plan in plans:
        trials = {trial.trial_id: trial for trial in plan.trials}
        for cell in plan.cells:
            if cell.trial_id in trials:
                labels.setdefault(cell.trial_id, _label(trials[cell.trial_id], cell))
    return labels


def _label(trial: Trial, cell: Cell) -> str:
    where = cell.at or trial.task
    if not trial.subjects:
        return f"{trial.probe}, {where}"
    if len(trial.subjects) > 1:
        return f"{trial.probe} of {len(trial.subjects)} variants, {where}, process {trial.seed}"
    if trial.training is None:
        return f"{trial.probe} of {cell.variant}, {where}"
    return f"{cell.variant}, {where}, seed {trial.seed}"
