"""Test that each ablation of a Python program has its own record and report."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import bakeoff
from bakeoff.suite.errors import exit_code_of
from bakeoff.suite.schema import Status
from bakeoff.suite.sweep.verify import differences
from tests.suite.small_ablation import make_ablation
from tests.workplace import Workplace

pytestmark = pytest.mark.usefixtures("plain_figures")

WIDER, DEEPER = "Is wider better?", "Is wider better, or deeper?"


def _asking(question: str, widths: list[int]) -> bakeoff.Ablation:
    return make_ablation(
        question=question,
        name=None,
        probes=["parameters"],
        axes=[bakeoff.vary("dim", widths)],
        scale={"seeds": 1},
    )


@pytest.mark.whole
def test_each_question_is_recorded_and_reported_under_its_own_name(work: Workplace) -> None:
    wider, deeper = _asking(WIDER, [8, 16]), _asking(DEEPER, [16, 32])
    out = work.out
    (out / "reports").write_text("a file stands in the way")
    with pytest.raises(bakeoff.NotRecorded, match="The reports cannot be written to") as raised:
        bakeoff.run(wider, out=out, executor="inline")
    assert raised.value.outcome.by_status == {Status.OK: 2}
    assert exit_code_of(raised.value) == 4
    (out / "reports").unlink()
    outcome = bakeoff.run(wider, deeper, out=out, executor="inline")
    assert (outcome.by_status, outcome.num_run) == ({Status.OK: 3}, 1)  # they share a trial
    names = [page.parent.name for page in outcome.reports]
    assert names == [wider.own_name, deeper.own_name]
    for name, question in zip(names, (WIDER, DEEPER), strict=True):
        page = (out / "reports" / name / "report.md").read_text()
        assert question in page
        assert 'bakeoff.run(ABLATION, scale="quick")' in page
    texts = [_variants(out, name) for name in names]
    assert texts == [{"dim=8", "dim=16"}, {"dim=16", "dim=32"}]
    assert differences(out, None).differences == ()


def _variants(out: Path, name: str) -> set[str]:
    with (out / "reports" / name / "results.csv").open(newline="") as file:
        return {row["variant"] for row in csv.DictReader(file)}
