"""journal -> MLflow: the one writer.

MLflow is a projection of the journal: everything here is found again by tags and may be done twice.
What is complete says so last: a child carries `bakeoff.result_sha256` and has ended; an artifact's
hash is a tag of the parent, so that nothing is sent that is there already.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.comparison import comparison_page, view_tag
from suite.data_inputs import data_inputs
from suite.mlflow_store import NO_FILE, SHA256_TAG, Attended, StoreRefuses, StoreUnavailable, now_ms
from suite.projection import (
    AXES_TAG,
    DESCRIPTION_TAG,
    FINDING_TAG,
    RESULT_SHA256_TAG,
    VERDICT_TAG,
    Key,
    axes_of,
    not_finite_tags,
    point_rows,
    result_rows,
    result_tags,
    sweep_description,
    sweep_tags,
    trial_params,
    trial_tags,
)
from suite.record import connect, recorded
from suite.recorded import RecordedSweep, RecordedTrial
from suite.schema import FAILURES, About, Cell, Point, Result, Trial
from suite.specimens_files import specimen_files
from suite.store_limits import PARAM_LIMIT, TAG_LIMIT, MetricRow, shortened
from suite.tracking_uri import redact

if TYPE_CHECKING:  # it imports what reads frames, which a writer does not need
    from suite.reporting.summary import Findings


class Recorder:
    """The one writer: projects the journal into one MLflow store, idempotently.

    Args:
        tracking_uri: Address of the store.
        artifacts: Folder for the artifacts of a local SQLite store; None for a server, which
            has its own.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
        StoreUnavailable: from here and from every method.
    """

    def __init__(self, tracking_uri: str, artifacts: Path | None) -> None:
        self._store = connect(tracking_uri, is_new_allowed=True)
        self._artifacts = artifacts.resolve() if artifacts is not None else None
        self._abouts: dict[Key, About] = {}
        self._sweeps: dict[Key, RecordedSweep] = {}
        # By run_id of the children begun here; a parameter is its name and its value.
        self._sent: dict[str, set[MetricRow | tuple[str, str]]] = {}
        self._params: dict[str, dict[str, str]] = {}  # of the same, sent with their first points

    def attend(self, before_request: Callable[[], None]) -> None:
        """From now on call this before each request: it returns when the request may be sent."""
        self._store.client = Attended(self._store.client, before_request)

    def open_sweep(self, about: About) -> dict[str, str]:
        """Find or create the parent of (ablation, scale); mend what a crash left doubled.

        Returns:
            trial_id -> SHA-256 of the result that a complete child shows.
        """
        key = (about.ablation, about.scale)
        self._abouts[key] = about
        self._sweeps.pop(key, None)
        with self._writing(key) as sweep:
            return {child.trial_id: child.result_sha256 for child in sweep if child.is_complete}

    def delete_stale(self, key: Key, variants: Mapping[str, str]) -> set[str]:
        """Delete children that show another name, or less that is varied, than the plan now has.

        Args:
            key: Of the sweep.
            variants: trial_id -> what its child is to be called after.

        Returns:
            The trials whose result is to be shown anew, by `finish_trial`.
        """
        with self._writing(key) as sweep:
            stale = sweep.stale(variants)
            self._delete(sweep, stale)
            return {child.trial_id for child in stale}

    def start_trial(self, key: Key, trial: Trial, cells: Sequence[Cell], attempt: int) -> None:
        """Show the trial as running. What an older attempt left behind is deleted.

        Its parameters follow with its first points: a request less.
        """
        with self._writing(key) as sweep:
            begun = sweep.running(trial.trial_id, self._sent)
            if begun is not None and begun.attempt == str(attempt):
                return
            self._delete(sweep, sweep.superseded_by_start(trial.trial_id))
            tags = trial_tags(key, trial, cells) | {"bakeoff.attempt": str(attempt)}
            child = self._begin(sweep, tags, now_ms())
            self._params[child.run_id] = self._fitting_params(sweep, child.run_id, trial, cells)

    def log_points(self, key: Key, trial_id: str, points: Sequence[Point]) -> None:
        """Live curves of a trial that was started here; of any other, nothing happens.

        Whatever is lost on the way, `finish_trial` sends.
        """
        with self._writing(key) as sweep:
            child = sweep.running(trial_id, self._sent)
            if child is not None:
                rows = point_rows(points, child.start_ms)
                params = self._params.get(child.run_id)
                self._send(child, params=params, rows=rows, tags=not_finite_tags(points))

    def finish_trial(self, key: Key, trial: Trial, cells: Sequence[Cell], result: Result) -> None:
        """Show the result: parameters, metrics and tags, the result's hash last, then the end."""
        with self._writing(key) as sweep:
            child = sweep.showing(result) or self._filled(sweep, key, trial, cells, result)
            if child.is_complete:
                return
            status = "FAILED" if result.status in FAILURES else "FINISHED"
            self._store.end(child.run_id, status)
            self._forget(child)
            sweep.put(
                replace(
                    child,
                    status=status,
                    result_sha256=result.sha256,
                    environment_id=result.provenance.environment_id,
                )
            )

    def publish(self, key: Key, files: Mapping[str, bytes]) -> None:
        """Artifacts of the parent, by name; those that are there already are not sent again."""
        digests = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
        with self._writing(key) as sweep:
            held = {name: sweep.tags.get(SHA256_TAG + name, "") for name in files}
            changed = {name: body for name, body in files.items() if held[name] != digests[name]}
            if not changed:
                return
            # Until all of it has arrived, a reader may meet the old file or the new one, or none.
            either = {name: f"{digests[name]} {held[name] or NO_FILE}" for name in changed}
            self._tag(sweep, {SHA256_TAG + name: value for name, value in either.items()})
            with tempfile.TemporaryDirectory() as folder:
                for name, body in changed.items():
                    Path(folder, name).write_bytes(body)
                    self._store.client.log_artifact(sweep.run_id, str(Path(folder, name)))
            self._tag(sweep, {SHA256_TAG + name: digests[name] for name in changed})

    def unpublish(self, key: Key, names: Collection[str]) -> None:
        """What lies under these names is not what was sent: the next `publish` sends it again.

        ``report`` stands for all files of the report.
        """
        with self._writing(key) as sweep:
            self._tag(sweep, {SHA256_TAG + name: NO_FILE for name in names})

    def delete_trials(self, key: Key, run_ids: Collection[str]) -> None:
        """Delete children that do not show what their result gives; `finish_trial` makes others."""
        with self._writing(key) as sweep:
            self._delete(sweep, [child for child in sweep if child.run_id in run_ids])

    def publish_report(self, key: Key, folder: Path) -> None:
        """The report's files, under ``report/`` of the parent; not sent again if unchanged."""
        digest = digest_of(folder)
        with self._writing(key) as sweep:
            if sweep.tags.get(SHA256_TAG + "report") != digest:
                self._store.client.log_artifacts(sweep.run_id, str(folder), "report")
                self._tag(sweep, {SHA256_TAG + "report": digest})
                self._describe(sweep, self._abouts[key])

    def publish_findings(self, key: Key, findings: Findings) -> None:
        """The verdict, to filter by and in the description; and each variant's mean, as metrics."""
        verdict = {VERDICT_TAG: findings.verdict, FINDING_TAG: findings.sentence}
        with self._writing(key) as sweep:
            shown = sweep.metrics
            changed = {name: m for name, m in findings.means.items() if shown.get(name) != m}
            stamp = now_ms()  # of two values at one step, MLflow shows the later
            rows = [MetricRow(name, mean, stamp, 0) for name, mean in changed.items()]
            self._store.log(sweep.run_id, rows=rows)
            shown.update(changed)
            if findings.verdict or VERDICT_TAG in sweep.tags:  # a claim may have been taken back
                self._tag(sweep, shortened(verdict, TAG_LIMIT, "the report")[0])
            self._describe(sweep, self._abouts[key])

    def comparison_page(self, key: Key) -> str:
        """Where the sweep's trials stand side by side: the address after the server's."""
        with self._writing(key) as sweep:
            return comparison_page(sweep.experiment_id, key[1])

    def close_sweep(self, key: Key, summary: Mapping[str, str | int], *, finished: bool) -> None:
        """The parent's end: FINISHED, or KILLED where trials are left; and its counts, as tags."""
        status = "FINISHED" if finished else "KILLED"
        with self._writing(key) as sweep:
            self._tag(sweep, {f"bakeoff.{name}": str(value) for name, value in summary.items()})
            for child in [child for child in sweep if child.status == "RUNNING"]:
                self._store.end(child.run_id, "KILLED")
                sweep.put(replace(child, status="KILLED"))
            if sweep.status != status:
                self._store.end(sweep.run_id, status)
                sweep.status = status

    @contextmanager
    def _writing(self, key: Key) -> Iterator[RecordedSweep]:
        """The sweep, asked of the store where it is not known; forgotten again after an error.

        An error may hide a success: only the store knows what it holds.
        """
        try:
            with self._store.reached():
                if key not in self._sweeps:
                    self._sweeps[key] = self._load(self._abouts[key])
                yield self._sweeps[key]
        except BaseException as error:
            self._sweeps.pop(key, None)
            if isinstance(error, StoreRefuses):  # maybe for what was sent here before
                self._sent.clear()
                self._params.clear()
            raise

    def _load(self, about: About) -> RecordedSweep:
        experiment_id = self._experiment(about)
        runs = self._store.runs(experiment_id, about.scale)
        parents = [run for run in runs if run.data.tags.get("bakeoff.role") == "sweep"]
        wanted = sweep_tags(about)
        if not parents:
            parents = [self._store.create(experiment_id, wanted, now_ms())]
        for doubled in parents[1:]:
            self._store.client.delete_run(doubled.info.run_id)
        info = parents[0].info
        sweep = RecordedSweep(
            experiment_id=experiment_id,
            run_id=info.run_id,
            status=info.status,
            tags=dict(parents[0].data.tags),
            metrics=dict(parents[0].data.metrics),
            axes=axes_of(about.variants),
        )
        self._tag(sweep, wanted)
        self._describe(sweep, about)
        if about.data_sets and not (parents[0].inputs and parents[0].inputs.dataset_inputs):
            self._store.log_inputs(sweep.run_id, data_inputs(about.data_sets))
        for run in runs:
            if run.data.tags.get("bakeoff.role") == "trial":
                self._adopt(sweep, run)
        self._delete(sweep, sweep.doubled())
        return sweep

    def _describe(self, sweep: RecordedSweep, about: About) -> None:
        """The parent's description, with what is known by now; a verdict stays until the next."""
        text = sweep_description(
            about,
            sweep.experiment_id,
            sweep.run_id,
            has_report=SHA256_TAG + "report" in sweep.tags,
            finding=sweep.tags.get(FINDING_TAG, ""),
        )
        self._tag(sweep, shortened({DESCRIPTION_TAG: text}, TAG_LIMIT, "the report")[0])

    def _adopt(self, sweep: RecordedSweep, run: Any) -> None:
        """Take a child in, also one whose own parent was deleted."""
        if run.data.tags.get("mlflow.parentRunId") != sweep.run_id:
            self._store.log(run.info.run_id, tags={"mlflow.parentRunId": sweep.run_id})
        sweep.put(recorded(run))

    def _experiment(self, about: About) -> str:
        """The id of the ablation's experiment."""
        folder = re.sub(r"[^\w-]", "_", about.ablation)
        tags = {
            "mlflow.experimentKind": "custom_model_development",  # opens at runs, not at traces
            DESCRIPTION_TAG: about.question,
            "bakeoff.ablation": about.ablation,
        }
        tags |= dict([view_tag(about)])
        location = str(self._artifacts / folder) if self._artifacts else None
        experiment = self._store.experiment(about.ablation, location, tags)
        self._refuse_moved(experiment.artifact_location)
        return str(experiment.experiment_id)

    def _refuse_moved(self, location: str) -> None:
        if self._artifacts is None or "://" in location or Path(location).is_dir():
            return
        if not Path(location).is_relative_to(self._artifacts):
            raise StoreUnavailable(
                f"The store keeps its artifacts in {location}, which is gone: was the output "
                "folder moved? Move it back, or choose a new --out."
            )

    def _begin(self, sweep: RecordedSweep, tags: Mapping[str, str], start_ms: int) -> RecordedTrial:
        """Create a child; and show the parent as running again."""
        fitting = shortened(tags, TAG_LIMIT, "long_params.json")[0]
        beside = {"mlflow.parentRunId": sweep.run_id}
        if sweep.axes:  # not every server takes a tag that says nothing
            beside[AXES_TAG] = ", ".join(sweep.axes)
        run = self._store.create(sweep.experiment_id, {**fitting, **beside}, start_ms)
        child = recorded(run)
        self._sent[child.run_id] = set()
        sweep.put(child)
        if sweep.status != "RUNNING":
            self._store.client.update_run(sweep.run_id, status="RUNNING")
            sweep.status = "RUNNING"
        return child

    def _filled(
        self, sweep: RecordedSweep, key: Key, trial: Trial, cells: Sequence[Cell], result: Result
    ) -> RecordedTrial:
        """The child with all that the result says; it stands in place of what was there before."""
        child = sweep.running(trial.trial_id, self._sent)
        self._delete(sweep, sweep.superseded_by(result, keep=child))
        tags = result_tags(trial, cells, result)
        if child is None:  # all tags but the hash at once: one by one they cost the most
            given = trial_tags(key, trial, cells) | tags
            del given[RESULT_SHA256_TAG]
            child = self._begin(sweep, given, now_ms() - round(result.seconds * 1000))
            tags = {
                name: value
                for name, value in tags.items()
                if name not in given or len(value) > TAG_LIMIT
            }
        params = self._params.get(child.run_id) or self._fitting_params(
            sweep, child.run_id, trial, cells
        )
        self._show_inputs(key, child.run_id, trial)
        self._show_files(child.run_id, result)
        rows = result_rows(trial, cells, result, child.start_ms)
        tags = self._fitting(child.run_id, tags, TAG_LIMIT, "tags")
        self._send(child, params=params, rows=rows, tags=tags)
        return child

    def _fitting_params(
        self, sweep: RecordedSweep, run_id: str, trial: Trial, cells: Sequence[Cell]
    ) -> dict[str, str]:
        values = trial_params(trial, cells, sweep.axes)
        return self._fitting(run_id, values, PARAM_LIMIT, "params")

    def _show_inputs(self, key: Key, run_id: str, trial: Trial) -> None:
        """The data set of a trial that trains on one."""
        data_set = self._abouts[key].data_sets.get(trial.task)
        if data_set is not None and trial.training is not None:
            self._store.log_inputs(run_id, data_inputs({trial.task: data_set}))

    def _show_files(self, run_id: str, result: Result) -> None:
        """What is to be looked at: pictures and samples of the trained model, a traceback."""
        files = specimen_files(result)
        if result.traceback:
            files["traceback.txt"] = redact(result.traceback).encode()
        if files:
            self._store.put_files(run_id, files)

    def _send(
        self,
        child: RecordedTrial,
        *,
        params: Mapping[str, str] | None = None,
        rows: Sequence[MetricRow] = (),
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """What was not sent before. Sending twice would only cost time."""
        sent = self._sent[child.run_id]
        new_params = dict(part for part in (params or {}).items() if part not in sent)
        new_rows = [row for row in rows if row not in sent]
        self._store.log(child.run_id, params=new_params, rows=new_rows, tags=tags)
        sent.update(new_params.items())
        sent.update(new_rows)

    def _fitting(
        self, run_id: str, values: Mapping[str, str], limit: int, kind: str
    ) -> dict[str, str]:
        """The values, those that are too long replaced by a hash and kept whole as an artifact."""
        fitting, body = shortened(values, limit, f"long_{kind}.json")
        if body:
            self._store.client.log_text(run_id, body, f"long_{kind}.json")
        return fitting

    def _tag(self, sweep: RecordedSweep, tags: Mapping[str, str]) -> None:
        changed = {name: value for name, value in tags.items() if sweep.tags.get(name) != value}
        if changed:
            self._store.log(sweep.run_id, tags=changed)
            sweep.tags.update(changed)

    def _delete(self, sweep: RecordedSweep, children: Sequence[RecordedTrial]) -> None:
        for child in children:
            self._store.client.delete_run(child.run_id)
            self._forget(child)
            sweep.drop(child)

    def _forget(self, child: RecordedTrial) -> None:
        self._sent.pop(child.run_id, None)
        self._params.pop(child.run_id, None)


def digest_of(folder: Path) -> str:
    """SHA-256 over the names and bodies of the files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        body = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{body}\n".encode())
    return digest.hexdigest()
