"""What is a part of a page made of? Sections of exhibits: sentences, tables, drawings, remarks.

Whoever has something to show returns these; only the templates know how they are printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.plots.svg import Drawing
from reports.powers_table import Remark
from reports.tables.comparison import Table


@dataclass(frozen=True, kw_only=True)
class View:
    """One of several ways to look at the same thing, as at equal steps or at equal FLOPs.

    Attributes:
        title: On its button, as ``equal steps``; distinct within the exhibit.
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
        folded: Tables that are shown on request; Markdown shows them all.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    views: tuple[View, ...] = ()
    remarks_title: str = ""
    remarks: tuple[Remark, ...] = ()
    folded: tuple[Table, ...] = ()

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
    """

    title: str
    sentences: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    definition: str = ""

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them, in their order."""
        return tuple(table for shown in self.exhibits for table in shown.all_tables)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """All of them, in their order."""
        return tuple(drawing for shown in self.exhibits for drawing in shown.all_drawings)
