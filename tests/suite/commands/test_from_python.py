"""Tests for the names of ablations in Python, and for errors that recording raises."""

from __future__ import annotations

from pathlib import Path

import pytest

import bakeoff
from bakeoff.suite.planning.loader import find
from bakeoff.suite.schema import Status
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.finish import SweepOutcome
from tests.suite.small_ablation import WriteAblation, make_ablation

pytestmark = pytest.mark.usefixtures("plain_figures")

WIDER = "Is wider better?"


def _asking(question: str, widths: list[int]) -> bakeoff.Ablation:
    return make_ablation(question=question, name=None, axes=[bakeoff.vary("dim", widths)])


def test_a_name_is_made_from_the_question_and_stays() -> None:
    name = _asking(WIDER, [8]).own_name
    assert name.startswith("is_wider_better_")
    assert name == _asking(WIDER, [16]).own_name  # another edition of the same question
    alike = ["Is wider better", "is wider better?", "Ist breiter besser? 广", "广?", "2 or 3?"]
    names = {_asking(question, [8]).own_name for question in alike}
    assert len({name, *names}) == 6
    for each in names:
        assert make_ablation(name=each).own_name == each  # it may also be given
    assert bakeoff.plan(make_ablation(name="mine")).about.ablation == "mine"


def test_names_that_clash_are_refused_before_anything_runs(tmp_path: Path) -> None:
    one, other = _asking(WIDER, [8]), _asking(WIDER, [16])
    with pytest.raises(SpecError, match=r"two ablations are called 'is_wider_better_\w{8}'"):
        bakeoff.run(one, other, out=tmp_path / "out", executor="inline")
    assert not (tmp_path / "out").exists()
    with pytest.raises(SpecError, match="name='heads' is a shipped ablation"):
        bakeoff.plan(make_ablation(name="heads"))
    with pytest.raises(SpecError, match="Ablation: name='My study'"):
        make_ablation(name="My study")


def test_an_ablation_in_a_file_is_named_like_its_file(write_ablation: WriteAblation) -> None:
    path = write_ablation(name="mine.py")
    assert find(str(path)).name == "mine"
    text = path.read_text()
    for name, is_allowed in (("mine", True), ("other", False)):
        path.write_text(text.replace("question=", f"name={name!r}, question="))
        if is_allowed:
            assert find(str(path)).name == "mine"
            continue
        with pytest.raises(SpecError, match="must be that of its file; omit name"):
            find(str(path))


def test_failed_trials_are_counted_and_raise_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SweepOutcome(by_status={Status.ERROR: 2, Status.OK: 1}, num_run=3, num_missing=0)
    monkeypatch.setattr(driver, "run", lambda *ablations, **options: failed)
    assert bakeoff.run("heads", executor="inline").num_failed == 2


def test_an_outcome_counts_what_ran_and_what_was_reused() -> None:
    statuses = {Status.OK: 5, Status.SKIPPED: 2, Status.DIVERGED: 1, Status.TIMEOUT: 1}
    outcome = SweepOutcome(by_status=statuses, num_run=4, num_missing=3)
    assert outcome.counts == {
        "run": 4,
        "reused": 3,
        "failed": 1,
        "skipped": 2,
        "missing": 3,
        "ok": 5,
        "diverged": 1,
        "timeout": 1,
    }


def test_several_ablations_have_the_overview_as_their_report(tmp_path: Path) -> None:
    pages = tuple(tmp_path / "reports" / name / "index.html" for name in ("one", "two"))

    def report(num: int) -> Path | None:
        return SweepOutcome(by_status={}, num_run=0, num_missing=0, reports=pages[:num]).report

    assert [report(0), report(1), report(2)] == [
        None,
        pages[0],
        tmp_path / "reports" / "index.html",
    ]


def test_a_run_without_results_says_so() -> None:
    outcome = SweepOutcome(by_status={Status.ERROR: 2}, num_run=2, num_missing=1)
    with pytest.raises(SpecError, match=r"no results: 2 error; 1 without a result yet\.$"):
        _ = outcome.results
