"""Test that the numbers of a table agree with the rows, and that none are lost."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pandas as pd

from bakeoff.reports.document import Entry, ReportTable
from bakeoff.reports.export.printers import frame_to_csv, to_csv, to_latex, to_markdown
from bakeoff.reports.pages.summary import coverage_in_words
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.reading import Coverage
from bakeoff.reports.results.series import Series, all_series
from bakeoff.reports.tables.comparison import (
    TRAINING_SPEED,
    comparison_table,
    primary,
    whole_coverage,
)
from bakeoff.reports.tables.marks import NOISY, UNTOLD
from bakeoff.suite.schema import BASELINE_AGAIN, About, MetricSpec, Provenance
from tests.reports import conftest as synthetic
from tests.reports.conftest import ends, entry, known, series_of, t_interval


def _table(sweep: Any, task: str) -> ReportTable:
    return comparison_table(sweep.about, series_of(sweep), task)


def _values(sweep: Any, task: str, variant: str) -> np.ndarray:
    frame = sweep.results.query("task == @task and variant == @variant and probe == 'quality'")
    return frame.sort_values("seed")["value"].to_numpy()


def test_scores_and_differences_are_those_of_scipy() -> None:
    sweep = synthetic.sweep()
    table = _table(sweep, "majority")
    a, b = (_values(sweep, "majority", name) for name in ("heads=1", "heads=8"))
    assert ends(entry(table, "heads=1", "accuracy").estimate) == t_interval(a)
    change = entry(table, "heads=1", "accuracy_difference")
    assert ends(change.estimate) == t_interval(a - b)
    assert change.text.startswith("−0.1")
    assert change.tone == "worse"


def test_the_same_loss_is_worse_whichever_way_is_up() -> None:
    table = _table(synthetic.sweep(), "shakespeare_characters")
    change = entry(table, "heads=1", "bits_per_character_difference")
    assert change.text.startswith("+")
    assert change.tone == "worse"


def test_a_diverged_seed_stays_in_the_denominator() -> None:
    table = _table(synthetic.sweep(), "shakespeare_characters")
    row = next(row for row in table.rows if row.name == "heads=16")
    assert row.coverage == "2 of 3; 1 diverged"
    assert entry(table, "heads=16", "bits_per_character").marked.endswith("†")
    assert "†" in [note[0] for note in table.notes]


def test_a_skipped_variant_says_why() -> None:
    table = _table(synthetic.sweep(), "majority")
    row = next(row for row in table.rows if row.name == "heads=16")
    assert row.coverage == "skipped: heads=16 does not divide dim=24"
    assert entry(table, "heads=16", "accuracy").text == "skipped"
    assert entry(table, "heads=16", "accuracy").estimate.point is None
    assert "†" not in [note[0] for note in table.notes]


def test_whole_coverage_counts_every_cell() -> None:
    sweep = synthetic.sweep()
    cover = whole_coverage(sweep.about, series_of(sweep))
    assert str(cover) == "56 of 60; 1 diverged; 3 skipped"
    assert cover.num_total == len(sweep.results)


def test_an_empty_sweep_has_every_row_and_no_result() -> None:
    said = synthetic.about()
    table = comparison_table(said, all_series(said, results_frame([])), "majority")
    assert [row.name for row in table.rows] == list(synthetic.VARIANTS)
    assert {row.coverage for row in table.rows} == {"0 of 3; 3 missing"}
    assert {row.entries[0].text for row in table.rows} == {"no result"}


def _small(spec: MetricSpec, probe: str, rows: list[Any]) -> ReportTable:
    said: About = synthetic.about(
        variants=("a", "b"),
        baseline="b",
        tasks=("t",),
        probes=(probe,),
        metrics={"t": {probe: (spec,)}},
        claim=None,
    )
    made = [synthetic.row(said, name, "t", probe, spec, **more) for name, more in rows]
    return comparison_table(said, all_series(said, results_frame(made)), "t")


def test_all_nan_is_no_result() -> None:
    rows = [(name, {"seed": seed, "value": float("nan")}) for name in "ab" for seed in range(3)]
    table = _small(synthetic.BITS, "quality", rows)
    assert table.rows[0].entries[0].text == "not a number"
    assert table.rows[0].coverage == "0 of 3; 3 not a number"


def test_single_seed_has_no_interval() -> None:
    table = _small(synthetic.BITS, "quality", [("a", {"value": 2.5})])
    assert table.rows[0].entries[0].marked == "2.500†"
    assert table.rows[0].entries[0].interval == ""
    assert table.rows[0].coverage == "1 of 3; 2 missing"


def test_times_are_medians_with_a_paired_ratio_and_its_verdict() -> None:
    rows = [("a", {"seed": s, "value": v}) for s, v in enumerate([0.010, 0.012, 0.090])]
    rows += [("b", {"seed": s, "value": v}) for s, v in enumerate([0.020, 0.024, 0.030])]
    entry = _small(synthetic.SECONDS, "step_time", rows).rows[0].entries[0]
    assert entry.estimate.point == 0.012
    assert (entry.estimate.low, entry.estimate.high) == (0.010, 0.090)
    assert entry.note == "0.91 × baseline"  # the mean of logs
    assert entry.marks == (UNTOLD,)


def test_one_process_shows_its_own_spread() -> None:
    spread = {"value": 0.010, "spread_low": 0.009, "spread_high": 0.013}
    entry = _small(synthetic.SECONDS, "step_time", [("a", spread)]).rows[0].entries[0]
    assert (entry.text, entry.interval) == (["10", "ms"][0], "[9, 13]")


def test_noisy_times_are_shown_marked_and_get_no_verdict() -> None:
    rows = [("a", {"value": 0.010, "status": "noisy"}), ("b", {"value": 0.020})]
    entry = _small(synthetic.SECONDS, "step_time", rows).rows[0].entries[0]
    assert (entry.text, entry.marks) == ("10", (NOISY,))
    assert entry.note == "0.50 × baseline"


def test_a_noisy_time_counts_as_measured_and_a_footnote_says_so() -> None:
    noisy = {"value": 0.010, "status": "noisy"}
    rows = [("a", noisy), ("a", noisy | {"seed": 1}), ("b", {"value": 0.02})]
    table = _small(synthetic.SECONDS, "step_time", [*rows, ("b", noisy | {"seed": 1})])
    assert [row.coverage for row in table.rows] == ["2 of 2, noisy", "2 of 2, 1 noisy"]
    assert [note.partition(":")[0] for note in table.notes] == ["‡ Noisy"]


def test_one_noisy_time_of_many_is_explained_without_a_mark() -> None:
    rows = [("a", {"value": 0.010, "seed": seed}) for seed in range(3)]
    table = _small(
        synthetic.SECONDS, "step_time", [*rows[:2], ("a", rows[2][1] | {"status": "noisy"})]
    )
    assert table.rows[0].coverage == "3 of 3, 1 noisy"
    assert [note.partition(":")[0] for note in table.notes] == ["Noisy"]


def test_trials_and_the_measurements_that_they_gave_are_two_counts() -> None:
    cover = Coverage(num_ok=3, num_total=6, others={"diverged": 1, "noisy": 2})
    assert coverage_in_words(cover, 4).startswith(
        "4 trials ran and gave 5 of 6 planned measurements; 1 diverged."
    )
    sweep = synthetic.sweep()
    num_run = sweep.results.query("status != 'skipped'")["trial_id"].nunique()
    cover = whole_coverage(sweep.about, series_of(sweep))
    assert coverage_in_words(cover, sweep.num_trials).startswith(f"{num_run} trials ran")


def test_a_rate_is_judged_as_the_time_of_a_unit() -> None:
    rate = MetricSpec(name="training_tokens_per_second", unit="tokens/s", better="higher")
    rows = [("a", {"seed": s, "value": 2.0 + 0.01 * s}) for s in range(3)]
    rows += [("b", {"seed": s, "value": 1.0}) for s in range(3)]
    entry = _small(rate, "step_time", rows).rows[0].entries[0]
    assert entry.note == "2.01 × baseline, faster"


def test_a_share_of_a_peak_is_a_median_without_a_verdict_and_not_shown_where_there_is_none() -> (
    None
):
    share = MetricSpec(name="training_share_of_matrix_peak", unit="% of peak", better="higher")
    said = synthetic.about(
        variants=("a", "b"),
        baseline="b",
        tasks=("t",),
        probes=("step_time",),
        metrics={"t": {"step_time": (synthetic.SECONDS,)}},
        claim=None,
    )
    times, shares = (
        [
            synthetic.row(said, variant, "t", "step_time", spec, seed=seed, value=value + seed)
            for variant, value in (("a", 40.25), ("b", 20.125))
            for seed in range(3)
        ]
        for spec in (synthetic.SECONDS, share)
    )
    for rows, columns in ((times, 1), ((*times, *shares), 2)):
        measured = all_series(said, results_frame(rows))
        table = comparison_table(said, measured, "t")
        assert len(table.columns) == columns
        assert whole_coverage(said, measured).num_total == 6 * columns
    assert (table.columns[1].title, table.columns[1].unit) == (
        "training, of the matrix peak",
        "% of peak",
    )
    entry = table.rows[0].entries[1]
    assert (entry.text, entry.note) == ("41.25", "1.95 × baseline")


def test_a_task_without_a_score_is_judged_by_how_fast_models_train() -> None:
    speed = MetricSpec(name=TRAINING_SPEED, unit="tokens/s", better="higher")
    made = [series_named(spec) for spec in (synthetic.PARAMETERS, synthetic.SECONDS, speed)]
    assert known(primary(made, "t")).metric == TRAINING_SPEED
    assert known(primary(made[:2], "t")).metric == synthetic.PARAMETERS.name


def series_named(spec: MetricSpec) -> Series:
    return Series(
        task="t", probe="p", metric=spec.name, unit=spec.unit, better=spec.better, readings={}
    )


def test_noise_is_counted_per_timing_and_not_per_measurement() -> None:
    """Count only times: a rate follows from a time, and bytes are counted."""
    rate = MetricSpec(name="decode_tokens_per_second", unit="tokens/s", better="higher")
    said = synthetic.about(
        variants=("a",),
        baseline="a",
        tasks=("t",),
        probes=("decode",),
        metrics={"t": {"decode": (synthetic.SECONDS, rate)}},
        claim=None,
    )
    rows = [
        synthetic.row(said, "a", "t", "decode", spec, seed=seed, value=1.0, status=status)
        for spec in (synthetic.SECONDS, rate)
        for seed, status in enumerate(["ok", "noisy", "noisy"])
    ]
    cover = whole_coverage(said, all_series(said, results_frame(rows)))
    assert (cover.num_total, cover.num_timings, cover.num_noisy_timings) == (6, 3, 2)
    assert coverage_in_words(cover, 3).endswith(
        "2 of 3 timings are noisy: their stopping criterion was not met."
    )


def test_a_step_that_the_baseline_is_off_by_itself_is_no_verdict() -> None:
    """Compare a certain 4 % with a baseline that is 0.931 to 1.07 of itself."""

    def one(again: tuple[float, ...], at: str = "") -> Entry:
        said: About = synthetic.about(
            variants=("a", "b"),
            baseline="b",
            tasks=("t",),
            probes=("step_time",),
            metrics={"t": {"step_time": (synthetic.SECONDS,)}},
            claim=None,
        )
        control = MetricSpec(name=BASELINE_AGAIN, unit="1", better="none", at=at)
        numbers = [
            ("a", synthetic.SECONDS, (0.0104, 0.0208, 0.0104)),
            ("b", synthetic.SECONDS, (0.01, 0.02, 0.01)),
            ("b", control, again),
        ]
        made = [
            synthetic.row(said, name, "t", "step_time", spec, seed=seed, value=value)
            for name, spec, values in numbers
            for seed, value in enumerate(values)
        ]
        return comparison_table(said, all_series(said, results_frame(made)), "t").rows[0].entries[0]

    at = synthetic.SECONDS.at
    assert one((0.99, 1.01, 1.03), at).note == "1.04 × baseline, slower"
    blind = one((0.931, 1.0, 1.07), at)
    assert (blind.note, blind.marks) == ("1.04 × baseline", (UNTOLD,))
    assert one((0.931, 1.0, 1.07), "length=4096").marks == ()  # at another coordinate
    assert one((), at).marks == ()  # no control is available


def test_each_machine_has_a_column_of_its_own() -> None:
    rows = [
        (name, {"value": value, "environment_id": place})
        for place, name, value in [("x", "a", 1.0), ("x", "b", 2.0), ("y", "a", 30.0)]
    ]
    table = _small(synthetic.SECONDS, "step_time", rows)
    assert [column.key for column in table.columns] == [
        "training_step_seconds_length=128_x",
        "training_step_seconds_length=128_y",
    ]
    assert table.rows[0].entries[0].note == "0.50 × baseline"
    assert table.rows[0].entries[1].note == ""  # the baseline was not timed there
    assert table.rows[1].entries[1].text == "no result"


def test_machines_are_named_where_there_are_several() -> None:
    other = Provenance(
        commit="c", device="NVIDIA H100", num_threads=8, num_cpus=8, num_gpus=1, versions={}
    )
    places = {"x": synthetic.PLACE, "y": other}
    sweep = synthetic.sweep()
    said = synthetic.about(provenances=places)
    results = sweep.results.assign(environment_id="y")
    table = comparison_table(said, all_series(said, results), "majority")
    assert "NVIDIA H100, 8 threads" in table.columns[-2].note
    assert "on NVIDIA H100 with 8 threads" in table.columns[-1].note  # the cost of a training


def test_a_trial_measured_twice_counts_once() -> None:
    rows = [
        ("a", {"seed": 0, "value": 2.0, "environment_id": "x", "status": "error"}),
        ("a", {"seed": 0, "value": 3.0, "environment_id": "y"}),
    ]
    table = _small(synthetic.BITS, "quality", rows)
    assert table.rows[0].entries[0].estimate.n == 1
    assert table.rows[0].entries[0].estimate.point == 3.0


def test_lengths_as_an_axis_share_a_column() -> None:
    rows = [("a", {"value": 1e6, "at": "length=64"}), ("b", {"value": 4e6, "at": "length=128"})]
    table = _small(synthetic.FLOPS, "flops", rows)
    assert len(table.columns) == 1
    assert [row.entries[0].note for row in table.rows] == ["length=64", "length=128"]


def test_lengths_within_a_variant_have_columns_in_order() -> None:
    rows = [(name, {"value": 1e6, "at": f"length={n}"}) for n in (1024, 64, 256) for name in "ab"]
    table = _small(synthetic.FLOPS, "flops", rows)
    assert [column.note for column in table.columns] == ["length=64", "length=256", "length=1024"]


def test_unplanned_metrics_become_columns() -> None:
    said = synthetic.about()
    extra = MetricSpec(name="max_path_length", unit="1", better="lower")
    row = synthetic.row(said, "heads=8", "majority", "path", extra, value=2.0)
    table = comparison_table(said, all_series(said, results_frame([row])), "majority")
    assert table.columns[-1].title == "max path length"
    assert table.rows[3].entries[-1].text == "2"


def test_a_task_axis_puts_variants_in_their_own_table() -> None:
    labels = ("heads=8", "heads=8, task=majority", "task=shakespeare_characters")
    stored = synthetic.about(
        variants=labels,
        baseline=labels[0],
        axis_values={label: {"heads": 8} for label in labels},
        named_axes=dict.fromkeys(labels, ()),
    )
    assert all(belongs(stored, label, "majority") for label in labels)  # labels are not parsed
    old = synthetic.about()
    assert [belongs(old, label, "majority") for label in labels] == [True, True, False]


def test_csv_holds_twelve_digits() -> None:
    sweep = synthetic.sweep()
    rows = list(csv.DictReader(io.StringIO(to_csv(_table(sweep, "majority")))))
    expected = entry(_table(sweep, "majority"), "heads=1", "accuracy").estimate
    assert expected.point is not None
    assert rows[0]["accuracy (1)"] == f"{expected.point:.12g}"
    assert float(rows[0]["accuracy_low"]) == expected.sure.low
    assert rows[0]["accuracy_n"] == "3"
    assert rows[4]["accuracy (1)"] == ""
    assert rows[4]["accuracy_note"] == "skipped"
    assert [row["is_baseline"] for row in rows] == ["no", "no", "no", "yes", "no"]


def test_results_csv_reads_back_exactly() -> None:
    results: pd.DataFrame = synthetic.sweep().results
    text = frame_to_csv(results)
    read = pd.read_csv(io.StringIO(text), keep_default_na=False, dtype=str)
    numbers = pd.Series([float(text or "nan") for text in read["value"]])
    np.testing.assert_array_equal(numbers.to_numpy(), results["value"].to_numpy())
    assert read["reason"].tolist() == results["reason"].tolist()
    assert read["seed"].astype(int).tolist() == results["seed"].tolist()


def test_negative_numbers_are_numbers_and_not_text() -> None:
    text = frame_to_csv(pd.DataFrame({"value": [-0.5, float("nan")], "name": ["-0.5", "x"]}))
    assert text == "value,name\n-0.5,'-0.5\n,x\n"


def test_markdown_has_as_many_cells_in_every_line() -> None:
    text = to_markdown(_table(synthetic.sweep(), "majority"))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert len(lines) == 2 + len(synthetic.VARIANTS)


def test_latex_has_as_many_cells_in_every_line() -> None:
    text = to_latex(_table(synthetic.sweep(), "majority"))
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 1 + len(synthetic.VARIANTS)
    assert {line.replace(r"\&", "").count("&") for line in body} == {7}
    assert r"\begin{tabular}{lrrrrrrl}" in text
    assert "heads=16 does not divide dim=24" in text
