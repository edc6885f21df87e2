r"""Print tables as Markdown, CSV and LaTeX; HTML is printed by a template.

The LaTeX is plain ASCII, which every engine and input encoding can typeset. Text needs no package:
symbols and accents are written as commands, and characters that LaTeX cannot typeset (other
scripts, emoji) are spelled out, as in ``\u9577``.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pandas as pd

from bakeoff.reports.document import Column, Entry, ReportTable, Row
from bakeoff.reports.escape import csv_text, markdown_text, one_line, slug, spelled_out

MAX_ROWS = 300  # in a table for readers; files for programs have every row
_LATEX_NEEDS = "% Needs \\usepackage{booktabs}. Plain ASCII: any engine, any input encoding."


def in_print(table: ReportTable) -> ReportTable:
    """Limit a table to its first rows if it is very long, and add a note on the others.

    The baseline and the floors are always kept.
    """
    if len(table.rows) <= MAX_ROWS:
        return table
    kept = table.rows[:MAX_ROWS]
    baseline = [row for row in table.rows[MAX_ROWS:] if row.is_baseline]
    floors = [row for row in table.rows[MAX_ROWS:] if row.is_floor]
    rows = (*baseline, *kept, *floors)
    note = (
        f"{len(rows):,} of {len(table.rows):,} rows are shown; tables/{slug(table.name)}.csv "
        "contains all rows."
    )
    return replace(table, rows=rows, footnotes=(*table.footnotes, note))


def to_markdown(table: ReportTable) -> str:
    """Return the table in GitHub-flavoured Markdown, with its footnotes."""
    read = in_print(table)
    titles = ["; ".join(filter(None, (_named(c), c.note))) for c in read.columns]
    sides = [":--" if column.is_text else "--:" for column in read.columns]
    heads, alignment = [read.row_title, *titles], [":--", *sides]
    if read.has_coverage:
        heads, alignment = [*heads, "coverage"], [*alignment, ":--"]
    lines = [map(markdown_text, heads), alignment]
    lines += [map(markdown_text, _texts(read, row)) for row in read.rows]
    notes = [f"\n{markdown_text(note)}" for note in read.notes]
    return "\n".join([*(f"| {' | '.join(cells)} |" for cells in lines), *notes])


def to_csv(table: ReportTable) -> str:
    """Return the table as CSV: 12 digits in measured units, text that no spreadsheet evaluates."""
    has_floors = any(row.is_floor for row in table.rows)
    header = ["task", csv_text(table.row_title), *(["is_baseline"] if table.is_of_variants else [])]
    header += ["is_floor"] if has_floors else []
    for column in table.columns:
        header += _csv_heads(column)
    lines = [[*header, *(["coverage"] if table.has_coverage else [])]]
    for row in table.rows:
        cells: list[object] = [table.task, row.name]
        cells += ["yes" if row.is_baseline else "no"] if table.is_of_variants else []
        cells += ["yes" if row.is_floor else "no"] if has_floors else []
        for column, entry in zip(table.columns, row.entries, strict=True):
            cells += [entry.text] if column.is_text else _numbers(entry)
        cells += [row.coverage] if table.has_coverage else []
        lines.append([_csv_cell(cell) for cell in cells])
    return _csv(lines)


def to_latex(table: ReportTable) -> str:
    r"""Return a `tabular` for ``\usepackage{booktabs}`` that a paper includes by ``\input``.

    Column titles are broken into lines, so that columns are only as wide as their numbers.
    """
    read = in_print(table)
    kinds = "".join("l" if column.is_text else "r" for column in read.columns)
    lines = [
        _LATEX_NEEDS,
        rf"\begin{{tabular}}{{l{kinds}{'l' if read.has_coverage else ''}}}",
        r"\toprule",
        _latex_heads(read),
        r"\midrule",
        *_latex_rows(read),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize {latex_text(note)}\par}}" for note in read.notes),
    ]
    return "\n".join(lines) + "\n"


def frame_to_csv(frame: pd.DataFrame) -> str:
    """Return a whole frame as CSV; numbers read back exactly, and missing values are empty."""
    columns = [[_csv_cell(value) for value in frame[name].tolist()] for name in frame.columns]
    return _csv([list(frame.columns), *map(list, zip(*columns, strict=True))])


def _named(column: Column) -> str:
    unit = f"({column.shown_unit})" if column.shown_unit else ""
    return " ".join(filter(None, (column.title, unit, column.arrow)))


def _csv_heads(column: Column) -> list[str]:
    """Return the titles of a column: one for text, five for numbers."""
    if column.is_text:
        return [csv_text(column.key)]
    parts = (f"{column.key}_{part}" for part in ("low", "high", "n", "note"))
    return [csv_text(head) for head in (f"{column.key} ({column.measured_unit})", *parts)]


def _texts(table: ReportTable, row: Row) -> list[str]:
    said = row.note or ("baseline" if row.is_baseline else "")
    name = f"{row.title} ({said})" if said else row.title
    last = [row.coverage] if table.has_coverage else []
    return [name, *map(_entry_text, row.entries), *last]


def _entry_text(entry: Entry) -> str:
    note = f"({entry.note})" if entry.note else ""
    return " ".join(filter(None, (entry.marked, entry.interval, note)))


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_rows(table: ReportTable) -> Iterator[str]:
    """Yield the rows, with a rule before the first floor."""
    for before, row in zip((None, *table.rows), table.rows, strict=False):
        if row.is_floor and before is not None and not before.is_floor:
            yield r"\midrule"
        yield _latex_row(map(latex_text, _texts(table, row)))


def _latex_heads(table: ReportTable) -> str:
    last = ["coverage"] if table.has_coverage else []
    heads = [_latex_head(column) for column in table.columns]
    return _latex_row([latex_text(table.row_title), *heads, *map(latex_text, last)])


def _latex_head(column: Column) -> str:
    """Return the lines of a title (name, unit, notes) as a nested `tabular`."""
    lines = [latex_text(line) for line in (_named(column), *column.note.split("; ")) if line]
    kind = "l" if column.is_text else "r"
    body = r"\\".join(lines)
    return rf"\begin{{tabular}}[b]{{@{{}}{kind}@{{}}}}{body}\end{{tabular}}"


def _numbers(entry: Entry) -> list[object]:
    estimate = entry.estimate.sure
    said = ", ".join(filter(None, (entry.note, *(mark.name for mark in entry.marks))))
    note = one_line(said) or ("" if estimate.point is not None else entry.text)
    return [estimate.point, estimate.low, estimate.high, estimate.n, note]


def _csv_cell(value: object) -> str:
    """Escape a text, or write a number exactly; NaN and None become empty."""
    match value:
        case str():
            return csv_text(value)
        case bool():
            return str(value).lower()
        case float():
            return "" if value != value else repr(value)
        case None:
            return ""
        case _:
            return str(value)


def _csv(lines: Iterable[Iterable[str]]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


_MAX_LENGTH = 400  # characters of a cell; more would not fit on a page
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\texttt{\char34}",
    "`": "{}`{}",
}  # fmt: skip
_TEXT = {
    "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "„": ",,", "…": r"\ldots{}",
    "†": r"\dag{}", "‡": r"\ddag{}", "§": r"\S{}", "¶": r"\P{}", "©": r"\copyright{}",
    "£": r"\pounds{}", "ß": r"\ss{}", "ẞ": "SS", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}",
    "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}",
    "å": r"\aa{}", "Å": r"\AA{}", "¡": "!`", "¿": "?`", "‐": "-", "‑": "-", "½": "1/2", "¼": "1/4",
    "¾": "3/4",
    "«": r"\textless{}\textless{}", "»": r"\textgreater{}\textgreater{}",
}  # fmt: skip
_MATH = {
    "↑": r"\uparrow", "↓": r"\downarrow", "→": r"\rightarrow", "←": r"\leftarrow",
    "↔": r"\leftrightarrow", "⇒": r"\Rightarrow", "−": "-", "×": r"\times", "±": r"\pm",
    "∓": r"\mp", "÷": r"\div", "·": r"\cdot", "°": r"^\circ", "µ": r"\mu", "≤": r"\leq",
    "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "≡": r"\equiv", "∼": r"\sim", "∞": r"\infty",
    "√": r"\surd", "∑": r"\sum", "∏": r"\prod", "∫": r"\int", "∂": r"\partial", "∇": r"\nabla",
    "∈": r"\in", "∅": r"\emptyset", "¬": r"\neg", "∝": r"\propto", "≪": r"\ll", "≫": r"\gg",
    "ϵ": r"\epsilon", "∆": r"\Delta", "ο": "o",
    "Α": r"\mathrm{A}", "Β": r"\mathrm{B}", "Ε": r"\mathrm{E}",
    "Ζ": r"\mathrm{Z}", "Η": r"\mathrm{H}", "Ι": r"\mathrm{I}", "Κ": r"\mathrm{K}",
    "Μ": r"\mathrm{M}", "Ν": r"\mathrm{N}", "Ο": r"\mathrm{O}", "Ρ": r"\mathrm{P}",
    "Τ": r"\mathrm{T}", "Χ": r"\mathrm{X}", "ς": r"\varsigma", "ε": r"\varepsilon",
}  # fmt: skip
_GREEK = frozenset(
    {
        "alpha", "beta", "gamma", "delta", "zeta", "eta", "theta", "iota", "kappa", "lambda",
        "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
        "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
    }
)  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
    "\u0323": "d", "\u0331": "b",
}  # fmt: skip
_LIGATURE = re.compile(r"([-',])(?=\1)")  # LaTeX typesets two of them as one character


def latex_text(text: str) -> str:
    """Escape a text so that LaTeX prints it literally, also at the start of a table row."""
    shown = unicodedata.normalize("NFC", one_line(text))
    if len(shown) > _MAX_LENGTH:
        shown = f"{shown[:_MAX_LENGTH]}…"
    # LaTeX parses brackets or a star after a row's end or a rule of booktabs as their option.
    guard = "{}" if shown[:1] in ("[", "*") else ""
    return guard + "".join(map(_character, _LIGATURE.sub("\\1\0", shown)))


def _character(character: str) -> str:
    if character == "\0":  # separates the parts of a ligature; texts do not contain it
        return "{}"
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character.isascii():
        return character
    if character in _TEXT:
        return _TEXT[character]
    if character in _MATH:
        return f"${_MATH[character]}$"
    spelled = "".join(_SPECIAL.get(c, c) for c in spelled_out(character))
    return _greek(character) or _script(character) or _accented(character) or spelled


def _greek(character: str) -> str:
    """Return the command of a Greek letter in mathematics, or an empty string."""
    words = unicodedata.name(character, "").split()
    if words[:1] != ["GREEK"] or words[-2:-1] != ["LETTER"]:
        return ""
    name = words[-1].lower().replace("lamda", "lambda")
    name = name.capitalize() if words[1] == "CAPITAL" else name
    return f"$\\{name}$" if name in _GREEK else ""


def _script(character: str) -> str:
    """Return a superscript or subscript digit or sign as LaTeX, or an empty string."""
    kind, _, plain = unicodedata.decomposition(character).partition(" ")
    if kind not in ("<super>", "<sub>"):
        return ""
    letter = "".join(chr(int(code, 16)) for code in plain.split()).replace("−", "-")
    if not (letter.isascii() and letter.isalnum()) and letter not in ("-", "+", "="):
        return ""
    return f"${'^' if kind == '<super>' else '_'}{{\\mathrm{{{letter}}}}}$"


def _accented(character: str) -> str:
    """Return a Latin letter with one accent as LaTeX, or an empty string."""
    parts = unicodedata.normalize("NFD", character)
    if len(parts) != 2 or not (parts[0].isascii() and parts[0].isalpha()):
        return ""
    command = _ACCENTS.get(parts[1], "")
    letter = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0]) if command not in "cdb" else parts[0]
    return f"\\{command}{{{letter}}}" if command else ""
