"""Holds the results of a visit: rows in `results.jsonl`, one for each item, written at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS, TABLE, ENVIRONMENT, LOG = "results.jsonl", "table.txt", "environment.json", "log.txt"
JOURNAL = "journal.db"
MOST_BYTES = 16 * 2**20  # the largest file, so that all can be copied
_MOST_OF_A_TEXT = 600  # characters
# A row with one of these is not the last word: `--resume` measures the item again.
STOPPED = "stopped"
# Names of rows that are about a part: how many items it has, and that none is left.
PLANNED, ALL = "(planned)", "(all)"


@dataclass(frozen=True, kw_only=True)
class Visit:
    """The arguments of a part.

    Attributes:
        device: Its name in torch; on ``cpu`` all sizes are tiny, and nothing is recorded.
        out: The folder of the results.
        end: The moment at which the part must have ended, in seconds since 1970.
        ablations: The shipped ablations of the last part.
    """

    device: str
    out: Path
    end: float = 0.0
    ablations: tuple[str, ...] = ()

    @property
    def seconds_left(self) -> float:
        """Return the time that the part still has."""
        return self.end - time.time()

    @property
    def is_dry(self) -> bool:
        """Return True if there is no GPU, and what counts is only that everything runs."""
        return self.device == "cpu"

    @property
    def work(self) -> Path:
        """The folder beside the results for what is not carried home, such as checkpoints."""
        return self.out.with_name(f"{self.out.name}.work")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one item.

    Attributes:
        text: The result in a few words.
        status: ``ok``; ``failed`` for a wrong result or a missed goal; ``skipped`` where it cannot
            be measured here; ``error``, ``killed`` and `STOPPED` if there is no result.
        group: Rows of one group are one line of the table.
        values: The numbers, by name with unit.
        needs_fresh: The process may be damaged; later items need a new one.
    """

    text: str
    status: str = "ok"
    group: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    needs_fresh: bool = False


Measure = Callable[[], Finding]
Item = tuple[str, Measure]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of `results.jsonl`: the finding on one item of a part."""

    part: str
    name: str
    status: str
    text: str
    group: str = ""
    seconds: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", " ".join(self.text.split())[:_MOST_OF_A_TEXT])


class Results:
    """The rows of a visit, in a file that is complete after each of them."""

    def __init__(self, out: Path) -> None:
        self._file = out / RESULTS
        self.rows = list(_rows_of(self._file)) if self._file.exists() else []

    def add(self, row: Row) -> None:
        """Append it, and wait until it is on the disk."""
        self.rows.append(row)
        with self._file.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def of(self, part: str) -> list[Row]:
        """Return the newest row of each item of the part."""
        return [row for name, row in self._newest(part).items() if name not in (PLANNED, ALL)]

    def done(self, part: str) -> list[str]:
        """Return the names of the items that need not be measured again."""
        return [row.name for row in self.of(part) if row.status != STOPPED]

    def is_complete(self, part: str) -> bool:
        """Return True if the part has no item left."""
        return ALL in self._newest(part)

    def num_planned(self, part: str) -> int:
        """Return the number of its items, or 0 if it has not started."""
        row = self._newest(part).get(PLANNED)
        return row.values["num_items"] if row else 0

    def _newest(self, part: str) -> dict[str, Row]:
        return {row.name: row for row in self.rows if row.part == part}


def _rows_of(file: Path) -> Iterator[Row]:
    """Read all rows but one that an interruption has cut off."""
    for line in file.read_text().splitlines():
        try:
            yield Row(**json.loads(line))
        except (ValueError, TypeError):
            continue
