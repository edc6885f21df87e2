"""Collect the code that a cluster needs for a sweep: our package, and the user's own files.

A cluster runs the submitter's code. The user's part of it is the ablation's file, and everything
that it and its mixers import from outside the installed packages: a module's file, a package's
whole folder. Each file keeps its path relative to the folder that it is imported from, so that the
same names import the same bytes there, and a plan made from the bundle has the same trial ids. The
dependencies must be installed on the cluster.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from bakeoff.models.model_spec import content_hash
from bakeoff.suite.errors import QUIET
from bakeoff.suite.places import PACKAGE
from bakeoff.suite.planning.own_modules import (
    own_data_of,
    own_files,
    own_packages,
    refuse_unplanned,
)
from bakeoff.suite.provenance import COMMIT, commit
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import SpecError
from bakeoff.suite.spec.own_data import own_data
from bakeoff.suite.tasks.own.data import files_of

_MOST_BYTES = 100 * 1024**2  # limit of one request to the dashboard of Ray 2.60
_NEVER = frozenset({"__pycache__", "venv", "node_modules"})
_OUTPUT = "journal.db"  # marks an output folder, which is left out
_SECONDS_TO_STOP = 120  # the job's supervisor, which reads this, kills after 3 by default


@dataclass(frozen=True)
class CodeBundle:
    """The code that a cluster needs.

    Attributes:
        package: The folder of our package.
        files: A folder with a copy of the user's own files; empty if there are none.
        names: The names of the ablations for `bakeoff run`, called in that folder.
    """

    package: Path
    files: Path
    names: tuple[str, ...]

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each of the user's own files, by its path in the bundle."""
        found = sorted(path for path in self.files.rglob("*") if path.is_file())
        return {str(path.relative_to(self.files)): path.stat().st_size for path in found}

    def digest(self) -> str:
        """Return the hash of the names and contents of all files that are sent."""
        ours = [
            (self.package.parent, file)
            for folder in (self.package, *filter(Path.is_symlink, self.package.iterdir()))
            for file in _files(folder)
        ]
        own = [(self.files, self.files / name) for name in self.sizes()]
        return content_hash(
            sorted(
                [str(file.relative_to(above)), hashlib.sha256(file.read_bytes()).hexdigest()]
                for above, file in (*ours, *own)
            )
        )

    def runtime_env(self) -> dict[str, Any]:
        """Return the runtime environment for Ray's `submit_job` or `init`, which upload folders.

        Our package takes precedence over the one installed on the cluster. The driver starts in the
        `working_dir`, and every worker imports from it. All users of the cluster can read all of
        it, so it must not contain secrets.
        """
        return {
            "py_modules": [str(self.package)],
            "working_dir": str(self.files),
            "env_vars": {
                COMMIT: commit(),
                **QUIET,
                "RAY_JOB_STOP_WAIT_TIME_S": str(_SECONDS_TO_STOP),
            },
        }


def bundle_code(plans: Sequence[Plan], folder: Path, included: Sequence[str] = ()) -> CodeBundle:
    """Copy the user's own files into an empty folder, which the caller removes.

    The plans must be made in this process, because the imports are read from the interpreter.

    Args:
        plans: The plans of the sweep.
        folder: The empty folder.
        included: Further files and folders, relative to the folder of the ablation's file or, for
            shipped ablations, to the current folder. Each keeps that place in the bundle.

    Raises:
        SpecError: If an included file does not exist or is elsewhere, if the files are too large
            for a cluster, or if they were edited after the plan.
    """
    wanted = {**dict(_included(plans, included)), **dict(_contents(plans))}
    _refuse_too_large(wanted)
    for target, source in wanted.items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / target)
    # This comes after copying, because a file may have been edited before it was copied.
    refuse_unplanned(plans)
    return CodeBundle(
        package=PACKAGE,
        files=folder,
        names=tuple(map(_called, plans)),
    )


def _called(plan: Plan) -> str:
    """Return the name of the ablation for `bakeoff run` in the folder of the files."""
    if not plan.own_module:
        return plan.about.ablation
    one = f"::{plan.about.ablation}" if plan.shared_module else ""
    return f"{plan.own_module}.py{one}"


def _contents(plans: Sequence[Plan]) -> Iterator[tuple[str, Path]]:
    """Yield the path in the bundle and the file, for each of the user's own files."""
    for name, folders in own_packages(plans).items():
        for folder in map(Path, folders):
            for file in _files(folder):
                yield f"{name}/{file.relative_to(folder)}", file
    yield from ((place, file) for place, (file, _) in own_files(plans).items())
    for spelling, (path, _) in own_data_of(plans).items():
        yield from _own_data(spelling, path)


def _own_data(spelling: str, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of own data with a relative path; an absolute one must exist on all nodes."""
    written = PurePath(own_data(spelling).path)
    if written.is_absolute() or written.parts[:1] == ("~",):
        return
    if ".." in written.parts:
        raise SpecError(
            f"{spelling}: data that are sent to a cluster must be in the folder of the ablation or "
            "below; or give the absolute path of a file that all nodes see."
        )
    for file in files_of(spelling):
        yield str(written / os.path.relpath(file, path)), file


def _included(plans: Sequence[Plan], names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the path in the bundle and the file, for all files that `--include` names."""
    folders = dict.fromkeys(Path(path) for plan in plans for path in plan.source_paths)
    above = list(folders) or [Path.cwd()]
    for name in names:
        places = [(home, Path(os.path.normpath(home / name))) for home in above]
        inside = [(home, place) for home, place in places if place.is_relative_to(home)]
        where = " or ".join(map(str, above))
        if not inside:
            raise SpecError(f"--include {name}: it must be in {where}, the folder of the ablation.")
        there = [(home, place) for home, place in inside if place.is_file() or place.is_dir()]
        if not there:
            raise SpecError(f"--include {name}: there is no such file or folder in {where}.")
        home, place = there[0]
        files = [place] if place.is_file() else list(_files(place))
        if not files:
            raise SpecError(f"--include {name}: this folder has no file to send.")
        yield from ((str(file.relative_to(home)), file) for file in files)


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below, except hidden ones (may be secret), caches and a sweep's output.

    Links to folders are not followed, because they may form cycles.
    """
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = [
            name
            for name in folders
            if not (name.startswith(".") or name in _NEVER or (here / name / _OUTPUT).exists())
        ]
        yield from (here / name for name in names if not name.startswith("."))


def _refuse_too_large(wanted: dict[str, Path]) -> None:
    sizes = {path: path.stat().st_size for path in wanted.values() if path.exists()}
    if sum(sizes.values()) > _MOST_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise SpecError(
            f"{largest}: your own files take {sum(sizes.values()) / 2**20:.0f} MiB, this one to "
            f"{sizes[largest] / 2**20:.0f}; at most {_MOST_BYTES // 2**20} MiB can be sent with a "
            "sweep. Give the absolute path of large data, on a disk that all nodes share."
        )
