"""Test that a report of mixers alone has its order, a single machine, and all names."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from bakeoff.reports.document import Section
from bakeoff.reports.pages.ablation import Page, page
from bakeoff.reports.pages.mixers import controls_section, main_environment, mixers_section
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import curves_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import CONTROLS, MIXER_ALONE, Provenance
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone
from tests.reports.conftest import known
from tests.reports.mixers_alone import whole

pytestmark = pytest.mark.whole

OTHER = Provenance(
    commit="c",
    device="NVIDIA H100",
    num_threads=8,
    num_cpus=8,
    num_gpus=1,
    versions={"torch": "2.13.0"},
)


@cache
def _page() -> Page:
    return page(whole(), ["quick"])


def _alone() -> Section:
    """Return the section on mixers alone."""
    return next(one for one in _page().findings if one.title == "The mixers alone")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a complete report."""
    return render("complexity", [whole()], tmp_path_factory.mktemp("reports")).parent


def test_the_exhibits_stand_in_the_order_of_the_questions() -> None:
    section = _alone()
    assert [shown.title for shown in section.exhibits] == [
        "Table 1, measured",
        "Length from which a mixer is faster",
        "Time and memory against length",
        "Times by length",
        "Utilisation of the machine",
        "Reliability of the times",
        "Published and measured speed",
    ]

    (shown,) = (
        one for one in section.exhibits if one.title == "Length from which a mixer is faster"
    )
    # The times of forward and backward are at the top of the page.
    assert [view.title for view in shown.views] == ["forward"]
    assert all(len(view.drawings) == 1 for view in shown.views)


def test_the_claims_part_comes_first_and_mixers_alone_are_no_task(report: Path) -> None:
    text = (report / "index.html").read_text()
    heads = re.findall(r"<h2>(.*?)</h2>", text)
    tasks = ["shakespeare characters", "fashion mnist patches"]
    assert known(whole().about.claim).task != MIXER_ALONE
    assert heads[1:4] == [*tasks, "The mixers alone"]
    assert "mixer alone" not in heads
    about = replace(whole().about, claim=None)
    made = page(Sweep(about, whole().results, whole().curves), ["quick"])
    assert [section.title for section in made.findings][:2] == ["The mixers alone", tasks[0]]


def test_every_table_is_there_as_csv_and_latex_and_every_figure_as_svg(report: Path) -> None:
    made = _page()
    assert len(made.all_tables) == 16
    for table in made.all_tables:
        lines = (report / f"tables/{table.name}.csv").read_text().splitlines()
        rows = list(csv.DictReader(lines))
        assert [row[table.row_title] for row in rows] == [row.name for row in table.rows]
        latex = (report / f"tables/{table.name}.tex").read_text()
        assert latex.count(r" \\") == 1 + len(table.rows)
    for drawing in made.all_drawings:
        assert (report / f"figures/{drawing.name}.svg").read_text() == drawing.svg
    names = [drawing.name for drawing in made.all_drawings]
    assert len(set(names)) == len(names) == 13


def test_page_and_markdown_say_the_same(report: Path) -> None:
    text = (report / "index.html").read_text()
    words = " ".join(re.sub(r"<[^>]+>", " ", text).replace("&#39;", "'").split())
    markdown = (report / "report.md").read_text().replace("\\", "")
    for fact in (
        "Differences between measurement and theory",
        "The baseline is attention (kernel=fused).",
        "Forward and backward, ratio to the baseline",
        "Decoding one token",
        "not below 4,096",
        "Differs from the theoretical exponent",
        "Pre-asymptotic",
        "the matrix peak",
        "no: whole model, 4x4 TPU v3, batch 32",
        "multiplies large matrices at 118 GFLOP/s",
        "measured on AMD EPYC 7B13, 2 threads, torch 2.13.0",
        "0 of 13 pairs",
    ):
        assert fact in words
        assert fact in markdown


def test_the_baseline_says_what_it_is(report: Path) -> None:
    text = (report / "index.html").read_text()
    label = '<span class="label" title="baseline">attention</span>'
    assert f"{label} <small>baseline</small>" in text
    table = (report / "tables/shakespeare_characters.tex").read_text()
    assert "attention (baseline)" in table


def test_controls_are_no_columns_and_count_for_nothing() -> None:
    made = _page()
    tables = [table for section in made.findings for table in section.tables]
    keys = {column.key for table in tables for column in table.columns}
    assert "accuracy" in keys
    assert not {key for key in keys for name in CONTROLS if key.startswith(name)}
    rows = whole().results
    assert made.coverage.num_total == len(rows[~rows["metric"].isin(list(CONTROLS))])
    assert {failure.probe for failure in made.failures} >= {"mixer_time"}


def test_noise_is_told_once_and_by_its_rule() -> None:
    rows = whole().results
    rows = rows[rows["metric"] == "forward_seconds"].copy()
    chosen = rows["at"] != "length=64"
    rows.loc[chosen, "status"] = "noisy"
    rows.loc[chosen, "reason"] = [f"±{number} %" for number in range(chosen.sum())]
    made = page(Sweep(whole().about, rows, whole().curves), ["quick"])
    noisy = [failure for failure in made.failures if failure.fate == "noisy"]
    alone = [failure for failure in noisy if failure.task == MIXER_ALONE]
    assert [(failure.probe, failure.seeds) for failure in alone] == [("mixer_time", (0, 1, 2))]


def _of_two() -> Sweep:
    """Return a sweep that adds a slower machine with fewer measurements."""
    first, second = whole(), mixers_alone.sweep(place=OTHER, pace=1000.0)
    is_fewer = (second.results["at"] != "length=64") & (second.results["environment_id"] != "")
    fewer = second.results[is_fewer]
    about = mixers_alone.about(
        provenances={made.environment_id: made for made in (mixers_alone.PLACE, OTHER)}
    )
    return Sweep(about, pd.concat([first.results, fewer], ignore_index=True), first.curves)


@pytest.mark.slow
def test_two_machines_never_share_an_exhibit() -> None:
    """Apart from the sentence on the second machine, the section is as without it."""
    one, both = _alone(), _of_two()
    two = known(mixers_section(both.about, both.results))
    assert two.sentences != one.sentences
    assert "NVIDIA H100, 8 threads, torch 2.13.0" in two.sentences[0]
    assert "not comparable" in two.sentences[0]
    tables = {t.name: t for t in two.tables}
    for table in one.tables:
        if table.name != "controls":
            assert tables[table.name] == table
    drawings = {drawing.name: drawing for drawing in two.drawings}
    assert one.drawings  # without the figure at the top of the page, which is not drawn again
    assert [drawings[drawing.name] for drawing in one.drawings] == [*one.drawings]


def test_the_machine_with_most_times_is_shown() -> None:
    sweep = _of_two()
    assert main_environment(sweep.results) == mixers_alone.PLACE.environment_id
    few = sweep.results
    is_late = (few["environment_id"] == OTHER.environment_id) | (few["at"] == "length=4096")
    assert main_environment(few[is_late]) == OTHER.environment_id
    assert main_environment(few.iloc[:0]) == ""


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter(report: Path, tmp_path: Path) -> None:
    shuffled = whole().results.sample(frac=1, random_state=1)
    again = render("complexity", [Sweep(whole().about, shuffled, whole().curves)], tmp_path)
    files = sorted(path.relative_to(report) for path in report.rglob("*") if path.is_file())
    assert len(files) > 30
    for name in files:
        assert (again.parent / name).read_bytes() == (report / name).read_bytes(), name


@pytest.mark.parametrize(
    ("probes", "titles"),
    [
        ({"mixer_flops"}, ["Table 1, measured"]),
        ({"path_length"}, ["Table 1, measured"]),
        (
            {"mixer_memory"},
            [
                "Table 1, measured",
                "Time and memory against length",
                "Costs by length",
                "Published and measured speed",
            ],
        ),
        ({"quality", "step_time"}, []),
    ],
)
def test_what_was_not_measured_is_left_out(probes: set[str], titles: list[str]) -> None:
    rows = whole().results
    found = mixers_section(whole().about, rows[rows["probe"].isin(list(probes))])
    assert [shown.title for shown in (found.exhibits if found else ())] == titles


def test_batches_and_threads_have_tables_and_no_part_in_the_peak() -> None:
    peak = "matrix_peak_flops_per_second"
    rows = whole().results
    rows = rows[rows["metric"].isin(["forward_backward_seconds", "forward_flops", peak])]
    some = rows[(rows["task"] == MIXER_ALONE) & (rows["at"] == "length=256")]
    loads = [
        some.assign(at=at, value=some["value"].where(some["metric"] != peak, 1e15))
        for at in ("batch=1", "batch=8", "threads=2")
    ]
    section = known(mixers_section(whole().about, pd.concat([rows, *loads])))
    heads = {t.title: [c.title for c in t.columns] for t in section.tables if "several" in t.title}
    assert heads == {
        "Forward and backward, for several sequences at once": ["batch 1", "batch 8"],
        "Forward and backward, with several threads": ["2 threads"],
    }
    (used,) = (one for one in section.exhibits if one.title == "Utilisation of the machine")
    assert "118 GFLOP/s" in used.sentences[-1]


def test_one_process_is_shown_and_judged_nowhere() -> None:
    rows = whole().results
    section = known(mixers_section(whole().about, rows[rows["seed"] == 0]))
    times = next(t for t in section.tables if t.name.endswith("forward_backward_seconds-by-length"))
    entries = [entry for row in times.rows[1:] for entry in row.entries]
    assert all(entry.note.endswith(" ×") and entry.marks for entry in entries)


def test_without_mixers_alone_the_controls_stand_after_the_tasks(tmp_path: Path) -> None:
    rows = whole().results
    of_tasks = rows[rows["task"] != MIXER_ALONE]
    about = mixers_alone.about(tasks=tuple(mixers_alone.TASKS))
    index = render("complexity", [Sweep(about, of_tasks, curves_frame([]))], tmp_path)
    heads = re.findall(r"<h2>(.*?)</h2>", index.read_text())
    assert heads[1:3] == ["shakespeare characters", "fashion mnist patches"]
    assert "Reliability of the times" in heads
    assert "The mixers alone" not in heads
    assert "0 of 2 pairs" in index.read_text()


def test_without_controls_a_report_is_as_it_was() -> None:
    sweep = synthetic.sweep()
    made = page(sweep, ["quick"])
    assert made.controls is None
    assert len(made.definitions) == 2
    assert controls_section(sweep.about, sweep.results) is None
