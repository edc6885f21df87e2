"""Pack what a machine without network needs to run sweeps: bakeoff and its dependencies as wheels.

    python -m tools.pack --python 3.12 --into packed

torch, which such a machine has, and what only torch needs are left out; so are Ray, MLflow and
DeepSpeed, which `bakeoff run --executor inline` does without. `packed/README.md` says what to type
there, and how its journal is recorded at home.

With `--no-torch-packages` only the few small wheels are packed that an image with torch, numpy,
pandas and scipy lacks for `python -m tools.gpu_visit`, which runs in a checkout.
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

from bakeoff.suite.provenance import commit

_LEFT_OUT = frozenset({"torch", "ray", "mlflow", "deepspeed"})
_FOR_REPORTS = frozenset({"jinja2", "matplotlib", "pillow", "pyarrow"})
# Numpy is needed for all parts of a visit to a GPU, pandas and scipy for its sweeps alone.
_IN_TORCH_IMAGES = frozenset({"numpy", "pandas", "scipy"})
_NOT_OF_A_VISIT = _FOR_REPORTS | {"psutil", "safetensors", "scikit-learn"}
_OF_A_VISIT = ("bakeoff", "pytest")
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
_NOTE_OF_A_VISIT = """# What a visit to a GPU needs

Needs Linux on x86-64, Python {python}, torch 2.11 or later, numpy, pandas and scipy; no network.
Bring this folder and, beside it, a checkout of bakeoff at {commit}; type in the checkout:

    python{python} -m pip install --no-index --no-deps --target ../visit-packages ../{folder}/*.whl
    export PYTHONPATH=$PWD/../visit-packages BAKEOFF_COMMIT={commit}
    python{python} -m tools.gpu_visit --minutes 12 --out visit

Then bring the folder `visit` home; docs/gpu/README.md says what is in it.
"""
Needs = Callable[[str], Sequence[str]]


def packed_names(
    needs: Needs,
    python: str,
    left_out: frozenset[str] = _LEFT_OUT,
    roots: Sequence[str] = ("bakeoff",),
) -> list[str]:
    """Return what the roots need, and what that needs, but for what is left out; by name."""
    found: set[str] = set()
    left = list(roots)
    while left:
        for name in _required(needs(left.pop()), python):
            if name not in found | left_out:
                found.add(name)
                left.append(name)
    return sorted(found)


def names_for_a_visit(needs: Needs, python: str) -> list[str]:
    """Return what `tools.gpu_visit` needs beside torch, what torch needs, and its images have."""
    of_torch = frozenset(packed_names(needs, python, roots=("torch",)))
    left_out = _LEFT_OUT | _IN_TORCH_IMAGES | _NOT_OF_A_VISIT | of_torch
    return sorted({"pytest", *packed_names(needs, python, left_out, _OF_A_VISIT)})


def _required(lines: Sequence[str], python: str) -> Iterator[str]:
    """Yield the names of requirements, without extras and other systems."""
    there = {"python_version": python, "sys_platform": "linux", "extra": ""}
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(there):
            yield canonicalize_name(requirement.name)


def installed_needs(name: str) -> Sequence[str]:
    """Return the requirements of an installed package.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    return distribution(name).requires or []


def pins(constraints: str) -> Mapping[str, str]:
    """Return the version of each package in lines ``name==version``."""
    lines = (line.split("==") for line in constraints.splitlines() if "==" in line)
    return {canonicalize_name(name): version.strip() for name, version in lines}


def pack(root: Path, into: Path, python: str, left_out: frozenset[str] = _LEFT_OUT) -> None:
    """Write the wheels and the note.

    Raises:
        subprocess.CalledProcessError: pip could not; it has said why.
    """
    into.mkdir(parents=True, exist_ok=True)
    _pip("wheel", "--no-deps", "--wheel-dir", str(into), str(root))
    _download(root, into, python, packed_names(installed_needs, python, left_out))
    (into / "README.md").write_text(_NOTE.format(python=python))


def pack_for_a_visit(root: Path, into: Path, python: str) -> None:
    """Write the few wheels that a machine with torch lacks for a visit, and the note.

    Raises:
        subprocess.CalledProcessError: pip could not; it has said why.
    """
    into.mkdir(parents=True, exist_ok=True)
    _download(root, into, python, names_for_a_visit(installed_needs, python))
    note = _NOTE_OF_A_VISIT.format(python=python, commit=commit(), folder=into.name)
    (into / "README.md").write_text(note)


def _download(root: Path, into: Path, python: str, names: Sequence[str]) -> None:
    versions = pins((root / "constraints.txt").read_text())
    platforms = [f"--platform={platform}" for platform in _PLATFORMS]
    _pip(
        "download",
        "--no-deps",
        "--only-binary=:all:",
        f"--python-version={python}",
        "--implementation=cp",
        *platforms,
        "--dest",
        str(into),
        *(f"{name}=={versions[name]}" for name in names),
    )


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def main() -> int:
    """Pack the wheels that the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="3.12", help="its version of Python there")
    parser.add_argument("--into", type=Path, default=Path("packed"))
    parser.add_argument("--no-reports", action="store_true", help="leave out what writes reports")
    parser.add_argument(
        "--no-torch-packages",
        action="store_true",
        help="only what an image with torch lacks for python -m tools.gpu_visit",
    )
    given = parser.parse_args()
    root = Path(__file__).parents[1]
    if given.no_torch_packages:
        pack_for_a_visit(root, given.into, given.python)
    else:
        left_out = _LEFT_OUT | (_FOR_REPORTS if given.no_reports else frozenset())
        pack(root, given.into, given.python, left_out)
    size = sum(path.stat().st_size for path in given.into.iterdir()) / 1e6
    print(f"{given.into}: {size:.0f} MB; README.md there says what to type")
    return 0


if __name__ == "__main__":
    sys.exit(main())
