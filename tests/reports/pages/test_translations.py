"""Test that the page shows the translations of encoder-decoders and their attention."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.reports.document import Section
from bakeoff.reports.export.printers import to_csv, to_latex, to_markdown
from bakeoff.reports.pages.samples import sample_sections
from bakeoff.reports.plots.alignments import readable_words
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import about_from_json, about_to_json
from bakeoff.reports.sections.axis_series import axis_exhibits
from bakeoff.suite.schema import About, Sample
from tests.reports import made_translation as made
from tests.reports.conftest import known, series_of


@pytest.fixture(scope="module")
def section() -> Section:
    return section_of(made.about())


def section_of(said: About) -> Section:
    (found,) = (each for each in sample_sections(said) if each.title.startswith("Text generated"))
    return found


def test_ten_tables_have_source_reference_and_each_variant(section: Section) -> None:
    texts, _ = section.exhibits
    assert (len(texts.tables), len(texts.folded)) == (3, 7)
    names = [row.name for row in texts.folded[-1].rows]
    assert names == ["source", "reference", *made.VARIANTS]
    assert len({table.name for table in texts.all_tables}) == 10
    table = texts.tables[0]
    assert "31.6" in to_csv(table)
    assert "31.6" in to_markdown(table)
    assert "31.6" in to_latex(table)
    assert [row.is_baseline for row in table.rows[:4]] == [False, False, True, False]


def test_sources_that_differ_between_variants_do_not_share_a_table() -> None:
    said = made.about()
    of_task = dict(said.samples[made.TASK])
    of_task["depth=1"] = tuple(replace(each, source="Another") for each in made.texts("depth=1"))
    changed = replace(said, samples={made.TASK: of_task})
    (texts, _) = section_of(changed).exhibits
    tables = list(texts.all_tables)
    assert len({table.name for table in tables}) == len(tables) == 20
    assert not any({"depth=1", "baseline"} <= {row.name for row in table.rows} for table in tables)


def test_an_alignment_has_a_square_a_variant_and_is_told_in_words(section: Section) -> None:
    (drawing,) = section.exhibits[1].drawings
    assert drawing.svg.count("<image") == len(made.VARIANTS) + 1  # plus the scale
    described = known(ET.fromstring(drawing.svg)[1].text)
    assert re.search(r"attention: 1\d of 18 target words .* Und at The, ", described)
    other = made.alignment(0, rows=made.TARGET[:5])
    said = made.about(samples={made.TASK: {"baseline": (made.alignment(0),), "depth=1": (other,)}})
    (only,) = section_of(said).exhibits
    assert len(only.drawings) == 2  # their words differ
    assert len({each.name for each in only.drawings}) == 2


def test_pieces_of_words_are_marked_and_signs_are_not() -> None:
    assert readable_words((" sin", "-", "off", "ering")) == ("sin", "-", "…off", "…ering")
    assert readable_words(("3", "4")) == ("3", "4")
    (long,) = readable_words(("A" * 40,))
    assert len(long) == 12


def test_what_is_not_as_it_should_be_is_left_out() -> None:
    wordless = replace(made.alignment(0), row_words=("a",))
    hostile = Sample(kind="translation", title="5 %", text="<script>\x1b\u202e", source="<b>")
    said = made.about(samples={made.TASK: {"baseline": (wordless, hostile)}})
    (only,) = section_of(said).exhibits
    texts = [entry.text for row in only.tables[0].rows for entry in row.entries]
    assert not any("\x1b" in text or "\u202e" in text for text in texts)
    assert list(sample_sections(made.about(samples={}))) == []


def test_new_fields_travel_in_a_file_and_old_files_have_none() -> None:
    said = made.about()
    assert about_from_json(about_to_json(said)) == said
    plain = Sample(kind="text", title="prompt", text="a")
    old = about_to_json(made.about(samples={made.TASK: {"baseline": (plain,)}}, part_titles={}))
    assert not re.search("row_words|reference|part_titles", old)


def test_scores_by_length_name_ranges_and_count_sentences() -> None:
    sweep = made.sweep()
    (shown,) = axis_exhibits(sweep.about, series_of(sweep), made.TASK)
    assert shown.title == "Written BLEU by words of the source"
    (table,) = shown.folded
    assert [column.title.removeprefix("words of the source ") for column in table.columns] == [
        "1 to 10",
        "11 to 20",
        "21 to 30",
        "over 30",
    ]
    assert table.columns[1].note == "412 sentences"
    entry = table.rows[0].entries[1]
    assert re.fullmatch(r"sentences \[18\.\d, 22\.\d\]", entry.note)
    assert any("bootstrap" in note for note in table.footnotes)
    (drawing,) = shown.drawings
    assert " BLEU at over 30" in known(ET.fromstring(drawing.svg)[1].text)


def test_scores_that_are_not_the_same_numbers_are_both_shown() -> None:
    sweep = made.sweep(is_same=False)
    titles = [each.title for each in axis_exhibits(sweep.about, series_of(sweep), made.TASK)]
    assert titles == ["BLEU by words of the source", "Written BLEU by words of the source"]


@pytest.mark.whole
def test_a_whole_report_of_it_can_be_written(tmp_path: Path) -> None:
    html = render("translation", [made.sweep()], tmp_path).read_text()
    assert "Text generated by the trained models" in html
    assert 'class="comparison stacked"' in html
    markdown = (tmp_path / "translation" / "report.md").read_text()
    assert "Ten examples of" in markdown
