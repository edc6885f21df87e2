"""Tabulate Table 1 of "Attention Is All You Need" with every column measured.

One row a variant. Exponents are slopes on logarithmic axes over the last places; theory's stand
beside them, and remarks under the table say where the two disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reports.analysis.exponent import Exponent
from reports.analysis.theory_gap import FLOPS, MEMORY, PATH, STEPS, TIME, TableOneRow, theory_gaps
from reports.document import NO_ENTRY, Column, Entry, Remark, Table
from reports.results.length_sweep import AXIS_SYMBOLS, find
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate, as_interval
from reports.tables.comparison import table_of_variants
from suite.schema import MIXER_ALONE, About

_TITLES = {TIME: "time", FLOPS: "FLOPs", MEMORY: "memory"}
_NEW_LINE = "\n"
_LONG = 9  # letters of a formula that gets a line of its own
_NO_GROWTH = 0.005  # an exponent that two decimals show as 0
_PRE_ASYMPTOTIC = (
    "Pre-asymptotic: the slope still changes where the measurements end, or its leading term is "
    "not yet 90 % of the whole; such a power describes this range, and is no law."
)


def exponents_table(about: About, rows: Sequence[TableOneRow]) -> Table | None:
    """Table 1, measured; None where nothing was.

    Args:
        about: Says which variant is the baseline.
        rows: Of one environment.
    """
    columns = [*_exponents(rows), *_steps(rows), *_paths(rows)]
    kept = [c for c in columns if any(e.estimate.point is not None for e in c.entries.values())]
    if not kept:
        return None
    made = table_of_variants(
        about, kept, name=f"{MIXER_ALONE}-table-1", title="Table 1, measured", task=MIXER_ALONE
    )
    theory = {row.variant: formula(row.theory.time) for row in rows}
    named = tuple(
        replace(row, note=f"{row.note}; theory {text}".removeprefix("; ")) if text else row
        for row in made.rows
        for text in (theory[row.name],)
    )
    is_bent = any("pre-asymptotic" in entry.note for row in made.rows for entry in row.entries)
    return replace(made, rows=named, footnotes=(_PRE_ASYMPTOTIC,) if is_bent else ())


def theory_remarks(about: About, rows: Sequence[TableOneRow]) -> tuple[Remark, ...]:
    """Where measurement and theory disagree: one remark a variant that does."""
    texts = ((row.variant, " ".join(theory_gaps(row))) for row in rows)
    return tuple(Remark(name=shown_name(about, name), text=text) for name, text in texts if text)


def formula(text: str) -> str:
    """A formula of theory as it is read: ``n² d`` for ``n**2 * d``."""
    return text.replace("**2", "²").replace(" * ", " ")


def _exponents(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    for metric, title in _TITLES.items():
        for axis, symbol in AXIS_SYMBOLS.items():
            entries = {row.variant: _exponent(row.exponents[metric, axis]) for row in rows}
            yield _column(
                f"{title.lower()}_power_in_{symbol}", f"{title}, power of {symbol}", entries
            )


def _exponent(found: Exponent) -> Entry:
    estimate = found.estimate
    if estimate.point is None:
        return Entry(estimate=estimate, text=found.why_missing, tone="none")
    notes = [
        _beside_theory(found),
        "noisy" if found.is_noisy else "",
        "pre-asymptotic" if found.is_pre_asymptotic else "",
    ]
    return Entry(
        estimate=estimate,
        text=_two(estimate.point),
        interval=as_interval(estimate, _two),
        note=_lines(*notes),
    )


def _beside_theory(found: Exponent) -> str:
    if found.theory is None:
        return ""
    words = "not theory’s" if found.disagrees else "theory"
    unjudged = ", not judged" if found.is_noisy else ""
    return f"{words} {_two(found.theory)}{unjudged}"


def _steps(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    counted = find(rows[0].growths, STEPS) if rows else None
    if counted is None:
        return
    last = counted.places[-1]
    entries = {}
    for row in rows:
        power = row.exponents[STEPS, "length"].estimate.point
        growth = "" if power is None else f"as n^{_two(power)}"
        if power is not None and abs(power) < _NO_GROWTH:
            growth = "constant"
        theory = formula(row.theory.sequential_operations)
        number = counted.point(row.variant, last)
        entries[row.variant] = _count(number, growth, theory and f"theory {theory}")
    yield _counts("sequential operations", last, entries)


def _paths(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    """Each path at the largest length where it was measured."""
    places = [place for row in rows for place in row.numbers(PATH)]
    if places:
        entries = {row.variant: _path(row, max(places)) for row in rows}
        yield _counts("maximum path length", max(places), entries)


def _path(row: TableOneRow, last: int) -> Entry:
    numbers, theory = row.numbers(PATH), formula(row.theory.maximum_path_length)
    place = max(numbers, default=last)
    value = row.numbers(f"theory_{PATH}").get(place)
    notes = [
        "" if place == last else f"at {place:,} tokens",
        theory and f"theory{_NEW_LINE if len(theory) > _LONG else ' '}{theory}",
    ]
    if theory and not theory.isdigit() and value is not None:
        notes.append(f"which is {value:,.4g}")
    return _count(numbers.get(place), *notes)


def _count(number: float | None, *notes: str) -> Entry:
    if number is None:
        return NO_ENTRY
    return Entry(estimate=Estimate(n=1, point=number), text=f"{number:,.0f}", note=_lines(*notes))


def _counts(name: str, place: int, entries: Mapping[str, Entry]) -> Column:
    key = f"{name.replace(' ', '_')}_length={place}"
    return _column(key, name, entries, f"at {place:,} tokens")


def _column(key: str, title: str, entries: Mapping[str, Entry], note: str = "") -> Column:
    return Column(key=key, title=title, measured_unit="1", note=note, entries=entries)


def _lines(*parts: str) -> str:
    """What there is, each on a line of its own."""
    return ",\n".join(filter(None, parts))


def _two(power: float) -> str:
    """Two decimals; a power of nothing is 0.00, whichever side of zero rounding fell."""
    return f"{power:.2f}".replace("-0.00", "0.00").replace("-", "−")
