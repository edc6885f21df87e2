"""Test that a hostile string stays text wherever it is printed."""

from __future__ import annotations

import csv
import io

import pytest

from bakeoff.reports.escape import (
    csv_text,
    markdown_code,
    markdown_inline_code,
    markdown_text,
    slug,
    visible,
)
from bakeoff.reports.export.printers import latex_text


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


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("http://me:secret@host/a@b", "http://***@host/a@b"),
        ("postgresql+psycopg2://me:sec@ret@host:5432/x", "postgresql+psycopg2://***@host:5432/x"),
        ("see s3://a:b@c, ftp://d:e@f", "see s3://***@c, ftp://***@f"),
        ("http://host/x?token=secret&y=1", "http://host/x?token=***&y=1"),
        ("http://host/x?y=1&PASSWORD=secret#z", "http://host/x?y=1&PASSWORD=***#z"),
        ("a@b and password=x", "a@b and password=x"),
    ],
)
def test_passwords_are_left_out(said: str, shown: str) -> None:
    assert visible(said) == shown


def test_markdown_shows_markup_as_text() -> None:
    assert markdown_text("a|b\n<script> *x* `y` [z](u) &") == (
        r"a\|b &lt;script&gt; \*x\* \`y\` \[z\](u) &amp;"
    )


def test_a_code_block_cannot_be_closed_from_within() -> None:
    block = markdown_code("x\n```\n# heading")
    assert block.startswith("````\n")
    assert block.endswith("\n````")


@pytest.mark.parametrize(
    ("text", "code"), [("a b", "`a b`"), ("a`b", "`` a`b ``"), ("```\n# x", "```` ``` # x ````")]
)
def test_code_in_a_line_cannot_be_closed_from_within(text: str, code: str) -> None:
    assert markdown_inline_code(text) == code


def test_latex_shows_commands_as_text() -> None:
    assert latex_text(r"$\input{a_b}$ 5% #&~^") == (
        r"\$\textbackslash{}input\{a\_b\}\$ 5\% \#\&\textasciitilde{}\textasciicircum{}"
    )


@pytest.mark.parametrize(
    ("text", "typeset"),
    [
        ("5 µs ± 0.1 × 10⁻³", r"5 $\mu$s $\pm$ 0.1 $\times$ 10$^{\mathrm{-}}$$^{\mathrm{3}}$"),
        ("n² → ∞", r"n$^{\mathrm{2}}$ $\rightarrow$ $\infty$"),
        ("α, μ, Δ, λ, Α", r"$\alpha$, $\mu$, $\Delta$, $\lambda$, $\mathrm{A}$"),
        ("Größe, naïve, Čech, Ångström", r"Gr\"{o}\ss{}e, na\"{\i}ve, \v{C}ech, \AA{}ngstr\"{o}m"),
        ("e\u0301", r"\'{e}"),
        ("長", r"\textbackslash{}u9577"),
        ("a--b ''c'' ``d``", "a-{}-b '{}'c'{}' {}`{}{}`{}d{}`{}{}`{}"),
        ("“q” – 'x'", "``q'' -- 'x'"),
        ("[1, 2]", "{}[1, 2]"),
        ("*x", "{}*x"),
    ],
)
def test_latex_typesets_what_it_can_and_spells_out_the_rest(text: str, typeset: str) -> None:
    assert latex_text(text) == typeset


@pytest.mark.slow
def test_all_of_unicode_becomes_ascii() -> None:
    for first in range(0x20, 0x30000, 200):
        assert latex_text("".join(map(chr, range(first, first + 200)))).isascii()


def test_a_cell_of_a_paper_has_an_end() -> None:
    assert len(latex_text("n" * 100_000)) < 500


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
