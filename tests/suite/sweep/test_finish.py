"""Tests for the end of a sweep, which renders its pages from the journal, and its failures."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bakeoff.suite.commands import run as command_run
from bakeoff.suite.errors import DONE, UNAVAILABLE
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.reporting import build
from bakeoff.suite.reporting.build import reported, reports_of, sweeps_in
from bakeoff.suite.schema import Status
from bakeoff.suite.sweep.driver import Options
from bakeoff.suite.sweep.finish import SweepOutcome, conclude, counted
from bakeoff.suite.sweep.mlflow_sync import MlflowSync
from bakeoff.suite.sweep.verify import differences
from bakeoff.suite.tracking.location import Store, store_of
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.finished_sweep import FinishedSweep
from tests.suite.heads_sweep import LocalStore
from tests.workplace import Workplace

pytestmark = pytest.mark.usefixtures("plain_figures")

OURS = FinishedSweep("ours")


@dataclass(frozen=True)
class Folder:
    """An output folder that records into a store, which may belong to another folder."""

    out: Path
    uri: str

    @property
    def store(self) -> Store:
        return store_of(self.out, self.uri)

    def finish(self, sweep: FinishedSweep) -> SweepOutcome:
        """Do everything that a driver does, except running the trials."""
        self.out.mkdir(exist_ok=True)
        with Journal(self.out / "journal.db") as journal:
            planned = journal.keep_plan(sweep.plan)
            for result in sweep.results:
                journal.commit(result, journal.begin(result.trial_id, "here"))
            writer = MlflowSync(lambda: RunWriter(self.store), [planned], journal.path)
            writer.start()
            recorder, _ = writer.close()
            ended = counted([planned], journal, 0)
            return conclude(ended, [planned], journal, recorder, self.out, self.store)

    def report(self, *names: str) -> None:
        """Render the reports as `bakeoff report` does."""
        reports_of(names, sweeps_in(self.store), self.out / "reports")

    def overview(self) -> str:
        return (self.out / "reports" / "index.md").read_text()

    def scales(self, name: str) -> set[str]:
        rows = (self.out / "reports" / name / "results.csv").read_text().splitlines()[1:]
        return {row.split(",")[1] for row in rows}


@pytest.fixture
def mine(store_tables: Path, tmp_path: Path) -> Folder:
    return Folder(tmp_path / "mine", LocalStore(store_tables.parent).copied_to(tmp_path).uri)


@pytest.fixture
def theirs(mine: Folder) -> Folder:
    """Return the folder of another user, which records into the same store."""
    return Folder(mine.out.with_name("theirs"), mine.uri)


@pytest.mark.whole
def test_the_pages_are_made_from_the_rows_in_hand(
    mine: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check all scales and ablations in the journal; the store must give the same bytes."""

    def read(*_: object) -> None:
        raise AssertionError("the store was read")

    with monkeypatch.context() as patch:
        patch.setattr(build, "load_artifacts", read)
        for sweep in (FinishedSweep("earlier"), FinishedSweep("ours", "standard"), OURS):
            outcome = mine.finish(sweep)
    assert outcome.error == ""
    assert outcome.reports == (mine.out / "reports" / "ours" / "index.html",)
    assert mine.scales("ours") == {"quick", "standard"}
    made = {p: p.read_bytes() for p in (mine.out / "reports").rglob("*") if p.is_file()}
    assert "earlier/index.html" in mine.overview()
    mine.report("earlier", "ours")
    assert {p: p.read_bytes() for p in made} == made


@pytest.mark.slow
def test_the_end_keeps_what_earlier_reports_here_show_of_others(
    mine: Folder, theirs: Folder
) -> None:
    theirs.finish(FinishedSweep("theirs"))
    theirs.finish(FinishedSweep("ours", "standard"))
    mine.finish(OURS)
    assert "theirs" not in mine.overview()  # a link to it would have no target
    assert mine.scales("ours") == {"quick"}
    assert differences(mine.out, mine.uri).differences == ()
    mine.report("theirs", "ours")
    assert mine.scales("ours") == {"quick", "standard"}
    before = mine.overview()
    assert "theirs/index.html" in before
    assert mine.finish(OURS).error == ""
    assert mine.overview() == before
    assert mine.scales("ours") == {"quick", "standard"}
    assert differences(mine.out, mine.uri).differences == ()
    (mine.out / "reports" / "theirs" / "results.parquet").write_bytes(b"damaged")
    assert reported(mine.out / "reports") == {OURS.plan.key, ("ours", "standard")}


@pytest.mark.slow
def test_a_plan_of_another_version_costs_no_report(mine: Folder) -> None:
    """Check that its report is rendered from the frames in the store."""
    mine.finish(FinishedSweep("earlier"))
    with Journal(mine.out / "journal.db") as journal, journal._db as db:
        db.execute('UPDATE sweeps SET plan = \'{"of": "another version"}\'')
    assert mine.finish(OURS).error == ""
    assert "earlier/index.html" in mine.overview()


@pytest.mark.parametrize("has_finding", [True, False])
def test_a_failure_is_counted_or_told_beside_a_finding_of_elsewhere(
    has_finding: bool, tmp_path: Path
) -> None:
    first, *others = OURS.results
    failure = replace(
        first,
        status=Status.ERROR,
        reason="it broke",
        measurements=(),
        points=(),
        provenance=replace(first.provenance, device="another machine"),
    )
    with Journal(tmp_path / "journal.db") as journal:
        planned = journal.keep_plan(OURS.plan)
        for result in [*others, failure, *([first] if has_finding else [])]:
            journal.commit(result, journal.begin(result.trial_id, "here"))
        outcome = counted([planned], journal, 1, [first.trial_id])
    assert outcome.num_missing == 0
    assert (outcome.num_failed, outcome.num_failed_beside) == (not has_finding, has_finding)


def exit_code(work: Workplace, file: str) -> int:
    options = Options(out=work.out, executor="inline")
    return command_run.run([file], scale="quick", seeds=None, options=options)


@pytest.fixture
def without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for absent in ("mlflow", "ray"):
        monkeypatch.setitem(sys.modules, absent, None)


@pytest.mark.usefixtures("without_mlflow")
def test_without_a_store_a_folder_of_reports_that_is_none_is_told_and_made_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workplace(tmp_path)
    file, reports = work.ablation(probes=["parameters"]), work.out / "reports"
    work.out.mkdir()
    reports.write_text("in the way")
    assert exit_code(work, file) == UNAVAILABLE
    said = " ".join(capsys.readouterr().err.split())
    assert f"The reports cannot be written to {reports}: " in said
    assert "all results are safe, and the same command makes the reports." in said
    assert f"The results are in {work.out / 'journal.db'}" in said
    assert reports.read_text() == "in the way"
    reports.unlink()
    assert exit_code(work, file) == DONE
    assert (reports / "small" / "index.html").is_file()


@pytest.mark.usefixtures("without_mlflow")
def test_without_a_store_a_full_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(build, "reports_of", full)
    work = Workplace(tmp_path)
    assert exit_code(work, work.ablation(probes=["parameters"])) == UNAVAILABLE
    assert "No space left on device" in capsys.readouterr().err
