"""Test that controls count what they should, and never mix two machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bakeoff.reports.document import Entry, ReportTable
from bakeoff.reports.results.length_sweep import growths
from bakeoff.reports.tables.controls import (
    Instrument,
    controls_table,
    describe_controls,
    instruments,
)
from bakeoff.suite.schema import BASELINE_AGAIN, BASELINE_SLOWED, MIXER_ALONE
from tests.reports import mixers_alone

pytestmark = pytest.mark.whole

HERE = mixers_alone.PLACE.environment_id


def _rows() -> pd.DataFrame:
    return mixers_alone.whole().results


def _instruments(rows: pd.DataFrame) -> list[Instrument]:
    return instruments(mixers_alone.about(), rows, HERE)


def _table(rows: pd.DataFrame) -> ReportTable:
    said = mixers_alone.about()
    return controls_table(said, _instruments(rows), growths(said, rows))


def _entry(rows: pd.DataFrame, check: str, column: int = 0) -> Entry:
    (row,) = (row for row in _table(rows).rows if check in row.name)
    return row.entries[column]


def _changed(metric: str, at: str, **values: Any) -> pd.DataFrame:
    rows = _rows().copy()
    chosen = (rows["metric"] == metric) & (rows["at"] == at) & (rows["task"] == MIXER_ALONE)
    assert chosen.any()
    for name, value in values.items():
        rows.loc[chosen, name] = value
    return rows


def test_one_column_an_instrument_the_mixers_alone_first() -> None:
    assert [column.title for column in _table(_rows()).columns] == [
        "mixers alone",
        "step time on shakespeare characters",
        "step time on fashion mnist patches",
    ]
    assert _instruments(_rows().iloc[:0]) == []


def test_pairs_that_agree_and_slow_downs_that_are_found() -> None:
    assert _entry(_rows(), "against itself").text == "0 of 11"
    assert _entry(_rows(), "5 % slower").text == "11 of 11"
    assert _entry(_rows(), "5 % slower", column=1).text == "1 of 1"
    said = describe_controls(_instruments(_rows()))[0]
    counts = "in 0 of 13 pairs; the slow-down was detected in 13 of 13"
    assert said.startswith(f"A false difference was reported {counts}")
    assert "Do not trust" not in said


def test_false_alarms_and_misses_are_counted_and_a_reader_is_warned_of_many() -> None:
    alarm = _changed(BASELINE_AGAIN, "length=256", value=1.04)
    assert _entry(alarm, "against itself").text == "1 of 11"
    assert "in 1 of 13 pairs" in describe_controls(_instruments(alarm))[0]
    one_missed = _changed(BASELINE_SLOWED, "dim=32", value=1.0)
    assert _entry(one_missed, "5 % slower").text == "10 of 11"
    rows = _rows()
    missed = rows.assign(value=rows["value"].mask(rows["metric"] == BASELINE_SLOWED, 1.0))
    said = describe_controls(_instruments(missed))[0]
    assert "the slow-down was detected in 0 of 13" in said
    assert said.endswith("Do not trust differences near 5 %.")


def test_a_noisier_instrument_finds_less() -> None:
    quiet = _entry(_rows(), "smallest difference").estimate.point or 0.0
    rows = _rows().copy()
    again = (rows["metric"] == BASELINE_AGAIN) & (rows["task"] == MIXER_ALONE)
    rows.loc[again, "value"] = np.random.default_rng(0).lognormal(0, 0.05, again.sum())
    loud = _entry(rows, "smallest difference").estimate.point or 0.0
    assert 0 < quiet < 0.03 < loud


def test_load_rounds_outliers_and_first_calls() -> None:
    rows = _rows()
    alone = rows[rows["task"] == MIXER_ALONE]
    of = {metric: some["value"] for metric, some in alone.groupby("metric")}
    load = _entry(rows, "load of other programs")
    assert load.estimate.point == pytest.approx(of["other_load"].median())
    assert load.note == f"at most {100 * of['other_load'].max():.1f} %"
    assert _entry(rows, "rounds repeated").text == f"{of['num_disturbed'].sum():.0f}" == "33"
    assert _entry(rows, "outliers").text == "5.0 % mild, 2.5 % severe"
    first = _entry(rows, "first call").estimate
    assert first.point == pytest.approx(of["first_call_seconds"].median())


def test_known_kernels_come_back() -> None:
    for check, truth in (("grow with n:", 1.0), ("grow with n²:", 2.0)):
        assert _entry(_rows(), check).estimate.point == pytest.approx(truth, abs=0.05)
    assert _entry(_rows(), "grow with n log n:").note.startswith("classified as n log n; not n")
    assert {_entry(_rows(), "grow with n:", column=1).text} == {"–"}


def test_noise_is_counted_and_its_criterion_named() -> None:
    assert _entry(_rows(), "noisy timings").text == "6 of 660"
    (note,) = _table(_rows()).footnotes
    each = (
        "Performer at length=128 in process {} (forward, forward backward, decode token): "
        "interval of the median ±4.1 %, over 2 %, after 30 rounds and 8 s"
    )
    assert note == f"Noisy: {each.format(1)}; {each.format(2)}."
    loud = _changed("forward_seconds", "length=512", status="noisy", reason="why")
    (note,) = _table(loud).footnotes
    assert note.endswith("and 23 more, in results.csv.")


def test_machines_do_not_meet_and_are_named() -> None:
    """Use tasks that were timed elsewhere; their instruments name that machine."""
    rows = _rows().copy()
    there = rows["task"] != MIXER_ALONE
    rows.loc[there, "environment_id"] = "elsewhere"
    kept = _instruments(rows)
    assert [one.environment_id for one in kept] == [HERE, "elsewhere", "elsewhere"]
    table = controls_table(mixers_alone.about(), kept, growths(mixers_alone.about(), rows))
    assert [column.note for column in table.columns] == ["AMD EPYC 7B13, 2 threads", "", ""]
    doubled = pd.concat([_rows(), rows.assign(environment_id="elsewhere")], ignore_index=True)
    assert _entry(doubled, "against itself").text == "0 of 11"
    assert _entry(doubled, "rounds repeated").text == "33"
