"""Does a hostile string stay text, wherever it is printed?"""

from __future__ import annotations

import csv
import io

import pytest

from reports.text import csv_text, latex_text, markdown_code, markdown_text, slug, visible


@pytest.mark.parametrize("start", list("=+-@\t\r＝＋－＠"))
def test_no_cell_is_a_formula(start: str) -> None:
    assert csv_text(f"{start}HYPERLINK()") == f"'{start}HYPERLINK()"


@pytest.mark.parametrize("start", list("=+-@"))
def test_nor_behind_spaces(start: str) -> None:
    assert csv_text(f"  {start}1") == f"'  {start}1"


def test_harmless_cells_stay_as_they_are() -> None:
    assert csv_text("heads=8") == "heads=8"
    assert csv_text("") == ""


def test_a_cell_with_breaks_stays_one_cell() -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow([csv_text('a\r\nb",=1'), "c"])
    buffer.seek(0)
    assert list(csv.reader(buffer)) == [['a\r\nb",=1', "c"]]


def test_control_and_direction_characters_are_spelled_out() -> None:
    assert visible("a\x1b[31mb\u202ec\x00\ud800") == "a\\x1b[31mb\\u202ec\\x00\\ud800"
    assert visible("Größe, 長さ\n") == "Größe, 長さ\n"


def test_passwords_are_left_out() -> None:
    assert visible("http://me:secret@host/a@b") == "http://***@host/a@b"


def test_markdown_shows_markup_as_text() -> None:
    assert markdown_text("a|b\n<script> *x* `y` [z](u) &") == (
        r"a\|b &lt;script&gt; \*x\* \`y\` \[z\](u) &amp;"
    )


def test_a_code_block_cannot_be_closed_from_within() -> None:
    block = markdown_code("x\n```\n# heading")
    assert block.startswith("````\n")
    assert block.endswith("\n````")


def test_latex_shows_commands_as_text() -> None:
    assert latex_text(r"$\input{a_b}$ 5% #&~^") == (
        r"\$\textbackslash{}input\{a\_b\}\$ 5\% \#\&\textasciitilde{}\textasciicircum{}"
    )


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", "a" * 300, "x\ny", "\u202e", ".x"])
def test_a_slug_stays_in_its_folder(name: str) -> None:
    made = slug(name)
    assert made
    assert "/" not in made
    assert not made.startswith(".")
    assert len(made) < 100
    assert made.isascii()


def test_slugs_keep_good_names_and_tell_bad_ones_apart() -> None:
    assert slug("linear_attention-2.1") == "linear_attention-2.1"
    assert slug("a/b") != slug("a_b") != slug("a:b")
