"""Tests that lost, duplicated and altered records are named and repaired, or left with a reason."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bakeoff.suite.cli import app
from bakeoff.suite.errors import DONE, FAILED
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.driver import Options, record_journal, run_plans
from bakeoff.suite.sweep.folder_lock import FolderUnavailable, lock_folder
from bakeoff.suite.sweep.verify import differences, repaired
from bakeoff.suite.text import number_of
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.location import store_of, try_rebase
from bakeoff.suite.tracking.read import StoreReader
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.sweep.planted import (
    ALTERED,
    CHILD,
    DELETE,
    PLANTED,
    SWEEP,
    VARIANT,
    Folder,
    alter_row,
    kept,
)

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, store_tables: Path, plain_figures: None
) -> Path:
    out = tmp_path_factory.mktemp("whole")
    kept(out)
    shutil.copy(store_tables, out / "mlflow.db")
    assert repaired(out, None).differences == ()
    return out


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Folder:
    """Return a copy of the finished folder, whose store has the paths of its own files."""
    copy = Folder(Path(shutil.copytree(whole, tmp_path / "out")))
    assert try_rebase(store_of(copy.out, None))
    return copy


FAST = ("the journal deleted", "the store deleted", "a row of the journal altered")
FOUND = (  # one of each kind; the slow tests repair all
    "a run deleted",
    "a run doubled",
    "another result",
    "a row of the journal lost",
    "a report altered",
    "a variant's number changed",
)
OF_CHILDREN = [
    f for f, (_, *words) in PLANTED.items() if words[0] == ALTERED and "variant" not in f
]


@pytest.mark.parametrize("fault", FOUND)
def test_every_planted_difference_is_named_and_nothing_else(folder: Folder, fault: str) -> None:
    plant, *words = PLANTED[fault]
    plant(folder)
    found = differences(folder.out, None)
    state, _, unfinished = found.summary.partition("; ")
    assert state.endswith(f": {number_of(len(words), 'difference')}")
    assert ("runs the 1 trial left" in unfinished) == (fault == "a row of the journal lost")
    for line, said in zip(found.differences, words, strict=True):
        assert said in line
        assert line.startswith(SWEEP.name)


def test_a_folder_that_was_moved_agrees(whole: Path, tmp_path: Path) -> None:
    """Check that its artifacts are found in the new place."""
    moved = whole.rename(tmp_path / "moved")
    try:
        found = differences(moved, None)
    finally:
        moved.rename(whole)
    assert found.differences == ()
    assert found.summary == f"9 trials of {SWEEP.name}: journal, store and reports agree"


def test_a_store_of_an_older_version_without_editions_and_variants_agrees(folder: Folder) -> None:
    for _ in range(3):
        folder.store(DELETE.replace("CHILD", VARIANT))
    folder.store("DELETE FROM tags WHERE key LIKE 'bakeoff.edition%'")
    assert differences(folder.out, None).differences == ()


@pytest.mark.slow
def test_a_store_of_an_older_version_is_continued_without_duplicates(folder: Folder) -> None:
    """Check a store without content hashes: its trials stay, and its variants are written again."""
    old, new = "bakeoff.variant_sha256", "bakeoff.content_sha256"
    folder.store(
        f"UPDATE tags SET key = '{old}' WHERE key = '{new}' AND run_uuid IN (SELECT run_uuid FROM "
        "tags WHERE key = 'bakeoff.role' AND value = 'variant')",
        f"DELETE FROM tags WHERE key = '{new}'",
    )
    assert differences(folder.out, None).differences == ()

    def runs(role: str) -> list[str]:
        sweep = StoreReader(store_of(folder.out, None).uri).sweep(SWEEP.plan.key)
        assert len(sweep.parents) == 1
        return [run.run_id for run in getattr(sweep, role)]

    trials = runs("trials")
    shutil.rmtree(folder.out / "reports")  # something to repair
    assert repaired(folder.out, None).differences == ()
    assert runs("trials") == trials
    assert len(runs("variants")) == 3


def changes_nothing(folder: Folder, left: tuple[str, ...] = ()) -> bool:
    before = folder.state()
    made = repaired(folder.out, None)
    return (made.differences, made.mended, folder.state()) == (left, (), before)


def test_many_faults_at_once_are_told_apart_and_mended_and_mended_once(folder: Folder) -> None:
    """Plant each fault in another child; the slow tests plant every fault alone."""
    assert changes_nothing(folder)
    others = ("results truncated", "a report altered in the store")
    for number, fault in enumerate((*OF_CHILDREN, *others)):
        PLANTED[fault][0](replace(folder, number=number if fault in OF_CHILDREN else 0))
    found = differences(folder.out, None).differences
    assert sum(ALTERED in line for line in found) == len(OF_CHILDREN)
    for fault in others:
        assert sum(PLANTED[fault][1] in line for line in found) == 1, fault
    assert repaired(folder.out, None).differences == ()
    assert changes_nothing(folder)


def test_a_run_refuses_a_row_that_was_altered_and_spoils_nothing(folder: Folder) -> None:
    alter_row(folder)
    before = folder.state()
    options = Options(out=folder.out, executor="inline")
    with pytest.raises(JournalError, match=r"`bakeoff verify --repair` restores it"):
        run_plans([SWEEP.plan], options, Console(quiet=True))
    with pytest.raises(JournalError, match=r"`bakeoff verify --repair` restores it"):
        record_journal(folder.out / "journal.db", replace(options, out=folder.out / "other"))
    assert folder.state() == before
    assert repaired(folder.out, None).differences == ()


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=() if f in FAST else pytest.mark.slow, id=f) for f in PLANTED],
)
def test_every_fault_is_found_and_mended_and_mended_once(folder: Folder, fault: str) -> None:
    plant, *words = PLANTED[fault]
    plant(folder)
    found = differences(folder.out, None).differences
    assert len(found) == len(words), found
    assert all(said in line for said, line in zip(words, found, strict=True))
    made = repaired(folder.out, None)
    assert (made.differences, made.mended) == ((), found)
    assert made.summary == f"9 trials of {SWEEP.name}: journal, store and reports agree"
    assert changes_nothing(folder)
    with Journal(folder.out / "journal.db", read_only=True) as journal:
        found_again = {result.sha256 for result in journal.results(journal.done())}
    assert found_again == {result.sha256 for result in SWEEP.results}


@pytest.mark.slow
def test_what_the_journal_cannot_know_is_told_and_never_deleted(folder: Folder) -> None:
    folder.store(
        f"UPDATE tags SET value = 'feed' WHERE key = 'bakeoff.trial_id' AND run_uuid = {CHILD}"
    )
    made = repaired(folder.out, None)
    assert len(made.differences) == 1
    assert "trial feed is in the store, not in the journal" in made.differences[0]
    assert len(made.mended) == 1
    assert changes_nothing(folder, made.differences)


def test_a_damaged_row_that_the_store_has_not_either_is_told_and_spreads_no_further(
    folder: Folder,
) -> None:
    alter_row(folder)
    folder.artifact("journal.jsonl.gz").unlink()
    before = folder.state()
    made = repaired(folder.out, None)
    assert len(made.differences) == 1
    assert "in the journal was altered" in made.differences[0]
    assert folder.state() == before


def test_a_contradiction_is_told_and_cannot_be_repaired(folder: Folder) -> None:
    folder.journal(
        "INSERT INTO ends SELECT trial_id, environment_id, 3, status, seconds, num_cpus, num_gpus,"
        " ended_seconds, reason, 0, 'another', NULL FROM ends LIMIT 1"
    )
    made = repaired(folder.out, None)
    (line,) = made.differences
    assert line.startswith(f"{SWEEP.name}, quick: trial ")
    assert line.endswith("gave different numbers in attempts 1 and 3 of the same environment.")


class Killed(BaseException):
    """An exception that simulates the death of the process."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["a metric changed", "results truncated", "a run doubled"])
def test_a_repair_that_is_killed_anywhere_is_done_by_the_next(
    folder: Folder, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill it between any two of the writes to the store."""
    plant = PLANTED[fault][0]
    steps = ("open_sweep", "invalidate", "finish_trial", "publish", "close_sweep")
    for step in steps:
        with monkeypatch.context() as patch:
            plant(folder)
            patch.setattr(RunWriter, step, _dying)
            with suppress(Killed, StoreUnavailable):  # the writer's thread dies alone
                repaired(folder.out, None)
        assert repaired(folder.out, None).differences == (), step


def _dying(*_: object, **__: object) -> None:
    raise Killed


def test_exit_codes(folder: Folder) -> None:
    shutil.rmtree(folder.out / "reports")
    call = ["verify", "--out", str(folder.out)]
    before = CliRunner().invoke(app, call)
    mended = CliRunner().invoke(app, [*call, "--repair"])
    after = CliRunner().invoke(app, call)
    assert (before.exit_code, mended.exit_code, after.exit_code) == (FAILED, DONE, DONE)
    assert mended.stdout.splitlines()[0].startswith(f"repaired: {SWEEP.name}: there is no report")


def test_a_folder_that_is_held_is_left_alone(folder: Folder) -> None:
    with (
        lock_folder(folder.out),
        pytest.raises(FolderUnavailable, match="another run uses this folder"),
    ):
        repaired(folder.out, None)


@pytest.mark.parametrize("check", [differences, repaired])
def test_an_empty_folder_stays_empty(check: Callable[..., object], tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SpecError, match="nothing has been run here yet"):
            check(out, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_lines_in_the_store_are_the_same_bytes_for_the_same_journal(
    folder: Folder, store_tables: Path
) -> None:
    body = folder.artifact("journal.jsonl.gz").read_bytes()
    shutil.copy(store_tables, folder.database)
    shutil.rmtree(folder.out / "artifacts")
    assert repaired(folder.out, None).differences == ()
    assert folder.artifact("journal.jsonl.gz").read_bytes() == body
    head, *lines = gzip.decompress(body).splitlines()
    assert set(json.loads(head)) == {"plan", "statements", "editions", "sources"}
    assert len(lines) == 9
