"""Test that every page is short enough to read and that folding loses nothing."""

from __future__ import annotations

import re

import pytest

from bakeoff.reports.document import Column, Entry, Exhibit, ReportTable, Row, Section
from bakeoff.reports.export.templating import html_templates, markdown_templates
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.pages.summary import MOST_WORDS, folded
from bakeoff.reports.plots import heatmaps, line_chart, scores
from tests.reports import shipped

LIMIT = 3_000  # words of a page that a reader sees unfolded
_INVISIBLE = re.compile(r"(?s)<(style|script|svg|title)\b.*?</\1>")
_INNERMOST = re.compile(
    r"(?s)<details[^>]*>\s*(<summary>(?:(?!</summary>).)*</summary>)(?:(?!<details).)*?</details>"
)


def unfolded_words(text: str) -> int:
    """Count the words of a page or its Markdown outside closed folds; their headings count."""
    shown = _INVISIBLE.sub("", text)
    while _INNERMOST.search(shown):
        shown = _INNERMOST.sub(r"\1", shown)
    assert "details" not in re.findall(r"</?(\w+)", shown)
    words = re.sub(r"<[^>]+>", " ", shown).split()
    return sum(bool(re.search(r"\w", word)) for word in words)


@pytest.fixture
def unsaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip saving figures, which is slowest; their captions are kept."""
    for module in (heatmaps, line_chart, scores):
        monkeypatch.setattr(module, "to_svg", lambda *_, **__: "<svg></svg>")


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    [*shipped.BY_SIZE[:1], *(pytest.param(n, marks=pytest.mark.slow) for n in shipped.BY_SIZE[1:])],
)
@pytest.mark.usefixtures("unsaved")
def test_no_page_has_more_than_three_thousand_words_unfolded(name: str) -> None:
    made = page(shipped.sweep(name), ["quick"])
    html = html_templates().get_template("report.html").render(page=made)
    markdown = markdown_templates().get_template("report.md").render(page=made)
    assert 300 < unfolded_words(html) <= LIMIT
    assert unfolded_words(markdown) <= LIMIT
    for table in made.all_tables:
        assert html.count(f'aria-label="{table.title}"') >= 1
    for text in (html, markdown):
        shown = re.sub(r' title="[^"]*"', "", text)  # a label, for those who ask
        assert not re.search(r"\w=None\b", shown)


def test_words_in_closed_folds_do_not_count() -> None:
    inner = "<details>\n<summary>three</summary>\nx x <b>x</b>\n</details>"
    text = f"one two <details class='part'>\n<summary><h2>four</h2></summary> x {inner} x</details>"
    assert unfolded_words(f"{text} five <svg>x x</svg>") == 4
    assert unfolded_words(inner) == 1


def _exhibit(num_words: int, *, title: str = "") -> Exhibit:
    entries = tuple(Entry(text="word") for _ in range(num_words))
    column = Column(key="c", title="", entries={})
    table = ReportTable(
        name="t",
        title="T",
        task="",
        columns=(column,),
        rows=tuple(Row(name="", entries=(entry,)) for entry in entries),
    )
    return Exhibit(title=title, tables=(table,))


def test_what_finds_no_room_is_folded_and_what_is_small_may_still_follow() -> None:
    exhibits = (_exhibit(MOST_WORDS - 10), _exhibit(20), _exhibit(10), _exhibit(1))
    (made,) = folded([Section(title="s", exhibits=exhibits)])
    assert [one.is_folded for one in made.exhibits] == [False, True, False, True]


def test_a_folded_section_takes_no_room() -> None:
    whole = _exhibit(MOST_WORDS)
    first, second = folded(
        [
            Section(title="a", exhibits=(whole,), is_folded=True),
            Section(title="b", exhibits=(whole,)),
        ]
    )
    assert (first.is_folded, first.exhibits[0].is_folded) == (True, False)
    assert not second.exhibits[0].is_folded
