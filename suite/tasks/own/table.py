"""A table of the user's own: CSV, Parquet or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bakeoff.suite.spec.own_data import Table
from bakeoff.suite.tasks.own.columns import Part, column_parts
from bakeoff.suite.tasks.own.rows import RowsReader


class TableReader(RowsReader):
    """The reader of a table."""

    data: Table

    def parts(self, path: Path, names: Sequence[str]) -> Iterator[Part]:
        """Yield the named columns of all rows."""
        return column_parts(path, names, self.data.separator, self.data.encoding)
