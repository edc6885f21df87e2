"""Test that a visit runs where only torch's image and the few packed wheels are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tools.gpu_visit.results import Results
from tools.gpu_visit.runner import ROOT
from tools.pack import _IN_TORCH_IMAGES, installed_needs, names_for_a_visit, packed_names

# Packages that the images have with pandas, or that start a virtual environment.
BESIDE = {"python-dateutil", "pytz", "six", "tzdata", "pip", "setuptools", "torch", "bakeoff"}
BLOCKER = """
import sys
for name in {names}:
    sys.modules.setdefault(name, None)
"""


def blocked() -> list[str]:
    """Return the top-level modules of packages that are installed here but not there."""
    there = {*names_for_a_visit(installed_needs, "3.11"), *_IN_TORCH_IMAGES, *BESIDE}
    there |= {*packed_names(installed_needs, "3.11", roots=("torch",))}
    found = packages_distributions().items()
    return [
        module
        for module, owners in found
        if not there & {canonicalize_name(each) for each in owners}
    ]


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which these modules cannot be imported."""
    (tmp_path / "without").mkdir()
    names = [name for name in blocked() if name.isidentifier()]
    assert {"ray", "mlflow", "sklearn", "xdist", "hypothesis"} <= {*names}
    (tmp_path / "without" / "sitecustomize.py").write_text(BLOCKER.format(names=names))
    return os.environ | {"PYTHONPATH": str(tmp_path / "without")}


IMPORT_ALL = """
import importlib, time
from pathlib import Path
from tools.gpu_visit import environment
from tools.gpu_visit.__main__ import PARTS
from tools.gpu_visit.results import Visit

environment.environment("cpu")
visit = Visit(device="cpu", out=Path("nowhere"), end=time.time(), ablations=("heads",))
for part in PARTS:
    assert list(importlib.import_module(part.module).items(visit)), part.name
"""


@pytest.mark.slow
def test_all_parts_can_be_imported_there(without: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        cwd=ROOT,
        env=without,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_dry_visit_there_meets_no_missing_package(
    tmp_path: Path, without: dict[str, str]
) -> None:
    out = tmp_path / "visit"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tools.gpu_visit",
            "--device",
            "cpu",
            "--minutes",
            "4",
            "--out",
            str(out),
        ],
        cwd=ROOT,
        env=without,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = Results(out).rows
    assert not [row for row in rows if "No module named" in row.text]
    assert not [row for row in rows if row.status == "error"]
