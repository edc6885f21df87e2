"""Reads what the store shows of a sweep: its runs, with all numbers, and the parent's artifacts."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.tracking.artifacts import files_in
from suite.tracking.client import NO_FILE, SHA256_TAG, MetricRow, MlflowStore
from suite.tracking.connect import connect
from suite.tracking.experiments import (
    ANY_FOLDER,
    OutputFolder,
    free_name,
    own_experiment,
    readable_experiments,
)
from suite.tracking.run_fields import Key
from suite.tracking.run_index import has_role, trial_run
from suite.tracking.shared_views import EDITION_TAG

REPORT = "report"  # the parent's folder with a copy of the report


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """An artifact of a parent.

    Attributes:
        body: None where it was never published, or is gone.
        published: SHA-256 of what was published; several, or ``none``, while it is being replaced.
    """

    body: bytes | None
    published: tuple[str, ...]

    @property
    def is_published(self) -> bool:
        """Whether it was ever published completely."""
        return bool(self.published) and NO_FILE not in self.published

    @property
    def is_sound(self) -> bool:
        """Whether it is one that was published; while it is being replaced, either."""
        return self.body is not None and hashlib.sha256(self.body).hexdigest() in self.published


class StoredSweep:
    """The runs of (ablation, scale), the earliest first.

    Attributes:
        parents: There should be one.
        trials: The children, duplicates and unfinished ones included.
        variants: Children too: the numbers of the report.
    """

    def __init__(self, store: MlflowStore, runs: Sequence[Any]) -> None:
        self._store = store
        self.parents = [run for run in runs if has_role(run, "sweep")]
        self.trials = [trial_run(run) for run in runs if has_role(run, "trial")]
        self.variants = [trial_run(run) for run in runs if has_role(run, "variant")]

    @property
    def edition(self) -> str:
        """The number of the newest edition; empty where an older version wrote all of it."""
        return str(self.parents[0].data.tags.get(EDITION_TAG, "")) if self.parents else ""

    def digest(self, name: str) -> str:
        """What the earliest parent says of an artifact's hash; empty where it was never sent."""
        return str(self.parents[0].data.tags.get(SHA256_TAG + name, "")) if self.parents else ""

    def file(self, name: str) -> StoredFile:
        """An artifact of the earliest parent."""
        published = tuple(self.digest(name).split())
        if not published:
            return StoredFile(body=None, published=())
        with tempfile.TemporaryDirectory() as folder:
            body = self._store.held_file(self.parents[0], name, Path(folder))
        return StoredFile(body=body, published=published)

    def report_files(self) -> Mapping[str, bytes]:
        """The files of the report that was sent, by their path in it, as they are there now."""
        with self._store.reached(), tempfile.TemporaryDirectory() as folder:
            return files_in(self._store.held_folder(self.parents[0], REPORT, Path(folder)))

    def history(self, run_id: str, metric: str) -> Sequence[MetricRow]:
        """Every number that was logged under a name."""
        with self._store.reached():
            return self._store.history(run_id, metric)


class StoreReader:
    """A store, for those who read all of it.

    Args:
        uri: Of the store.
        folder: Whose experiments it reads, where several people have an ablation of one name.

    Raises:
        BadUri, RefusedUri, StoreUnavailable: as `connect`, also from the methods.
    """

    def __init__(self, uri: str, folder: OutputFolder = ANY_FOLDER) -> None:
        self._store = connect(uri)
        self._folder = folder

    def ping(self) -> None:
        """One small request."""
        with self._store.reached():
            self._store.client.search_experiments(max_results=1)

    def sweep(self, key: Key) -> StoredSweep:
        """What the store shows of (ablation, scale); nothing where it does not have it."""
        with self._store.reached():
            experiments = self._store.ablations()
            found = own_experiment(self._store, self._folder, key[0], experiments)
            runs = self._store.runs(found.experiment_id, key[1]) if found else []
            return StoredSweep(self._store, runs)

    def new_name(self, ablation: str) -> str:
        """Return the name that a new experiment of the ablation gets; empty where it has one."""
        with self._store.reached():
            experiments = self._store.ablations()
            found = own_experiment(self._store, self._folder, ablation, experiments)
            return "" if found else free_name(self._store, ablation)

    def sweeps(self, asked: Collection[str] = ()) -> list[Key]:
        """Return every sweep that the store has, by name; see `readable_experiments`."""
        with self._store.reached():
            found = readable_experiments(self._store, self._folder, asked)
            names = {each.experiment_id: name for name, each in found.items()}
            parents = self._store.parents(list(names))
        return sorted(
            {(names[p.info.experiment_id], p.data.tags["bakeoff.scale"]) for p in parents}
        )
