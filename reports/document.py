"""Define the parts of a page as frozen values: sections, exhibits, tables, figures.

Pages are built from these values; `bakeoff.reports.export` prints them as HTML, Markdown, CSV and
LaTeX.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.reports.stats.intervals import Estimate

_NO_ESTIMATE = Estimate(n=0)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A sign beside a number; its meaning is given once, below the table.

    Attributes:
        sign: The sign, as ``†``; distinct within a table.
        name: The sign as a word, for CSV.
        meaning: A whole sentence.
    """

    sign: str
    name: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry: exact numbers, and their text.

    Attributes:
        text: The number, or why there is none.
        estimate: The unrounded estimate in the unit of the measurements; files contain its `sure`
            numbers.
        interval: The interval, as ``[2.40, 2.43]``; empty if there is none.
        note: A remark shown beside the number; the page keeps its line breaks.
        marks: Signs of remarks on several entries of a table, in the order of their signs.
        tone: ``better`` or ``worse`` if the interval shows it; ``none`` if there is no number; else
            empty.
    """

    text: str
    estimate: Estimate = _NO_ESTIMATE
    interval: str = ""
    note: str = ""
    marks: tuple[Mark, ...] = ()
    tone: str = ""

    @property
    def marked(self) -> str:
        """The text with its signs, as ``2.41†``."""
        return self.text + "".join(mark.sign for mark in self.marks)


NO_ENTRY = Entry(text="–", tone="none")  # for a missing number without a remark


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers, by variant.

    Attributes:
        key: The name in CSV, as ``bits_per_character``.
        title: The title on a page.
        entries: Row name -> entry.
        measured_unit: The unit of the estimates; ``1`` for pure numbers, empty if entries are
            words.
        unit: The unit of the displayed numbers, as ``ms``; empty for pure numbers.
        arrow: An arrow in the direction that is better.
        note: Coordinate, machine, kind of interval.
    """

    key: str
    title: str
    entries: Mapping[str, Entry]
    measured_unit: str = ""
    unit: str = ""
    arrow: str = ""
    note: str = ""

    @property
    def shown_unit(self) -> str:
        """The displayed unit, or an empty text if the title names it, as that of BLEU."""
        return "" if self.unit.lower() in self.title.lower().split() else self.unit

    @property
    def is_text(self) -> bool:
        """True if its entries are words."""
        return not self.measured_unit


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table, with one entry per column.

    Attributes:
        name: The subject of the row, usually the label of a variant.
        entries: The entries, in the order of the columns.
        is_baseline: Whether the row is the baseline.
        is_floor: Whether the row is a floor, which needs no architecture, instead of a variant;
            such rows come last.
        note: A remark on the name.
        coverage: The coverage of the row; empty in a table without that column.
        shown: The name for readers; empty if it is `name`.
    """

    name: str
    entries: tuple[Entry, ...]
    is_baseline: bool = False
    is_floor: bool = False
    note: str = ""
    coverage: str = ""
    shown: str = ""

    @property
    def title(self) -> str:
        """The name for readers."""
        return self.shown or self.name


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """A table, ready to be printed.

    Attributes:
        name: The name of its files, distinct within a report.
        title: The title on a page.
        task: The task of the measurements; `bakeoff.suite.schema.MIXER_ALONE` for mixers without a
            task.
        introduction: The explanation before the table; empty if there is none.
        row_title: The kind of its rows.
        columns: The columns.
        rows: The rows.
        footnotes: Whole sentences; `notes` adds the meaning of the marks in use.
        has_coverage: Whether a column shows the coverage of the rows.
        is_stacked: Whether a narrow screen shows the entries of a row below its name.
    """

    name: str
    title: str
    task: str
    introduction: str = ""
    row_title: str = "variant"
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...] = ()
    has_coverage: bool = False
    is_stacked: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes below the table: the meaning of each mark in use, once, and the footnotes."""
        used = (mark for row in self.rows for entry in row.entries for mark in entry.marks)
        legend = (f"{mark.sign} {mark.meaning}" for mark in dict.fromkeys(used))
        return (*legend, *self.footnotes)

    @property
    def texts(self) -> Iterator[str]:
        """An iterator over all texts of the table."""
        yield from (text for c in self.columns for text in (c.title, c.unit, c.arrow, c.note))
        for row in self.rows:
            yield from (row.title, row.note, row.coverage)
            yield from (text for e in row.entries for text in (e.text, e.interval, e.note))
        yield from self.notes

    @property
    def is_of_variants(self) -> bool:
        """True if the rows are variants, so that one may be the baseline."""
        return self.row_title == "variant"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure as a document contains it."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Sentences about one variant."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class View:
    """One of several views of the same thing, as before and after training.

    Attributes:
        title: The text of its button, as ``after training``; distinct within the exhibit.
        sentences: The sentences before its tables.
        tables: The tables.
        drawings: The figures.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    drawings: tuple[Drawing, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """A group of sentences, tables and figures on one subject.

    Attributes:
        title: Its heading; empty if it continues the heading before.
        sentences: The sentences before the tables.
        tables: The tables.
        drawings: The figures.
        views: Views, of which one is shown at a time, initially the first; in print, in Markdown
            and without scripts all are shown.
        remarks_title: The title of the remarks.
        remarks: A list after the tables and figures.
        folded: Tables that are shown on request.
        is_folded: Whether the whole exhibit is shown on request only, under its title.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    views: tuple[View, ...] = ()
    remarks_title: str = ""
    remarks: tuple[Remark, ...] = ()
    folded: tuple[ReportTable, ...] = ()
    is_folded: bool = False

    @property
    def heading(self) -> str:
        """The text that stays visible when the exhibit is folded."""
        return self.title or (self.tables[0].title if self.tables else "More")

    @property
    def num_words(self) -> int:
        """The approximate number of words that are shown unfolded."""
        texts = [self.title, *self.sentences]
        texts += [text for table in self.tables for text in table.texts]
        texts += [text for one in self.all_drawings for text in (one.title, one.caption)]
        for view in self.views:
            texts += [*view.sentences, *(text for table in view.tables for text in table.texts)]
        return sum(len(text.split()) for text in texts)

    @property
    def all_tables(self) -> Iterator[ReportTable]:
        """An iterator over all tables, in their order."""
        yield from self.tables
        for view in self.views:
            yield from view.tables
        yield from self.folded

    @property
    def all_drawings(self) -> Iterator[Drawing]:
        """An iterator over all figures, in their order."""
        yield from self.drawings
        for view in self.views:
            yield from view.drawings


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page.

    Attributes:
        title: Its heading.
        sentences: The sentences before the exhibits.
        exhibits: The exhibits.
        definition: How to read its numbers; empty if no explanation is needed.
        is_folded: Whether it is shown on request only, under its title.
    """

    title: str
    sentences: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    definition: str = ""
    is_folded: bool = False

    @property
    def tables(self) -> tuple[ReportTable, ...]:
        """All tables of the exhibits, in their order."""
        return tuple(table for shown in self.exhibits for table in shown.all_tables)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """All figures of the exhibits, in their order."""
        return tuple(drawing for shown in self.exhibits for drawing in shown.all_drawings)


def column_rows(
    columns: Sequence[Column],
    names: Iterable[str],
    notes: Mapping[str, str] | None = None,
    baseline: str = "",
    shown: Mapping[str, str] | None = None,
) -> tuple[Row, ...]:
    """Return one row per name, with the entries that the columns have for it, and its note.

    Args:
        columns: The columns; each has an entry for each name.
        names: The names, in the order of the rows.
        notes: Name -> a remark on it.
        baseline: The name of the baseline.
        shown: Name -> the name for readers, where that is another.
    """
    return tuple(
        Row(
            name=name,
            entries=tuple(column.entries[name] for column in columns),
            is_baseline=name == baseline,
            note=(notes or {}).get(name, ""),
            shown=(shown or {}).get(name, ""),
        )
        for name in names
    )


_SPELT = {"bleu": "BLEU", "chrf": "chrF", "cider_d": "CIDEr-D", "rouge_l": "ROUGE-L"}


# Units at the end of names, since a unit stands beside the number or in the title of an axis.
_OF_UNITS = {
    "_seconds": "_time",
    "_peak_bytes": "_peak_memory",
    "_memory_bytes": "_memory",
    "state_bytes": "state_size",
}


def readable(name: str) -> str:
    """Return a metric's or task's name without underscores, and without a unit of time or size."""
    for unit, what in _OF_UNITS.items():
        if name.endswith(unit):
            name = name.removesuffix(unit) + what
    found = f"_{name}_"
    for words, spelt in _SPELT.items():
        found = found.replace(f"_{words}_", f"_{spelt}_")
    return found[1:-1].replace("_", " ")


def capitalized(text: str) -> str:
    """Return the text with its first letter capitalized; the rest is unchanged."""
    return text[:1].upper() + text[1:]


def listed(parts: Sequence[str]) -> str:
    """Return the parts as ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
