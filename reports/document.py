"""The parts of a page as frozen values: sections, exhibits, tables, figures.

Pages are built from these values; `reports.export` prints them as HTML, Markdown, CSV and LaTeX.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reports.stats.intervals import Estimate

_NO_ESTIMATE = Estimate(n=0)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A sign beside a number; the table says once, below its rows, what it means.

    Attributes:
        sign: As ``†``, distinct within a table.
        name: The same as a word, for CSV.
        meaning: A whole sentence.
    """

    sign: str
    name: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry: exact numbers, and how they are written.

    Attributes:
        text: The number, or why there is none.
        estimate: In the unit of the measurements, unrounded; files hold its `sure` numbers.
        interval: As ``[2.40, 2.43]``; empty where there is none.
        note: What must be said beside it; the page keeps its line breaks.
        marks: Of what holds for several entries of a table, in the order of their signs.
        tone: ``better`` or ``worse`` where an interval says so; ``none`` where there is no
            number; else empty.
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


NO_ENTRY = Entry(text="–", tone="none")  # where there is no number and nothing to say of it


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers, by variant.

    Attributes:
        key: As in CSV, as ``bits_per_character``.
        title: As on a page.
        measured_unit: Of the estimates; ``1`` for pure numbers, empty where entries are words.
        unit: Of the displayed numbers, as ``ms``; empty for pure numbers.
        arrow: Which direction is good.
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
    def is_text(self) -> bool:
        """Whether its entries are words."""
        return not self.measured_unit


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table; one entry a column.

    Attributes:
        name: What it is about, mostly a variant.
        is_floor: Whether it is no variant, but what needs no architecture; such rows come last.
        note: What must be said of the name, as what a baseline is.
        coverage: Empty in a table without that column.
    """

    name: str
    entries: tuple[Entry, ...]
    is_baseline: bool = False
    is_floor: bool = False
    note: str = ""
    coverage: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, ready to be printed.

    Attributes:
        name: Of its files, distinct within a report.
        title: As it is announced.
        task: What it was measured on; `suite.schema.MIXER_ALONE` where that is no task.
        introduction: What a reader must know before reading it; empty where nothing.
        row_title: What its rows are.
        footnotes: Whole sentences; what the marks of its entries mean is added in `notes`.
        is_stacked: Whether, on a narrow screen, the entries of a row stand below its name.
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
        """What stands below: the meaning of each mark in use, once, and the footnotes."""
        used = (mark for row in self.rows for entry in row.entries for mark in entry.marks)
        legend = (f"{mark.sign} {mark.meaning}" for mark in dict.fromkeys(used))
        return (*legend, *self.footnotes)

    @property
    def texts(self) -> Iterator[str]:
        """All that is written in it."""
        yield from (text for c in self.columns for text in (c.title, c.unit, c.arrow, c.note))
        for row in self.rows:
            yield from (row.name, row.note, row.coverage)
            yield from (text for e in row.entries for text in (e.text, e.interval, e.note))
        yield from self.notes

    @property
    def is_of_variants(self) -> bool:
        """Whether a row is a variant, so that one may be the baseline."""
        return self.row_title == "variant"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure as a document holds it."""

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
    """One of several ways to look at the same thing, as before and after training.

    Attributes:
        title: On its button, as ``after training``; distinct within the exhibit.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One thing that is shown.

    Attributes:
        title: Its heading; empty under the heading before.
        sentences: What stands before the tables.
        views: Of which a reader sees one at a time, the first one first; on paper, in Markdown
            and without scripts all of them.
        remarks: What stands after them, a list under `remarks_title`.
        folded: Tables that are shown on request.
        is_folded: Whether all of it is shown on request only, under its title.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    views: tuple[View, ...] = ()
    remarks_title: str = ""
    remarks: tuple[Remark, ...] = ()
    folded: tuple[Table, ...] = ()
    is_folded: bool = False

    @property
    def heading(self) -> str:
        """What it is folded under."""
        return self.title or (self.tables[0].title if self.tables else "More")

    @property
    def num_words(self) -> int:
        """About as many as a reader sees unfolded."""
        texts = [self.title, *self.sentences]
        texts += [text for table in self.tables for text in table.texts]
        texts += [text for one in self.all_drawings for text in (one.title, one.caption)]
        for view in self.views:
            texts += [*view.sentences, *(text for table in view.tables for text in table.texts)]
        return sum(len(text.split()) for text in texts)

    @property
    def all_tables(self) -> Iterator[Table]:
        """In their order."""
        yield from self.tables
        for view in self.views:
            yield from view.tables
        yield from self.folded

    @property
    def all_drawings(self) -> Iterator[Drawing]:
        """In their order."""
        yield from self.drawings
        for view in self.views:
            yield from view.drawings


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page.

    Attributes:
        definition: How to read its numbers; empty where nothing is to be added.
        is_folded: Whether it is shown on request only, under its title.
    """

    title: str
    sentences: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    definition: str = ""
    is_folded: bool = False

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them, in their order."""
        return tuple(table for shown in self.exhibits for table in shown.all_tables)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """All of them, in their order."""
        return tuple(drawing for shown in self.exhibits for drawing in shown.all_drawings)


def column_rows(
    columns: Sequence[Column],
    names: Iterable[str],
    notes: Mapping[str, str] | None = None,
    baseline: str = "",
) -> tuple[Row, ...]:
    """One row for each name, of the entries that the columns have for it, with its note."""
    return tuple(
        Row(
            name=name,
            entries=tuple(column.entries[name] for column in columns),
            is_baseline=name == baseline,
            note=(notes or {}).get(name, ""),
        )
        for name in names
    )


_SPELT = {"bleu": "BLEU", "chrf": "chrF", "cider_d": "CIDEr-D", "rouge_l": "ROUGE-L"}


def readable(name: str) -> str:
    """A metric's or task's name without underscores."""
    found = f"_{name}_"
    for words, spelt in _SPELT.items():
        found = found.replace(f"_{words}_", f"_{spelt}_")
    return found[1:-1].replace("_", " ")


def capitalized(text: str) -> str:
    """The text with a capital first; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def listed(parts: Sequence[str]) -> str:
    """As ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
