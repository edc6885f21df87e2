"""Tests that a page shows the editions that were run, with their settings and results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.reports.render import render
from bakeoff.suite.journal.editions import Source
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.reporting.build import sweeps_in, sweeps_to_report
from bakeoff.suite.reporting.compare import compare
from bakeoff.suite.reporting.stored_editions import editions_side_by_side
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.mlflow_sync import MlflowSync
from bakeoff.suite.tracking.location import store_of
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.finished_sweep import FinishedSweep

pytestmark = pytest.mark.usefixtures("fast_sweeps")

NAME = "heads_again"
HISTORY = (
    "Edition 3 of this ablation: the claim was already tested with steps=100 (edition 1: "
    "supported) and steps=200 (edition 2: invalid), so this verdict is exploratory."
)


def run(journal: Journal, steps: int, num: int = 9, source: Source | None = None) -> None:
    sweep = FinishedSweep(NAME, steps=steps)
    journal.keep_plan(sweep.plan, source or {})
    for result in sweep.results[:num]:
        journal.commit(result, journal.begin(result.trial_id, "here"))


@pytest.mark.whole
def test_page_store_and_command_say_what_was_tried_before(tmp_path: Path) -> None:
    store = store_of(tmp_path, None)
    with Journal(tmp_path / "journal.db") as journal:
        for steps, num in ((100, 9), (200, 4), (400, 9)):
            run(journal, steps, num)
        sync = MlflowSync(lambda: RunWriter(store), journal.plans(), journal.path)
        sync.start()
        assert sync.close()[1] == ""
        sweeps = sweeps_to_report(journal, tmp_path, None)[NAME]
    about = sweeps[0].about
    assert about == sweeps_in(store, [NAME])[NAME][0].about
    found = [(e.number, e.verdict, e.num_done, e.is_earlier_test) for e in about.editions]
    assert found == [(3, "supported", 9, False), (2, "invalid", 4, True), (1, "supported", 9, True)]
    text = render(NAME, sweeps, tmp_path).with_name("report.md").read_text()
    for said in (
        HISTORY,
        "**Supported, exploratory, indicative.** 8 heads beat one: ",
        "Editions</",
    ):
        assert said in text
    assert "fixed before its results" not in text
    _, _, *lines = editions_side_by_side(store, NAME, None)
    for number, steps, line in zip((3, 2, 1), (400, 200, 100), lines, strict=True):
        assert line.split()[0] == str(number)
        assert f"steps={steps} " in line
    assert "heads=8: −33.490 bit [−33.515, −33.465]" in lines[0]


@pytest.mark.whole
def test_two_editions_are_compared_by_their_numbers(tmp_path: Path) -> None:
    store = store_of(tmp_path, None)
    with Journal(tmp_path / "journal.db") as journal:
        for steps, text in ((100, "x / n"), (200, "x / n.sqrt()")):
            run(journal, steps, source={"mixers.py": f"class Mean:\n    y = {text}\n"})
        sync = MlflowSync(lambda: RunWriter(store), journal.plans(), journal.path)
        sync.start()
        assert sync.close()[1] == ""
    _, page = compare(("1", "2"), NAME, lambda: store, tmp_path)
    text = page.with_name("report.md").read_text()
    for said in (
        "A: edition 1; B: edition 2",
        "-    y = x / n\n+    y = x / n.sqrt()",
    ):
        assert said in text
    assert f"bakeoff report {NAME} --scale quick --compare 1 2" in text
    with pytest.raises(SpecError, match=r"no edition 3 of .* editions with results: 1, 2"):
        compare(("1", "3"), NAME, lambda: store, tmp_path)


@pytest.mark.whole
def test_a_page_of_one_edition_says_nothing_of_editions(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        journal.keep_plan(FinishedSweep(NAME, steps=9).plan)  # no trial of this edition runs
        run(journal, 100)
        sweeps = sweeps_to_report(journal, tmp_path, None)[NAME]
    bare = [replace(each, about=replace(each.about, editions=())) for each in sweeps]
    texts = [render(NAME, s, tmp_path / str(id(s))).read_text() for s in (sweeps, bare)]
    assert texts[0] == texts[1]
    assert "were fixed before its results" in texts[0]
