"""Test the table of scores, speed and memory: measured from the rows, published as printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bakeoff.reports.document import Entry, ReportTable
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.series import Series
from bakeoff.reports.tables.beside_published import beside_published_exhibit
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import MIXER_ALONE, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports.conftest import ends, known, series_of, t_interval

MIXERS = ("attention", "lsh_attention", "performer", "fnet")
VARIANTS = tuple(f"mixer={mixer}" for mixer in MIXERS)
TASKS = {"listops": 256, "retrieval": 1000, "pathfinder_small": 256, "majority": 64}
STEP = {"attention": 0.4, "lsh_attention": 0.5, "performer": 0.1, "fnet": 0.05}
BYTES = {"attention": 8e9, "lsh_attention": 4e9, "performer": 2e9, "fnet": 1e9}

PRINTED = dict(zip(VARIANTS, ("36.37", "37.27", "18.01", ""), strict=True))  # on ListOps


def _scores(task: str, place: int) -> list[float]:
    begin = 0.3 + 0.05 * place + 0.1 * list(TASKS).index(task)
    return [begin, begin + 0.01, begin + 0.03]


def _rows(said: Any) -> Iterator[dict[str, Any]]:
    for task, length in TASKS.items():
        for place, mixer in enumerate(MIXERS):
            variant = f"mixer={mixer}"
            for seed, value in enumerate(_scores(task, place)):
                yield synthetic.row(
                    said, variant, task, "quality", synthetic.ACCURACY, seed=seed, value=value
                )
            seconds = MetricSpec(
                name="training_step_seconds", unit="s", better="lower", at=f"length={length}"
            )
            for seed in range(3):
                took = STEP[mixer] * length / 1000 * (1 + 0.01 * seed)
                yield synthetic.row(
                    said, variant, task, "step_time", seconds, seed=seed, value=took
                )
            peak = MetricSpec(
                name="peak_memory_bytes", unit="B", better="lower", at=f"length={length}"
            )
            yield synthetic.row(
                said, variant, task, "peak_memory", peak, value=BYTES[mixer] * length / 1000
            )


def _sweep(**changes: Any) -> Sweep:
    fields: dict[str, Any] = {
        "ablation": "long_range",
        "variants": VARIANTS,
        "baseline": VARIANTS[0],
        "tasks": tuple(TASKS),
        "probes": ("quality", "step_time", "peak_memory"),
        "claim": None,
        "metrics": {task: {"quality": (synthetic.ACCURACY,)} for task in TASKS},
        "data_sets": {},
    }
    said = synthetic.about(**(fields | changes))
    return Sweep(said, results_frame(list(_rows(said))), curves_frame([]))


def _table(sweep: Sweep) -> ReportTable:
    (table,) = known(beside_published_exhibit(sweep.about, series_of(sweep))).tables
    return table


def _entries(table: ReportTable, variant: str) -> Mapping[str, Entry]:
    (row,) = (row for row in table.rows if row.name == variant)
    return {c.key: entry for c, entry in zip(table.columns, row.entries, strict=True)}


def test_each_row_is_a_variant_with_the_name_that_papers_give_it() -> None:
    table = _table(_sweep())
    assert [row.name for row in table.rows] == list(VARIANTS)
    assert [row.note for row in table.rows] == [
        "baseline, Transformer",
        "Reformer",
        "Performer",
        "",
    ]
    assert [column.key for column in table.columns] == [
        "listops_accuracy",
        "retrieval_accuracy",
        "pathfinder_small_accuracy",
        "average_accuracy",
        "times_speed",
        "times_memory",
    ]


def test_scores_are_means_over_seeds_beside_those_of_table_1() -> None:
    """Tay et al. 2021, Table 1: the Transformer has 36.37, the Reformer 37.27 on ListOps."""
    table = _table(_sweep())
    for place, (variant, theirs) in enumerate(PRINTED.items()):
        entry = _entries(table, variant)["listops_accuracy"]
        assert ends(entry.estimate) == t_interval(np.array(_scores("listops", place)))
        assert entry.text == f"{100 * statistics.fmean(_scores('listops', place)):.1f}"
        assert entry.note == (f"published {theirs}" if theirs else "")
    assert table.columns[0].unit == "%"


def test_an_average_is_over_the_tasks_that_papers_have_too() -> None:
    """Include the majority task, which has the same metric but is in none of the papers."""
    table = _table(_sweep())
    entry = _entries(table, "mixer=lsh_attention")["average_accuracy"]
    tasks = [_scores(task, 1) for task in ("listops", "retrieval", "pathfinder_small")]
    by_seed = [statistics.fmean(some) for some in zip(*tasks, strict=True)]
    assert ends(entry.estimate) == t_interval(np.array(by_seed))
    assert entry.note == f"published {(37.27 + 53.40 + 68.50) / 3:.1f}"
    assert _entries(table, "mixer=fnet")["average_accuracy"].note == ""


def test_two_tasks_that_stand_for_one_count_once_in_the_published_average() -> None:
    sweep = _sweep(tasks=(*TASKS, "pathfinder"))
    more = sweep.results[sweep.results["task"] == "pathfinder_small"].assign(task="pathfinder")
    more["trial_id"] = more["trial_id"] + "-large"
    rows = [*sweep.results.to_dict("records"), *more.to_dict("records")]
    entry = _entries(_table(Sweep(sweep.about, results_frame(rows), sweep.curves)), VARIANTS[0])
    assert entry["average_accuracy"].note == f"published {(36.37 + 57.46 + 71.40) / 3:.1f}"


def test_speed_and_memory_are_ratios_at_the_longest_sequences() -> None:
    """Table 2 at 4,096 tokens: Performer 8.0 steps a second against 1.4, 1.06 GB against 9.48."""
    table = _table(_sweep())
    entries = _entries(table, "mixer=performer")
    assert entries["times_speed"].estimate.point == pytest.approx(4.0)
    assert entries["times_memory"].estimate.point == pytest.approx(4.0)
    assert entries["times_speed"].note == f"published {8.0 / 1.4:.2f}"
    assert entries["times_memory"].note == f"published {9.48 / 1.06:.2f}"
    assert _entries(table, VARIANTS[0])["times_speed"].text == "baseline"
    assert _entries(table, "mixer=fnet")["times_speed"].note == ""
    for column in table.columns[-2:]:
        assert "a training step, 1,000 tokens" in column.note
        assert "published: 4,096 tokens, 4x4 TPU v3" in column.note


def test_where_no_step_was_timed_the_mixer_alone_is() -> None:
    sweep = _sweep(tasks=(*TASKS, MIXER_ALONE))
    kept = sweep.results[sweep.results["probe"] == "quality"].to_dict("records")
    for length in (1024, 4096):
        spec = MetricSpec(
            name="forward_backward_seconds", unit="s", better="lower", at=f"length={length}"
        )
        for mixer in MIXERS:
            took = STEP[mixer] * length if mixer != "fnet" or length == 1024 else None
            more = {"value": took} if took else {"status": "out_of_memory", "reason": "no room"}
            kept += [
                synthetic.row(
                    sweep.about,
                    f"mixer={mixer}",
                    MIXER_ALONE,
                    "mixer_time",
                    spec,
                    seed=seed,
                    **more,
                )
                for seed in range(3)
            ]
    table = _table(Sweep(sweep.about, results_frame(kept), sweep.curves))
    assert [column.key for column in table.columns][-1] == "times_speed"
    assert "one layer, 4,096 tokens" in table.columns[-1].note
    assert _entries(table, "mixer=performer")["times_speed"].text == "4.00"
    assert _entries(table, "mixer=fnet")["times_speed"].text == "out of memory"


def test_what_is_missing_is_said() -> None:
    sweep = _sweep()
    lost = (sweep.results["variant"] == VARIANTS[2]) & (sweep.results["task"] == "retrieval")
    lost &= sweep.results["probe"] == "quality"
    one_less = (sweep.results["variant"] == VARIANTS[1]) & (sweep.results["task"] == "listops")
    one_less &= (sweep.results["seed"] == 0) & (sweep.results["probe"] == "quality")
    table = _table(Sweep(sweep.about, sweep.results[~(lost | one_less)], sweep.curves))
    entries = _entries(table, VARIANTS[2])
    assert entries["retrieval_accuracy"].text == "no result"
    assert entries["average_accuracy"].text == "no result on retrieval"
    partial = _entries(table, VARIANTS[1])
    assert [mark.name for mark in partial["listops_accuracy"].marks] == ["partial"]
    assert partial["average_accuracy"].estimate.n == 2


def test_the_table_says_what_the_papers_have_instead_and_where_they_print_it() -> None:
    notes = _table(_sweep()).footnotes
    assert notes[0].startswith("Listops: shorter expressions; ")
    assert notes[2].startswith("Pathfinder small: 16 x 16 pixels; the paper has 32 x 32")
    assert notes[-1] == "Published: arXiv:2011.04006, Table 1; arXiv:2011.04006, Table 2."


def test_it_takes_two_tasks_that_papers_have() -> None:
    for changes in ({"ablation": "mine"}, {"tasks": ("listops", "majority")}):
        whole = _sweep()
        about = replace(whole.about, **changes)  # type: ignore[arg-type]
        measured: list[Series] = [s for s in series_of(whole) if s.task in about.tasks]
        assert beside_published_exhibit(about, measured) is None


@pytest.mark.whole
def test_a_page_has_it_once_and_folds_the_comparison_by_pairs() -> None:
    made = page(_sweep(), ["quick"])
    titles = {section.title: section for section in made.findings}
    (table,) = titles["Measured and published scores, speed and memory"].tables
    assert table.name == "beside-published"
    assert titles["Published and measured results"].is_folded
    assert not any(math.isnan(e.estimate.point or 0) for r in table.rows for e in r.entries)
