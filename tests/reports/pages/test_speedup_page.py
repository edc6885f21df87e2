"""Test that a claim about a speedup is answered from a saved frame: page, overview and table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bakeoff.reports.pages.answer import answer
from bakeoff.reports.pages.overview import EffectBar, overview
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import to_parquet_bytes
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.reporting.tidy import verdicts_of
from bakeoff.suite.schema import ClaimSpec
from tests.reports.conftest import known
from tests.reports.made_scaling_law import STEPS, TASK, sweep
from tests.reports.read_page import ReadPage

CURVE = tuple(f"mixer=attention, dim=32, steps={steps}" for steps in STEPS)
NEEDS = "attention needs 1.69 times the FLOPs of LSTM for the same bits per character"


def saved(
    folder: Path, noise: float = 0.002, a: str = "dim=32, steps=1000", by: float = 1.2
) -> Sweep:
    """Return a sweep with a claim, written to a file and read again."""
    claim = ClaimSpec(
        statement="the LSTM needs fewer FLOPs",
        metric="bits_per_character",
        a=f"mixer=lstm, {a}",
        b=CURVE[2],
        by=by,
        source="",
        task=TASK,
        counted_by="flops",
        curve=CURVE,
    )
    made = sweep(noise=noise, claim=claim, held_out={})
    paths = folder / "results.parquet", folder / "curves.parquet"
    paths[0].write_bytes(to_parquet_bytes(made.results, made.about))
    paths[1].write_bytes(to_parquet_bytes(made.curves))
    return read_sweep(*paths)


@pytest.mark.whole
def test_the_page_opens_with_what_the_other_one_needs(tmp_path: Path) -> None:
    found = saved(tmp_path)
    page = ReadPage(render("scaling_laws", [found], tmp_path / "reports"))
    words = " ".join(page.words.split())
    assert f"The LSTM needs fewer FLOPs: {NEEDS} (1.65 to 1.73)." in words
    assert "at least the factor of 1.2 claimed" in words
    assert "supported, indicative" in words


def test_nothing_but_the_speedup_follows_the_claim(tmp_path: Path) -> None:
    found = saved(tmp_path)
    made = answer(found.about, found.measured, found.verdict, found.growths)
    assert made.sentence == f"The LSTM needs fewer FLOPs: {NEEDS} (1.65 to 1.73)."


@pytest.mark.whole
def test_a_score_outside_the_curve_is_said_once(tmp_path: Path) -> None:
    found = saved(tmp_path, a="dim=32, steps=2000", noise=0.004)
    made = answer(found.about, found.measured, found.verdict, found.growths)
    assert made.sentence == (
        "The models of this scale cannot show whether the LSTM needs fewer FLOPs: attention needs "
        "more than 1.00 times the FLOPs of LSTM, 2,000 steps for the same bits per character, "
        "which is beyond its largest budget."
    )
    assert _bar(found) is None


def _bar(found: Sweep) -> EffectBar | None:
    (entry,) = (
        entry
        for theme in overview({found.about.ablation: found}).themes
        for entry in theme.entries
        if entry.ablation == found.about.ablation
    )
    return entry.bar


def test_the_overview_draws_the_claimed_factor_and_an_open_end(tmp_path: Path) -> None:
    closed, opened = known(_bar(saved(tmp_path))), known(_bar(saved(tmp_path, noise=0.02)))
    assert closed.zero == 0.0 < known(closed.claimed) < closed.low < closed.point < closed.high
    assert closed.strength > 1
    assert opened.high == 100.0
    assert opened.zero < known(opened.claimed) < opened.low < opened.point < 90.0


@pytest.mark.parametrize(("noise", "is_open"), [(0.002, False), (0.02, True)])
def test_the_table_of_verdicts_has_the_ratio(tmp_path: Path, noise: float, is_open: bool) -> None:
    row: dict[Any, Any] = verdicts_of({"out": [saved(tmp_path, noise)]}).iloc[0].to_dict()
    assert (row["metric"], row["unit"], row["by"]) == ("speedup", "ratio", 1.2)
    assert row["verdict"] == "supported"
    assert 1.2 < row["low"] < row["effect"] < 2.0
    assert (row["high"] != row["high"]) == is_open  # NaN
    assert 0 < row["p"] < 0.05
    assert row["q"] == row["p"]
