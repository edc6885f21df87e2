"""Test that programs see one name, `bakeoff`, beside any modules of a user's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[1]
OWN = '''"""Is wider better?"""
from bakeoff import Ablation, Model, Scale, vary
from models.widths import WIDTHS
from reports import LENGTH
from suite import BATCH

ABLATION = Ablation(question="Is wider better?", baseline=Model(mixer="attention", dim=8, depth=1),
    axes=[vary("dim", WIDTHS)], tasks=["parity"], probes=["parameters"],
    scales={"quick": Scale(length=LENGTH, steps=1, batch=BATCH)})
'''


def ended(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python, with the package installed, in a user's folder."""
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_wheel_installs_the_package_and_its_former_name() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = find_packages(str(ROOT), include=setup["packages"]["find"]["include"])
    rooms = ("ablations", "models", "reports", "suite")
    below = [file.parent for room in rooms for file in (ROOT / room).rglob("__init__.py")]
    names = {f"bakeoff.{'.'.join(folder.relative_to(ROOT).parts)}" for folder in below}
    assert {"bakeoff", "bakeoff.templates", *names} == set(found)
    assert setup["py-modules"] == ["suite"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a user's folder, whose modules have the names of this project's folders."""
    for name, text in {
        "mine.py": OWN,
        "models/__init__.py": "",
        "models/widths.py": "WIDTHS = [8, 16]",
        "reports/__init__.py": "LENGTH = 4",
        "suite.py": "BATCH = 2",
        "ablations.py": "1 / 0",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_users_modules_of_any_name_work_beside_it(folder: Path, store_tables: Path) -> None:
    (folder / "out").mkdir()
    shutil.copy(store_tables, folder / "out" / "mlflow.db")
    program = str(Path(sys.executable).with_name("bakeoff"))
    done = ended(folder, program, "run", "mine.py", "--executor", "inline", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "reports" / "mine" / "results.csv").is_file()


def test_a_script_gets_its_own_modules_and_the_package(folder: Path) -> None:
    (folder / "script.py").write_text(
        "import suite, models.widths, reports, bakeoff\n"
        "print(suite.BATCH, models.widths.WIDTHS, reports.LENGTH, bakeoff.models.__name__)"
    )
    done = ended(folder, "script.py")
    assert done.stdout == "2 [8, 16] 4 bakeoff.models\n", done.stderr


def test_the_former_name_is_an_alias_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from suite import Ablation\nimport bakeoff, suite\n"
        "assert suite is bakeoff and Ablation is bakeoff.Ablation"
    )
    done = ended(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    assert "script.py:1: FutureWarning: `suite` is now called `bakeoff`" in done.stderr
