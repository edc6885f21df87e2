"""Which test files run side by side, and what does collecting garbage cost between them?

Files that start a Ray mostly wait. They come first, so that others compute meanwhile, in two lanes,
since more than two Rays on one machine miss each other's deadlines.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parent.parent
_NUM_LANES = 2


class Lanes(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types here
    """A file goes to one process, whole; all files of a lane go to the same."""

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
    """By its text, since the process that hands out the tests does not import them."""
    return "pytest.mark.ray" in file.read_text()


def pytest_configure() -> None:
    """Let children be interrupted where a shell started the tests in its background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    """With `--dist loadfile`."""
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that wait first; of the others the longest file first."""
    num_tests: dict[Path, int] = defaultdict(int)
    for item in items:
        num_tests[item.path] += 1
    items.sort(key=lambda item: (not starts_a_ray(item.path), -num_tests[item.path]))


def pytest_collection_finish() -> None:
    """What stands now stays: a trial that collects garbage need not look through 10,000 tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """What a user's files add to the interpreter's path and modules goes away again.

    For every test: a module that one of them leaves would hide the next one's of that name.
    """
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
        if name.startswith(("own", "mine")) or str(file).startswith(folder):
            del sys.modules[name]
