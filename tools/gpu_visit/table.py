"""Prints the results of a visit as one table, of at most `MOST_LINES` lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.gpu_visit.results import STOPPED, Results, Row
from tools.gpu_visit.runner import Part

MOST_LINES = 60
_WIDTH = 160
_ORDER = ("error", "killed", "failed", STOPPED, "ok", "skipped")


def table(
    parts: Sequence[Part], results: Results, environment: Mapping[str, Any], notes: Sequence[str]
) -> str:
    """Return the table: where it was measured, then for each part a line and its rows."""
    head = [_machine(environment), *notes]
    room = MOST_LINES - len(head) - len(parts)
    lines = {part.name: list(_lines(results.of(part.name))) for part in parts}
    shown = _shared_out(room, {name: len(each) for name, each in lines.items()})
    text = list(head)
    for part in parts:
        text.append(_heading(part, results))
        text += _cut(lines[part.name], shown[part.name])
    return "\n".join(line[:_WIDTH] for line in text) + "\n"


def _machine(environment: Mapping[str, Any]) -> str:
    names = ("device", "driver", "torch", "cpu", "commit")
    return ", ".join(f"{name} {environment.get(name) or 'unknown'}" for name in names)


def _heading(part: Part, results: Results) -> str:
    rows, num_items = results.of(part.name), results.num_planned(part.name)
    counts = Counter(row.status for row in rows)
    said = ", ".join(f"{counts[status]} {status}" for status in _ORDER if counts[status])
    missing = num_items - len(rows)
    if missing > 0:
        said = f"{said or 'none'}; {missing} of {num_items} not reached"
    return f"{part.name} ({part.title}): {said or 'not reached'}"


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is wrong first; rows of one group, or with one text, as one line."""
    joined: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: _ORDER.index(row.status)):
        joined.setdefault((row.status, row.group or row.text), []).append(row)
    for (status, key), together in joined.items():
        mark = "" if status == "ok" else f"{status.upper()} "
        if together[0].group:
            yield f"  {mark}{key}: " + "; ".join(row.text for row in together)
        else:
            names = ", ".join(row.name for row in together)
            number = f"{len(together)} " if len(together) > 3 else ""
            yield f"  {mark}{number}{names[: _WIDTH // 2]}: {key}"


def _shared_out(room: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Give each part as many lines as it has, the largest ones less where room is short."""
    given = dict.fromkeys(wanted, 0)
    while room > 0 and any(given[name] < wanted[name] for name in wanted):
        for name in wanted:
            if room > 0 and given[name] < wanted[name]:
                given[name] += 1
                room -= 1
    return given


def _cut(lines: Sequence[str], most: int) -> list[str]:
    if len(lines) <= most:
        return list(lines)
    if most == 0:
        return []
    return [*lines[: most - 1], f"  ... and {len(lines) - most + 1} more lines in results.jsonl"]
