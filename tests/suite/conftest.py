"""Fixtures: ablations in files of the user, journals, tables of stores, figures, fork servers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from matplotlib.figure import Figure

from bakeoff.suite.execution import inline, side_by_side
from bakeoff.suite.execution.fork_server import ForkServer, ForkServers
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.tracking.location import store_of
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.small_ablation import WriteAblation

_OF_ONE_TEST = ("PYTEST_CURRENT_TEST", "BAKEOFF_DRIVER")  # in the environment of a trial
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


class KeptServers(ForkServers):
    """Fork servers that no sweep ends: starting one takes seconds, a fork of it milliseconds.

    Their environment does not have the variable by which the end of a sweep finds processes.
    """

    @contextmanager
    def one_with(self, environment: Mapping[str, str]) -> Iterator[ForkServer]:
        """Yield a server with that environment; it is free again however its trial has ended."""
        kept = {k: v for k, v in environment.items() if k not in _OF_ONE_TEST}
        idle = self._idle.setdefault(frozenset(kept.items()), [])
        if not idle:
            idle.append(ForkServer(kept))
            self._all.append(idle[-1])
        server = idle.pop()
        try:
            yield server
        finally:
            idle.append(server)

    def close(self) -> None:
        """Leave them to the next sweep."""


@pytest.fixture(scope="session")
def all_servers() -> Iterator[KeptServers]:
    servers = KeptServers()
    yield servers
    ForkServers.close(servers)


@pytest.fixture
def kept_servers(all_servers: KeptServers, monkeypatch: pytest.MonkeyPatch) -> KeptServers:
    """Let sweeps without Ray fork their trials from the servers that earlier tests have started."""
    for module in (inline, side_by_side):
        monkeypatch.setattr(module, "ForkServers", lambda: all_servers)
    return all_servers
