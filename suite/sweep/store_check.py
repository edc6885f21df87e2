"""Compares a sweep of the journal with its runs in the MLflow store, down to every number.

Of a run, people may change name and description; parameters, metrics and our own tags must be what
its result gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.journal.export import JOURNAL_FILE, ExportError, exported, unpacked
from suite.journal.journal import Journal
from suite.reporting.build import findings_of
from suite.reporting.frames import by_trial, sweep_files, sweep_of, with_history
from suite.schema import Plan, Result, Status
from suite.sweep.mlflow_sync import trials_with_cells
from suite.tracking.artifacts import digest_of, files_in
from suite.tracking.client import PARAM_LIMIT, TAG_LIMIT, MetricRow, shortened
from suite.tracking.read_runs import REPORT, StoredFile, StoredSweep
from suite.tracking.run_fields import (
    Key,
    result_rows,
    result_tags,
    trial_params,
    trial_tags,
)
from suite.tracking.run_index import TrialRun
from suite.tracking.shared_views import EDITION_TAG, VARIANT_SHA256_TAG, VariantNumbers

_OUR_TAGS = "bakeoff."


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One point in which journal, store and reports do not agree.

    Attributes:
        sentence: What differs.
        key: Of the sweep; None where it concerns no single one.
        run_ids: Runs of trials that are wrong: the journal can give them again.
        files: Artifacts of the parent that are to be sent again.
        is_lost: Whether the journal lacks something that the store may have.
    """

    sentence: str
    key: Key | None = None
    run_ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_lost: bool = False


class StoreCheck:
    """Compares one sweep of the journal, which has no damaged rows, with what the store shows."""

    def __init__(self, plan: Plan, journal: Journal, stored: StoredSweep) -> None:
        self._plan, self._journal, self._stored = plan, journal, stored
        self._trials = trials_with_cells(plan)
        self._axes = plan.about.axes

    def differences(self, reports: Path) -> Iterator[Difference]:
        """Of the parent, its trials' runs, its artifacts, and its copy of the report."""
        number = len(self._stored.parents)
        if number > 1:
            yield self._difference(f"the parent is in the store {number} times.")
        results = list(self._journal.results(self._trials))
        yield from self._of_trials(results)
        of_files = list(self._of_files(results))
        yield from of_files
        if self._stored.edition and not of_files:  # an older version wrote no variants
            yield from self._of_variants(results)
        yield from self._of_sent_report(reports / self._plan.about.ablation)

    def _difference(self, sentence: str, **what: Any) -> Difference:
        ablation, scale = self._plan.key
        sentence = f"{ablation}, {scale}: {sentence}"
        return Difference(sentence=sentence, key=self._plan.key, **what)

    def _of_trials(self, results: Sequence[Result]) -> Iterator[Difference]:
        """By trial and environment; there should be one complete run for each result."""
        kept = {(each.trial_id, each.provenance.environment_id): each for each in results}
        held = {(entry.trial_id, entry.environment_id) for entry in self._journal.entries()}
        shown: dict[tuple[str, str], list[TrialRun]] = {}
        for run in self._stored.trials:
            if run.is_complete:
                place = (run.trial_id, run.environment_id)
                shown.setdefault(place, []).append(run)
        for trial_id, _ in [place for place in kept if place not in shown]:
            yield self._difference(f"trial {trial_id} is in the journal, not in the store.")
        for place, runs in shown.items():
            if place in kept:
                yield from self._of_trial(kept[place], runs)
            elif place not in held:  # a trial that the plan no longer has may be in the journal
                sentence = f"trial {place[0]} is in the store, not in the journal."
                yield self._difference(sentence, is_lost=True)

    def _of_trial(self, result: Result, runs: Sequence[TrialRun]) -> Iterator[Difference]:
        head = f"trial {result.trial_id}"
        same = [run for run in runs if run.result_sha256 == result.sha256]
        shown = [(run, [*self._faults(run, result)]) for run in same]
        # Of several that say the same, the one that shows it best.
        chosen, faults = min(shown, key=lambda each: len(each[1])) if same else (runs[0], [])
        doubled = tuple(run.run_id for run in runs if run is not chosen)
        if doubled:
            yield self._difference(f"{head} is in the store {len(runs)} times.", run_ids=doubled)
        sentence = "" if same else f"{head} differs between journal and store."
        if faults:
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            sentence = f"{head} shows {faults[0]}{more}, in the store."
        if sentence:
            yield self._difference(sentence, run_ids=(chosen.run_id,))

    def _faults(self, run: TrialRun, result: Result) -> Iterator[str]:
        """Parameters, tags and metrics that are not what the result gives, in a few words each."""
        trial, cells = self._trials[result.trial_id]
        params = trial_params(trial, cells, self._axes)
        fitting = shortened(params, PARAM_LIMIT, "long_params.json")[0]
        yield from _unlike("parameter", fitting, run.params)
        tags = trial_tags(self._plan.key, trial, cells) | result_tags(trial, cells, result)
        # One that is too long is a hash in the store, beside a file that holds it.
        ours = {k: v for k, v in tags.items() if k.startswith(_OUR_TAGS) and len(v) <= TAG_LIMIT}
        ours |= {EDITION_TAG: self._stored.edition} if self._stored.edition else {}
        yield from _unlike("tag", ours, run.tags)
        rows = result_rows(trial, cells, result, run.start_ms)
        # A failure may show more live points than its result has: they came before it died.
        yield from self._metric_faults(run, rows, may_have_more=result.status is not Status.OK)

    def _metric_faults(
        self, run: TrialRun, rows: Sequence[MetricRow], *, may_have_more: bool
    ) -> Iterator[str]:
        curves: dict[str, list[MetricRow]] = {}
        for row in rows:
            curves.setdefault(row.key, []).append(row)
        newest = {  # as MLflow chooses it
            name: max(curve, key=lambda row: (row.step, row.timestamp_ms, row.value)).value
            for name, curve in curves.items()
            if len(curve) == 1 or not may_have_more
        }
        yield from _unlike("metric", newest, run.metrics)
        for name in () if may_have_more else sorted(run.metrics.keys() - curves.keys()):
            yield f"the metric {name}, which its result does not have"
        for name, curve in curves.items():
            if len(curve) > 1 and name in run.metrics:
                logged = set(self._stored.history(run.run_id, name))
                if not (logged >= set(curve) if may_have_more else logged == set(curve)):
                    yield f"another curve of {name}"

    def _of_variants(self, results: Sequence[Result]) -> Iterator[Difference]:
        """There should be one run for each row of the report's tables, and nothing else."""
        about = self._plan.about
        shown: dict[str, list[TrialRun]] = {}
        for run in self._stored.variants:
            shown.setdefault(run.result_sha256 if run.is_complete else "", []).append(run)
        for numbers in findings_of(sweep_of(self._plan, by_trial(results))).variants:
            head = f"the variant {numbers.variant} on {numbers.task}"
            runs = shown.pop(numbers.tags(about)[VARIANT_SHA256_TAG], [])
            wrong = [run for run in runs[:1] if self._is_altered(run, numbers)] + runs[1:]
            if wrong or not runs:
                run_ids = tuple(run.run_id for run in wrong)
                sentence = f"{head} in the store is not what the journal gives."
                yield self._difference(sentence, run_ids=run_ids)
        if others := tuple(run.run_id for runs in shown.values() for run in runs):
            sentence = f"variants that the journal does not give are in the store ({len(others)})."
            yield self._difference(sentence, run_ids=others)

    def _is_altered(self, run: TrialRun, numbers: VariantNumbers) -> bool:
        rows = numbers.rows(run.start_ms)
        newest = {row.key: row.value for row in rows}  # a curve's last point is its last row
        curves = {row.key: row for row in rows if row.step}
        params = shortened(numbers.params, PARAM_LIMIT, "the report")[0]
        ours = {k: v for k, v in numbers.tags(self._plan.about).items() if len(v) <= TAG_LIMIT}
        ours = {name: value for name, value in ours.items() if name.startswith(_OUR_TAGS)}
        return (
            (run.params, run.metrics) != (params, newest)
            or any(_unlike("tag", ours, run.tags))
            or any(
                set(self._stored.history(run.run_id, name)) != {r for r in rows if r.key == name}
                for name in curves
            )
        )

    def _of_files(self, results: Sequence[Result]) -> Iterator[Difference]:
        shown = with_history(self._plan, self._journal)
        wanted = sweep_files(shown, by_trial(results))
        wanted[JOURNAL_FILE] = exported(self._plan, self._journal)
        for name, body in wanted.items():
            if fault := _fault_of_file(name, self._stored.file(name), body):
                yield self._difference(fault, files=(name,))

    def _of_sent_report(self, home: Path) -> Iterator[Difference]:
        """Only if it is a copy of the report here, which may have grown since it was sent."""
        if not home.is_dir() or self._stored.digest(REPORT) != digest_of(home):
            return
        sent = self._stored.report_files()
        altered = [name for name, body in files_in(home).items() if sent.get(name) != body]
        if altered:
            sentence = f"{REPORT}/{altered[0]} in the store is not the file that was published."
            yield self._difference(sentence, files=(REPORT,))


def _unlike(kind: str, wanted: Mapping[str, object], shown: Mapping[str, object]) -> Iterator[str]:
    for name, value in wanted.items():
        if name not in shown:
            yield f"no {kind} {name}"
        elif shown[name] != value:
            yield f"the {kind} {name} as {repr(shown[name])[:60]}, not {repr(value)[:60]}"


def _fault_of_file(name: str, held: StoredFile, wanted: bytes) -> str:
    if held.body is None:
        return f"the parent in the store has no {name}."
    if not held.is_sound or len(held.published) > 1:
        return f"{name} in the store is not the file that was published, by its SHA-256."
    if _content(name, held.body) != _content(name, wanted):
        return f"{name} of the store is not what the journal gives."
    return ""


def _content(name: str, body: bytes) -> bytes:
    try:
        return unpacked(body) if name == JOURNAL_FILE else body
    except ExportError:
        return b""
