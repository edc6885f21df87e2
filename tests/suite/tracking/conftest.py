"""Fixtures: a small sweep, and stores with empty tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakeoff.suite.tracking.write import RunWriter
from tests.suite.heads_sweep import HEADS, LocalStore


@pytest.fixture(scope="session")
def empty_store(store_tables: Path) -> LocalStore:
    return LocalStore(store_tables.parent)


@pytest.fixture
def store(empty_store: LocalStore, tmp_path: Path) -> LocalStore:
    return empty_store.copied_to(tmp_path)


@pytest.fixture
def writer(
    store: LocalStore,
) -> RunWriter:
    """Return a writer that has opened the sweep."""
    writer = store.writer()
    writer.open_sweep(HEADS.about)
    return writer
