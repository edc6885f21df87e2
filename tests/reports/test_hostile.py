"""Test that reports from hostile, huge or empty sweeps are correct and escaped in every format."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bakeoff.reports.render import render, render_overview
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from tests.reports import conftest as synthetic
from tests.reports import hostile
from tests.reports.read_page import ReadPage

pytestmark = pytest.mark.whole

SCRIPT = (Path(hostile.__file__).parents[2] / "reports/export/templates/page.js").read_text()
FORMULA_STARTS = tuple("=+-@\t\r＝＋－＠")
NOT_SEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of two hostile reports and the overview of the first."""
    folder = tmp_path_factory.mktemp("hostile") / "in/reports"
    sweep = hostile.sweep()
    render("heads", [sweep], folder)
    render("complexity", [hostile.of_mixers_alone()], folder)
    render_overview({"heads": [sweep]}, folder)
    return folder


def _files(folder: Path, *suffixes: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in suffixes:
            yield path, path.read_text(encoding="utf-8")


@pytest.mark.bad_input(48)
def test_a_page_holds_one_script_and_it_is_ours(reports: Path) -> None:
    for path, _ in _files(reports, ".html"):
        page = ReadPage(path)
        assert "".join(page.scripts) == SCRIPT
        assert page.tags.count("script") == 1
        assert not {"img", "iframe", "object", "b onclick"} & set(page.tags)
        assert not {name for name in page.attributes if name.startswith("on")}
        assert not [link for link in page.links if ":" in link]
        assert "</td></table>" in page.words
    for name in ("index.html", "heads/index.html"):
        assert hostile.NAMES[0] in ReadPage(reports / name).words


@pytest.mark.bad_input(48)
def test_templates_are_not_filled_in_by_names(reports: Path) -> None:
    for name in ("index.html", "heads/index.html"):
        words = ReadPage(reports / name).words
        assert "{{7*7}}" in words
        assert "49" not in re.findall(r"(?<![\d.])\d+(?![\d.])", words)


@pytest.mark.bad_input(48)
def test_no_format_shows_passwords_or_hides_letters(reports: Path) -> None:
    seen = list(_files(reports, ".html", ".md", ".csv", ".tex", ".svg"))
    assert {path.suffix for path, _ in seen} == {".html", ".md", ".csv", ".tex", ".svg"}
    for path, text in seen:
        assert hostile.SECRET not in text, path
        assert not NOT_SEEN.search(text), path
    assert hostile.SECRET.encode() not in (reports / "heads/results.parquet").read_bytes()


def test_markdown_holds_no_markup_of_strangers(reports: Path) -> None:
    for path, text in _files(reports, ".md"):
        outside_code = re.sub(r"(?s)^(````+)\n.*?\n\1$", "", text, flags=re.MULTILINE)
        outside_code = re.sub(r"(`+) .*? \1", "", outside_code)
        unfolded = re.sub(r"</?(details|summary)>", "", outside_code)
        assert not re.search(r"<[a-z/!]", unfolded), path
        assert "](javascript" not in outside_code.replace(r"\[x\](javascript", ""), path


@pytest.mark.bad_input(48)
def test_no_cell_is_a_formula(reports: Path) -> None:
    for path, _ in _files(reports, ".csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for cell in (cell for row in csv.reader(file) for cell in row):
                is_number = bool(re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell))
                assert is_number or not cell.lstrip().startswith(FORMULA_STARTS), (path, cell)


@pytest.mark.bad_input(48)
def test_latex_is_ascii_and_has_no_commands_of_strangers(reports: Path) -> None:
    for path, text in _files(reports, ".tex"):
        assert text.isascii(), path
        assert r"\input" not in text, path
        assert text.count(r"\end{tabular}") == text.count(r"\begin{tabular}"), path


def test_figures_are_sound_and_hold_no_script(reports: Path) -> None:
    figures = list(_files(reports, ".svg"))
    assert figures
    for path, text in figures:
        names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        assert not {"script", "foreignObject", "a"} & names, path


def test_everything_stays_in_its_folder(reports: Path) -> None:
    everything = [p for p in reports.parents[1].rglob("*") if p.is_file()]
    assert everything
    assert all(path.is_relative_to(reports) for path in everything)


def test_a_claim_that_was_changed_says_so_on_the_first_screen(reports: Path) -> None:
    words = ReadPage(reports / "heads/index.html").words
    assert words.index(", exploratory") < words.index("Failures")


@pytest.mark.slow
@pytest.mark.bad_input(48)
def test_ten_thousand_variants(tmp_path: Path) -> None:
    """Check the time, about three seconds; if quadratic in the rows, it would be minutes."""
    start = time.process_time()
    page = render("heads", [hostile.many(10_000)], tmp_path)
    assert time.process_time() - start < 30
    text = page.read_text()
    assert "301 of 10,000 rows are shown; tables/t.csv contains all rows." in ReadPage(page).words
    assert text.count("<tr") < 1_500
    assert len(text) < 3_000_000
    label = '<span class="label" title="v=9999">v 9,999<'
    assert re.search(rf'class="is-baseline">\s*<th scope="row">{label}', text)
    assert "301 of 10,000 rows are shown" in (page.parent / "report.md").read_text()
    assert len((page.parent / "tables/t.tex").read_text().splitlines()) < 330
    assert len((page.parent / "tables/t.csv").read_text().splitlines()) == 10_001
    assert len((page.parent / "results.csv").read_text().splitlines()) == 10_001


def test_a_reason_for_every_row(tmp_path: Path) -> None:
    failed = hostile.with_reasons(hostile.many(1_500))
    page = render("heads", [failed], tmp_path)
    words = ReadPage(page).words
    assert "These are the first 200 of 1500" in words
    assert "reason 199" in words
    assert "reason 200" not in words


def test_a_long_reason_is_cut_and_says_where_it_is_whole(tmp_path: Path) -> None:
    page = render("heads", [hostile.many(3)], tmp_path)
    assert "r" * 600 + "… (the full reason is in results.csv)" in ReadPage(page).words
    assert "r" * 10_000 in (page.parent / "results.csv").read_text()


@pytest.mark.bad_input(48)
def test_nothing_finished(tmp_path: Path) -> None:
    empty = Sweep(synthetic.about(provenances={}), results_frame([]), curves_frame([]))
    words = ReadPage(render("heads", [empty], tmp_path)).words
    assert "no result" in words
    assert "0 of 3; 3 missing" in words
    assert words.count("not yet measured") >= 2 * 4  # once per task and probe, with an explanation
    assert "missing: it is planned but not yet measured" in words
    assert "bakeoff run heads --scale quick" in words
    assert list((tmp_path / "heads/figures").glob("*")) == []


@pytest.mark.bad_input(48)
def test_a_single_seed(tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    one = Sweep(
        synthetic.about(num_seeds=1),
        sweep.results[sweep.results["seed"] == 0],
        curves_frame([]),
    )
    words = ReadPage(render("heads", [one], tmp_path)).words
    assert "underpowered" in words
    assert "with 1 seed each" in words
    assert "nan" not in words.replace("training loss is nan", "").lower()


@pytest.mark.bad_input(48)
def test_all_nan(tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    nan = Sweep(sweep.about, sweep.results.assign(value=float("nan")), curves_frame([]))
    page = render("heads", [nan], tmp_path)
    assert "not a number" in ReadPage(page).words
    assert (
        "data-value"
        not in page.read_text().partition("shakespeare characters</h2>")[2].partition("</table>")[0]
    )  # no sort value instead of NaN
