"""Describe the effects that the seeds of a plan can detect, given its results or earlier ones."""

from __future__ import annotations

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import claim_cells
from bakeoff.suite.reporting.frames import by_trial, sweep_of
from bakeoff.suite.schema import Plan


def power_of(plan: Plan, journal: Journal) -> str:
    """Return a sentence on the claim, from the newest edition with enough pairs; may be empty."""
    editions = (plan, *(earlier for _, earlier in journal.history(plan)))
    said = (_by(each, plan, journal) for each in editions)
    return next(filter(None, said), "")


def _by(edition: Plan, plan: Plan, journal: Journal) -> str:
    from bakeoff.reports.analysis.power import power_in_words  # imports scipy, which is slow

    trial_ids = dict.fromkeys(cell.trial_id for cell in claim_cells(edition))
    results = by_trial(journal.results(trial_ids))
    if not results:
        return ""
    sweep = sweep_of(edition, results)
    return power_in_words(edition.about, sweep.measured, plan.about.num_seeds)
