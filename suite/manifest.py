"""Which bytes make up a checkpoint, and are they still the ones that were written?

The manifest names every file beside it with its size and its SHA-256, and ends in a SHA-256 of its
own. It must read exactly as this program would write it, so that no bit of it can change unseen.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

VERSION = 1  # of the layout of a checkpoint; goes up when an older program could misread it
MANIFEST = "manifest.json"
_CHUNK_BYTES = 1 << 20
_MOST_BYTES = 1 << 24  # of a manifest


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file beside the manifest."""

    num_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint holds, and whose it is."""

    version: int
    trial_id: str
    step: int
    files: dict[str, FileEntry]


_TYPE = TypeAdapter(Manifest)


def manifest_of(folder: Path, trial_id: str, step: int) -> bytes:
    """The manifest for all that lies in the folder.

    Raises:
        OSError: something cannot be read.
    """
    files = {
        name: FileEntry(num_bytes=size, sha256=_sha256(folder / name))
        for name, size in _sizes(folder).items()
    }
    return sealed(Manifest(version=VERSION, trial_id=trial_id, step=step, files=files))


def sealed(manifest: Manifest) -> bytes:
    """As it stands on the disk."""
    body = json.dumps(asdict(manifest), sort_keys=True, indent=1)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"manifest": {body},\n"sha256": "{digest}"}}\n'.encode()


def why_not_whole(folder: Path, trial_id: str) -> str:
    """Why a checkpoint is not what was written for that trial, as a clause; "" where it is."""
    try:
        manifest, why = _read(folder / MANIFEST)
        if manifest is None:
            return why
        if manifest.trial_id != trial_id:
            return f"it is of another trial ({manifest.trial_id[:12]})"
        return _why_not_as_listed(folder, manifest.files)
    except OSError as error:
        return f"it cannot be read ({error.strerror or error}: {Path(error.filename or '').name})"


def _read(path: Path) -> tuple[Manifest | None, str]:
    with path.open("rb") as file:
        body = file.read(_MOST_BYTES)
    try:
        content = json.loads(body)["manifest"]
        version = content["version"]
        if isinstance(version, int) and version > VERSION:
            return None, f"a newer program wrote it (layout {version}; this one reads {VERSION})"
        manifest = _TYPE.validate_python(content)
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        return None, f"its {MANIFEST} cannot be understood"
    if sealed(manifest) != body or manifest.version != VERSION:
        return None, f"its {MANIFEST} is damaged"
    return manifest, ""


def _why_not_as_listed(folder: Path, files: dict[str, FileEntry]) -> str:
    sizes = _sizes(folder)
    if unlisted := sorted(sizes.keys() - files.keys()):
        return f"its manifest does not list {unlisted[0]}"
    for name, entry in sorted(files.items()):
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] < 0:
            return f"{name} is no plain file"
        if sizes[name] != entry.num_bytes:
            return f"{name} has {sizes[name]:,} bytes instead of {entry.num_bytes:,}"
        if _sha256(folder / name) != entry.sha256:
            return f"{name} is damaged: its SHA-256 is not the one that was written down"
    return ""


def _sizes(folder: Path) -> dict[str, int]:
    """In bytes, of all that lies beside the manifest; -1 for what is no plain file."""
    found = {name: (folder / name).lstat() for name in os.listdir(folder) if name != MANIFEST}
    return {
        name: status.st_size if stat.S_ISREG(status.st_mode) else -1
        for name, status in found.items()
    }


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
