"""Journal, store and reports that agree are said to; each difference is named, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from suite.journal.journal import Journal
from suite.spec import SpecError
from suite.sweep.repair import repaired
from suite.sweep.verify import differences
from tests.suite.sweep.planted import PLANTED, SWEEP, Folder, kept

FAULTS = (  # of each kind one; the tests of repair plant all
    "a run deleted", "a run doubled", "another result", "a run left open", "the parent deleted",
    "a row of the journal altered", "a row of the journal lost", "a report altered",
    "a report deleted",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    kept(out)
    repaired(out, None)
    # A copy must find its artifacts beside it, not where they were made.
    return out.rename(out.with_name("moved"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Folder:
    """A copy."""
    return Folder(Path(shutil.copytree(whole, tmp_path / "out")))


def test_what_agrees_is_said_to_agree(folder: Folder) -> None:
    found = differences(folder.out, None)
    assert found.differences == ()
    assert found.summary == f"9 trials of {SWEEP.name}: journal, store and reports agree"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_difference_is_named_and_nothing_else(folder: Folder, fault: str) -> None:
    plant, *words = PLANTED[fault]
    plant(folder)
    found = differences(folder.out, None)
    assert len(found.differences) == len(words), found.differences
    for line, said in zip(found.differences, words, strict=True):
        assert said in line
        assert line.startswith(SWEEP.name)
    assert found.summary.endswith(f"{len(words)} differences")


def test_an_empty_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nothing was run here yet"):
        differences(tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_a_result_keeps_its_hash_through_the_journal(folder: Folder) -> None:
    """What `verify` rests on: the hash of a result that was read is that of the one written."""
    with Journal(folder.out / "journal.db", read_only=True) as journal:
        entries = {entry.trial_id: entry.sha256 for entry in journal.entries()}
        read = {result.trial_id: result.sha256 for result in journal.results(entries)}
    assert entries == read == {result.trial_id: result.sha256 for result in SWEEP.results}
