"""Check that the tables hold the measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.benchmarks.document import Report
from tests.benchmarks.duels import Control, Row
from tests.benchmarks.interleaved import Ratio
from tests.benchmarks.linearity import Growth
from tests.benchmarks.peers import PAIRINGS
from tests.benchmarks.places import Shape, here

SHAPE = Shape(batch=4, length=512, dim=256, heads=8)


def _row(peer: str, ratio: Ratio | None, note: str = "", *, peer_peak: int = 2**20) -> Row:
    did_run = ratio is not None
    return Row(
        mixer="conv",
        title="conv causal",
        shape=SHAPE,
        peer=peer,
        seconds=0.012,
        peak=2**20,
        peer_seconds=0.01 if did_run else None,
        ratio=ratio,
        note=note,
        peer_peak=peer_peak if did_run else None,
        is_same=not note if did_run else None,
    )


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ((Ratio(1.2, 1.15, 1.25),), "10.00 | 1.20 [1.15, 1.25] | no | 1.0 | 1.00 | yes"),
        ((None, "did not run"), " |  |  | 1.0 |  | did not run"),
        ((Ratio(1, 1, 1), "other"), "10.00 | 1.00 [1.00, 1.00] | yes | 1.0 | 1.00 | no: other"),
    ],
    ids=["same", "did not run", "differs"],
)
def test_a_row_holds_both_times_their_ratio_the_memory_and_a_reason(
    row: tuple[Any, ...], cells: str
) -> None:
    text = Report(here(), rows=[_row("a peer", *row)]).text()
    assert f"| conv causal | 4 × 512 | a peer | 12.00 | {cells} |" in text


def test_what_is_slower_or_larger_is_said_in_words_too() -> None:
    slow, fast = _row("slow", Ratio(1.2, 1.15, 1.25)), _row("fast", Ratio(1.0, 0.9, 1.1))
    open_, large = (
        _row("open", Ratio(1.1, 1.0, 1.2)),
        _row("large", Ratio(1, 1, 1), peer_peak=2**19),
    )
    text = Report(here(), rows=[slow, fast, open_, large]).text()
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines == [
        "- conv causal, 4 × 512, takes 1.20 [1.15, 1.25] times as long as slow",
        "- conv causal, 4 × 512, may take more: 1.10 [1.00, 1.20] times as long as open",
        "- conv causal, 4 × 512, takes 2.00 times the memory of large",
    ]
    text = Report(here(), rows=[fast]).text()
    assert "\nNone." in text
    assert str(here()) in text
    assert "torch 2." in text


def test_controls_and_growth_have_tables() -> None:
    control = Control(
        title="conv", shape=SHAPE, itself=Ratio(1.0, 0.99, 1.01), slowed=Ratio(1.05, 1.04, 1.06)
    )
    growth = Growth(
        title="performer causal",
        length=2048,
        seconds=0.1,
        per_token=Ratio(1.0, 0.98, 1.02),
        peak=2**21,
        num_calls=77,
    )
    text = Report(here(), controls=[control], growths=[growth]).text()
    assert "| conv | 4 × 512 | 1.00 [0.99, 1.01] | 1.05 [1.04, 1.06] |" in text
    assert "| performer causal | 2048 | 100.0 | 1.00 [0.98, 1.02] | 1.0 | 77 |" in text


def test_chosen_pairs_are_a_section_under_one_heading_with_commit_and_machine() -> None:
    text = Report(here(), rows=[_row("a peer", Ratio(1.2, 1.15, 1.25))]).section()
    assert text.startswith("### At commit ")
    assert text.count("\n### ") == 0
    assert f"on: {here()}" in text
    assert "| conv causal | 4 × 512 | a peer |" in text
    assert "\n#### More than 1.1 times as long" in text


def test_a_report_knows_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.document.packages", lambda: {"torch": "2", "other": ""})
    place = here()
    rows = [
        replace(_row("nn.Conv1d", Ratio(1, 1, 1)), title=pairing.title, shape=shape)
        for pairing in PAIRINGS
        for shape in place.shapes
    ]
    assert Report(place, rows=rows).lacks() == ["other"]
    title, shape = rows[-1].title, rows[-1].shape
    assert Report(place, rows=rows[:-1]).lacks() == ["other", f"{title} at {shape}"]
