"""Sum what the trials of a sweep took, variant by variant; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from suite.journal.plans import parent_cells
from suite.schema import FLOORS, Expense, Plan, Result

SEVERAL = "several variants"  # that share a trial, as a timing, of which none has a share alone
_HOUR = 3600.0


def costs_of(plan: Plan, results: Mapping[str, Sequence[Result]]) -> tuple[Expense, ...]:
    """One for each variant, in the order of the page, then those of trials of no single variant.

    Empty where no trial had a GPU: then frames are the same whenever they are made.
    """
    if not any(each.provenance.num_gpus for of_trial in results.values() for each in of_trial):
        return ()
    names = _names(plan)
    held: dict[str, list[tuple[int, Result]]] = {}
    for trial in plan.trials:
        of_trial = [(trial.num_workers, each) for each in results.get(trial.trial_id, ())]
        held.setdefault(names[trial.trial_id], []).extend(of_trial)
    order = [*dict.fromkeys((*plan.about.labels, *held))]
    return tuple(_cost(name, held[name]) for name in order if held.get(name))


def _names(plan: Plan) -> Mapping[str, str]:
    """Of every trial: its variant, `SEVERAL`, or what it is to others, as a pre-training."""
    found: dict[str, str] = {}
    for cell in (*plan.cells, *parent_cells(plan)):
        name = FLOORS if cell.probe == FLOORS else cell.variant
        found[cell.trial_id] = name if found.get(cell.trial_id, name) == name else SEVERAL
    return found


def _cost(name: str, held: Iterable[tuple[int, Result]]) -> Expense:
    """Of results, each with the number of workers that it took."""
    every = list(held)
    told = [each.joules for _, each in every if each.joules is not None]
    return Expense(
        name=name, num_trials=len(every),
        cpu_hours=sum(n * r.provenance.num_cpus * r.seconds for n, r in every) / _HOUR,
        gpu_hours=sum(n * r.provenance.num_gpus * r.seconds for n, r in every) / _HOUR,
        joules=sum(told) if told else None, num_told=len(told),
    )  # fmt: skip
