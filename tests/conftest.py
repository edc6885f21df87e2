"""Decide which test files run in parallel, and save sweeps what is slow and the same each time.

Files that start a Ray mostly wait. They come first, so that others compute meanwhile, in two lanes,
since more than two Rays on one machine miss each other's deadlines.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from _pytest.mark.expression import Expression
from xdist.scheduler import LoadFileScheduling

from tests import battery

if TYPE_CHECKING:  # the tests of models do without these
    from matplotlib.figure import Figure

    from bakeoff.suite.tracking.client import MlflowStore
    from tests.kept_servers import KeptServers

ROOT = Path(__file__).parent.parent
_NUM_LANES = 2

# The environment may forbid bytecode files. Then each process of tests would compile all tests,
# which is most of the time of their collection. Modules that a test writes stay without them.
_BYTECODE_IS_FORBIDDEN = sys.dont_write_bytecode
sys.dont_write_bytecode = False

# One thread of torch in each process that runs tests: several processes share few cores, where
# threads that wait for one another in a loop take several times as long. What a trial is given
# goes before this.
os.environ.setdefault("OMP_NUM_THREADS", "1")


class Lanes(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types here
    """A scheduler that runs a file, and all files of a lane, in one process."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        waiting = [
            str(f.relative_to(ROOT))
            for f in sorted(ROOT.glob("tests/**/test_*.py"))
            if starts_a_ray(f)
        ]
        self._lanes = {file: f"lane {n % _NUM_LANES}" for n, file in enumerate(waiting)}

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return self._lanes.get(file, file)


@cache
def starts_a_ray(file: Path) -> bool:
    """Return True by the text of the file, because the scheduling process does not import it."""
    return "pytest.mark.ray" in file.read_text()


def pytest_configure(config: pytest.Config) -> None:
    """Let children be interrupted if a shell started the tests in its background.

    It also decides whether the cases of the battery are made.
    """
    asked = Expression.compile(config.option.markexpr or "battery")
    battery.is_wanted = asked.evaluate(lambda name, **_: name == "battery")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    """Return the scheduler for `--dist loadfile`."""
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort files that wait first, then the files with most tests first."""
    num_tests: dict[Path, int] = defaultdict(int)
    for item in items:
        num_tests[item.path] += 1
    items.sort(key=lambda item: (not starts_a_ray(item.path), -num_tests[item.path]))


def pytest_collection_finish() -> None:
    """Freeze all objects, so that a collection in a trial does not scan 10,000 tests."""
    sys.dont_write_bytecode = _BYTECODE_IS_FORBIDDEN
    gc.collect()
    gc.freeze()


class _Modules:
    """The modules of this process, of which most are examined once and not after every test.

    A new module is the last one in `sys.modules`, so nothing is new before the last known one. If
    the counts do not agree, a test has removed or moved some, and all are examined.
    """

    def __init__(self) -> None:
        self._last: Any = None
        self._num_known = 0

    def new(self) -> list[tuple[str, Any]]:
        """Return the modules, with their names, that were not there at the last `keep`."""
        found: list[tuple[str, Any]] = []
        for name, module in reversed(sys.modules.items()):
            if module is self._last:
                break
            found.append((name, module))
        return found if len(found) + self._num_known == len(sys.modules) else [*sys.modules.items()]

    def keep(self) -> None:
        """Take all that are there now as known."""
        self._last = sys.modules[next(reversed(sys.modules))]
        self._num_known = len(sys.modules)


_MODULES = _Modules()


@pytest.fixture(autouse=True)
def own_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Remove what a user's files add to the interpreter's path and modules.

    This runs for every test: a module left by one would hide a module of that name in the next.
    """
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name, module in _MODULES.new():
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
        if name.startswith(("own", "mine")) or str(file).startswith(folder):
            del sys.modules[name]
    _MODULES.keep()


@pytest.fixture(scope="session")
def store_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with the tables of a store; copying it is faster than creating them.

    All processes of a run share it.
    """
    from filelock import FileLock

    from bakeoff.suite.tracking.location import store_of
    from bakeoff.suite.tracking.write import RunWriter

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "store_tables"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            made = tmp_path_factory.mktemp("store")
            RunWriter(store_of(made, None))
            made.rename(folder)
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def plain_figures() -> Iterator[None]:
    """Leave all figures empty: drawing them is most of the work of a report."""
    from matplotlib.figure import Figure

    def left_empty(figure: Figure, file: TextIO, **options: object) -> None:
        file.write("<svg></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", left_empty)
        yield


@pytest.fixture(scope="session")
def all_servers() -> Iterator[KeptServers]:
    from bakeoff.suite.execution.fork_server import ForkServers
    from tests.kept_servers import KeptServers

    servers = KeptServers()
    yield servers
    ForkServers.close(servers)


@pytest.fixture
def kept_servers(all_servers: KeptServers, monkeypatch: pytest.MonkeyPatch) -> KeptServers:
    """Let sweeps without Ray fork their trials from the servers that earlier tests have started."""
    from bakeoff.suite.execution import inline, side_by_side

    for module in (inline, side_by_side):
        monkeypatch.setattr(module, "ForkServers", lambda: all_servers)
    return all_servers


@pytest.fixture
def fast_sweeps(
    store_tables: Path,
    plain_figures: None,
    kept_servers: KeptServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let sweeps of this process draw no figure, and copy the tables of a new store.

    It is for tests of what a sweep does, not of how its store or its figures are made.
    """
    from bakeoff.suite.tracking import write
    from bakeoff.suite.tracking.location import sqlite_path

    connect = write.connect

    def connect_to_copy(uri: str, *, is_new_allowed: bool = False) -> MlflowStore:
        file = sqlite_path(uri)
        if is_new_allowed and file is not None and not file.exists():
            shutil.copy(store_tables, file)
        return connect(uri, is_new_allowed=is_new_allowed)

    monkeypatch.setattr(write, "connect", connect_to_copy)
