"""Read a sweep from the store: its runs with all numbers, and the parent's artifacts."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.suite.tracking.artifacts import files_in
from bakeoff.suite.tracking.client import CONTENT_TAG, NO_FILE, SHA256_TAG, MlflowStore, RunContent
from bakeoff.suite.tracking.connect import connect
from bakeoff.suite.tracking.experiments import (
    ANY_FOLDER,
    OutputFolder,
    free_name,
    own_experiment,
    readable_experiments,
)
from bakeoff.suite.tracking.run_fields import RESULT_SHA256_TAG, VARIANT_TAG, Key
from bakeoff.suite.tracking.shared_views import EDITION_SHA256_TAG, EDITION_TAG, VARIANT_SHA256_TAG

REPORT = "report"  # the parent's folder with a copy of the report
_FRAMES = ("results.parquet", "curves.parquet")


def has_role(run: Any, role: str) -> bool:
    """Return True if a run of MLflow's client has the role ``trial``, ``variant`` or ``sweep``."""
    return bool(run.data.tags.get("bakeoff.role") == role)


@dataclass(frozen=True, kw_only=True)
class ChildRun:
    """A trial or a variant as MLflow stores it: a child of the sweep's run.

    Attributes:
        run_id: MLflow's id of the run.
        status: MLflow's status: RUNNING, FINISHED, FAILED or KILLED.
        start_ms: Milliseconds since 1970; time stamps of its points are this plus their step.
        tags: All tags.
        params: All parameters.
        metrics: All metrics, with the newest number under each name.
    """

    run_id: str
    status: str
    start_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Any) -> ChildRun:
        """Return the child for a run of MLflow's client."""
        info, data = run.info, run.data
        return cls(
            run_id=info.run_id,
            status=info.status,
            start_ms=info.start_time,
            tags=data.tags,
            params=data.params,
            metrics=data.metrics,
        )

    @classmethod
    def all_in(cls, runs: Iterable[Any]) -> list[ChildRun]:
        """Return the children among runs of MLflow's client."""
        return [cls.of(r) for r in runs if has_role(r, "trial") or has_role(r, "variant")]

    @property
    def trial_id(self) -> str:
        """The trial's id, which is empty for a variant."""
        return self.tags.get("bakeoff.trial_id", "")

    @property
    def environment_id(self) -> str:
        """The environment of the trial's result; empty while it has none."""
        return self.tags.get("bakeoff.environment_id", "")

    @property
    def result_sha256(self) -> str:
        """The hash of the result that it shows; empty while it has none."""
        return self.tags.get(RESULT_SHA256_TAG, "")

    @property
    def content_sha256(self) -> str:
        """The hash of its intended content; empty until it is written."""
        return self.tags.get(CONTENT_TAG, "")

    @property
    def is_written(self) -> bool:
        """True if all content is written; older versions marked that by other tags."""
        return any(self.tags.get(t) for t in (CONTENT_TAG, RESULT_SHA256_TAG, VARIANT_SHA256_TAG))

    @property
    def is_complete(self) -> bool:
        """True if all content is written, and the run has ended."""
        return self.is_written and self.status != "RUNNING"

    @property
    def place(self) -> tuple[str, ...]:
        """The subject of the run: a trial in an environment, or a variant on a task."""
        if self.trial_id:
            return "trial", self.trial_id, self.environment_id
        return "variant", self.tags.get(VARIANT_TAG, ""), self.tags.get("bakeoff.task", "")


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """An artifact of a parent.

    Attributes:
        body: The content, or None if it was never published, or is missing.
        published: The SHA-256 of published content; several hashes, or ``none``, during a
            replacement.
    """

    body: bytes | None
    published: tuple[str, ...]

    @property
    def is_published(self) -> bool:
        """True if it was ever published completely."""
        return bool(self.published) and NO_FILE not in self.published

    @property
    def is_sound(self) -> bool:
        """True if the content was published; during a replacement, the old or the new one."""
        return self.body is not None and hashlib.sha256(self.body).hexdigest() in self.published


class StoredSweep:
    """The runs of (ablation, scale), the earliest first.

    Attributes:
        parents: The parent runs, of which there should be one.
        trials: The children that are trials, including duplicates and unfinished ones.
        variants: The other children, which hold the numbers of the report.
    """

    def __init__(self, store: MlflowStore, runs: Sequence[Any]) -> None:
        self._store = store
        self.parents = [run for run in runs if has_role(run, "sweep")]
        self.trials = ChildRun.all_in(run for run in runs if has_role(run, "trial"))
        self.variants = ChildRun.all_in(run for run in runs if has_role(run, "variant"))

    @property
    def edition(self) -> str:
        """The number of the newest edition; empty if an older version wrote all of it."""
        return str(self.parents[0].data.tags.get(EDITION_TAG, "")) if self.parents else ""

    @property
    def edition_sha256(self) -> str:
        """The hash of that edition; empty if an older version wrote all of it."""
        return str(self.parents[0].data.tags.get(EDITION_SHA256_TAG, "")) if self.parents else ""

    def digest(self, name: str) -> str:
        """Return an artifact's hash in the tags of the earliest parent; empty without one."""
        return str(self.parents[0].data.tags.get(SHA256_TAG + name, "")) if self.parents else ""

    def file(self, name: str) -> StoredFile:
        """Return an artifact of the earliest parent."""
        published = tuple(self.digest(name).split())
        if not published:
            return StoredFile(body=None, published=())
        with tempfile.TemporaryDirectory() as folder:
            body = self._store.held_file(self.parents[0], name, Path(folder))
        return StoredFile(body=body, published=published)

    def report_files(self) -> Mapping[str, bytes]:
        """Return the present files of the report that was sent, by their path in it."""
        with self._store.reached(), tempfile.TemporaryDirectory() as folder:
            return files_in(self._store.held_folder(self.parents[0], REPORT, Path(folder)))

    def holds(self, run: ChildRun, content: RunContent) -> bool:
        """Return True if the run, as read back, has exactly this content."""
        if run.params != content.params or not content.our_tags.items() <= run.tags.items():
            return False
        if run.tags.get(CONTENT_TAG, content.sha256) != content.sha256:
            return False
        shown, newest, curves = run.metrics, content.newest, content.curves
        exact = {name: value for name, value in newest.items() if name not in curves}
        if content.may_have_more:
            if not (exact.items() <= shown.items() and curves.keys() <= shown.keys()):
                return False
        elif shown != newest:
            return False
        with self._store.reached():
            for name, rows in curves.items():
                logged = set(self._store.history(run.run_id, name))
                wanted = {row.from_start(run.start_ms) for row in rows}
                if not (logged >= wanted if content.may_have_more else logged == wanted):
                    return False
        return True


class StoreReader:
    """A store, for programs that read all of it.

    Args:
        uri: The store's address.
        folder: The folder whose experiments are read, if several users have an ablation of one
            name.

    Raises:
        BadUri, RefusedUri, StoreUnavailable: In the same cases as `connect`, also from the methods.
    """

    def __init__(self, uri: str, folder: OutputFolder = ANY_FOLDER) -> None:
        self._store = connect(uri)
        self._folder = folder

    def ping(self) -> None:
        """Send one small request."""
        with self._store.reached():
            self._store.client.search_experiments(max_results=1)

    def sweep(self, key: Key) -> StoredSweep:
        """Return the runs of (ablation, scale) in the store; empty if it has none."""
        with self._store.reached():
            experiments = self._store.ablations()
            found = own_experiment(self._store, self._folder, key[0], experiments)
            runs = self._store.runs(found.experiment_id, key[1]) if found else []
            return StoredSweep(self._store, runs)

    def new_name(self, ablation: str) -> str:
        """Return the name of a new experiment of the ablation; empty if there is an experiment."""
        with self._store.reached():
            experiments = self._store.ablations()
            found = own_experiment(self._store, self._folder, ablation, experiments)
            return "" if found else free_name(self._store, ablation)

    def sweeps(self, asked: Collection[str] = ()) -> list[Key]:
        """Return every sweep in the store, by name; see `readable_experiments`."""
        with self._store.reached():
            found = readable_experiments(self._store, self._folder, asked)
            names = {each.experiment_id: name for name, each in found.items()}
            parents = self._store.parents(list(names))
        return sorted(
            {(names[p.info.experiment_id], p.data.tags["bakeoff.scale"]) for p in parents}
        )


def load_artifacts(
    tracking_uri: str,
    into: Path,
    ablations: Collection[str] | None = None,
    folder: OutputFolder = ANY_FOLDER,
    asked: Collection[str] = (),
) -> dict[str, list[tuple[str, Path]]]:
    """Fetch the files that reports are made of.

    Args:
        tracking_uri: The store's address.
        into: The folder to write them to.
        ablations: Names of ablations; by default all ablations in the store.
        folder: The folder whose experiments are read, if several users have an ablation of one
            name.
        asked: Names of ablations that are required; an error is raised if one cannot be fetched.

    Returns:
        By ablation, for each scale that has results, by name: the scale, and a folder in `into`
            that holds its ``results.parquet`` and ``curves.parquet``.

    Raises:
        BadUri, RefusedUri: In the cases of `check_tracking_uri`.
        StoreUnavailable: If there is no store, if it does not answer, or if a file is not the one
            that was published; or if the experiment of a required ablation is in the trash.
        SpecError: If a required ablation is recorded, but not by this folder.
    """
    store = connect(tracking_uri)
    found: dict[str, dict[str, Path]] = {}
    with store.reached():
        experiments = {
            each.experiment_id: name
            for name, each in readable_experiments(store, folder, asked).items()
            if ablations is None or name in ablations
        }
        for run in store.parents(list(experiments)):
            scales = found.setdefault(experiments[run.info.experiment_id], {})
            scale = re.sub(r"[^\w-]", "_", run.data.tags.get("bakeoff.scale", ""))
            digests = [run.data.tags.get(SHA256_TAG + name, NO_FILE).split() for name in _FRAMES]
            if not any(NO_FILE in digest for digest in digests) and scale not in scales:
                scales[scale] = into / run.info.run_id
                scales[scale].mkdir(parents=True, exist_ok=True)
                for name in _FRAMES:
                    store.fetch(run, name, scales[scale])
    return {name: sorted(scales.items()) for name, scales in sorted(found.items())}
