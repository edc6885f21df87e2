"""Test pages of a GPU, on which each time is that of a graph, and that of launches beside it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pandas as pd
import pytest

from bakeoff.reports.document import ReportTable
from bakeoff.reports.pages.ablation import Page, page
from bakeoff.reports.results.length_sweep import find, growths
from bakeoff.reports.results.series import Series, all_series
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import BASELINE_AGAIN, BASELINE_SLOWED, MIXER_ALONE, launched
from tests.reports.mixers_alone import STEP_TIMES, TIMES, whole

pytestmark = pytest.mark.whole

NAMES = {spec.name for spec in (*TIMES, *STEP_TIMES)}
RATIOS = {BASELINE_AGAIN, BASELINE_SLOWED}
NOISE = 1.1  # of a launched pass against itself


@cache
def _on_gpu() -> Sweep:
    rows = whole().results
    eager = rows[rows["metric"].isin(NAMES | RATIOS)].copy()
    eager.loc[eager["metric"].isin(NAMES), "value"] *= 3.0
    eager.loc[eager["metric"] == BASELINE_AGAIN, "value"] *= NOISE
    eager["metric"] = eager["metric"].map(launched)
    return replace(whole(), results=pd.concat([rows, eager], ignore_index=True))


@cache
def _page(*, is_gpu: bool) -> Page:
    return page(_on_gpu() if is_gpu else whole(), ["quick"])


def _tables(made: Page) -> list[ReportTable]:
    shown = [one for section in made.findings for one in section.exhibits]
    return [table for one in shown for table in (*one.tables, *one.folded)]


def _titles(made: Page) -> set[str]:
    return {column.title for table in _tables(made) for column in table.columns}


def test_both_kinds_of_time_are_named_where_both_are_shown() -> None:
    assert {"training step, as a CUDA graph", "training step, launched by Python"} <= _titles(
        _page(is_gpu=True)
    )
    assert "training step" not in _titles(_page(is_gpu=True))
    assert "training step" in _titles(_page(is_gpu=False))
    assert not [title for title in _titles(_page(is_gpu=False)) if "CUDA graph" in title]


def test_mixers_alone_are_compared_by_graphs_and_launches_are_folded() -> None:
    for is_gpu in (True, False):
        made = _page(is_gpu=is_gpu)
        section = next(one for one in made.findings if one.title == "The mixers alone")
        assert any("CUDA graphs" in said for said in section.sentences) is is_gpu
        titles = {table.title for table in _tables(made)}
        eager = {f"{what}, launched by Python" for what in ("Forward", "Forward and backward")}
        assert (eager <= titles) is is_gpu
    by_length = [
        next(table for table in _tables(_page(is_gpu=is_gpu)) if table.title == title)
        for is_gpu, title in ((True, "Forward and backward"), (False, "Forward and backward"))
    ]
    assert by_length[0].rows == by_length[1].rows


def _series(metric: str) -> Series:
    about, results = _on_gpu().about, _on_gpu().results
    return next(one for one in all_series(about, results) if one.metric == metric)


def test_launches_have_the_resolution_of_launches() -> None:
    step = "training_step_seconds"
    assert _series(step).is_graph
    assert not _series(launched(step)).is_graph
    assert _series(launched(step)).resolution > 0.09 > 0.03 > _series(step).resolution
    alone = growths(_on_gpu().about, _on_gpu().results)
    graph, eager = (find(alone, name) for name in (TIMES[0].name, launched(TIMES[0].name)))
    assert graph is not None
    assert eager is not None
    assert eager.resolution(64) > 0.09 > 0.03 > graph.resolution(64)


def test_launches_have_their_own_controls() -> None:
    table = next(table for table in _tables(_page(is_gpu=True)) if table.name == "controls")
    rows = {row.name: row.entries[0].text for row in table.rows}
    checks = ("the baseline against itself", "the baseline made 5 % slower")
    assert [rows[f"{check}, launched by Python"] for check in checks] == ["11 of 11", "11 of 11"]
    assert rows["the baseline against itself: reported as different"] == "0 of 11"


@pytest.mark.parametrize("is_gpu", [True, False])
def test_the_claim_is_about_graphs(is_gpu: bool) -> None:
    assert _page(is_gpu=is_gpu).answer == _page(is_gpu=False).answer
    assert MIXER_ALONE in _on_gpu().about.tasks
