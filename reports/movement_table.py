"""How does what moved stand in tables and in sentences?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from reports.document import Column, Entry, Row, Table
from reports.movement import HAS_MOVED, Kind, Movement, Movements, Outcome, point
from reports.side_facts import Fact
from reports.sides import Held, OneSided, Place
from reports.stats.intervals import Estimate
from reports.stats.number_format import Notation, as_ratio, for_quantities, for_scores
from suite.schema import MIXER_ALONE

MOST_ROWS = 200  # of a table on a page; moved.csv has them all
NOTHING_IN_COMMON = (
    "The two selections have nothing in common: no variant was measured in both with the same "
    "seed. One store keeps one result of a trial in an environment, so two commits seldom meet in "
    "it; run each into an output folder of its own, and compare the two folders."
)
_NOUNS = {Kind.SCORE: "score", Kind.TIME: "time", Kind.COUNT: "count"}
_SAID_FIRST = (Outcome.MOVED, Outcome.SLOWER, Outcome.FASTER, Outcome.FARED, Outcome.PERHAPS)
_IN_WORDS = {
    Outcome.PERHAPS: "perhaps moved", Outcome.ELSEWHERE: "of different devices",
    Outcome.ABSENT: "without a number on either side",
}  # fmt: skip
# Of these the reason repeats the interval, or is long: it is in moved.csv.
_SAID_ELSEWHERE = frozenset({Outcome.PERHAPS, Outcome.AMBIGUOUS, Outcome.NOISY})
_RATIO = Notation(decimals=3)
_CSV_COLUMNS = (
    "kind", "outcome", "has_moved", "direction", "variant", "task", "probe", "metric", "at", "unit",
    "better", "a", "b", "change_is", "change", "change_low", "change_high", "n", "p", "differs",
    "device_a", "device_b", "environment_id_a", "environment_id_b", "reason",
)  # fmt: skip


def headline(found: Movements) -> str:
    """The whole comparison in a sentence: what moved, and how much did not."""
    if not found.has_common:
        return NOTHING_IN_COMMON
    text = "; ".join(part for kind in Kind if (part := _counted(kind, found.counts(kind))))
    verb = "" if found.moved else "Nothing moved for certain: "
    return f"{verb}{text if verb else text[:1].upper() + text[1:]}."


def _counted(kind: Kind, counts: Mapping[Outcome, int]) -> str:
    """As ``3 of 24 scores moved, 21 identical``; empty where there are none."""
    total = sum(counts.values())
    if not total:
        return ""
    order = [*_SAID_FIRST, *(outcome for outcome in Outcome if outcome not in _SAID_FIRST)]
    said = [outcome for outcome in order if counts.get(outcome)]
    noun = _NOUNS[kind] if total == 1 else f"{_NOUNS[kind]}s"
    first, *others = (_IN_WORDS.get(outcome, str(outcome)) for outcome in said)
    rest = "".join(
        f", {counts[outcome]:,} {word}" for outcome, word in zip(said[1:], others, strict=True)
    )
    return f"{counts[said[0]]:,} of {total:,} {noun} {first}{rest}"


def moved_table(found: Movements) -> Table | None:
    """What moved for certain, the largest first; None where nothing did."""
    return _table("moved", "What moved", found.moved)


def perhaps_table(found: Movements) -> Table | None:
    """What moved on its own, and not beside so many others."""
    return _table("perhaps", "What may have moved", found.perhaps)


def elsewhere_table(found: Movements) -> Table | None:
    """What was measured on different devices, with the bare ratio."""
    return _table("elsewhere", "On different devices, so without a verdict", found.elsewhere)


def still_tables(found: Movements) -> tuple[Table, ...]:
    """The rest, kind by kind."""
    made: list[Table | None] = []
    for kind in Kind:
        rest = found.still(kind)
        noun = _NOUNS[kind] if len(rest) == 1 else f"{_NOUNS[kind]}s"
        made.append(_table(f"still-{noun}", f"The other {len(rest):,} {noun}", rest))
    return tuple(table for table in made if table)


def one_sided_table(one_sided: Sequence[OneSided]) -> Table | None:
    """What stands beside nothing, one line for each variant, task and side."""
    groups: dict[tuple[str, str, str], dict[str, int]] = {}
    for only in one_sided:
        side = f"{'A' if only.is_a else 'B'} only" + (f", on {only.device}" if only.device else "")
        key = (only.place.variant, _task(only.place), side)
        metrics = groups.setdefault(key, {})
        metric = only.place.metric.replace("_", " ")
        metrics[metric] = metrics.get(metric, 0) + 1
    if not groups:
        return None
    rows = tuple(
        Row(name=name, entries=tuple(map(_words, (side, task, _listed(metrics)))))
        for (name, task, side), metrics in groups.items()
    )
    titles = ("in", "on", "what")
    table = _of_rows("one-sided", "What only one side has", tuple(map(_text, titles)), rows)
    return table


def facts_table(facts: Sequence[Fact]) -> Table | None:
    """What is recorded and differs; None where nothing does."""
    rows = tuple(Row(name=f.name, entries=(_words(f.a), _words(f.b))) for f in facts)
    columns = (_text("A"), _text("B"))
    name, title = "facts", "What else differs"
    return _of_rows(name, title, columns, rows, row_title="recorded") if rows else None


def movement_frame(found: Movements) -> pd.DataFrame:
    """Every place, what moved first: numbers exact, in their own units."""
    rest = [movement for kind in Kind for movement in found.still(kind)]
    shown = (*found.moved, *found.perhaps, *found.elsewhere)
    rows = [_record(movement) for movement in (*shown, *rest)]
    rows += [_one_sided_record(only) for only in found.one_sided]
    content = {name: [row.get(name, "") for row in rows] for name in _CSV_COLUMNS}
    return pd.DataFrame(content, columns=list(_CSV_COLUMNS), dtype="object")


def _table(name: str, title: str, some: Sequence[Movement]) -> Table | None:
    if not some:
        return None
    columns = (
        _text("of what"), _number("B against A"), _number("A"), _number("B"),
        _text("what else differs"),
    )  # fmt: skip
    return _of_rows(name, title, columns, tuple(map(_row, some)))


def _of_rows(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    row_title: str = "variant",
) -> Table:
    footnotes: tuple[str, ...] = ()
    if len(rows) > MOST_ROWS:
        note = f"Shown are {MOST_ROWS:,} of {len(rows):,} rows; moved.csv has them all."
        footnotes = (note,)
    return Table(
        name=name, title=title, task="", row_title=row_title, columns=tuple(columns),
        rows=tuple(rows[:MOST_ROWS]), footnotes=footnotes,
    )  # fmt: skip


def _text(title: str) -> Column:
    return Column(key=title, title=title, measured_unit="", unit="", arrow="", note="", entries={})


def _number(title: str) -> Column:
    """Of numbers in several units: each is written with its own."""
    return Column(
        key=title, title=title, measured_unit="mixed", unit="", arrow="", note="", entries={}
    )


def _row(movement: Movement) -> Row:
    written = _notation(movement)
    place = movement.place
    where = ", ".join(filter(None, (_task(place), place.at)))
    return Row(
        name=place.variant,
        entries=(
            Entry(estimate=Estimate(n=0), text=place.metric.replace("_", " "), note=where),
            _change(movement, written),
            _side(movement, movement.a, written),
            _side(movement, movement.b, written),
            _words(_differences(movement)),
        ),
    )


def _words(text: str) -> Entry:
    return Entry(estimate=Estimate(n=0), text=text)


def _notation(movement: Movement) -> Notation:
    points = [p for h in (movement.a, movement.b) if (p := point(movement.kind, h)) is not None]
    unit = movement.place.unit
    if movement.kind is not Kind.SCORE:
        return for_quantities(unit, points)
    width = movement.change.half_width
    differences = [] if movement.change.point is None else [abs(movement.change.point)]
    return for_scores(unit, [width] if width else [d for d in differences if d], points)


def _side(movement: Movement, held: Held, written: Notation) -> Entry:
    """One side's number, over how many seeds, and where, if that is the point."""
    value = point(movement.kind, held)
    if value is None:
        fates = dict.fromkeys(reading.fate for reading in held.readings)
        return Entry(estimate=Estimate(n=0), text=", ".join(fates), tone="none")
    count = len(held.values)
    note = "" if movement.kind is Kind.COUNT else f"{count} {_noun(movement.kind, count)}"
    where = held.device if movement.outcome is Outcome.ELSEWHERE else ""
    return Entry(
        estimate=Estimate(n=count, point=value),
        text=_written(movement, value, written),
        interval=note,
        note=where,
    )


def _noun(kind: Kind, count: int) -> str:
    if kind is Kind.TIME:
        return "process" if count == 1 else "processes"
    return "seed" if count == 1 else "seeds"


def _written(movement: Movement, value: float, written: Notation) -> str:
    if movement.kind is Kind.COUNT and value.is_integer() and abs(value) < 1e15:
        unit = "" if movement.place.unit == "1" else f" {movement.place.unit}"
        return f"{value:,.0f}{unit}"  # to the last digit, since that is how they are compared
    return written.with_unit(written.write(value))


def _change(movement: Movement, written: Notation) -> Entry:
    """B against A: the change, its interval, what that means, and why it is no more than that."""
    change, is_score = movement.change, movement.kind is Kind.SCORE
    reason = "" if movement.outcome in _SAID_ELSEWHERE else movement.reason
    if movement.outcome is Outcome.IDENTICAL or change.point is None:
        note = "\n".join(_wrapped(reason))
        return Entry(estimate=change, text=movement.finding, note=note)
    write = written.write_signed if is_score else _ratio
    text = write(change.point)
    interval = ""
    if change.low is not None and change.high is not None:
        interval = f"[{write(change.low)}, {write(change.high)}]"
    return Entry(
        estimate=change,
        text=written.with_unit(text) if is_score else f"{text} ×",
        interval=interval,
        note="\n".join((movement.finding, *_wrapped(reason))),
        tone=movement.tone,
    )


def _ratio(value: float) -> str:
    """With three decimals where it is near 1, where two would hide what moved."""
    return _RATIO.write(value) if 0.1 <= value < 10 else as_ratio(value)


def _wrapped(reason: str, width: int = 30) -> Iterator[str]:
    """The page keeps line breaks in a note, and does not break its lines."""
    line = ""
    for word in reason.split():
        if line and len(line) + len(word) >= width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    if line:
        yield line


def _differences(movement: Movement) -> str:
    if not movement.differs:
        return "nothing"
    return ", ".join(movement.differs)


def _task(place: Place) -> str:
    return "the mixer alone" if place.task == MIXER_ALONE else place.task.replace("_", " ")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(name if n == 1 else f"{name} ({n})" for name, n in counts.items())


def _record(movement: Movement) -> dict[str, object]:
    place, change = movement.place, movement.change
    return {
        "kind": str(movement.kind), "outcome": str(movement.outcome),
        "has_moved": "yes" if movement.outcome in HAS_MOVED else "no",
        "direction": movement.tone, **_place_record(place),
        "a": point(movement.kind, movement.a), "b": point(movement.kind, movement.b),
        "change_is": "difference" if movement.kind is Kind.SCORE else "ratio",
        "change": change.point, "change_low": change.low, "change_high": change.high,
        "n": change.n, "p": movement.p, "differs": ", ".join(movement.differs),
        "device_a": movement.a.device, "device_b": movement.b.device,
        "environment_id_a": movement.a.environment_id,
        "environment_id_b": movement.b.environment_id, "reason": movement.reason,
    }  # fmt: skip


def _one_sided_record(only: OneSided) -> dict[str, object]:
    side = "a" if only.is_a else "b"
    return {
        "outcome": f"only in {side.upper()}", "has_moved": "no", **_place_record(only.place),
        f"device_{side}": only.device,
    }  # fmt: skip


def _place_record(place: Place) -> dict[str, object]:
    names = ("variant", "task", "probe", "metric", "at", "unit", "better")
    return {name: getattr(place, name) for name in names}
