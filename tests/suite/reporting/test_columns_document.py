"""Test that docs/results-columns.md describes every column of real files and DataFrames."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bakeoff
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.reporting.build import reports_of, sweeps_of_journal
from tests.suite.finished_sweep import FinishedSweep

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"\| `(\w+)` \| ([\w, ]+) \| (.+) \|")


def documented() -> list[dict[str, str]]:
    """Return column -> type for each table of the document."""
    text = (ROOT / "docs/results-columns.md").read_text()
    tables = [block for block in text.split("\n\n") if block.startswith("| column |")]
    return [dict(row.groups()[:2] for row in ROW.finditer(table)) for table in tables]


RESULTS, CURVES, OF_RESULTS, OF_CURVES, VERDICTS = documented()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an output folder with a journal and a report."""
    out, sweep = tmp_path_factory.mktemp("out"), FinishedSweep("heads")
    with Journal(out / "journal.db") as journal:
        journal.keep_plan(sweep.plan)
        for result in sweep.results:
            journal.commit(result, journal.begin(result.trial_id, "here"))
        reports_of(["heads"], sweeps_of_journal(journal), out / "reports")
    return out


def fitting(columns: dict[str, str], documented: dict[str, str]) -> dict[str, str]:
    """Return the columns with their types, under the names that the document gives them."""
    named = {re.sub("^(axis|at)_.*", r"\1_NAME", name): kind for name, kind in columns.items()}
    assert len(named) == len(columns), "the sweep has one axis"
    alternatives = {name: re.split(", | or ", kinds) for name, kinds in documented.items()}
    return {
        name: documented[name] if kind in alternatives.get(name, ()) else kind
        for name, kind in named.items()
    }


def of_frame(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(kind) for name, kind in frame.dtypes.items()}


def of_schema(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def in_pandas(columns: dict[str, str]) -> dict[str, str]:
    """Return the types that pandas gives to columns of a file."""
    kinds = {"string": "str", "double": "float64"}
    return {
        name: re.sub("string|double", lambda kind: kinds[kind[0]], kind)
        for name, kind in columns.items()
    }


def test_the_files_have_the_columns_of_the_document(out: Path) -> None:
    home = out / "reports" / "heads"
    for file, columns in (("results", RESULTS), ("curves", CURVES)):
        found = of_schema(pq.read_schema(home / f"{file}.parquet"))
        assert fitting(found, columns) == columns
    assert list(RESULTS)[:-1] == list(of_schema(pq.read_schema(home / "results.parquet")))[:-1]
    header = (home / "results.csv").read_text().splitlines()[0].split(",")
    assert header == pq.read_schema(home / "results.parquet").names


def test_the_frames_have_the_columns_of_the_document(out: Path) -> None:
    wanted = in_pandas(RESULTS) | OF_RESULTS
    found = of_frame(bakeoff.results(out=out))
    assert fitting(found, wanted) == {k: v for k, v in wanted.items() if k != "at_NAME"}
    axis, folder = in_pandas(RESULTS)["axis_NAME"], OF_RESULTS["out"]
    wanted = in_pandas(CURVES) | OF_CURVES | {"axis_NAME": axis, "out": folder}
    assert fitting(of_frame(bakeoff.curves(out=out)), wanted) == wanted
    assert of_frame(bakeoff.published_results()) == VERDICTS
    assert of_frame(bakeoff.verdicts(out=out)) == VERDICTS | {"out": "str"}


@pytest.mark.whole
def test_a_shipped_frame_has_them_too() -> None:
    found = of_schema(pq.read_schema(ROOT / "docs/results/heads/results.parquet"))
    assert fitting(found, RESULTS) == RESULTS
    frame = bakeoff.results("recall", out=ROOT / "docs/results")
    assert frame["at_pairs"].dtype == "Int64"
