"""Runs the tests that are marked `gpu`, one file at a time."""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.runner import ROOT

_MARK = "pytest.mark.gpu"
# The tests' own conftest needs packages that such a machine lacks, and these tests do not use it.
_OPTIONS = (
    "--import-mode=importlib",
    "--noconftest",
    "-o",
    "addopts=",
    "-W",
    "default",
    "-p",
    "no:cacheprovider",
    "-m",
    "gpu and not bench",
    "-q",
)


def items(visit: Visit) -> Iterator[Item]:
    """Yield each file of tests that has the mark."""
    if find_spec("pytest") is None:
        yield "pytest", lambda: Finding(text="pytest is missing", status="skipped")
        return
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if _MARK in file.read_text() and "benchmarks" not in file.parts:
            yield str(file.relative_to(ROOT / "tests")), partial(_run, file)


class _Outcomes:
    """A plugin of pytest that notes how each test ended."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash else str(report.longrepr)
            self.failures.append(f"{report.nodeid.partition('::')[2]}: {why.splitlines()[0][:200]}")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.counts["failed"] += 1
            self.failures.append(str(report.longrepr).splitlines()[-1][:200])


def _run(file: Path) -> Finding:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # these tests need none of what is installed
    import pytest

    outcomes = _Outcomes()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main([*_OPTIONS, f"--rootdir={ROOT}", str(file)], plugins=[outcomes])
    if code == pytest.ExitCode.INTERRUPTED and not outcomes.failures:
        raise KeyboardInterrupt  # which pytest has caught: the time of this part is over
    values = dict(outcomes.counts)
    counts = ", ".join(f"{number} {how}" for how, number in sorted(values.items()))
    text = "; ".join(filter(None, [counts or "no test ran", *outcomes.failures]))
    if outcomes.failures:
        print(said.getvalue())
        return Finding(text=text, status="failed", values=values, needs_fresh=True)
    status = "ok" if outcomes.counts["passed"] else "skipped"
    return Finding(text=text, status=status, values=values)
