"""Check the speed of our own hot paths, each beside plain work of the same size.

Seconds differ from machine to machine; the ratio of two pieces of work that run in turns in one
process hardly does, so a path that becomes twice as slow is visible on any machine. A bound is
`SLACK` times the ratio measured when it was set: loose enough for another processor and for other
versions of the libraries, tight enough to detect a doubling. If you make a path faster, lower its
ratio here.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jinja2 import Environment
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bakeoff.reports.render import render
from bakeoff.reports.results.frame import RESULT_COLUMNS, results_frame, to_parquet_bytes
from bakeoff.reports.view import read_sweep
from bakeoff.suite.commands.status import status_of
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.frames import Row, by_trial, sweep_of
from bakeoff.suite.schema import Measurement, Result, Status
from tests.benchmarks.interleaved import Limits, TimingRun
from tests.benchmarks.large_store import (
    PLACE,
    ablation,
    fill_journal,
    fill_store,
    plans,
    points,
    result_of,
)

pytestmark = pytest.mark.bench

MEASURED = {  # on two cores
    "list": 2.9,
    "plan heads": 1.5,
    "planning": 11.5,
    "journal": 4.5,
    "frames": 4.4,
    "reports": 1.4,
    "reading": 9.3,
    "status": 3.7,
}
SLACK = 1.6
LIMITS = Limits(
    warm_up_rounds=1,
    warm_up_seconds=0.0,
    least_rounds=5,
    most_rounds=15,
    seconds=20.0,
    patience=60.0,
    half_width=0.02,
    least_sample=0.02,
)
MOST_COMMITS = 2_000


def check(
    benchmark: Any,
    path: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    what: str,
) -> None:
    """Run both in turns, print their times, and compare their ratio with its bound.

    The ratio is that of the quickest rounds, since other load on the machine only adds time.
    """
    timing_run = TimingRun({"reference": reference, "ours": ours}, LIMITS)
    times = benchmark.pedantic(timing_run.run, rounds=1, iterations=1)
    mine, plain = (min(times.seconds[name]) for name in ("ours", "reference"))
    ratio, bound = mine / plain, SLACK * MEASURED[path]
    benchmark.extra_info |= {"ratio": ratio, "bound": bound}
    print(
        f"\n{path}: {what} {_shown(mine)}, {ratio:.2f} times as long as the plain work "
        f"({_shown(plain)}); at most {bound:.1f}; load {os.getloadavg()[0]:.1f}"
    )
    assert ratio < bound, f"{path} takes {ratio:.2f} times as long as the plain work"


def _shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def test_help(benchmark: Any) -> None:
    """Print the help in 0.5 s, the target on the two-core machine."""
    command = [str(Path(sys.executable).with_name("bakeoff")), "--help"]
    done = benchmark.pedantic(
        lambda: subprocess.run(command, capture_output=True, check=True), rounds=5, warmup_rounds=1
    )
    assert b"regenerate" in done.stdout


@pytest.mark.parametrize(
    ("path", "imports"), [("list", "typer, pydantic, sqlite3"), ("plan heads", "torch, pydantic")]
)
def test_commands_that_only_look(benchmark: Any, path: str, imports: str) -> None:
    """Compare with the imports that the command needs. Targets: 2 and 3 s of CPU on two cores."""
    command = [str(Path(sys.executable).with_name("bakeoff")), *path.split()]
    plain = [sys.executable, "-c", f"import {imports}"]
    ours, reference = (
        lambda each=each: subprocess.run(each, capture_output=True, check=True)
        for each in (command, plain)
    )
    check(benchmark, path, ours, reference, f"`bakeoff {path}`")


def test_planning_ten_thousand_trials(benchmark: Any) -> None:
    """Compare with the JSON and the SHA-256 of the same trials, the least cost of an id."""
    question = ablation(500)
    contents = [asdict(trial) for trial in plan(question, seeds=10).trials]
    assert len(contents) == 10_000

    def hashed() -> set[str]:
        return {
            hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
            for content in contents
        }

    check(benchmark, "planning", lambda: plan(question, seeds=10), hashed, "10,000 trials")


@pytest.fixture
def memory() -> Iterator[Path]:
    """Yield a folder whose fsync is free, which leaves our own work and SQLite's."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


def test_committing_a_result(benchmark: Any, memory: Path) -> None:
    """Compare with JSON, SHA-256, a bare insert and a commit, in the same mode of the database."""
    results = iter([_large_result(index) for index in range(MOST_COMMITS)])
    content, keys = asdict(_large_result(0)), itertools.count()
    with (
        Journal(memory / "journal.db") as journal,
        closing(sqlite3.connect(memory / "bare.db")) as bare,
    ):
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE results (key TEXT PRIMARY KEY, result BLOB) WITHOUT ROWID")

        def inserted() -> None:
            body = json.dumps(content, sort_keys=True).encode()
            key = f"{next(keys)} {hashlib.sha256(body).hexdigest()}"
            with bare:
                bare.execute("INSERT INTO results VALUES (?, ?)", (key, body))

        def committed() -> None:
            assert journal.commit(next(results), 1)

        check(benchmark, "journal", committed, inserted, "one commit of 50 measurements")


def _large_result(index: int) -> Result:
    """Return a result of about the size of a timing of 25 variants."""
    return Result(
        trial_id=f"{index:032}",
        status=Status.OK,
        provenance=PLACE,
        seconds=12.5,
        measurements=tuple(
            Measurement(
                metric="training_step_seconds",
                value=1e-3 + 1e-6 * number,
                unit="s",
                better="lower",
                subject=number,
                spread_low=1e-3,
                spread_high=2e-3,
            )
            for number in range(50)
        ),
        points=points("bits_per_character", "bit", 2.5),
    )


def test_building_a_frame(benchmark: Any) -> None:
    """Compare with plain pandas and pyarrow, without declared types or checks."""
    row: Row = dict.fromkeys(RESULT_COLUMNS, "a word of the usual length")
    row |= {"better": "lower", "status": "ok", "spread_low": None, "spread_high": 2.0}
    rows = [{**row, "seed": index, "value": index / 7} for index in range(100_000)]

    def plain() -> bytes:
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pandas(pd.DataFrame(rows)), buffer)
        return buffer.getvalue()

    def ours() -> bytes:
        return to_parquet_bytes(results_frame(rows))

    check(benchmark, "frames", ours, plain, "100,000 rows to Parquet")


NUM_LINES, NUM_FIGURES = 160, 4
TEMPLATE = """<table>{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}
</table>"""


def test_rendering_a_report(benchmark: Any, tmp_path: Path) -> None:
    """Compare with a table of the same rows and as many plain figures with as many lines."""
    planned = plan(ablation(100), seeds=10)
    assert len(planned.trials) == 2_000
    sweep = sweep_of(planned, by_trial(map(result_of(planned), planned.trials)))
    template = Environment(autoescape=True).from_string(TEMPLATE)

    def plain() -> int:
        page = template.render(rows=sweep.results.itertuples(index=False))
        return len(page) + sum(len(_figure()) for _ in range(NUM_FIGURES))

    check(
        benchmark,
        "reports",
        lambda: render("own", [sweep], tmp_path),
        plain,
        "the report of 2,000 trials",
    )
    assert len(list((tmp_path / "own" / "figures").glob("*.svg"))) >= NUM_FIGURES


def _figure() -> bytes:
    figure = Figure(layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(1, 2)
    for index in range(NUM_LINES):
        axes[index % 2].plot(range(8), [index / (step + 1) for step in range(8)])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an output folder with 10,000 finished trials."""
    out = tmp_path_factory.mktemp("large")
    fill_store(out, fill_journal(out, plans("wide")))
    return out


def test_how_ten_thousand_trials_stand(benchmark: Any, large: Path) -> None:
    """Compare with a read of the same rows into tuples and a count."""

    def counted() -> Counter[str]:
        with closing(sqlite3.connect(large / "journal.db")) as db:
            db.execute("SELECT * FROM trials").fetchall()
            db.execute("SELECT * FROM attempts").fetchall()
            return Counter(row[3] for row in db.execute("SELECT * FROM ends").fetchall())

    check(benchmark, "status", lambda: status_of(large), counted, "the status of 10,000 trials")
    assert status_of(large).counts == {"ok": 10_000}


def test_reading_a_sweep(benchmark: Any, large: Path) -> None:
    """Compare with plain pandas, without checks or a search for passwords."""
    files = [next((large / "artifacts").rglob(f"{kind}.parquet")) for kind in ("results", "curves")]

    def plain() -> int:
        return sum(len(pd.read_parquet(file)) for file in files)

    check(benchmark, "reading", lambda: read_sweep(*files), plain, "90,000 rows from Parquet")


REPORT = """
from bakeoff.suite.cli import app
app(standalone_mode=False)
with open("/proc/self/status") as file:
    print(next(line for line in file if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize("shape", ["wide", "deep"])
def test_a_report_of_ten_thousand_trials(shape: str, tmp_path: Path) -> None:
    """Run the command to its end, within bounds of seconds and bytes on any machine."""
    fill_store(tmp_path, fill_journal(tmp_path, plans(shape)))
    command = [sys.executable, "-c", REPORT, "report", "own0", "--out", str(tmp_path)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, gib = time.perf_counter() - start, int(done.stdout.split()[-2]) / 2**20
    print(f"\nreport, {shape}: {seconds:.1f} s, {gib:.2f} GiB; load {os.getloadavg()[0]:.1f}")
    assert (tmp_path / "reports" / "own0" / "index.html").is_file()
    assert seconds < 15
    assert gib * 2**30 < 1e9
