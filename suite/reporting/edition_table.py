"""Sets the editions of an ablation side by side, from what the store holds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from reports.pages.ablation import shown_sweep
from reports.pages.editions import editions_in_lines
from reports.results.frame import Sweep
from suite.journal.journal import Journal
from suite.reporting.build import refuse_missing
from suite.reporting.editions import with_history
from suite.reporting.frames import by_trial, sweep_of
from suite.schema import Plan
from suite.tracking.location import Store
from suite.tracking.read_runs import StoreReader
from suite.tracking.restore import rebuild


def editions_side_by_side(store: Store, name: str, scale: str | None) -> Sequence[str]:
    """Lines of text, at that scale; by default at the largest that has results.

    Raises:
        SpecError: if nothing is recorded of the ablation, or not at that scale.
        StoreUnavailable: if the store cannot be reached.
    """
    keys = [key for key in StoreReader(store.uri).sweeps() if key[0] == name]
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.db") as journal:
        rebuild(journal, store, keys)
        plans = [journal.keep_plan(plan) for plan in journal.plans()]  # numbers those of old stores
        sweeps = [_sweep(with_history(plan, journal), journal) for plan in plans]
        refuse_missing(name, sweeps, scale)
        shown = shown_sweep(sweeps, scale).about
        plan = next(plan for plan in plans if plan.about.scale == shown.scale)
        tried = {each.number: _sweep(of, journal) for each, of in journal.history(plan)}
        return list(editions_in_lines(shown, tried))


def _sweep(plan: Plan, journal: Journal) -> Sweep:
    return sweep_of(plan, by_trial(journal.results(trial.trial_id for trial in plan.trials)))
