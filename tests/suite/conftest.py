"""Fixtures: ablations in files of the user, and journals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bakeoff.suite.journal.journal import Journal
from tests.suite.small_ablation import WriteAblation

PARTS = {
    "question": "'How many?'",
    "baseline": 'Model(mixer="attention", heads=4)',
    "axes": '[vary("heads", [1, 4])]',
    "tasks": '["shakespeare_characters"]',
    "probes": '["quality", "parameters", "step_time"]',
    "scales": '{"quick": Scale(dim=16, depth=1, length=8, steps=4, batch=2)}',
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal(path) as opened:
        yield opened


@pytest.fixture
def write_ablation(tmp_path: Path) -> WriteAblation:
    """Return a function that writes an ablation's file: `source`, or `PARTS` with changes."""

    def write(source: str | None = None, *, name: str = "mine.py", **parts: str) -> Path:
        fields = "".join(f"    {key}={value},\n" for key, value in {**PARTS, **parts}.items())
        declared = (
            "from bakeoff import Ablation, Claim, Model, Scale, vary\n\nABLATION = Ablation(\n"
        )
        path = tmp_path / name
        path.write_text(f'"""A note."""\n{declared}{fields})\n' if source is None else source)
        return path

    return write
