"""In what state is each trial of a plan: done, failed, missing, or a cell that cannot be?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from suite.schema import FAILURES, Plan, Trial
from suite.sweep.pending import is_done

State = Literal["done", "failed", "missing", "skipped"]


@dataclass(frozen=True, kw_only=True)
class TrialState:
    """A trial as `bakeoff plan` shows it, one object a trial.

    Attributes:
        variant: Label of the variant; of a comparison's variants all, joined by `` | ``.
        at: The coordinate of a sweep, as ``length=1024``; several joined by `` | ``; else empty.
        reason: Why it cannot run, or how it failed.
    """

    trial_id: str
    ablation: str
    scale: str
    variant: str
    seed: int
    task: str
    probe: str
    state: State
    reason: str
    at: str = ""


def read_journal(out: Path) -> Journal | None:
    """The journal of the folder, to read; None where nothing was ever run."""
    path = journal_in(out)
    return Journal(path, read_only=True) if os.path.isfile(path) else None


def trial_states(plan: Plan, out: Path) -> list[TrialState]:
    """Of every trial, and every impossible cell; the folder is only read."""
    journal = read_journal(out)
    if journal is None:
        return list(_states(plan, {}, {}))
    with journal:
        return list(_states(plan, _failures(plan, journal), journal.done()))


def _failures(plan: Plan, journal: Journal) -> dict[str, str]:
    """trial_id -> status and reason; only what has failed is read whole."""
    failed = journal.failed()
    return {
        result.trial_id: f"{result.status.value}: {result.reason}"
        for result in journal.results(t.trial_id for t in plan.trials if t.trial_id in failed)
        if result.status in FAILURES
    }


def _states(
    plan: Plan, failures: Mapping[str, str], done: Mapping[str, set[str]]
) -> Iterator[TrialState]:
    variants: dict[str, dict[str, None]] = {}  # each once, in order
    places: dict[str, dict[str, None]] = {}
    for cell in plan.cells:
        variants.setdefault(cell.trial_id, {})[cell.variant] = None
        places.setdefault(cell.trial_id, {})[cell.at] = None
    trials = {trial.trial_id: trial for trial in plan.trials}
    for cell in {cell.trial_id: cell for cell in plan.cells}.values():
        trial = trials.get(cell.trial_id)
        state, reason = _state(plan, trial, cell.reason, failures, done)
        yield TrialState(
            trial_id=cell.trial_id, ablation=plan.about.ablation, scale=plan.about.scale,
            variant=" | ".join(variants[cell.trial_id]), seed=cell.seed, task=cell.task,
            probe=cell.probe, state=state, reason=reason, at=" | ".join(places[cell.trial_id]),
        )  # fmt: skip


def _state(
    plan: Plan,
    trial: Trial | None,
    impossible: str,
    failures: Mapping[str, str],
    done: Mapping[str, set[str]],
) -> tuple[State, str]:
    if trial is None:
        return "skipped", impossible
    if is_done(trial, plan.resources, done):
        return "done", ""
    failure = failures.get(trial.trial_id)
    return ("missing", "") if failure is None else ("failed", failure)


def count_states(states: Sequence[TrialState]) -> dict[State, int]:
    """How many in each state; those with none are left out."""
    found: dict[State, int] = {}
    for state in states:
        found[state.state] = found.get(state.state, 0) + 1
    return found
