"""A new store has all of its tables or none, also when its maker is killed in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suite.planning.plan import plan
from suite.tracking.client import StoreUnavailable
from suite.tracking.location import store_of
from suite.tracking.run_writer import RunWriter

MAKER = """
import sys
from pathlib import Path
from suite.tracking.run_writer import RunWriter
from suite.tracking.location import store_of
RunWriter(store_of(Path(sys.argv[1]), None))
"""


def test_killed_while_its_tables_are_made_it_is_made_again(tmp_path: Path) -> None:
    maker = subprocess.Popen([sys.executable, "-c", MAKER, str(tmp_path)])
    aside = tmp_path / "mlflow.db.new"
    while not (aside.exists() and aside.stat().st_size > 100_000):  # some of many tables
        assert maker.poll() is None, "it was too quick for this test"
        time.sleep(0.001)
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    assert not (tmp_path / "mlflow.db").exists()
    recorder = RunWriter(store_of(tmp_path, None))
    assert recorder.open_sweep(plan("heads").about) == {}
    assert sorted(path.name for path in tmp_path.iterdir() if "mlflow" in path.name) == [
        "mlflow.db"
    ]


def test_a_store_that_is_there_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunWriter(store_of(tmp_path, None)).open_sweep(plan("heads").about)
    number = os.stat(tmp_path / "mlflow.db").st_ino
    monkeypatch.setattr("suite.tracking.new_store._make", pytest.fail)
    assert isinstance(RunWriter(store_of(tmp_path, None)), RunWriter)
    assert os.stat(tmp_path / "mlflow.db").st_ino == number


def test_a_store_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db.new").mkdir()
    with pytest.raises(StoreUnavailable, match=r"mlflow\.db is not available"):
        RunWriter(store_of(tmp_path, None))
