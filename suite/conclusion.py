"""The end of a sweep: its reports, from what the store holds, and the parents closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.journal.journal import Journal
from suite.outcome import Outcome, counted
from suite.schema import Plan
from suite.tracking.chart_view import address_at
from suite.tracking.client import StoreUnavailable
from suite.tracking.location import Store
from suite.tracking.run_writer import RunWriter

_WITHOUT_STORE = (
    "MLflow is not installed here, so nothing was recorded: the results stand in {journal}, and "
    "`bakeoff record` brings that file into a store on a machine that has it."
)
_UNWRITTEN = (
    "The reports cannot be written to {folder}: {error}; all results are safe, and {remedy} makes "
    "the reports."
)
_REPAIR, _RUN_AGAIN = "`bakeoff verify --repair`", "the same command"
_WITHOUT_REPORT = " There is no report either: {error}."


def conclude(
    outcome: Outcome,
    plans: Sequence[Plan],
    journal: Journal,
    recorder: RunWriter | None,
    out: Path,
    store: Store,
) -> Outcome:
    """Make the reports and close the parents; what stands in the way becomes a sentence."""
    names = list(dict.fromkeys(plan.about.ablation for plan in plans))
    if recorder is None and not outcome.trouble:
        return _without_store(outcome, names, journal, out)
    if recorder is None:
        return outcome
    try:
        pages = _close(names, plans, journal, recorder, out, store)
        found = [address_at(store.uri, recorder.comparison_page(plan.key)) for plan in plans]
    except StoreUnavailable as error:
        return replace(outcome, trouble=str(error))
    except OSError as error:  # a full disk, say
        return replace(outcome, trouble=_unwritten(out / "reports", error, _REPAIR))
    return replace(outcome, reports=pages, comparisons=tuple(filter(None, found)))


def _close(
    names: Sequence[str],
    plans: Sequence[Plan],
    journal: Journal,
    recorder: RunWriter,
    out: Path,
    store: Store,
) -> tuple[Path, ...]:
    from suite.answers import all_sweeps_in, reports_of
    from suite.findings import findings_of

    sweeps = all_sweeps_in(store)
    pages = reports_of(names, sweeps, out / "reports")
    for plan in plans:
        ablation, scale = plan.key
        recorder.publish_report(plan.key, pages[names.index(ablation)].parent)
        for sweep in sweeps[ablation]:
            if sweep.about.scale == scale:
                recorder.publish_findings(plan.key, findings_of(sweep))
    close_parents(plans, journal, recorder)
    return pages


def close_parents(plans: Sequence[Plan], journal: Journal, recorder: RunWriter) -> None:
    """Say in the store how far each sweep has come; nothing of it is shown as running then.

    Raises:
        StoreUnavailable: if the store cannot be reached.
    """
    for plan in plans:
        of_plan = counted([plan], journal, 0)
        summary = {f"num_{status.value}": number for status, number in of_plan.counts.items()}
        recorder.close_sweep(plan.key, summary, finished=not of_plan.num_missing)


def _unwritten(folder: Path, error: OSError, remedy: str) -> str:
    return _UNWRITTEN.format(folder=folder, error=error, remedy=remedy)


def _without_store(outcome: Outcome, names: Sequence[str], journal: Journal, out: Path) -> Outcome:
    """What can be said where there is no store; `bakeoff verify` wants one, and mends nothing."""
    note = _WITHOUT_STORE.format(journal=journal.path)
    try:
        from suite.answers import reports_from_journal
    except ImportError as error:  # a lone machine may have torch and little else
        return replace(outcome, note=note + _WITHOUT_REPORT.format(error=error))
    try:
        pages = reports_from_journal(names, journal, out / "reports")
    except OSError as error:
        trouble = _unwritten(out / "reports", error, _RUN_AGAIN)
        return replace(outcome, note=note, trouble=trouble)
    return replace(outcome, note=note, reports=pages)
