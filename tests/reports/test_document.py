"""Test that marks are explained once and printed in every format."""

from __future__ import annotations

from dataclasses import replace

from bakeoff.reports.document import Column, Entry, Mark, ReportTable, Row, readable
from bakeoff.reports.export.printers import to_csv, to_latex, to_markdown
from bakeoff.reports.export.templating import html_templates
from bakeoff.reports.stats.intervals import Estimate

BENT = Mark(sign="†", name="bent", meaning="The slope still changes.")
LOUD = Mark(sign="‡", name="noisy", meaning="It did not settle.")
UNUSED = Mark(sign="§", name="unused", meaning="Nothing has it.")


def _table() -> ReportTable:
    column = Column(key="power", title="power", measured_unit="1", entries={})
    marks = {"a": (BENT, LOUD), "b": (BENT,), "c": ()}
    rows = tuple(
        Row(name=name, entries=(Entry(text="1.0", estimate=Estimate(n=1, point=1.0), marks=some),))
        for name, some in marks.items()
    )
    return ReportTable(
        name="powers",
        title="Powers",
        task="t",
        columns=(column,),
        rows=rows,
        footnotes=("A plain note.",),
    )


def test_a_legend_tells_each_mark_once_and_only_those_in_use() -> None:
    legend = ("† The slope still changes.", "‡ It did not settle.")
    assert _table().notes == (*legend, "A plain note.")
    assert replace(_table(), rows=_table().rows[2:]).notes == ("A plain note.",)


def test_every_format_has_the_signs_and_the_legend() -> None:
    markdown, latex, csv = to_markdown(_table()), to_latex(_table()), to_csv(_table())
    parts = html_templates().get_template("parts.html").module
    html = str(vars(parts)["comparison"](_table(), "Powers"))
    assert "| a | 1.0†‡ |" in markdown
    assert r"a & 1.0\dag{}\ddag{}" in latex
    assert '1.0<sup title="The slope still changes.">†</sup><sup' in html
    for text in (markdown, html, latex):
        assert text.count("It did not settle.") == (2 if text is html else 1)
        assert UNUSED.meaning not in text
    assert '1.0,,,1,"bent, noisy"' in csv


def test_metrics_are_spelt_as_their_papers_spell_them() -> None:
    names = ("written_bleu", "cider_d", "written_rouge_l", "cider_data", "exact_match", "")
    assert [readable(name) for name in names] == [
        "written BLEU",
        "CIDEr-D",
        "written ROUGE-L",
        "cider data",
        "exact match",
        "",
    ]
