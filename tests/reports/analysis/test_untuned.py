"""Test that only one stated rate for several trained variants is called untuned."""

from dataclasses import replace
from pathlib import Path

from bakeoff.reports.analysis.untuned import untuned_in_words
from bakeoff.reports.results.frame import about_in

RESULTS = Path(__file__).parents[3] / "docs/results"


def test_what_is_called_untuned() -> None:
    tuned = about_in(RESULTS / "heads/results.parquet")
    fixed = replace(tuned, settings={**tuned.settings, "learning_rate": 0.001})
    assert untuned_in_words(fixed).startswith("All variants share one learning rate, 0.001, which")
    varied = replace(fixed, axis_values={fixed.baseline: {"learning_rate": 0.1}})
    alone = replace(fixed, variants=fixed.variants[:1])
    timed = replace(fixed, probes=("step_time",))
    for about in (tuned, varied, alone, timed):
        assert untuned_in_words(about) == ""
