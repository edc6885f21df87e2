"""Store the checkpoints of a trial in a folder, and find the newest with valid checksums.

`<out>/checkpoints/<trial_id>/generation-000012/` holds files, and a manifest with the size and the
SHA-256 of each and its own SHA-256. The folder has a temporary name until all of it is on the disk,
so a generation is complete or absent. Damage that happens later is found when it is read: then the
previous generation is used. The newest two are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakeoff.suite.events import Checkpoints
from bakeoff.suite.schema import Trial
from bakeoff.suite.stopping import UNFINISHED as UNFINISHED
from bakeoff.suite.training import tensor_io as atomic_files

VERSION = 1  # the layout's; increases if an older program could misread it
MANIFEST = "manifest.json"
_NUM_KEPT = 2
_MOST_BYTES = 1 << 24  # the largest manifest that is read
_GENERATION = re.compile(r"generation-(\d{6,12})")


def checkpointer_for(
    trial: Trial, checkpoints: Checkpoints, *, is_first: bool = True
) -> Checkpointer | None:
    """Return the `checkpointer` of `run_trial`, in the process that runs the trial.

    Args:
        trial: The trial.
        checkpoints: The folder, the interval, and the trials whose final weights are kept.
        is_first: The argument of `Checkpointer`.

    Returns:
        The checkpointer, or None if the folder `checkpoints.folder` does not exist on this host.
        The driver of the sweep creates it before the first trial.
    """
    if not checkpoints.folder.is_dir():
        return None
    return Checkpointer(
        checkpoints.folder / trial.trial_id,
        checkpoints.seconds_between,
        is_first=is_first,
        keeps_weights=trial.trial_id in checkpoints.kept,
        may_resume=trial.trial_id not in checkpoints.unused,
    )


def saved_step(checkpoints: Checkpoints, trial_id: str) -> int:
    """Return the training step from which a trial continues; 0 if it has no checkpoint to use."""
    if trial_id in checkpoints.unused:
        return 0
    with suppress(OSError, ValueError, KeyError, TypeError):
        folder = checkpoints.folder / trial_id
        newest = max(path for path in folder.iterdir() if _GENERATION.fullmatch(path.name))
        return int(json.loads((newest / MANIFEST).read_bytes())["manifest"]["step"])
    return 0


def remove(checkpoints: Checkpoints, trial_id: str) -> None:
    """Remove a trial's checkpoints once the driver has committed its result; ignore errors."""
    with suppress(OSError):
        atomic_files.remove_folder(checkpoints.folder / trial_id)


@dataclass(frozen=True)
class FoundCheckpoint:
    """The checkpoint from which a trial can resume.

    Attributes:
        generation: The number of the newest valid checkpoint; 0 if there is none.
        folder: Its folder, or None.
        remarks: Sentences for the user about newer checkpoints that are invalid.
    """

    generation: int = 0
    folder: Path | None = None
    remarks: tuple[str, ...] = ()


class Checkpointer:
    """A reader and writer of the checkpoints of one trial.

    Each of several workers has one, over the same folder. All write into one draft, which the first
    worker publishes or discards.

    Attributes:
        folder: The folder of all trials' checkpoints.
        trial_id: The id of this trial.
        keeps_weights: Whether its final weights are kept, because other trials start from them.
        may_resume: Whether checkpoints are written and read. If False, because the model holds
            state that no checkpoint has, the training starts from the beginning.
    """

    def __init__(
        self,
        folder: Path,
        seconds_between: float,
        *,
        is_first: bool = True,
        keeps_weights: bool = False,
        may_resume: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to use checkpoints; set `is_first` on exactly one of several workers.

        Args:
            folder: The folder of this trial, named by its id; created with the first checkpoint.
            seconds_between: Seconds from the start to the first checkpoint, and between
                checkpoints.
            is_first: Whether to remove the unfinished drafts of a killed process.
            keeps_weights: The attribute of the class.
            may_resume: The attribute of the class.
            clock: Function that returns seconds, of which only differences are used.
        """
        self._folder, self._seconds_between, self._clock = folder, seconds_between, clock
        self.folder, self.trial_id, self.keeps_weights = folder.parent, folder.name, keeps_weights
        self.may_resume = may_resume
        self._may_have_drafts = is_first
        self._rejected: set[int] = set()
        self._has_failed = False
        self._last = clock()

    def latest(self) -> FoundCheckpoint:
        """Return the newest checkpoint that has valid checksums and was not rejected."""
        if not self.may_resume:
            return FoundCheckpoint()
        remarks: list[str] = []
        try:
            self._remove_drafts()
            for number in sorted(self._numbers() - self._rejected, reverse=True):
                found = FoundCheckpoint(number, self._path(number), tuple(remarks))
                why = why_invalid(self._path(number), self._folder.name)
                if not why:
                    return found
                remarks.append(self.reject(found, why))
        except OSError as error:
            remarks.append(f"its checkpoints cannot be listed ({error})")
        if remarks or self._rejected:
            remarks.append("it has no other checkpoint and starts from the beginning")
        return FoundCheckpoint(remarks=tuple(remarks))

    def reject(self, found: FoundCheckpoint, why: str) -> str:
        """Ignore a checkpoint from now on, and remove it once there are two newer ones.

        Returns:
            A sentence for the user with `why`, a clause.
        """
        self._rejected.add(found.generation)
        return f"its checkpoint {found.generation} is skipped: {why}"

    def is_due(self) -> bool:
        """Return True if the next checkpoint is due by this worker's clock."""
        return self.may_resume and self._clock() - self._last >= self._seconds_between

    def draft(self, token: int) -> Path:
        """Return the folder of an unfinished checkpoint for a token, without creating it."""
        return self._folder / f"{UNFINISHED}{token:016x}.generation"

    def publish(self, draft: Path, step: int) -> None:
        """Make the draft the newest checkpoint, remove older ones, and restart the clock.

        Raises:
            OSError: if it could not be written durably; call `discard` next.
        """
        try:
            write_manifest(draft, self._folder.name, step)
            number = max(self._numbers(), default=0) + 1
            atomic_files.move_folder(draft, self._path(number))
        finally:
            self._last = self._clock()
        self._remove_old()

    def discard(self, draft: Path, why: str) -> str:
        """Remove the draft, and restart the clock.

        Returns:
            A sentence with `why`, a clause, the first time; "" from then on.
        """
        with suppress(OSError):
            atomic_files.remove_folder(draft)
        self._last = self._clock()
        if self._has_failed:
            return ""
        self._has_failed = True
        return f"a checkpoint could not be written, and training continues without it: {why}"

    def _path(self, number: int) -> Path:
        return self._folder / f"generation-{number:06d}"

    def _numbers(self) -> set[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return set()
        return {int(match[1]) for match in map(_GENERATION.fullmatch, names) if match}

    def _remove_drafts(self) -> None:
        """Remove the unfinished drafts of a killed process, only once."""
        if not self._may_have_drafts or not self._folder.is_dir():
            return
        for name in os.listdir(self._folder):
            with suppress(OSError):
                if name.startswith(UNFINISHED):
                    atomic_files.remove_folder(self._folder / name)
        self._may_have_drafts = False

    def _remove_old(self) -> None:
        """Remove all but the newest valid checkpoints; failed removals are tried again later."""
        with suppress(OSError):
            numbers = self._numbers()
            kept = sorted(numbers - self._rejected)[-_NUM_KEPT:]
            for number in sorted(numbers.difference(kept)):
                atomic_files.remove_folder(self._path(number))


def write_manifest(folder: Path, trial_id: str, step: int) -> None:
    """List all files of an unfinished checkpoint, and make their names durable.

    Raises:
        OSError: if a file cannot be read, or the manifest cannot be written.
    """
    files = {
        name: {"num_bytes": size, "sha256": _sha256(folder / name)}
        for name, size in _sizes(folder).items()
    }
    content = {"version": VERSION, "trial_id": trial_id, "step": step, "files": files}
    atomic_files.create(folder / MANIFEST, _with_checksum(content))
    atomic_files.fsync_folder(folder)


def _with_checksum(content: Mapping[str, Any]) -> bytes:
    """Return the manifest as stored on disk; a file that differs in any bit is damaged."""
    body = json.dumps(content, sort_keys=True, indent=1)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"manifest": {body},\n"sha256": "{digest}"}}\n'.encode()


def why_invalid(folder: Path, trial_id: str) -> str:
    """Return why a checkpoint differs from the one written for that trial, as a clause, or ""."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            body = file.read(_MOST_BYTES)
        content = json.loads(body)["manifest"]
        version = content["version"]
        if isinstance(version, int) and version > VERSION:
            return f"a newer program wrote it (layout {version}; this one reads {VERSION})"
        if _with_checksum(content) != body or version != VERSION:
            return f"its {MANIFEST} is damaged"
        if content["trial_id"] != trial_id:
            return f"it is of another trial ({content['trial_id'][:12]})"
        return _why_other_files(folder, content["files"])
    except OSError as error:
        return f"it cannot be read ({error.strerror or error}: {Path(error.filename or '').name})"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"its {MANIFEST} cannot be understood"


def _why_other_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str:
    sizes = _sizes(folder)
    if unlisted := sorted(sizes.keys() - files.keys()):
        return f"its manifest does not list {unlisted[0]}"
    for name, entry in sorted(files.items()):
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] < 0:
            return f"{name} is not a regular file"
        if sizes[name] != entry["num_bytes"]:
            return f"{name} has {sizes[name]:,} bytes instead of {entry['num_bytes']:,}"
        if _sha256(folder / name) != entry["sha256"]:
            return f"{name} is damaged: its SHA-256 is not the one that was written down"
    return ""


def _sizes(folder: Path) -> dict[str, int]:
    """Return the sizes in bytes of all but the manifest; -1 for anything but a regular file."""
    found = {name: (folder / name).lstat() for name in os.listdir(folder) if name != MANIFEST}
    return {
        name: status.st_size if stat.S_ISREG(status.st_mode) else -1
        for name, status in found.items()
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
