"""Fixtures for tests of whole sweeps: a workplace with the tables of a store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from bakeoff.suite.tracking.location import store_of
from bakeoff.suite.tracking.write import RunWriter
from tests.workplace import Workplace


@pytest.fixture(scope="session")
def store_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with the tables of a store; copying it is faster than creating them."""
    folder = tmp_path_factory.mktemp("store")
    RunWriter(store_of(folder, None))
    return folder / "mlflow.db"


@pytest.fixture
def work(tmp_path: Path, store_tables: Path) -> Workplace:
    torch.set_num_threads(1)
    workplace = Workplace(tmp_path)
    workplace.out.mkdir()
    shutil.copy(store_tables, workplace.out / "mlflow.db")
    return workplace
