"""Writes the journal's content to one MLflow store, idempotently.

Every run is found again by its tags, so each method may be called twice. The mark of what is
complete is written last: a child carries `bakeoff.result_sha256` and has ended; an artifact's hash
is a tag of the parent, so that nothing is sent that is there already.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from suite.schema import FAILURES, About, Cell, Point, Result, Trial
from suite.text import redact
from suite.tracking import run_fields as fields
from suite.tracking.artifacts import digest_of, sample_files
from suite.tracking.client import (
    NO_FILE,
    PARAM_LIMIT,
    SHA256_TAG,
    TAG_LIMIT,
    MetricRow,
    StoreRefuses,
    StoreUnavailable,
    now_ms,
    shortened,
)
from suite.tracking.connect import connect
from suite.tracking.experiments import (
    ABLATION_TAG,
    SOURCES_TAG,
    folder_of,
    free_name,
    own_experiment,
    sources_tag,
)
from suite.tracking.location import Store, rebased
from suite.tracking.run_fields import Key
from suite.tracking.run_index import SweepRuns, TrialRun, has_role, is_child, trial_run
from suite.tracking.shared_views import (
    EDITION_TAG,
    SHOWN_EDITION_TAG,
    VARIANT_SHA256_TAG,
    Findings,
    VariantNumbers,
    page_of,
    view_tags,
)

_MS_TO_ADD = 10_000  # nobody has written a note to a run that is younger


@dataclass
class _Sent:
    """What was sent of a run that this process has created; sending it twice costs time.

    Attributes:
        params: The run's parameters, fitted to the store's limits, until they were sent: they go
            with the first points.
        rows: The metric rows that were sent.
    """

    params: dict[str, str]
    rows: set[MetricRow] = field(default_factory=set)


class RunWriter:
    """Writes sweeps and trials to one MLflow store; there is one writer at a time.

    Args:
        store: Where it is; a local one is created where it does not exist.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
        StoreUnavailable: from here and from every method.
    """

    def __init__(self, store: Store) -> None:
        self._store = connect(store.uri, is_new_allowed=True)
        with self._store.reached():
            rebased(store)  # else what is recorded for a copied folder goes to the original's
        self._folder = folder_of(store)
        self._artifacts = self._folder.artifacts
        self._abouts: dict[Key, About] = {}
        self._opened_ms: dict[Key, int] = {}
        self._files: dict[Key, Mapping[str, bytes]] = {}  # that were published last
        self._sweeps: dict[Key, SweepRuns] = {}
        self._live: dict[str, _Sent] = {}  # by run_id

    def call_before_requests(self, callback: Callable[[], None]) -> None:
        """Call this before each request from now on; it returns when the request may be sent."""
        self._store.call_before_requests(callback)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send what the block writes in one transaction, where the store is a file.

        An error that leaves the block undoes all of it.
        """
        try:
            with self._store.reached(), self._store.together():
                yield
        except BaseException:
            self._sweeps.clear()
            self._live.clear()
            raise

    def open_sweep(self, about: About) -> dict[str, str]:
        """Find or create the parent of (ablation, scale); delete duplicates that a crash left.

        Returns:
            trial_id -> SHA-256 of the result that a complete run shows.
        """
        key = (about.ablation, about.scale)
        self._abouts[key] = about
        self._opened_ms.setdefault(key, now_ms())
        self._sweeps.pop(key, None)
        with self._sweep(key) as sweep:
            return {run.trial_id: run.result_sha256 for run in sweep if run.is_complete}

    def delete_stale(self, key: Key, variants: Mapping[str, str]) -> set[str]:
        """Unmark runs whose varied parameters, or variant by trial_id, differ from the plan's.

        Returns:
            The trials whose result has to be written again, by `finish_trial`.
        """
        with self._sweep(key) as sweep:
            stale = sweep.stale(variants)
            self._unmark(sweep, stale)
            return {run.trial_id for run in stale}

    def mark_edition(self, key: Key, trial_ids: Collection[str]) -> None:
        """Tag the runs of these trials, which belong to the newest edition, with its number.

        What belongs to older ones only keeps the last number that it had.
        """
        with self._sweep(key) as sweep:
            for run in sweep.of_other_editions(trial_ids):
                self._store.log(run.run_id, tags=sweep.edition)
                sweep.put(replace(run, tags={**run.tags, **sweep.edition}))

    def read_again(self, key: Key, trial_ids: Collection[str]) -> None:
        """Of a shared store: take in what others have written, and show this edition again.

        So the folder that ends last is shown, completely.
        """
        if self._artifacts is None:
            self._sweeps.pop(key, None)
            self.mark_edition(key, trial_ids)
            self.publish(key, self._files.get(key, {}))

    def start_trial(self, key: Key, trial: Trial, cells: Sequence[Cell], attempt: int) -> None:
        """Show the trial as running, and delete incomplete runs of older attempts.

        A failure stays until there is another result, as in the journal: the attempt may be cut.
        The parameters follow with the first points, which saves a request.
        """
        with self._sweep(key) as sweep:
            run = sweep.in_progress(trial.trial_id, self._live)
            if run is not None and run.tags.get("bakeoff.attempt") == str(attempt):
                return
            old = [run for run in sweep.of_trial(trial.trial_id) if not run.is_complete]
            tags = fields.trial_tags(key, trial, cells) | {"bakeoff.attempt": str(attempt)}
            self._create(sweep, trial, cells, tags, now_ms(), self._added_to(old))
            self._delete(sweep, old)

    def log_points(self, key: Key, trial_id: str, points: Sequence[Point]) -> None:
        """Log live curves of a trial that was started here; of any other, nothing happens.

        Points that are lost on the way are sent by `finish_trial`.
        """
        with self._sweep(key) as sweep:
            run = sweep.in_progress(trial_id, self._live)
            if run is not None:
                rows = fields.point_rows(points, run.start_ms)
                self._log(run, rows, fields.not_finite_tags(points))

    def finish_trial(self, key: Key, trial: Trial, cells: Sequence[Cell], result: Result) -> None:
        """Write the result: parameters, metrics and tags, the result's hash last, then the end."""
        with self._sweep(key) as sweep:
            run = sweep.showing(result) or self._write_result(sweep, key, trial, cells, result)
            if run.is_complete:
                return
            status = "FAILED" if result.status in FAILURES else "FINISHED"
            self._store.end(run.run_id, status)
            self._live.pop(run.run_id, None)
            environment_id, sha256 = result.provenance.environment_id, result.sha256
            sweep.put(
                replace(run, status=status, result_sha256=sha256, environment_id=environment_id)
            )

    def publish(self, key: Key, files: Mapping[str, bytes]) -> None:
        """Send artifacts of the parent, by name; those that are there already are not sent."""
        self._files[key] = files
        digests = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
        with self._sweep(key) as sweep:
            held = {name: sweep.tags.get(SHA256_TAG + name, "") for name in files}
            changed = {name: body for name, body in files.items() if held[name] != digests[name]}
            # Until all have arrived, a reader may meet the old file or the new one, or no file.
            both = {name: f"{digests[name]} {held[name] or NO_FILE}" for name in changed}
            self._tag(sweep, {SHA256_TAG + name: value for name, value in both.items()})
            for name, body in changed.items():
                self._store.put_files(sweep.run_id, {name: body})
            self._tag(sweep, {SHA256_TAG + name: digests[name] for name in changed})

    def unpublish(self, key: Key, names: Collection[str]) -> None:
        """Mark these artifacts (``report``: all files of it) as wrong, to be published again."""
        with self._sweep(key) as sweep:
            self._tag(sweep, {SHA256_TAG + name: NO_FILE for name in names})

    def delete_trials(self, key: Key, run_ids: Collection[str]) -> None:
        """Unmark runs that do not show what their result gives, of trials and of variants.

        `finish_trial` and `publish_findings` make others, and give them what people have added.
        Of several runs of one result those that are not needed are deleted.
        """
        with self._sweep(key) as sweep:
            runs = [*sweep, *sweep.variants.values()]
            kept = {run.place: run for run in runs if run.is_complete and run.run_id not in run_ids}
            for run in [run for run in runs if run.run_id in run_ids]:
                if run.place in kept:
                    self._hand_over(sweep, run, kept[run.place])
                else:
                    self._unmark(sweep, [run])

    def publish_report(self, key: Key, folder: Path) -> None:
        """Send the report's files, under ``report/`` of the parent, unless they are unchanged."""
        digest = digest_of(folder)
        with self._sweep(key) as sweep:
            if sweep.tags.get(SHA256_TAG + "report") != digest:
                self._store.client.log_artifacts(sweep.run_id, str(folder), "report")
                self._tag(sweep, {SHA256_TAG + "report": digest})
                self._describe(sweep, self._abouts[key])

    def publish_findings(self, key: Key, findings: Findings) -> None:
        """Write the verdict as tags and in the description, and each variant's numbers as a run."""
        verdict = {fields.VERDICT_TAG: findings.verdict, fields.FINDING_TAG: findings.sentence}
        with self.together(), self._sweep(key) as sweep:
            self._show_variants(sweep, self._abouts[key], findings.variants)
            # A claim may have been removed since the last verdict.
            if findings.verdict or fields.VERDICT_TAG in sweep.tags:
                self._tag(sweep, verdict)
            self._describe(sweep, self._abouts[key])

    def _show_variants(
        self, sweep: SweepRuns, about: About, variants: Sequence[VariantNumbers]
    ) -> None:
        """Write those that are not shown yet, and delete all others, of older editions too.

        Those of another edition that have come since this sweep was opened are another folder's.
        """
        hashes = [numbers.tags(about)[VARIANT_SHA256_TAG] for numbers in variants]
        lacking = dict(zip(hashes, variants, strict=True))
        old: dict[tuple[str, ...], list[TrialRun]] = {}
        for run in list(sweep.variants.values()):
            is_foreign = not sweep.edition.items() <= run.tags.items()
            if is_foreign and run.start_ms > self._opened_ms[about.ablation, about.scale]:
                continue
            if not run.is_complete or lacking.pop(run.result_sha256, None) is None:
                old.setdefault(run.place, []).append(run)
        latest = now_ms()  # MLflow lists the latest first: so they come in the report's order
        for place, numbers in enumerate(lacking.values()):
            start_ms = latest - place
            tags = numbers.tags(about) | {"mlflow.parentRunId": sweep.run_id}
            fitting = fields.marked(shortened(tags, TAG_LIMIT, "the report")[0])
            added = self._added_to(old.get(("variant", numbers.variant, numbers.task), []))
            created = self._store.create(sweep.experiment_id, {**fitting, **added}, start_ms)
            run = trial_run(created)
            sweep.put(run)
            params = shortened(numbers.params, PARAM_LIMIT, "the report")[0]
            self._store.log(run.run_id, params=params, rows=numbers.rows(start_ms))
            self._store.end(run.run_id, "FINISHED")
            sweep.put(replace(run, status="FINISHED"))
        self._delete(sweep, [run for runs in old.values() for run in runs])
        self._tag(sweep, {SHOWN_EDITION_TAG: sweep.tags[EDITION_TAG] if variants else "none"})

    def comparison_page(self, key: Key) -> str:
        """Return the page that compares the sweep's variants, else its trials."""
        with self._sweep(key) as sweep:
            return page_of(sweep.experiment_id, sweep.tags)

    def close_sweep(self, key: Key, summary: Mapping[str, str | int], *, finished: bool) -> None:
        """End the parent, FINISHED, or KILLED where trials are left; tag it with its counts."""
        status = "FINISHED" if finished else "KILLED"
        with self._sweep(key) as sweep:
            self._tag(sweep, {f"bakeoff.{name}": str(value) for name, value in summary.items()})
            for run in [run for run in sweep if run.status == "RUNNING"]:
                self._store.end(run.run_id, "KILLED")
                sweep.put(replace(run, status="KILLED"))
            if sweep.status != status:
                self._store.end(sweep.run_id, status)
                sweep.status = status

    @contextmanager
    def _sweep(self, key: Key) -> Iterator[SweepRuns]:
        """The sweep's runs, loaded where they are not known; forgotten again after an error.

        A request that failed for us may have succeeded: only the store knows what it holds.
        """
        try:
            with self._store.reached():
                if key not in self._sweeps:
                    self._sweeps[key] = self._load(self._abouts[key])
                yield self._sweeps[key]
        except BaseException as error:
            self._sweeps.pop(key, None)
            if isinstance(error, StoreRefuses):  # maybe for what was sent here before
                self._live.clear()
            raise

    def _load(self, about: About) -> SweepRuns:
        experiment_id = self._experiment(about)
        runs = self._store.runs(experiment_id, about.scale)
        tags = fields.sweep_tags(about)
        parent, *duplicates = [run for run in runs if has_role(run, "sweep")] or [
            self._store.create(experiment_id, tags, now_ms())
        ]
        sweep = SweepRuns(
            experiment_id=experiment_id,
            run_id=parent.info.run_id,
            status=parent.info.status,
            tags=dict(parent.data.tags),
            axes=about.axes,
        )
        for duplicate in duplicates:
            self._tag(sweep, fields.added_by_people(duplicate.data.tags))
            self._store.client.delete_run(duplicate.info.run_id)
        self._tag(sweep, tags)
        self._describe(sweep, about)
        if about.data_sets and not (parent.inputs and parent.inputs.dataset_inputs):
            self._store.log_data_sets(sweep.run_id, about.data_sets)
        for child in [trial_run(run) for run in runs if is_child(run)]:
            if child.tags.get("mlflow.parentRunId") != sweep.run_id:  # its own was deleted
                self._store.log(child.run_id, tags={"mlflow.parentRunId": sweep.run_id})
            sweep.put(child)
        for run, kept in sweep.duplicates():
            self._hand_over(sweep, run, kept)
        return sweep

    def _experiment(self, about: About) -> str:
        """Find or create the ablation's experiment; return its id."""
        folder = re.sub(r"[^\w-]", "_", about.ablation)
        tags = {
            "mlflow.experimentKind": "custom_model_development",  # opens at runs, not at traces
            **fields.marked({fields.DESCRIPTION_TAG: about.question}),
            ABLATION_TAG: about.ablation,
            **view_tags(about),
        }
        every = self._store.ablations()
        found = own_experiment(self._store, self._folder, about.ablation, every)
        listed = found.tags.get(SOURCES_TAG, "") if found else ""
        tags |= sources_tag(self._folder, about.ablation, listed)
        if found is None:
            location = str(self._artifacts / folder) if self._artifacts else None
            name = free_name(self._store, about.ablation)
            found = self._store.new_experiment(name, location, tags)
        kept = fields.kept_for_people(found.tags, tags)
        self._store.tag_experiment(found, {n: v for n, v in tags.items() if n not in kept})
        held = found.artifact_location
        is_gone = "://" not in held and not Path(held).is_dir()
        if self._artifacts and is_gone and not Path(held).is_relative_to(self._artifacts):
            raise StoreUnavailable(
                f"The store keeps the artifacts of {about.ablation} in {held}, which is gone: put "
                "it back, or choose a new --tracking-uri."
            )
        return str(found.experiment_id)

    def _describe(self, sweep: SweepRuns, about: About) -> None:
        """Write the parent's description; an old verdict stays until there is a new one."""
        text = fields.sweep_description(
            about,
            sweep.experiment_id,
            sweep.run_id,
            has_report=SHA256_TAG + "report" in sweep.tags,
            finding=sweep.tags.get(fields.FINDING_TAG, ""),
        )
        self._tag(sweep, {fields.DESCRIPTION_TAG: text})

    def _create(
        self,
        sweep: SweepRuns,
        trial: Trial,
        cells: Sequence[Cell],
        tags: Mapping[str, str],
        start_ms: int,
        added: Mapping[str, str],
    ) -> TrialRun:
        """Create a child, with what people have `added` to another; its parent runs again."""
        own_tags = {"mlflow.parentRunId": sweep.run_id, **sweep.edition}
        if sweep.axes:  # not every server takes an empty tag
            own_tags[fields.AXES_TAG] = ", ".join(sweep.axes)
        fitting = fields.marked(shortened(tags, TAG_LIMIT, "long_params.json")[0])
        given = {**fitting, **own_tags, **added}
        run = trial_run(self._store.create(sweep.experiment_id, given, start_ms))
        params = fields.trial_params(trial, cells, sweep.axes)
        self._live[run.run_id] = _Sent(self._fitting(run.run_id, params, PARAM_LIMIT, "params"))
        sweep.put(run)
        if sweep.status != "RUNNING":
            self._store.client.update_run(sweep.run_id, status="RUNNING")
            sweep.status = "RUNNING"
        return run

    def _write_result(
        self, sweep: SweepRuns, key: Key, trial: Trial, cells: Sequence[Cell], result: Result
    ) -> TrialRun:
        """Write everything but the end, and delete the runs that the result supersedes."""
        run = sweep.in_progress(trial.trial_id, self._live)
        old = sweep.superseded_by(result, keep=run)
        added = self._added_to([*old, run] if run else old)
        tags = fields.result_tags(trial, cells, result)
        if run is None:  # all tags but the hash at once: one by one they cost the most
            given = fields.trial_tags(key, trial, cells) | tags
            del given[fields.RESULT_SHA256_TAG]
            start_ms = now_ms() - round(result.seconds * 1000)
            run = self._create(sweep, trial, cells, given, start_ms, added)
            tags = {n: v for n, v in tags.items() if n not in given or len(v) > TAG_LIMIT}
            tags = {n: v for n, v in tags.items() if n not in added}
        self._delete(sweep, old)
        data_set = self._abouts[key].data_sets.get(trial.task)
        if data_set is not None and trial.training is not None:
            self._store.log_data_sets(run.run_id, {trial.task: data_set})
        files = sample_files(result)
        if result.traceback:
            files["traceback.txt"] = redact(result.traceback).encode()
        if result.output:
            files["output.txt"] = redact(result.output).encode()
        if files:
            self._store.put_files(run.run_id, files)
        rows = fields.result_rows(trial, cells, result, run.start_ms)
        fitting = self._fitting(run.run_id, tags, TAG_LIMIT, "tags")
        ours = {name: value for name, value in fitting.items() if name not in added}
        self._log(run, rows, {**added, **fields.marked(ours)})
        return run

    def _log(self, run: TrialRun, rows: Sequence[MetricRow], tags: Mapping[str, str]) -> None:
        """Log tags, and the parameters and metrics that were not sent before."""
        sent = self._live[run.run_id]
        new_rows = [row for row in rows if row not in sent.rows]
        self._store.log(run.run_id, params=sent.params, rows=new_rows, tags=tags)
        sent.params = {}
        sent.rows.update(new_rows)

    def _fitting(
        self, run_id: str, values: Mapping[str, str], limit: int, kind: str
    ) -> dict[str, str]:
        """Replace values that are too long by a hash, and keep them whole as an artifact."""
        fitting, body = shortened(values, limit, f"long_{kind}.json")
        if body:
            self._store.client.log_text(run_id, body, f"long_{kind}.json")
        return fitting

    def _tag(self, sweep: SweepRuns, tags: Mapping[str, str]) -> None:
        fitting = fields.marked(shortened(tags, TAG_LIMIT, "the report")[0])
        changed = {name: value for name, value in fitting.items() if sweep.tags.get(name) != value}
        if not changed.keys().isdisjoint(fields.WRITTEN_TAGS):  # maybe a person was faster
            sweep.tags |= self._store.client.get_run(sweep.run_id).data.tags
            kept = fields.kept_for_people(sweep.tags, fitting)
            changed = {name: value for name, value in changed.items() if name not in kept}
        if changed:
            self._store.log(sweep.run_id, tags=changed)
            sweep.tags.update(changed)

    def _added_to(self, runs: Sequence[TrialRun]) -> dict[str, str]:
        """Return what people have added to runs; a run of some age is read again for that."""
        found: dict[str, str] = {}
        for run in runs:
            is_old = now_ms() - run.start_ms > _MS_TO_ADD
            tags = self._store.client.get_run(run.run_id).data.tags if is_old else run.tags
            found |= fields.added_by_people(tags)
        return found

    def _hand_over(self, sweep: SweepRuns, run: TrialRun, kept: TrialRun) -> None:
        """Delete a run, and give what people have added to it to another that stays."""
        if added := self._added_to([run]):
            self._store.log(kept.run_id, tags={**added, **self._added_to([kept])})
        self._delete(sweep, [run])

    def _unmark(self, sweep: SweepRuns, runs: Sequence[TrialRun]) -> None:
        """Let runs show no result any more; what takes their place deletes them."""
        for run in runs:
            if run.result_sha256:
                is_variant = run.tags.get("bakeoff.role") == "variant"
                mark = VARIANT_SHA256_TAG if is_variant else fields.RESULT_SHA256_TAG
                self._store.client.delete_tag(run.run_id, mark)
            sweep.put(replace(run, result_sha256=""))

    def _delete(self, sweep: SweepRuns, runs: Sequence[TrialRun]) -> None:
        for run in runs:
            self._store.client.delete_run(run.run_id)
            self._live.pop(run.run_id, None)
            sweep.drop(run)
