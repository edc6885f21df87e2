"""Fixtures for tests of whole sweeps: a workplace with the tables of a store, empty figures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
import torch
from matplotlib.figure import Figure

from bakeoff.suite.tracking.location import store_of
from bakeoff.suite.tracking.write import RunWriter
from tests.workplace import Workplace


@pytest.fixture(scope="session")
def store_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with the tables of a store; copying it is faster than creating them."""
    folder = tmp_path_factory.mktemp("store")
    RunWriter(store_of(folder, None))
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def plain_figures() -> Iterator[None]:
    """Leave all figures empty: drawing them is most of the work of a report."""

    def left_empty(figure: Figure, file: TextIO, **options: object) -> None:
        file.write("<svg></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", left_empty)
        yield


@pytest.fixture
def work(tmp_path: Path, store_tables: Path, kept_servers: object) -> Workplace:
    """Return an empty workplace; its trials with code of the user's are forks of kept servers."""
    torch.set_num_threads(1)
    workplace = Workplace(tmp_path)
    workplace.out.mkdir()
    shutil.copy(store_tables, workplace.out / "mlflow.db")
    return workplace
