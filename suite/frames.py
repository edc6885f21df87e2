"""Plan and results -> the two files that the parent in the store holds and reports are made of."""

from __future__ import annotations

from reports.results.frame import Sweep, curves_frame, results_frame, to_parquet_bytes
from suite.rows import Results, about_with_provenance, curve_rows, result_rows
from suite.schema import Plan

RESULTS_FILE = "results.parquet"
CURVES_FILE = "curves.parquet"


def sweep_of(plan: Plan, results: Results) -> Sweep:
    """What is known of the plan, as frames."""
    return Sweep(
        about=about_with_provenance(plan, results),
        results=results_frame(result_rows(plan, results)),
        curves=curves_frame(curve_rows(plan, results)),
    )


def sweep_files(plan: Plan, results: Results) -> dict[str, bytes]:
    """The frames as files, by name; the same results give the same bytes."""
    sweep = sweep_of(plan, results)
    return {
        RESULTS_FILE: to_parquet_bytes(sweep.results, sweep.about),
        CURVES_FILE: to_parquet_bytes(sweep.curves),
    }
