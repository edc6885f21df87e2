"""The files of a comparison: the same bytes for the same rows, escaped, and what changed first."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reports.compare.page import machine_drift, recorded_differences, render_comparison
from reports.compare.pairs import Selection
from reports.compare.table import MOST_ROWS, NOTHING_IN_COMMON
from tests.reports.compare.made_selections import ABOUT, HERE, THERE, row, rows, selection

SECONDS = [0.010, 0.0101, 0.0099]
KERNEL = "linear_kernel_seconds"
EVIL = "<script>alert(1)</script>|`=1+1`\x1b[2J"
FILES = ("index.html", "report.md", "moved.csv")


def of(variant: str, *bits: float) -> list[dict[str, object]]:
    return rows("bits", bits, variant=variant)


@pytest.fixture
def a() -> Selection:
    return selection(
        of("heads=1", 2.5, 2.6, 2.7),
        of("heads=8", 2.0, 2.1, 2.2),
        rows("seconds", SECONDS),
        rows(KERNEL, [1.0] * 3),
        name="old",
    )


@pytest.fixture
def b() -> Selection:
    return selection(
        of("heads=1", 2.5, 2.6, 2.7),
        of("heads=8", 3.0, 3.1, 3.2001),
        rows("seconds", SECONDS),
        rows(KERNEL, [1.1] * 3),
        name="new",
    )


def markdown(a: Selection, b: Selection, folder: Path) -> str:
    return render_comparison(a, b, folder)[1].with_name("report.md").read_text()


def csv_rows(page: Path) -> list[dict[str, str]]:
    with page.with_name("moved.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_writes_a_page_and_its_numbers_and_the_same_bytes_again(
    a: Selection, b: Selection, tmp_path: Path
) -> None:
    _, one = render_comparison(a, b, tmp_path / "one")
    assert one == tmp_path / "one/heads/compare-old-new/index.html"
    assert sorted(path.name for path in one.parent.iterdir()) == sorted(FILES)
    reversed_rows = replace(a, results=a.results.iloc[::-1].reset_index(drop=True))
    _, two = render_comparison(reversed_rows, b, tmp_path / "two")
    for name in FILES:
        assert one.with_name(name).read_bytes() == two.with_name(name).read_bytes()


def test_the_source_is_compared_and_scores_stand_first(a: Selection, tmp_path: Path) -> None:
    slower = selection(
        of("heads=1", 2.5, 2.6, 2.7),
        of("heads=8", 2.0, 2.1, 2.2),
        rows("seconds", [2 * s for s in SECONDS]),
        name="new",
    )
    one, two = (replace(each, source={"mine.py": f"{each.name}\n"}) for each in (a, slower))
    text = markdown(one, two, tmp_path)
    assert text.index("## Scores, none of which moved") < text.index("## What moved")
    assert text.index("own source") < text.index("-old\n+new\n")
    assert "mine.py" not in markdown(one, slower, tmp_path)  # not known of both


def test_page_and_markdown_say_the_same(a: Selection, b: Selection, tmp_path: Path) -> None:
    unchanged = "Nothing moved for certain: 2 of 2 scores identical; 1 of 1 time identical."
    assert render_comparison(a, a, tmp_path)[0] == unchanged
    headline, page = render_comparison(a, b, tmp_path)
    assert headline == "1 of 2 scores moved, 1 identical; 1 of 1 time identical."
    for name, title in (("index.html", "What moved</h2>"), ("report.md", "## What moved")):
        text = page.with_name(name).read_text()
        assert headline in text
        assert "The verdict on the claim moved: “supported, indicative” in A" in text
        assert "took 1.10 times as long in B" in text
        assert "bakeoff report heads --scale quick --compare old new" in text
        assert text.index(title) < text.index("The other 1 score")
        assert "Nothing that is recorded" in text


def test_what_differs_and_what_is_missing_is_said(a: Selection, tmp_path: Path) -> None:
    about = replace(ABOUT, settings={"dim": 64, "steps": 600}, claim=None)
    b = selection([row("bits", 2.0, seed) for seed in (0, 1, 7)], about=about, name="new")
    text = markdown(a, b, tmp_path)
    assert "setting: steps" in text
    assert "2 numbers stand in A only: see the last table." in text
    assert "Not paired, for some variants: seed 2 in A only and seed 7 in B only." in text
    assert "Only A makes a claim." in text


def test_a_row_shows_both_numbers_the_change_and_what_else_differs(tmp_path: Path) -> None:
    a = selection(rows("num_parameters", [107_264.0]))
    b = selection(rows("num_parameters", [107_265.0], commit="bbbb00000000"))
    line = "| heads=8 | num parameters (words) | 1.000 × (moved) | 107,264 | 107,265 | commit |"
    assert line in markdown(a, b, tmp_path).splitlines()


def test_other_devices_stand_beside_their_numbers(tmp_path: Path) -> None:
    a, b = selection(rows("seconds", SECONDS)), selection(rows("seconds", SECONDS, made=THERE))
    _, _, tables = markdown(a, b, tmp_path).partition("## On different devices, so without a verd")
    (line,) = (line for line in tables.splitlines() if line.startswith("| heads=8 |"))
    assert re.search(r"1\.000 × \\\[.*\(other device\).*\(Old CPU\).*\(New GPU\)", line)


def test_a_long_table_ends_with_where_the_rest_is(tmp_path: Path) -> None:
    many = selection([row("peak_bytes", 1.0, at=f"length={n}") for n in range(MOST_ROWS + 5)])
    _, page = render_comparison(many, many, tmp_path)
    text = page.with_name("report.md").read_text()
    assert text.count("\n| heads=8 |") == MOST_ROWS
    assert "Shown are 200 of 205 rows; moved.csv has them all." in text
    assert len(csv_rows(page)) == MOST_ROWS + 5


def test_the_csv_holds_exact_numbers_and_what_changed_first(tmp_path: Path) -> None:
    bits, lengths = rows("bits", [2.0, 2.1, 2.2]), ("length=64", "length=128")
    only_a = [row("accuracy", 0.1, at=at) for at in lengths]
    a = selection(bits, rows("num_parameters", [5.0]), only_a, rows("peak_bytes", [1.0]))
    _, page = render_comparison(a, selection(bits, rows("num_parameters", [6.0])), tmp_path)
    found = csv_rows(page)
    names = ["num_parameters", "bits", "peak_bytes", "accuracy", "accuracy"]
    assert [line["metric"] for line in found] == names
    assert [line["has_moved"] for line in found] == ["yes", *["no"] * 4]
    assert [line["outcome"] for line in found] == ["moved", "identical", *["only in A"] * 3]
    assert [float(found[0][name]) for name in ("a", "b", "change")] == [5.0, 6.0, 1.2]
    assert float(found[1]["a"]) == pytest.approx(2.1)
    only = "| heads=8 | A only | words | peak bytes, accuracy (2) |"
    assert only in page.with_name("report.md").read_text().splitlines()


def test_hostile_names_are_text_everywhere(tmp_path: Path) -> None:
    variants = (EVIL, f"=cmd()|{EVIL}")
    about = replace(
        ABOUT,
        question=EVIL,
        variants=variants,
        baseline=EVIL,
        claim=None,
        settings={EVIL: EVIL},
        ablation=f"../{EVIL}",
    )
    named = {"ablation": about.ablation}
    first = [
        row("bits", None, 0, variant=EVIL, status="error", reason=EVIL, **named),
        *rows("num_parameters", [1.0], variant=variants[1], **named),
    ]
    elsewhere = replace(THERE, device=EVIL)
    second = [
        row("bits", 1.0, 0, variant=EVIL, **named),
        *rows("num_parameters", [2.0], variant=variants[1], **named),
        *rows("seconds", SECONDS, variant=EVIL, made=elsewhere, **named),
    ]
    a = replace(selection(first, about=about), name=f"../../{EVIL}")
    b = replace(selection(second, about=replace(about, settings={})), name="$(touch x)")
    _, page = render_comparison(a, b, tmp_path)
    assert page.is_relative_to(tmp_path)
    assert len(page.relative_to(tmp_path).parts) == 3
    html, text = page.read_text(), page.with_name("report.md").read_text()
    scripts = re.findall(r"<script.*?</script", html, flags=re.DOTALL)
    assert scripts
    assert not any("alert" in script for script in scripts)
    assert "<script" not in text.split("## Make it again")[0]
    assert "\x1b" not in html + text
    assert {line["variant"][:1] for line in csv_rows(page)} == {"<", "'"}


def test_nothing_in_common_and_nothing_at_all_are_pages_too(a: Selection, tmp_path: Path) -> None:
    seed_9 = selection([row("bits", 2.0, seed=9)])
    for one, b in ((a, selection(rows("accuracy", [0.5]))), (a, seed_9), (selection(),) * 2):
        headline, page = render_comparison(one, b, tmp_path)
        assert headline == NOTHING_IN_COMMON
        assert headline in page.read_text()
    assert "two folders" in NOTHING_IN_COMMON


BITS = [1.0, 1.1, 1.2]


def test_each_difference_is_named_with_both_values_and_what_agrees_is_not() -> None:
    a = selection(rows("bits", BITS))
    assert recorded_differences(a, selection(rows("bits", [9.0]))) == {}
    newer = replace(
        HERE,
        commit="bbbb00000000",
        versions={"torch": "2.14.0"},
        num_threads=2,
        conditions={"governor": "powersave"},
    )
    assert ABOUT.claim is not None
    about = replace(
        ABOUT,
        provenances={newer.environment_id: newer},
        num_seeds=5,
        settings={"dim": 64, "steps": 600},
        claim=replace(ABOUT.claim, by=0.1),
    )
    b = selection(rows("bits", BITS, made=newer), about=about)
    assert recorded_differences(a, b) == {
        "commit": ("aaaa00000000", "bbbb00000000"),
        "environment": (HERE.environment_id, newer.environment_id),
        "threads": ("1", "2"),
        "torch version": ("2.13.0", "2.14.0"),
        "python version": ("3.11.9", "none"),
        "governor": ("performance", "powersave"),
        "seeds planned": ("3", "5"),
        "setting: steps": ("300", "600"),
        "claim: by": ("0.0", "0.1"),
    }


def test_only_environments_of_the_rows_count() -> None:
    a, b = selection(rows("bits", BITS)), selection(rows("bits", BITS, made=THERE))
    assert recorded_differences(a, b) == {
        "environment": (HERE.environment_id, THERE.environment_id),
        "device": ("Old CPU", "New GPU"),
    }


def test_the_drift_is_the_median_ratio_of_the_kernels_of_one_machine() -> None:
    a = selection(rows(KERNEL, [1.0, 1.0, 1.0]), rows("seconds", [1.0, 1.0, 1.0]))
    b = selection(rows(KERNEL, [1.1, 1.2, 5.0]), rows("seconds", [9.0, 9.0, 9.0]))
    assert machine_drift(a, b) == (pytest.approx(1.2), 3)
    elsewhere = selection(rows(KERNEL, [2.0], made=THERE))
    assert machine_drift(a, elsewhere) is None
