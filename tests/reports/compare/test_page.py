"""The page of a comparison: the same bytes for the same rows, escaped, and what moved first."""

from __future__ import annotations

import csv
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.movement_page import render_comparison
from reports.sides import Side
from tests.reports.made_sides import ABOUT, THERE, row, rows, side

SECONDS = [0.010, 0.0101, 0.0099]
KERNEL = "linear_kernel_seconds"
EVIL = "<script>alert(1)</script>|`=1+1`\x1b[2J"


def of(variant: str, *bits: float) -> list[dict[str, object]]:
    return rows("bits", bits, variant=variant)


@pytest.fixture
def a() -> Side:
    return side(of("heads=1", 2.5, 2.6, 2.7), of("heads=8", 2.0, 2.1, 2.2),
                rows("seconds", SECONDS), rows(KERNEL, [1.0, 1.0, 1.0]), name="old")  # fmt: skip


@pytest.fixture
def b() -> Side:
    return side(of("heads=1", 2.5, 2.6, 2.7), of("heads=8", 3.0, 3.1, 3.2001),
                rows("seconds", SECONDS), rows(KERNEL, [1.1, 1.1, 1.1]), name="new")  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def test_it_writes_a_page_and_its_numbers_and_the_same_bytes_again(
    a: Side, b: Side, tmp_path: Path
) -> None:
    made = render_comparison(a, b, tmp_path / "one")
    assert made.path == tmp_path / "one/heads/compare-old-new/index.html"
    again = Side(a.name, a.title, a.about, a.results.iloc[::-1].reset_index(drop=True))
    render_comparison(again, b, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert {Path(name).name for name in files(tmp_path / "one")} == {
        "index.html", "report.md", "moved.csv",
    }  # fmt: skip


def test_page_and_markdown_say_the_same(a: Side, b: Side, tmp_path: Path) -> None:
    made = render_comparison(a, b, tmp_path)
    html, markdown = made.path.read_text(), made.path.with_name("report.md").read_text()
    for text in (html, markdown):
        assert made.headline in text
        assert made.headline.startswith("1 of 2 scores moved")
        assert "The verdict on the claim moved: “supported, indicative” in A" in text
        assert "took 1.10 times as long in B" in text
        assert "bakeoff report heads --scale quick --compare old new" in text
        assert text.index("What moved</h2>" if text is html else "## What moved") < text.index(
            "The other 1 score"
        )
        assert "Nothing that is recorded" in text


def test_what_differs_and_what_is_missing_is_said(a: Side, tmp_path: Path) -> None:
    about = replace(ABOUT, settings={"dim": 64, "steps": 600}, claim=None)
    b = side([row("bits", 2.0, seed) for seed in (0, 1, 7)], about=about, name="new")
    text = render_comparison(a, b, tmp_path).path.with_name("report.md").read_text()
    assert "setting: steps" in text
    assert "2 numbers stand in A only: see the last table." in text
    assert "Not paired, for some variants: seed 2 in A only and seed 7 in B only." in text
    assert "Only A makes a claim." in text


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.is_script = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.is_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self.is_script:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.is_script = False


def test_hostile_names_are_text_everywhere(tmp_path: Path) -> None:
    variants = (EVIL, f"=cmd()|{EVIL}")
    about = replace(ABOUT, question=EVIL, variants=variants, baseline=EVIL, claim=None,
                    settings={EVIL: EVIL}, ablation=f"../{EVIL}")  # fmt: skip
    named = {"ablation": about.ablation}
    first = [row("bits", None, 0, variant=EVIL, status="error", reason=EVIL, **named),
             *rows("num_parameters", [1.0], variant=variants[1], **named)]  # fmt: skip
    elsewhere = replace(THERE, device=EVIL)
    second = [row("bits", 1.0, 0, variant=EVIL, **named),
              *rows("num_parameters", [2.0], variant=variants[1], **named),
              *rows("seconds", SECONDS, variant=EVIL, made=elsewhere, **named)]  # fmt: skip
    a = replace_names(side(first, about=about), f"../../{EVIL}")
    b = replace_names(side(second, about=replace(about, settings={})), "$(touch x)")
    made = render_comparison(a, b, tmp_path)
    assert made.path.is_relative_to(tmp_path)
    assert len(made.path.relative_to(tmp_path).parts) == 3
    tags = Tags()
    tags.feed(made.path.read_text())
    assert [script for script in tags.scripts if "alert" in script] == []
    markdown = made.path.with_name("report.md").read_text()
    assert "<script" not in markdown.split("## Make it again")[0]
    assert "\x1b" not in made.path.read_text() + markdown
    with made.path.with_name("moved.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["variant"][:1] for line in lines} == {"<", "'"}


def replace_names(given: Side, name: str) -> Side:
    return Side(name, f"store {name}", given.about, given.results)


def test_nothing_in_common_is_a_page_too(a: Side, tmp_path: Path) -> None:
    b = side(rows("accuracy", [0.5]), name="new")
    made = render_comparison(a, b, tmp_path)
    assert made.headline.startswith("The two selections have nothing in common")
    assert "accuracy" in made.path.read_text()


def test_empty_selections_are_a_page(tmp_path: Path) -> None:
    made = render_comparison(side(), side(name="new"), tmp_path)
    assert made.headline.startswith("The two selections have nothing in common")
