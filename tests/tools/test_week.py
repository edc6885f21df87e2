"""Test `make week`: its short form finds no fault, and its checks find simulated ones."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bakeoff.suite.tracking.location import Store
from tools.chaos.arena import ROOT
from tools.chaos.numbers import (
    VIEW,
    differences_of_editions,
    differences_of_pages,
    differences_of_store,
    editions_in,
)

pytestmark = pytest.mark.slow  # a minute of real runs; `make week-short` selects it


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folders that two simulated days produce."""
    folder = tmp_path_factory.mktemp("week")
    options = ["--only", "week", "--short", "--keep", str(folder)]
    command = [sys.executable, "-m", "tools.chaos", *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all numbers are the journals'") == 2
    (made,) = folder.iterdir()
    return made


def test_one_wrong_number_is_found_wherever_it_stands(week: Path) -> None:
    out = week / "copy-1"
    store = Store(uri=f"sqlite:///{out / 'mlflow.db'}", artifacts=None, out=out)
    page = out / "reports/week/results.csv"
    command = [
        sys.executable,
        "-m",
        "bakeoff.suite.cli",
        "report",
        "week",
        "--editions",
        "--out",
        str(out),
    ]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown, editions = editions_in(out)
    found = differences_of_editions(
        table.replace("accuracy 0.", "accuracy 1."), shown, editions.values()
    )
    assert [line.partition(":")[0] for line in sorted(found)] == [
        "report --editions, edition 1",
        "report --editions, edition 2",
    ]
    page.write_text(page.read_text().replace(",accuracy,,0.", ",accuracy,,1.", 1))
    (wrong,) = differences_of_pages(shown, out / "reports")
    assert wrong.startswith("results.csv: mixer=attention, 0, accuracy is 1.")
    for role, where in (("variant", f"{VIEW}: "), ("trial", f"{VIEW}.trials: ")):
        change(out, role, 0.001)
        found = list(differences_of_store(store, shown))
        assert found
        assert all(line.startswith(where) for line in found)
        change(out, role, -0.001)


def change(out: Path, role: str, by: float) -> None:
    """Add a number to the scores of the runs with that role."""
    with closing(sqlite3.connect(out / "mlflow.db")) as db:
        of_role = "SELECT run_uuid FROM tags WHERE key = 'bakeoff.role' AND value = ?"
        query = "UPDATE latest_metrics SET value = value + ? WHERE key = 'accuracy'"
        db.execute(f"{query} AND run_uuid IN ({of_role})", (by, role))
        db.commit()
