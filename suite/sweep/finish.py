"""Finishes a sweep: reports from the journal's rows, the store's copies of them, parents closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.comparison import address_at
from suite.journal.journal import Journal
from suite.mlflow_store import StoreUnavailable
from suite.recorder import Recorder
from suite.schema import Plan
from suite.store import Store
from suite.sweep.outcome import Outcome, counted

_WITHOUT_STORE = (
    "MLflow is not installed here, so nothing was recorded: the results stand in {journal}, and "
    "`bakeoff record` brings that file into a store on a machine that has it."
)
_WITHOUT_REPORT = " There is no report either: {error}."
_UNWRITTEN = (
    "The reports cannot be written to {folder}: {error}; all results are safe, and {remedy} makes "
    "the reports."
)
_REPAIR, _RUN_AGAIN = "`bakeoff verify --repair`", "the same command"


def conclude(
    outcome: Outcome,
    plans: Sequence[Plan],
    journal: Journal,
    recorder: Recorder | None,
    out: Path,
    store: Store,
) -> Outcome:
    """Make the reports and close the parents; what prevents it becomes a sentence.

    Args:
        outcome: Counts; its `trouble` says why there is no recorder, unless MLflow is missing.
        plans: Of the sweep.
        journal: Of the output folder.
        recorder: Writes to the store; None where there is none to write to.
        out: The output folder.
        store: The store that the recorder writes to.
    """
    if recorder is None:
        return _without_store(outcome, plans, journal, out)
    try:
        pages = _close(plans, journal, recorder, out, store)
        found = [address_at(store.uri, recorder.comparison_page(plan.key)) for plan in plans]
    except StoreUnavailable as error:
        return replace(outcome, trouble=str(error))
    except OSError as error:  # a full disk, for example
        return replace(outcome, trouble=_unwritten(out, error, _REPAIR))
    return replace(outcome, reports=pages, comparisons=tuple(filter(None, found)))


def _close(
    plans: Sequence[Plan], journal: Journal, recorder: Recorder, out: Path, store: Store
) -> tuple[Path, ...]:
    from suite.reporting.build import reports_of, sweeps_to_report
    from suite.reporting.summary import findings_of

    names = _names(plans)
    sweeps = sweeps_to_report(journal, out / "reports", store)
    pages = reports_of(names, sweeps, out / "reports")
    for plan in plans:
        ablation, scale = plan.key
        recorder.publish_report(plan.key, pages[names.index(ablation)].parent)
        for sweep in sweeps[ablation]:
            if sweep.about.scale == scale:
                recorder.publish_findings(plan.key, findings_of(sweep))
    close_parents(plans, journal, recorder)
    return pages


def close_parents(plans: Sequence[Plan], journal: Journal, recorder: Recorder) -> None:
    """Record in the store how far each sweep has come; it shows nothing as running then.

    Raises:
        StoreUnavailable: if the store cannot be reached.
    """
    for plan in plans:
        of_plan = counted([plan], journal, 0)
        summary = {f"num_{status.value}": number for status, number in of_plan.counts.items()}
        recorder.close_sweep(plan.key, summary, finished=not of_plan.num_missing)


def _without_store(outcome: Outcome, plans: Sequence[Plan], journal: Journal, out: Path) -> Outcome:
    """Make the reports alone; whatever the store lacks is in the journal."""
    note = "" if outcome.trouble else _WITHOUT_STORE.format(journal=journal.path)
    try:
        from suite.reporting.build import reports_of, sweeps_to_report
    except ImportError as error:  # a machine for training may have torch and little else
        return replace(outcome, note=note + _WITHOUT_REPORT.format(error=error))
    try:
        sweeps = sweeps_to_report(journal, out / "reports", None)
        pages = reports_of(_names(plans), sweeps, out / "reports")
    except OSError as error:
        trouble = outcome.trouble or _unwritten(out, error, _RUN_AGAIN)
        return replace(outcome, note=note, trouble=trouble)
    return replace(outcome, note=note, reports=pages)


def _names(plans: Sequence[Plan]) -> list[str]:
    return list(dict.fromkeys(plan.about.ablation for plan in plans))


def _unwritten(out: Path, error: OSError, remedy: str) -> str:
    return _UNWRITTEN.format(folder=out / "reports", error=error, remedy=remedy)
