"""Pack what a machine without network needs to run sweeps: bakeoff and its dependencies as wheels.

    python -m tools.pack --python 3.12 --into packed

torch, which such a machine has, and what only torch needs are left out; so are Ray, MLflow and
DeepSpeed, which `bakeoff run --executor inline` does without. `packed/README.md` says what to type
there, and how its journal is recorded at home.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_LEFT_OUT = frozenset({"torch", "ray", "mlflow", "deepspeed"})
_FOR_REPORTS = frozenset({"jinja2", "matplotlib", "pillow", "pyarrow"})
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
_NOTE = """# bakeoff, packed

Needs Linux on x86-64, Python {python} and torch 2.11 or later; no network, no Ray, no MLflow.

    python{python} -m pip install --no-index --no-deps *.whl
    bakeoff doctor
    bakeoff run all --scale standard --executor inline --out measured --time-limit 8h

The same command continues after an interruption. Then bring the folder `measured` home, where
bakeoff is installed whole, and record it:

    bakeoff record measured/journal.db
"""
Needs = Callable[[str], Sequence[str]]


def packed_names(needs: Needs, python: str, left_out: frozenset[str] = _LEFT_OUT) -> list[str]:
    """What bakeoff needs, and what that needs, but for what is left out; by name."""
    found: set[str] = set()
    left = ["bakeoff"]
    while left:
        for name in _required(needs(left.pop()), python):
            if name not in found | left_out:
                found.add(name)
                left.append(name)
    return sorted(found)


def _required(lines: Sequence[str], python: str) -> Iterator[str]:
    """Names of requirements, without those of extras and of other systems."""
    there = {"python_version": python, "sys_platform": "linux", "extra": ""}
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(there):
            yield canonicalize_name(requirement.name)


def installed_needs(name: str) -> Sequence[str]:
    """What the installed package says that it needs.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    return distribution(name).requires or []


def pins(constraints: str) -> Mapping[str, str]:
    """Package -> version, of a file of lines ``name==version``."""
    lines = (line.split("==") for line in constraints.splitlines() if "==" in line)
    return {canonicalize_name(name): version.strip() for name, version in lines}


def pack(root: Path, into: Path, python: str, left_out: frozenset[str] = _LEFT_OUT) -> None:
    """Write the wheels and the note.

    Raises:
        subprocess.CalledProcessError: pip could not; it has said why.
    """
    into.mkdir(parents=True, exist_ok=True)
    versions = pins((root / "constraints.txt").read_text())
    wanted = [
        f"{name}=={versions[name]}" for name in packed_names(installed_needs, python, left_out)
    ]
    platforms = [f"--platform={platform}" for platform in _PLATFORMS]
    _pip("wheel", "--no-deps", "--wheel-dir", str(into), str(root))
    _pip(
        "download", "--no-deps", "--only-binary=:all:", f"--python-version={python}",
        "--implementation=cp", *platforms, "--dest", str(into), *wanted,
    )  # fmt: skip
    (into / "README.md").write_text(_NOTE.format(python=python))


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="3.12", help="its version of Python there")
    parser.add_argument("--into", type=Path, default=Path("packed"))
    parser.add_argument("--no-reports", action="store_true", help="leave out what writes reports")
    given = parser.parse_args()
    left_out = _LEFT_OUT | (_FOR_REPORTS if given.no_reports else frozenset())
    pack(Path(__file__).parents[1], given.into, given.python, left_out)
    size = sum(path.stat().st_size for path in given.into.iterdir()) / 1e6
    print(f"{given.into}: {size:.0f} MB; README.md there says what to type")
    return 0


if __name__ == "__main__":
    sys.exit(main())
