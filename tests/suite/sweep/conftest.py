"""A fixture for tests of whole sweeps: a workplace with the tables of a store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.workplace import Workplace


@pytest.fixture
def work(tmp_path: Path, store_tables: Path, kept_servers: object) -> Workplace:
    """Return an empty workplace; its trials with code of the user's are forks of kept servers."""
    torch.set_num_threads(1)
    workplace = Workplace(tmp_path)
    workplace.out.mkdir()
    shutil.copy(store_tables, workplace.out / "mlflow.db")
    return workplace
