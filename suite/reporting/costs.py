"""Sum the costs of the trials of a sweep by variant. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bakeoff.suite.journal.plans import parent_cells
from bakeoff.suite.schema import FLOORS, Expense, Plan, Result, Trial

SEVERAL = "several variants"  # share a trial (such as a timing), whose cost cannot be divided
_HOUR = 3600.0


def costs_of(plan: Plan, results: Mapping[str, Sequence[Result]]) -> tuple[Expense, ...]:
    """Return the costs of each variant, in the order of the page, and of all other trials."""
    names = _names(plan)
    held: dict[str, list[tuple[Trial, Result]]] = {}
    for trial in plan.trials:
        for result in results.get(trial.trial_id, ()):
            held.setdefault(names[trial.trial_id], []).append((trial, result))
    order = dict.fromkeys((*plan.about.labels, *held))
    return tuple(_sum_of(name, held[name]) for name in order if name in held)


def _names(plan: Plan) -> Mapping[str, str]:
    """Return trial id -> variant, `SEVERAL`, `FLOORS`, or its role as a pre-training or teacher."""
    found: dict[str, str] = {}
    for cell in (*plan.cells, *parent_cells(plan)):
        name = FLOORS if cell.probe == FLOORS else cell.variant
        found[cell.trial_id] = name if found.get(cell.trial_id, name) == name else SEVERAL
    return found


def _sum_of(name: str, held: Sequence[tuple[Trial, Result]]) -> Expense:
    cpu_seconds = gpu_seconds = 0.0
    told = [result.joules for _, result in held if result.joules is not None]
    for trial, result in held:
        made, seconds = result.provenance, trial.num_workers * result.seconds
        cpu_seconds += made.num_cpus * seconds
        gpu_seconds += (math.ceil(made.num_gpus) if trial.is_timing else made.num_gpus) * seconds
    return Expense(
        name=name,
        num_trials=len(held),
        cpu_hours=cpu_seconds / _HOUR,
        gpu_hours=gpu_seconds / _HOUR,
        joules=sum(told) if told else None,
        num_told=len(told),
    )
