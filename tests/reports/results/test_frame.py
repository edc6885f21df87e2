"""Test that a sweep survives a round trip through its files, and that invalid ones are rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bakeoff.reports.results.frame import (
    CURVE_COLUMNS,
    RESULT_COLUMNS,
    FrameError,
    about_from_json,
    about_to_json,
    curves_frame,
    results_frame,
    to_parquet_bytes,
)
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.schema import Status
from tests.reports import conftest as synthetic


def _write(sweep: Sweep, folder: Path) -> tuple[Path, Path]:
    paths = folder / "results.parquet", folder / "curves.parquet"
    paths[0].write_bytes(to_parquet_bytes(sweep.results, sweep.about))
    paths[1].write_bytes(to_parquet_bytes(sweep.curves))
    return paths


def test_round_trip_keeps_every_bit(tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    read = read_sweep(*_write(sweep, tmp_path))
    assert replace(read.about, training_flops={}) == sweep.about
    pd.testing.assert_frame_equal(read.results, sweep.results, check_exact=True)
    pd.testing.assert_frame_equal(read.curves, sweep.curves, check_exact=True)
    assert to_parquet_bytes(read.results, read.about) == to_parquet_bytes(
        sweep.results, sweep.about
    )


def test_empty_frames_have_the_same_types(tmp_path: Path) -> None:
    full, empty = synthetic.sweep(), Sweep(synthetic.about(), results_frame([]), curves_frame([]))
    assert list(empty.results.dtypes) == list(full.results.dtypes)
    assert list(empty.curves.dtypes) == list(full.curves.dtypes)
    read = read_sweep(*_write(empty, tmp_path))
    pd.testing.assert_frame_equal(read.results, empty.results)
    assert tuple(read.results.columns) == RESULT_COLUMNS
    assert tuple(read.curves.columns) == CURVE_COLUMNS


def test_about_keeps_types_of_knobs() -> None:
    knobs = {"a": True, "b": 1, "c": 1.0, "d": "1", "e": None, "f": 0.1 + 0.2}
    read = about_from_json(about_to_json(synthetic.about(model=knobs)))
    assert read.model == knobs
    assert [type(value) for value in read.model.values()] == [type(v) for v in knobs.values()]
    assert list(read.model) == list(knobs)


def test_about_without_claim() -> None:
    said = synthetic.about(claim=None, provenances={})
    assert about_from_json(about_to_json(said)) == said


def test_an_index_leaves_no_trace() -> None:
    results = synthetic.sweep().results
    renumbered = results.set_index(pd.Index(range(100, 100 + len(results)), name="x"))
    assert to_parquet_bytes(renumbered) == to_parquet_bytes(results)


def test_no_number_is_null_in_the_file() -> None:
    table = pq.read_table(pa.BufferReader(to_parquet_bytes(synthetic.sweep().results)))
    statuses = table["status"].to_pylist()
    assert table["value"].null_count == sum(status != "ok" for status in statuses) > 0


def test_passwords_do_not_reach_the_frame() -> None:
    said = synthetic.about()
    row = synthetic.row(said, "heads=8", "majority", "quality", synthetic.ACCURACY)
    frame = results_frame([row | {"reason": "cannot reach https://me:CANARY@host/x"}])
    assert frame["reason"][0] == "cannot reach https://***@host/x"


def _row(**changes: Any) -> dict[str, Any]:
    said = synthetic.about()
    made = synthetic.row(said, "heads=8", "majority", "quality", synthetic.ACCURACY, value=0.5)
    return dict(made) | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": ""}, "metric 'accuracy' has no unit"),
        ({"status": "okay"}, "status 'okay' is not known; allowed: ok"),
        ({"better": "more"}, "better 'more' is not known"),
        ({"variant": "heads=9"}, "variant 'heads=9' is not known"),
        ({"task": "minority"}, "task 'minority' is not known; allowed: majority"),
        ({"scale": "paper"}, "scale 'paper' is not known; allowed: quick"),
        ({"ablation": "other"}, "ablation 'other' is not known; allowed: heads"),
    ],
)
def test_wrong_rows_are_refused(changes: dict[str, Any], words: str) -> None:
    frame = results_frame([_row(**changes)])
    with pytest.raises(FrameError, match=words):
        Sweep(synthetic.about(), frame, curves_frame([]))


def test_a_repeated_key_is_refused() -> None:
    frame = results_frame([_row(), _row(value=0.9)])
    with pytest.raises(FrameError, match="1 rows repeat a key; the first is ablation='heads'"):
        Sweep(synthetic.about(), frame, curves_frame([]))


def test_misspelt_and_unknown_columns_are_named() -> None:
    row = _row()
    row["vaule"] = row.pop("value")
    with pytest.raises(FrameError, match="column 'value' is missing; it has 'vaule'"):
        results_frame([row])
    with pytest.raises(FrameError, match="unknown column 'extra'"):
        results_frame([_row(extra=1)])


def test_text_where_a_number_belongs() -> None:
    with pytest.raises(FrameError, match="column 'value' holds something that is not a number"):
        results_frame([_row(value="high")])


def test_files_that_are_no_sweep(tmp_path: Path) -> None:
    results, curves = _write(synthetic.sweep(), tmp_path)
    with pytest.raises(FrameError, match="does not exist"):
        read_sweep(tmp_path / "absent.parquet", curves)
    with pytest.raises(FrameError, match="no 'bakeoff' metadata"):
        read_sweep(curves, curves)
    results.write_bytes(results.read_bytes()[:-20])
    with pytest.raises(FrameError, match="cannot be read as Parquet"):
        read_sweep(results, curves)


def test_damaged_about_is_one_sentence() -> None:
    with pytest.raises(FrameError, match=r"^About: scale: Field required\.$|^About: ablation"):
        about_from_json("{}")


def test_every_status_is_a_row_that_is_accepted() -> None:
    rows = [_row(status=s, seed=i, trial_id=str(i)) for i, s in enumerate(Status)]
    sweep = Sweep(synthetic.about(), results_frame(rows), curves_frame([]))
    assert sweep.results["status"].tolist() == [str(status) for status in Status]


def test_sweep_of_another_ablation_is_refused() -> None:
    sweep = synthetic.sweep()
    with pytest.raises(FrameError, match="ablation 'heads' is not known; allowed: tails"):
        Sweep(replace(sweep.about, ablation="tails"), sweep.results, sweep.curves)
