"""Test that pdflatex compiles every LaTeX table."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bakeoff.reports.analysis.theory_gap import table_one
from bakeoff.reports.document import ReportTable
from bakeoff.reports.export.printers import latex_text, to_latex
from bakeoff.reports.render import render
from bakeoff.reports.results.length_sweep import growths
from bakeoff.reports.tables.comparison import comparison_table
from bakeoff.reports.tables.exponents import exponents_table
from tests.reports import conftest as synthetic
from tests.reports import hostile, mixers_alone
from tests.reports.conftest import series_of

PDFLATEX = shutil.which("pdflatex")
DOCUMENT = r"""
\documentclass{article}
%s\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""
T1 = "\\usepackage[T1]{fontenc}\n"

pytestmark = pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not installed")


def _compiled(folder: Path, body: str, encoding: str = "") -> Path:
    """Return a PDF of the body; LaTeX stops at the first error."""
    (folder / "paper.tex").write_text(DOCUMENT % (encoding, body))
    assert PDFLATEX is not None
    command = [PDFLATEX, "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "paper"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert ended.returncode == 0, ended.stdout[-2_000:]
    assert "Missing character" not in ended.stdout
    return folder / "paper.pdf"


def _paper(tables: list[Path]) -> str:
    return "\n\n".join(rf"\input{{{path.as_posix()}}}" for path in tables)


@pytest.mark.whole
@pytest.mark.parametrize("encoding", ["", T1], ids=["OT1", "T1"])
def test_every_table_of_a_hostile_report(tmp_path: Path, encoding: str) -> None:
    page = render("heads", [hostile.sweep()], tmp_path / "reports")
    tables = sorted((page.parent / "tables").glob("*.tex"))
    assert len(tables) >= 2
    assert _compiled(tmp_path, _paper(tables), encoding).stat().st_size > 10_000


def _written(folder: Path, *tables: ReportTable) -> list[Path]:
    paths = [folder / f"{table.name}.tex" for table in tables]
    for path, table in zip(paths, tables, strict=True):
        path.write_text(to_latex(table))
    return paths


def test_ordinary_tables(tmp_path: Path) -> None:
    swept, mixers = synthetic.sweep(), mixers_alone.whole()
    measured = series_of(swept)
    grown = growths(mixers.about, mixers.results)
    powers = exponents_table(
        mixers.about, table_one(mixers.about, grown, mixers_alone.PLACE.environment_id)
    )
    tables = [comparison_table(swept.about, measured, task) for task in synthetic.TASKS]
    _compiled(tmp_path, _paper(_written(tmp_path, *tables, powers)))


def test_a_table_of_very_many_rows(tmp_path: Path) -> None:
    swept = hostile.many(1_000)
    table = comparison_table(swept.about, series_of(swept), "t")
    assert len(table.rows) == 1_000
    _compiled(tmp_path, _paper(_written(tmp_path, table)))


@pytest.mark.parametrize("encoding", ["", T1], ids=["OT1", "T1"])
def test_every_character_below_u3000(tmp_path: Path, encoding: str) -> None:
    lines = ["".join(map(chr, range(first, first + 64))) for first in range(0x20, 0x3000, 64)]
    body = "\n\n".join(latex_text(line) for line in lines)
    _compiled(tmp_path, body, encoding)


def test_a_note_keeps_its_size_to_itself(tmp_path: Path) -> None:
    swept = synthetic.sweep()
    measured = series_of(swept)
    table = to_latex(comparison_table(swept.about, measured, "shakespeare_characters"))
    assert re.search(r"\\par\{\\footnotesize .*\\par\}", table)
    body = table + "\n\\makeatletter\\typeout{size \\f@size}\\makeatother\n"
    _compiled(tmp_path, body)
    assert "size 10" in (tmp_path / "paper.log").read_text(errors="replace")
