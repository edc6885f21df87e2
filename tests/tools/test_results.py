"""Compare the committed pages with those that today's code makes of their frames.

After a change of code, `make pages` makes them again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bakeoff
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import LEARNING_RATE, Result, Status
from tests.suite.finished_sweep import FinishedSweep
from tools import results
from tools.results import (
    FINDINGS,
    MADE,
    RESULTS,
    Refused,
    keep,
    kept,
    make_pages,
    most_bytes,
    num_bytes,
)

pytestmark = pytest.mark.whole

NO_CHANGE: dict[str, Any] = {}
KEPT = sorted(path.parent.name for path in RESULTS.glob("*/curves.parquet"))
# Attention, and texts that a model wrote; `make slow-test` renders all of them.
BY_DEFAULT = ("heads", "translation")
PAGES = [pytest.param(name, marks=() if name in BY_DEFAULT else pytest.mark.slow) for name in KEPT]


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_every_committed_report_holds_its_frames() -> None:
    assert {path.name for path in RESULTS.iterdir() if path.is_dir()} == {*KEPT}


@pytest.mark.parametrize("name", PAGES)
def test_a_committed_report_is_made_again_from_its_frames(name: str, tmp_path: Path) -> None:
    home = RESULTS / name
    sweep = read_sweep(home / "results.parquet", home / "curves.parquet")
    results.render(name, [sweep], tmp_path)
    committed = _files(home)
    assert committed.pop(MADE)
    again = _files(tmp_path / name)
    assert again.keys() == committed.keys(), "run `make pages`"
    assert [file for file in again if again[file] != committed[file]] == [], "run `make pages`"
    assert num_bytes(home) <= most_bytes(len(sweep.about.tasks))


@pytest.fixture(scope="module")
def sweeps() -> dict[str, Sweep]:
    """Return the sweeps of all committed reports; do not modify them."""
    return kept()


def test_learning_rates_in_use_lie_between_two_that_were_tried(sweeps: dict[str, Sweep]) -> None:
    """Check 95 of 100 cells; an optimum at the end of the range may lie beyond it."""
    is_interior: list[bool] = []
    for sweep in sweeps.values():
        rows = sweep.results.query("probe == @LEARNING_RATE")
        for _, of_cell in rows.groupby(["task", "variant"]):
            chosen = of_cell.loc[of_cell["metric"] == LEARNING_RATE, "value"]
            places = of_cell.loc[of_cell["metric"] != LEARNING_RATE, "at"]
            tried = [float(at.partition("=")[2]) for at in places]
            is_interior += [min(tried) < rate < max(tried) for rate in chosen.dropna()]
    assert len(is_interior) > 40
    assert is_interior.count(True) >= 0.95 * len(is_interior)


def test_the_committed_overview_is_made_again(tmp_path: Path, sweeps: dict[str, Sweep]) -> None:
    results.make_overview(sweeps, tmp_path)
    for name in ("index.html", "index.md"):
        assert (tmp_path / name).read_bytes() == (RESULTS / name).read_bytes(), "run `make pages`"
    assert (RESULTS / "made.md").read_text() == results.how_all_were_made(sweeps)


def test_the_shipped_verdicts_are_those_of_the_pages(sweeps: dict[str, Sweep]) -> None:
    assert results.SHIPPED_VERDICTS.read_text() == results.shipped_verdicts(sweeps), (
        "run `make pages`"
    )
    shipped = bakeoff.published_results()
    assert list(shipped["ablation"]) == KEPT
    for name, verdict in shipped.set_index("ablation")["verdict"].items():
        judged = sweeps[str(name)].in_order.verdict
        assert judged is not None
        assert judged.outcome == verdict
        # The verdict is the first paragraph or the second, after the answer to the title.
        paragraphs = (RESULTS / str(name) / "report.md").read_text().split("\n\n")[1:3]
        assert any(each.startswith(f"**{judged.kind.capitalize()}.**") for each in paragraphs)


def test_every_committed_report_is_among_the_findings() -> None:
    """Check the list of results that were reproduced and those that were not."""
    told = (RESULTS / FINDINGS).read_text()
    assert [name for name in KEPT if f"[{name}]({name}/report.md)" not in told] == []


@pytest.fixture
def finished(tmp_path: Path) -> FinishedSweep:
    """Return a sweep that is recorded in the journal of an output folder under a commit."""
    sweep = FinishedSweep("heads")
    _record(sweep, tmp_path / "out", "0123456789ab")
    return sweep


def _record(
    sweep: FinishedSweep, out: Path, commit: str, of_last: dict[str, Any] | None = NO_CHANGE
) -> None:
    """Record a sweep; `of_last` changes the last result, and None leaves it out."""
    out.mkdir(exist_ok=True)
    with Journal(out / "journal.db") as journal:
        journal.keep_plan(sweep.plan)
        *others, last = (_at(result, commit) for result in sweep.results)
        for result in (*others, *([replace(last, **of_last)] if of_last is not None else [])):
            journal.commit(result, journal.begin(result.trial_id, "here"))


def _at(result: Result, commit: str) -> Result:
    return replace(result, provenance=replace(result.provenance, commit=commit))


def test_a_finished_report_is_kept_with_its_frames(finished: FinishedSweep, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    home = keep("heads", tmp_path / "out", into=docs)
    before = _files(home)
    assert {"index.html", "report.md", "results.parquet", "curves.parquet", MADE} <= {*_files(home)}
    (home / "report.md").write_text("by another version of the code")
    make_pages(docs)
    assert _files(home) == before
    assert "heads" in (docs / "index.md").read_text()
    row = (docs / "made.md").read_text().splitlines()[-1]
    assert "`bakeoff run heads --scale quick`" in row
    assert "| 0123456789ab |" in row
    assert f"| {len(finished.results)} | 0.03 |" in row  # nine trials of 12.5 seconds


@pytest.mark.parametrize(
    ("commit", "of_last", "sentence"),
    [
        ("0123456789ab+", {}, "made by 0123456789ab+; only those of a commit without changed"),
        ("release 0.2", {}, "made by release 0.2; only"),
        ("0123456789ab", None, "1 of 9 trials are missing"),
        ("0123456789ab", {"status": Status.CRASHED}, "1 of 9 trials are failed"),
    ],
)
def test_what_nobody_could_repeat_is_refused(
    commit: str, of_last: dict[str, Any] | None, sentence: str, tmp_path: Path
) -> None:
    _record(FinishedSweep("heads"), tmp_path / "out", commit, of_last=of_last)
    with pytest.raises(Refused, match=sentence.replace("+", r"\+")):
        keep("heads", tmp_path / "out", into=tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_what_is_too_large_or_unknown_is_refused(
    finished: FinishedSweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match=r"holds no tails at quick; it holds heads at quick\.$"):
        keep("tails", tmp_path / "out", into=tmp_path)
    monkeypatch.setattr(results, "most_bytes", lambda num_tasks: 1000)
    with pytest.raises(Refused, match=r"bytes; at most 1,000 are allowed\.$"):
        keep("heads", tmp_path / "out", into=tmp_path)
    assert not (tmp_path / "heads").exists()
