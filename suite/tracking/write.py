"""Write runs to one MLflow store, each once for the hash of its content.

MLflow is a view of the journal. The last tag of a trial's or a variant's run is the hash of its
content. If the store has no run with the wanted hash, one is written, and the runs that it replaces
are deleted, after their additions by people have been copied. Hashes of files are tags of the
parent. So every method may be called twice, and the second call writes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakeoff.suite.journal.sqlite_schema import JournalEntry
from bakeoff.suite.schema import About, Cell, Point, Result, Trial
from bakeoff.suite.tracking import run_fields as fields
from bakeoff.suite.tracking.artifacts import digest_of
from bakeoff.suite.tracking.client import (
    CONTENT_TAG,
    NO_FILE,
    PARAM_LIMIT,
    SHA256_TAG,
    TAG_LIMIT,
    MetricRow,
    RunContent,
    StoreRefuses,
    StoreUnavailable,
    now_ms,
    shortened,
)
from bakeoff.suite.tracking.connect import connect
from bakeoff.suite.tracking.experiments import (
    ABLATION_TAG,
    SOURCES_TAG,
    folder_of,
    free_name,
    own_experiment,
    sources_tag,
)
from bakeoff.suite.tracking.location import Store, rebased
from bakeoff.suite.tracking.read import REPORT, ChildRun, has_role
from bakeoff.suite.tracking.run_fields import Key
from bakeoff.suite.tracking.shared_views import (
    EDITION_SHA256_TAG,
    EDITION_TAG,
    SHOWN_EDITION_TAG,
    Findings,
    page_of,
    view_tags,
)

_PARENT_TAG = "mlflow.parentRunId"
_MS_TO_ADD = 10_000  # a younger run cannot have a person's note yet


@dataclass(kw_only=True)
class _SweepRuns:
    """The parent run of an ablation at one scale, and its children.

    Attributes:
        experiment_id: The experiment of the ablation.
        run_id: The id of the parent.
        status: The status of the parent.
        tags: The tags of the parent.
        axes: Names of the axes.
        children: trial_id -> run_id -> run, the earliest first. A trial has several runs if
            environments differ, or if a crash left an incomplete one. Variants are under "".
    """

    experiment_id: str
    run_id: str
    status: str
    tags: dict[str, str]
    axes: tuple[str, ...]
    children: dict[str, dict[str, ChildRun]] = field(default_factory=dict)

    @property
    def edition(self) -> dict[str, str]:
        """The tags of the newest edition."""
        return {n: self.tags[n] for n in (EDITION_TAG, EDITION_SHA256_TAG) if n in self.tags}

    def all_runs(self) -> list[ChildRun]:
        """Return the runs of all trials and variants."""
        return [run for runs in self.children.values() for run in runs.values()]

    def runs_of(self, trial_id: str) -> list[ChildRun]:
        """Return all runs of one trial; those of variants for an empty id."""
        return list(self.children.get(trial_id, {}).values())

    def put(self, run: ChildRun) -> None:
        """Add a run, or replace its state."""
        self.children.setdefault(run.trial_id, {})[run.run_id] = run

    def drop(self, run: ChildRun) -> None:
        """Remove a run that was deleted."""
        self.children[run.trial_id].pop(run.run_id)


@dataclass
class _Sent:
    """The part of a run that was sent, for a run that this process has created.

    Attributes:
        params: Parameters that still have to be sent, with the first points.
        rows: Metric rows that were sent.
    """

    params: Mapping[str, str]
    rows: set[MetricRow] = field(default_factory=set)


class RunWriter:
    """A writer of sweeps and trials to one MLflow store; there is one writer at a time.

    Args:
        store: The location of the store; a local one is created if it does not exist.

    Raises:
        BadUri, RefusedUri: In the cases of `check_tracking_uri`.
        StoreUnavailable: If the store cannot be used; raised here and by every method.
    """

    def __init__(self, store: Store) -> None:
        self._store = connect(store.uri, is_new_allowed=True)
        with self._store.reached():
            rebased(store)  # otherwise the runs of a copied folder would go to the original's
        self._folder = folder_of(store)
        self._artifacts = self._folder.artifacts
        self._abouts: dict[Key, About] = {}
        self._opened_ms: dict[Key, int] = {}
        self._files: dict[Key, Mapping[str, bytes]] = {}  # the files that were published last
        self._sweeps: dict[Key, _SweepRuns] = {}
        self._live: dict[str, _Sent] = {}  # by run_id

    def call_before_requests(self, callback: Callable[[], None]) -> None:
        """Call this before each request from now on; it returns when the request may be sent."""
        self._store.call_before_requests(callback)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send what the block writes in one transaction, if the store is a file.

        An error that leaves the block rolls all of it back.
        """
        try:
            with self._store.reached(), self._store.together():
                yield
        except BaseException:
            self._sweeps.clear()
            self._live.clear()
            raise

    def open_sweep(self, about: About) -> None:
        """Find or create the parent of (ablation, scale); delete duplicates that a crash left."""
        key = (about.ablation, about.scale)
        self._abouts[key] = about
        self._opened_ms.setdefault(key, now_ms())
        self._sweeps.pop(key, None)
        with self._sweep(key):
            pass

    def lacking(
        self,
        key: Key,
        trials: Mapping[str, tuple[Trial, Sequence[Cell]]],
        entries: Iterable[JournalEntry],
    ) -> set[str]:
        """Return the trials whose result in the journal is not shown correctly by any run.

        A run without a hash of its content was written by an older version; its tags tell whether
        it shows the result under the present names.
        """
        with self._sweep(key) as sweep:
            complete = [run for run in sweep.all_runs() if run.is_complete]
            axes = ", ".join(sweep.axes)
            shown = {(run.trial_id, run.content_sha256) for run in complete}
            old = {
                (
                    run.result_sha256,
                    run.tags.get(fields.VARIANT_TAG),
                    run.tags.get(fields.AXES_TAG, axes),
                )
                for run in complete
                if not run.content_sha256
            }
            found = set()
            for entry in entries:
                trial, cells = trials.get(entry.trial_id, (None, ()))
                if trial is None:
                    continue
                wanted = fields.trial_sha256(key, trial, cells, sweep.axes, entry.sha256)
                names = (entry.sha256, fields.variant_of(trial, cells), axes)
                if (entry.trial_id, wanted) not in shown and names not in old:
                    found.add(entry.trial_id)
            return found

    def mark_edition(self, key: Key, trial_ids: Collection[str]) -> None:
        """Tag the runs of these trials, which belong to the newest edition, with its number.

        Trials that only older editions have keep their last number.
        """
        with self._sweep(key) as sweep:
            edition = sweep.edition
            for run in [run for trial_id in trial_ids for run in sweep.runs_of(trial_id)]:
                if run.is_complete and not edition.items() <= run.tags.items():
                    self._store.log(run.run_id, tags=edition)
                    sweep.put(replace(run, tags={**run.tags, **edition}))

    def read_again(self, key: Key, trial_ids: Collection[str]) -> None:
        """Reload a shared store that others have written to, and show this edition again.

        So the folder that ends last is shown completely.
        """
        if self._artifacts is None:
            self._sweeps.pop(key, None)
            self.mark_edition(key, trial_ids)
            self.publish(key, self._files.get(key, {}))

    def start_trial(self, key: Key, trial: Trial, cells: Sequence[Cell], attempt: int) -> None:
        """Show the trial as running, and delete incomplete runs of older attempts.

        A failure stays until there is another result, like in the journal, since the attempt may be
        interrupted. The parameters follow with the first points, which saves a request.
        """
        with self._sweep(key) as sweep:
            run = self._in_progress(sweep, trial.trial_id)
            if run is not None and run.tags.get("bakeoff.attempt") == str(attempt):
                return
            old = [run for run in sweep.runs_of(trial.trial_id) if not run.is_complete]
            tags = fields.trial_tags(key, trial, cells, sweep.axes)
            tags = shortened(tags, TAG_LIMIT, "long_tags.json")[0]
            params = fields.trial_params(trial, cells, sweep.axes)
            params = shortened(params, PARAM_LIMIT, "long_params.json")[0]
            given = {**fields.marked(tags), "bakeoff.attempt": str(attempt), **self._added_to(old)}
            run = self._create(sweep, given, now_ms())
            self._live[run.run_id] = _Sent(params)
            self._delete(sweep, old)

    def log_points(self, key: Key, trial_id: str, points: Sequence[Point]) -> None:
        """Log live curves of a trial that was started here; ignore those of any other.

        Points that are lost in transmission are sent by `finish_trial`.
        """
        with self._sweep(key) as sweep:
            run = self._in_progress(sweep, trial_id)
            if run is not None:
                self._log(run, fields.point_rows(points), fields.not_finite_tags(points))

    def finish_trial(self, key: Key, trial: Trial, cells: Sequence[Cell], result: Result) -> None:
        """Write the run that shows the result, unless the store has it."""
        with self._sweep(key) as sweep:
            content = fields.trial_content(key, trial, cells, sweep.axes, result)
            runs = sweep.runs_of(trial.trial_id)
            written = [run for run in runs if run.content_sha256 == content.sha256]
            for run in written[:1]:
                self._end(sweep, run, content)
                return
            live = self._in_progress(sweep, trial.trial_id)
            if live is not None and not content.may_hold(self._live[live.run_id].rows):
                live = None  # its points are not the result's, so it is replaced
            environment_id = result.provenance.environment_id
            old = [
                run
                for run in runs
                if run != live and (not run.is_written or run.environment_id == environment_id)
            ]
            data_set = self._abouts[key].data_sets.get(trial.task_label)
            run = self._write(sweep, content, old, live, now_ms() - round(result.seconds * 1000))
            if data_set is not None and trial.training is not None:
                self._store.log_data_sets(run.run_id, {trial.task_label: data_set})
            self._complete(sweep, run, content)

    def publish(self, key: Key, files: Mapping[str, bytes]) -> None:
        """Send artifacts of the parent, by name, except those that are already stored."""
        self._files[key] = files
        digests = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
        with self._sweep(key) as sweep:
            held = {name: sweep.tags.get(SHA256_TAG + name, "") for name in files}
            changed = {name: body for name, body in files.items() if held[name] != digests[name]}
            # Until all have arrived, a reader may find the old file or the new one, or no file.
            both = {name: f"{digests[name]} {held[name] or NO_FILE}" for name in changed}
            self._tag(sweep, {SHA256_TAG + name: value for name, value in both.items()})
            for name, body in changed.items():
                self._store.put_files(sweep.run_id, {name: body})
            self._tag(sweep, {SHA256_TAG + name: digests[name] for name in changed})

    def invalidate(self, key: Key, run_ids: Collection[str], files: Collection[str]) -> None:
        """Mark runs and artifacts (``report``: all its files) as wrong, to be written again.

        `finish_trial`, `publish_findings` and `publish` then write new ones.
        """
        with self._sweep(key) as sweep:
            self._tag(sweep, {SHA256_TAG + name: NO_FILE for name in files})
            for run in [run for run in sweep.all_runs() if run.run_id in run_ids]:
                marks = run.tags.keys() & fields.MARKS_OF_COMPLETE
                for mark in sorted(marks):
                    self._store.client.delete_tag(run.run_id, mark)
                tags = {name: value for name, value in run.tags.items() if name not in marks}
                sweep.put(replace(run, tags=tags))

    def publish_report(self, key: Key, folder: Path) -> None:
        """Send the report's files, under ``report/`` of the parent, unless they are unchanged."""
        digest = digest_of(folder)
        with self._sweep(key) as sweep:
            if sweep.tags.get(SHA256_TAG + REPORT) != digest:
                self._store.client.log_artifacts(sweep.run_id, str(folder), REPORT)
                self._tag(sweep, {SHA256_TAG + REPORT: digest})
                self._describe(sweep, self._abouts[key])

    def publish_findings(self, key: Key, findings: Findings) -> None:
        """Write the verdict as tags and in the description, and each variant's numbers as a run."""
        about = self._abouts[key]
        verdict = {fields.VERDICT_TAG: findings.verdict, fields.FINDING_TAG: findings.sentence}
        contents = [numbers.content(about) for numbers in findings.variants]
        with self.together(), self._sweep(key) as sweep:
            self._show_variants(sweep, contents, self._opened_ms[key])
            # A claim may have been removed since the last verdict.
            if findings.verdict or fields.VERDICT_TAG in sweep.tags:
                self._tag(sweep, verdict)
            self._describe(sweep, about)

    def _show_variants(
        self, sweep: _SweepRuns, contents: Sequence[RunContent], opened_ms: int
    ) -> None:
        """Write the variants that are not shown yet, and delete all others, of any edition.

        Variants of another edition that were written since this sweep was opened belong to another
        folder, and are kept.
        """
        lacking = {content.sha256: content for content in contents}
        old: list[ChildRun] = []
        for run in sweep.runs_of(""):
            is_foreign = not sweep.edition.items() <= run.tags.items()
            if is_foreign and run.start_ms > opened_ms:
                continue
            if not run.is_complete or lacking.pop(run.content_sha256, None) is None:
                old.append(run)
        latest = now_ms()  # MLflow lists the latest first: this gives the report's order
        for number, content in enumerate(lacking.values()):
            replaced = [run for run in old if run.place == content.place]
            self._complete(
                sweep, self._write(sweep, content, replaced, None, latest - number), content
            )
            old = [run for run in old if run not in replaced]
        self._delete(sweep, old)
        self._tag(sweep, {SHOWN_EDITION_TAG: sweep.tags[EDITION_TAG] if contents else "none"})

    def comparison_page(self, key: Key) -> str:
        """Return the page that compares the sweep's variants, or else its trials."""
        with self._sweep(key) as sweep:
            return page_of(sweep.experiment_id, sweep.tags)

    def close_sweep(self, key: Key, summary: Mapping[str, str | int], *, finished: bool) -> None:
        """End the parent, as FINISHED or, if trials are left, as KILLED; tag it with its counts."""
        status = "FINISHED" if finished else "KILLED"
        with self._sweep(key) as sweep:
            self._tag(sweep, {f"bakeoff.{name}": str(value) for name, value in summary.items()})
            for run in [run for run in sweep.all_runs() if run.status == "RUNNING"]:
                self._store.end(run.run_id, "KILLED")
                sweep.put(replace(run, status="KILLED"))
            if sweep.status != status:
                self._store.end(sweep.run_id, status)
                sweep.status = status

    @contextmanager
    def _sweep(self, key: Key) -> Iterator[_SweepRuns]:
        """Yield the sweep's runs, loaded if they are not cached; clear the cache after an error.

        A request that failed on this side may have succeeded in the store.
        """
        try:
            with self._store.reached():
                if key not in self._sweeps:
                    self._sweeps[key] = self._load(self._abouts[key])
                yield self._sweeps[key]
        except BaseException as error:
            self._sweeps.pop(key, None)
            if isinstance(error, StoreRefuses):  # possibly because of what was sent before
                self._live.clear()
            raise

    def _load(self, about: About) -> _SweepRuns:
        experiment_id = self._experiment(about)
        runs = self._store.runs(experiment_id, about.scale)
        tags = fields.sweep_tags(about)
        parent, *duplicates = [run for run in runs if has_role(run, "sweep")] or [
            self._store.create(experiment_id, tags, now_ms())
        ]
        sweep = _SweepRuns(
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
        for child in ChildRun.all_in(runs):
            if child.tags.get(_PARENT_TAG) != sweep.run_id:  # its own parent was deleted
                self._store.log(child.run_id, tags={_PARENT_TAG: sweep.run_id})
            sweep.put(child)
        self._delete_duplicates(sweep)
        return sweep

    def _delete_duplicates(self, sweep: _SweepRuns) -> None:
        """Keep the earliest complete run of each place, and copy people's additions to others."""
        first: dict[tuple[str, ...], ChildRun] = {}
        for run in [run for run in sweep.all_runs() if run.is_complete]:
            first.setdefault(run.place, run)
        for run in sweep.all_runs():
            kept = first.get(run.place, run)
            if kept is not run and run.status != "RUNNING":
                if added := self._added_to([run]):
                    self._store.log(kept.run_id, tags={**added, **self._added_to([kept])})
                self._delete(sweep, [run])

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
                f"The store keeps the artifacts of {about.ablation} in {held}, which no longer "
                "exists; restore it, or choose a new --tracking-uri."
            )
        return str(found.experiment_id)

    def _describe(self, sweep: _SweepRuns, about: About) -> None:
        """Write the parent's description; an old verdict stays until there is a new one."""
        text = fields.sweep_description(
            about,
            sweep.experiment_id,
            sweep.run_id,
            has_report=SHA256_TAG + REPORT in sweep.tags,
            finding=sweep.tags.get(fields.FINDING_TAG, ""),
        )
        self._tag(sweep, {fields.DESCRIPTION_TAG: text})

    def _in_progress(self, sweep: _SweepRuns, trial_id: str) -> ChildRun | None:
        """Return the incomplete run of the trial that this process has created.

        A run of another process may hold another attempt's points, and is never continued.
        """
        runs = sweep.runs_of(trial_id)
        return next((r for r in runs if r.run_id in self._live and not r.content_sha256), None)

    def _create(self, sweep: _SweepRuns, tags: Mapping[str, str], start_ms: int) -> ChildRun:
        """Create a child; if it is a trial, set its parent to running again."""
        given = {**tags, _PARENT_TAG: sweep.run_id, **sweep.edition}
        run = ChildRun.of(self._store.create(sweep.experiment_id, given, start_ms))
        sweep.put(run)
        if sweep.status != "RUNNING" and run.trial_id:
            self._store.client.update_run(sweep.run_id, status="RUNNING")
            sweep.status = "RUNNING"
        return run

    def _write(
        self,
        sweep: _SweepRuns,
        content: RunContent,
        old: Sequence[ChildRun],
        live: ChildRun | None,
        start_ms: int,
    ) -> ChildRun:
        """Start the run that replaces the old ones, or take the live one; delete the old ones.

        All tags except the marks of a complete run are part of the request that creates the run,
        because single requests are expensive. For a live run, `_complete` sends them.
        """
        added = self._added_to([*old, live] if live else old)
        run = live
        if run is None:
            tags = {n: v for n, v in content.tags.items() if n not in fields.MARKS_OF_COMPLETE}
            run = self._create(sweep, {**fields.marked(tags), **added}, start_ms)
            self._live[run.run_id] = _Sent(content.params)
        run = replace(run, tags={**run.tags, **added})
        sweep.put(run)
        self._delete(sweep, old)
        return run

    def _complete(self, sweep: _SweepRuns, run: ChildRun, content: RunContent) -> None:
        """Send what the run lacks, the hash of the content last, and end the run."""
        if content.files:
            self._store.put_files(run.run_id, content.files)
        kept = fields.added_by_people(run.tags).keys()
        ours = {name: value for name, value in content.tags.items() if name not in kept}
        wanted = {**fields.marked(ours), CONTENT_TAG: content.sha256}
        tags = {name: value for name, value in wanted.items() if run.tags.get(name) != value}
        self._log(run, content.rows, tags)
        self._end(sweep, replace(run, tags={**run.tags, **tags}), content)

    def _end(self, sweep: _SweepRuns, run: ChildRun, content: RunContent) -> None:
        """End a run that has all its content, unless it has ended."""
        if run.status == "RUNNING":
            self._store.end(run.run_id, content.status)
            self._live.pop(run.run_id, None)
            sweep.put(replace(run, status=content.status))

    def _log(self, run: ChildRun, rows: Iterable[MetricRow], tags: Mapping[str, str]) -> None:
        """Log tags, and the parameters and metrics that were not sent before."""
        sent = self._live[run.run_id]
        new = [row for row in rows if row not in sent.rows]
        stamped = [row.from_start(run.start_ms) for row in new]
        self._store.log(run.run_id, params=sent.params, rows=stamped, tags=tags)
        sent.params = {}
        sent.rows.update(new)

    def _tag(self, sweep: _SweepRuns, tags: Mapping[str, str]) -> None:
        """Set the parent's tags that have another value; a person's name and note stay."""
        fitting = fields.marked(shortened(tags, TAG_LIMIT, "the report")[0])
        changed = {name: value for name, value in fitting.items() if sweep.tags.get(name) != value}
        # A person may have changed them meanwhile.
        if not changed.keys().isdisjoint(fields.WRITTEN_TAGS):
            sweep.tags |= self._store.client.get_run(sweep.run_id).data.tags
            kept = fields.kept_for_people(sweep.tags, fitting)
            changed = {name: value for name, value in changed.items() if name not in kept}
        if changed:
            self._store.log(sweep.run_id, tags=changed)
            sweep.tags.update(changed)

    def _added_to(self, runs: Sequence[ChildRun]) -> dict[str, str]:
        """Return what people have added to runs; a run of some age is read again for that."""
        found: dict[str, str] = {}
        for run in runs:
            is_old = now_ms() - run.start_ms > _MS_TO_ADD
            tags = self._store.client.get_run(run.run_id).data.tags if is_old else run.tags
            found |= fields.added_by_people(tags)
        return found

    def _delete(self, sweep: _SweepRuns, runs: Sequence[ChildRun]) -> None:
        for run in runs:
            self._store.client.delete_run(run.run_id)
            self._live.pop(run.run_id, None)
            sweep.drop(run)
