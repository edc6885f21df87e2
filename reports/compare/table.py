"""Write the changes between two selections as a sentence, as tables and as rows of a CSV file."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from reports.compare.changes import CERTAIN, Change, ChangeOutcome, NumberKind, summary
from reports.compare.pairs import MetricKey, MetricRows, UnpairedMetric
from reports.document import Column, Entry, Row, Table, readable
from reports.stats.intervals import Estimate, Notation, as_ratio, for_quantities, for_scores
from suite.schema import MIXER_ALONE

MOST_ROWS = 200  # of a table on a page; moved.csv has them all
NOTHING_IN_COMMON = (
    "The two selections have nothing in common: no variant was measured in both with the same "
    "seed. One store keeps one result of a trial in an environment, so two commits seldom meet in "
    "it; run each into an output folder of its own, and compare the two folders."
)
_IN_WORDS = {
    ChangeOutcome.OTHER_DEVICE: "of different devices",
    ChangeOutcome.NO_NUMBER: "without a number on either side",
}
# Of these the reason repeats the interval, or is long: it is in moved.csv.
_REASON_IN_CSV = (ChangeOutcome.POSSIBLE, ChangeOutcome.AMBIGUOUS, ChangeOutcome.NOISY)
_OTHER_DEVICES = "On different devices, so without a verdict"
_UNMOVED_SCORES = "Scores, none of which moved"
_SHOWN = {*CERTAIN, ChangeOutcome.POSSIBLE, ChangeOutcome.OTHER_DEVICE}
_Titled = dict[str, list[Change]]
_RATIO = Notation(decimals=3)
_CSV_COLUMNS = (
    "kind",
    "outcome",
    "has_moved",
    "direction",
    "variant",
    "task",
    "probe",
    "metric",
    "at",
    "unit",
    "better",
    "a",
    "b",
    "change_is",
    "change",
    "change_low",
    "change_high",
    "n",
    "p",
    "differs",
    "device_a",
    "device_b",
    "environment_id_a",
    "environment_id_b",
    "reason",
)


def headline(changes: Sequence[Change]) -> str:
    """The whole comparison in a sentence: what changed, and how much did not."""
    if not any(c.estimate.n or c.outcome is ChangeOutcome.ENDED_DIFFERENTLY for c in changes):
        return NOTHING_IN_COMMON
    text = "; ".join(filter(None, (_count_outcomes(kind, changes) for kind in NumberKind)))
    if not any(change.is_certain for change in changes):
        return f"Nothing moved for certain: {text}."
    return f"{text}."


def _count_outcomes(kind: NumberKind, changes: Sequence[Change]) -> str:
    """As ``3 of 24 scores moved, 21 identical``; empty where there are none."""
    counts = Counter(change.outcome for change in changes if change.kind is kind)
    if not counts:
        return ""
    (number, first), *others = (
        (counts[o], _IN_WORDS.get(o, str(o))) for o in ChangeOutcome if counts[o]
    )
    total = counts.total()
    rest = "".join(f", {count:,} {word}" for count, word in others)
    return f"{number:,} of {total:,} {plural(kind, total)} {first}{rest}"


def by_title(changes: Sequence[Change]) -> tuple[_Titled, _Titled]:
    """The changes by the title of their table: those to show, and the rest.

    Scores stand first, then the largest; scores of which none moved are shown all the same.
    """
    is_score = {id(c): c.kind is NumberKind.SCORE for c in changes}
    by_size = sorted(changes, key=lambda c: (not is_score[id(c)], -c.size))  # equals keep order
    shown = {
        "What moved": [c for c in by_size if c.is_certain],
        "What may have moved": [c for c in by_size if c.outcome is ChangeOutcome.POSSIBLE],
        _OTHER_DEVICES: [c for c in changes if c.outcome is ChangeOutcome.OTHER_DEVICE],
    }
    rest: _Titled = {}
    for kind in NumberKind:
        others = [c for c in changes if c.kind is kind and c.outcome not in _SHOWN]
        if kind is NumberKind.SCORE and len(others) == sum(is_score.values()):
            shown = {_UNMOVED_SCORES: others, **shown}
        else:
            rest[f"The other {len(others):,} {plural(kind, len(others))}"] = others
    return shown, rest


def change_table(title: str, changes: Iterable[Change]) -> Table:
    """One row a change: what it is of, both numbers, and what else differs."""
    columns = (
        _column("of what"),
        _column("B against A", "mixed"),
        _column("A", "mixed"),
        _column("B", "mixed"),
        _column("what else differs"),
    )
    return _table(title, columns, tuple(map(_row, changes)))


def unpaired_table(unpaired: Iterable[UnpairedMetric]) -> Table:
    """What only one selection has, one line for each variant, task and device."""
    groups: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for only in unpaired:
        where = f"{only.selection} only" + (f", on {only.device}" if only.device else "")
        groups[only.key.variant, where, _task(only.key)][readable(only.key.metric)] += 1
    rows = (
        Row(name=variant, entries=(_text(where), _text(task), _text(_listed(metrics))))
        for (variant, where, task), metrics in groups.items()
    )
    return _table("What only one side has", tuple(map(_column, ("in", "on", "what"))), rows)


def differences_table(differences: Mapping[str, tuple[str, str]]) -> Table:
    """What is recorded and differs, with both values."""
    rows = (Row(name=name, entries=(_text(a), _text(b))) for name, (a, b) in differences.items())
    return _table("What else differs", (_column("A"), _column("B")), rows, row_title="recorded")


def csv_frame(changes: Sequence[Change], unpaired: Iterable[UnpairedMetric]) -> pd.DataFrame:
    """Every metric, first what moved or may have: numbers exact, in their own units."""
    shown, rest = by_title(changes)
    in_order = [change for some in (shown | rest).values() for change in some]
    rows = [_record(change) for change in sorted(in_order, key=lambda c: c.outcome not in _SHOWN)]
    rows += [
        {
            "outcome": f"only in {only.selection}",
            "has_moved": "no",
            **only.key._asdict(),
            f"device_{only.selection.lower()}": only.device,
        }
        for only in unpaired
    ]
    return pd.DataFrame(rows, columns=list(_CSV_COLUMNS), dtype="object")


def _record(change: Change) -> dict[str, object]:
    a, b, estimate = change.pair.a, change.pair.b, change.estimate.sure
    return {
        "kind": str(change.kind),
        "outcome": str(change.outcome),
        "has_moved": "yes" if change.is_certain else "no",
        "direction": change.tone,
        **change.pair.key._asdict(),
        "a": summary(change.kind, a),
        "b": summary(change.kind, b),
        "change_is": "difference" if change.kind is NumberKind.SCORE else "ratio",
        "change": estimate.point,
        "change_low": estimate.low,
        "change_high": estimate.high,
        "n": estimate.n,
        "p": change.p,
        "differs": ", ".join(change.pair.differs),
        "device_a": a.device,
        "device_b": b.device,
        "environment_id_a": a.environment_id,
        "environment_id_b": b.environment_id,
        "reason": change.reason,
    }


def _table(
    title: str, columns: tuple[Column, ...], rows: Iterable[Row], row_title: str = "variant"
) -> Table:
    """With the first `MOST_ROWS` of the rows, and a footnote on the others."""
    all_rows = tuple(rows)
    note = f"Shown are {MOST_ROWS:,} of {len(all_rows):,} rows; moved.csv has them all."
    return Table(
        name=title,
        title=title,
        task="",
        row_title=row_title,
        columns=columns,
        rows=all_rows[:MOST_ROWS],
        footnotes=(note,) if len(all_rows) > MOST_ROWS else (),
    )


def _column(title: str, measured_unit: str = "") -> Column:
    """Of text, or of numbers in several units, each of which is written with its own."""
    return Column(key=title, title=title, measured_unit=measured_unit, entries={})


def _text(text: str, note: str = "", tone: str = "") -> Entry:
    return Entry(text=text, note=note, tone=tone)


def _row(change: Change) -> Row:
    key, pair, notation = change.pair.key, change.pair, _notation(change)
    where = ", ".join(filter(None, (_task(key), key.at)))
    return Row(
        name=key.variant,
        entries=(
            _text(readable(key.metric), note=where),
            _change(change, notation),
            _number(change, pair.a, notation),
            _number(change, pair.b, notation),
            _text(", ".join(pair.differs) or "nothing"),
        ),
    )


def _notation(change: Change) -> Notation:
    both = (summary(change.kind, rows) for rows in (change.pair.a, change.pair.b))
    numbers = [number for number in both if number is not None]
    unit, estimate = change.pair.key.unit, change.estimate
    if change.kind is not NumberKind.SCORE:
        return for_quantities(unit, numbers)
    width = estimate.half_width or abs(estimate.point or 0.0)
    return for_scores(unit, [width] if width else [], numbers)


def _number(change: Change, rows: MetricRows, notation: Notation) -> Entry:
    """The number of one selection, over how many seeds, and the device if that is the point."""
    number, n = summary(change.kind, rows), len(rows.values)
    if number is None:
        return _text(rows.fates, tone="none")
    text, interval = notation.with_unit(notation.write(number)), ""
    if change.kind is not NumberKind.COUNT:
        names = ("process", "processes") if change.kind is NumberKind.TIME else ("seed", "seeds")
        interval = f"{n} {names[n != 1]}"
    elif number.is_integer() and abs(number) < 1e15:
        unit = "" if change.pair.key.unit == "1" else f" {change.pair.key.unit}"
        text = f"{number:,.0f}{unit}"  # to the last digit, since that is how they are compared
    device = rows.device if change.outcome is ChangeOutcome.OTHER_DEVICE else ""
    estimate = Estimate(n=n, point=number)
    return Entry(estimate=estimate, text=text, interval=interval, note=device)


def _change(change: Change, notation: Notation) -> Entry:
    """B against A: the change, its interval, what that means, and why it is no more than that."""
    estimate, is_score = change.estimate, change.kind is NumberKind.SCORE
    reason = "" if change.outcome in _REASON_IN_CSV else change.reason
    lines = textwrap.wrap(  # the page keeps line breaks in a note, and does not break its lines
        " ".join(reason.split()), 30, break_long_words=False, break_on_hyphens=False
    )
    if change.outcome is ChangeOutcome.IDENTICAL or estimate.point is None:
        return Entry(estimate=estimate, text=change.finding, note="\n".join(lines))
    write = notation.write_signed if is_score else _ratio
    point, low, high = estimate.point, estimate.low, estimate.high
    return Entry(
        estimate=estimate,
        text=notation.with_unit(write(point)) if is_score else f"{write(point)} ×",
        interval="" if low is None or high is None else f"[{write(low)}, {write(high)}]",
        note="\n".join((change.finding, *lines)),
        tone=change.tone,
    )


def _ratio(ratio: float) -> str:
    """With three decimals where it is near 1, where two would hide the change."""
    return _RATIO.write(ratio) if 0.1 <= ratio < 10 else as_ratio(ratio)


def _task(key: MetricKey) -> str:
    return "the mixer alone" if key.task == MIXER_ALONE else readable(key.task)


def plural(kind: NumberKind, number: int) -> str:
    """As ``time`` for 1, and ``times`` for other numbers."""
    return str(kind) if number == 1 else f"{kind}s"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(name if n == 1 else f"{name} ({n})" for name, n in counts.items())
