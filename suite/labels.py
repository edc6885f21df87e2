"""How is a trial called where people read of it? After the first cell that it fills."""

from __future__ import annotations

from collections.abc import Sequence

from suite.schema import Cell, Plan, Trial


def labels_of(plans: Sequence[Plan]) -> dict[str, str]:
    """A short name of every trial, after the first cell that it fills."""
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
