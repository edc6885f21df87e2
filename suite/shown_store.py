"""What does the store hold of a sweep, down to its numbers? For those who verify it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.shown import ShownTrial
from suite.tracking.artifacts import digest_of
from suite.tracking.client import NO_FILE, SHA256_TAG, MlflowStore
from suite.tracking.connect import connect
from suite.tracking.limits import MetricRow
from suite.tracking.run_fields import Key
from suite.tracking.run_index import trial_run

REPORT = "report"


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file of a parent.

    Attributes:
        body: None where it was never published, or is gone.
        published: SHA-256 of what was published; several, or ``none``, while it is being replaced.
    """

    body: bytes | None
    published: tuple[str, ...]

    @property
    def is_published(self) -> bool:
        """Whether it was ever published wholly."""
        return bool(self.published) and NO_FILE not in self.published

    @property
    def is_sound(self) -> bool:
        """Whether it is one that was published; while it is being replaced, either."""
        return self.body is not None and hashlib.sha256(self.body).hexdigest() in self.published

    @property
    def is_settled(self) -> bool:
        """Whether it is sound, and all of it has arrived."""
        return self.is_sound and len(self.published) == 1


@dataclass(frozen=True)
class ShownSweep:
    """The parents of (ablation, scale), the earliest first, and what hangs below them."""

    store: MlflowStore
    runs: Sequence[Any]

    @cached_property
    def parents(self) -> list[Any]:
        """There should be one."""
        return [run for run in self.runs if run.data.tags.get("bakeoff.role") == "sweep"]

    @cached_property
    def trials(self) -> list[ShownTrial]:
        """The children, the earliest first, doubles and leftovers included."""
        return [
            ShownTrial(
                recorded=trial_run(run), tags=run.data.tags, params=run.data.params,
                metrics=run.data.metrics,
            )
            for run in self.runs
            if run.data.tags.get("bakeoff.role") == "trial"
        ]  # fmt: skip

    def artifacts(self, names: Iterable[str]) -> Mapping[str, Artifact]:
        """The files of the earliest parent, by name."""
        with tempfile.TemporaryDirectory() as folder:
            return {name: self._artifact(name, Path(folder)) for name in names}

    def report_files(self) -> tuple[str, Mapping[str, bytes]]:
        """The digest of the report that was sent, and its files as they lie there.

        Empty where none was sent.
        """
        digest = self._digest(REPORT) if self.parents else ""
        if not digest:
            return "", {}
        with self.store.reached(), tempfile.TemporaryDirectory() as folder:
            home = self.store.held_folder(self.parents[0], REPORT, Path(folder))
            return digest, files_in(home)

    def history(self, run_id: str, metric: str) -> Sequence[MetricRow]:
        """Every number that was logged under a name."""
        with self.store.reached():
            return self.store.history(run_id, metric)

    def _artifact(self, name: str, folder: Path) -> Artifact:
        published = tuple(self._digest(name).split()) if self.parents else ()
        body = self.store.held_file(self.parents[0], name, folder) if published else None
        return Artifact(body=body, published=published)

    def _digest(self, name: str) -> str:
        return str(self.parents[0].data.tags.get(SHA256_TAG + name, ""))


class ShownStore:
    """A store, for those who read all of it.

    Raises:
        BadUri, RefusedUri, StoreUnavailable: as `connect`, also from the methods.
    """

    def __init__(self, uri: str) -> None:
        self._store = connect(uri)

    def sweep(self, key: Key) -> ShownSweep:
        """What is shown of (ablation, scale); nothing where the store does not have it."""
        with self._store.reached():
            found = self._store.client.get_experiment_by_name(key[0])
            return ShownSweep(
                self._store, self._store.runs(found.experiment_id, key[1]) if found else []
            )

    def sweeps(self) -> list[Key]:
        """Every sweep that the store has, by name."""
        with self._store.reached():
            names = {
                experiment.experiment_id: experiment.name
                for experiment in self._store.experiments()
                if experiment.tags.get("bakeoff.ablation") == experiment.name
            }
            parents = self._store.parents(list(names))
        found = {(names[p.info.experiment_id], p.data.tags["bakeoff.scale"]) for p in parents}
        return sorted(found)


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path in it; none where there is no folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def is_report(digest: str, folder: Path) -> bool:
    """Whether that is the digest of the files in the folder."""
    return folder.is_dir() and digest == digest_of(folder)
