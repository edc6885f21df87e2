"""How is a trial called where people read of it? After the first cell that it fills."""

from __future__ import annotations

from collections.abc import Sequence

from suite.schema import Plan, Trial


def labels_of(plans: Sequence[Plan]) -> dict[str, str]:
    """A short name of every trial, after the first cell that it fills."""
    labels: dict[str, str] = {}
    for plan in plans:
        trials = {trial.trial_id: trial for trial in plan.trials}
        for cell in plan.cells:
            if cell.trial_id in trials:
                labels.setdefault(cell.trial_id, _label(trials[cell.trial_id], cell.variant))
    return labels


def _label(trial: Trial, variant: str) -> str:
    if len(trial.subjects) > 1:
        return f"{trial.probe} of {len(trial.subjects)} variants, {trial.task}, run {trial.seed}"
    if trial.training is None:
        return f"{trial.probe} of {variant}, {trial.task}"
    return f"{variant}, {trial.task}, seed {trial.seed}"
