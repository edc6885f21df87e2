"""Tabulate Table 1 of "Attention Is All You Need" with every column measured.

There is a row for each variant. Exponents are slopes on logarithmic axes over the last points.
Exponents that contradict theory have a mark, and remarks under the table explain why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bakeoff.reports.analysis.exponent import Exponent
from bakeoff.reports.analysis.theory_gap import (
    FLOPS,
    MEMORY,
    PATH,
    STEPS,
    TIME,
    TableOneRow,
    theory_gaps,
)
from bakeoff.reports.document import NO_ENTRY, Column, Entry, Mark, Remark, ReportTable, capitalized
from bakeoff.reports.results.length_sweep import AXIS_SYMBOLS, find
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import Estimate, as_interval
from bakeoff.reports.tables.comparison import table_of_variants
from bakeoff.suite.schema import MIXER_ALONE, About

_TITLES = {TIME: "time", FLOPS: "FLOPs", MEMORY: "memory"}
_NOISY = Mark(
    sign="‡",
    name="noisy",
    meaning=(
        "Noisy: the stopping criterion of some timings was not met, so the exponent is not "
        "compared with theory."
    ),
)
_DISAGREES = Mark(
    sign="*",
    name="not theory's",
    meaning=(
        "Differs from the theoretical exponent: the interval, or the exact count, excludes it. The "
        "list below gives the reasons."
    ),
)
_PRE_ASYMPTOTIC = Mark(
    sign="†",
    name="pre-asymptotic",
    meaning=(
        "Pre-asymptotic: the slope still changes at the end of the measured range, or the leading "
        "term is less than 90 % of the total; the exponent describes only this range."
    ),
)


def exponents_table(about: About, rows: Sequence[TableOneRow]) -> ReportTable | None:
    """Return the measured Table 1, or None if nothing was measured.

    Args:
        about: The sweep, which identifies the baseline.
        rows: The rows of one environment.
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
        replace(row, note=f"{'baseline; ' * row.is_baseline}theory {text}") if text else row
        for row in made.rows
        for text in (theory[row.name],)
    )
    return replace(made, rows=named)


def powers_in_words(about: About, rows: Sequence[TableOneRow]) -> str:
    """Describe the smallest and the largest power of n that a time grows with; may be empty."""
    found = {row.variant: row.exponents[TIME, "length"].estimate.point for row in rows}
    known = sorted((power, variant) for variant, power in found.items() if power is not None)
    if len(known) < 2:
        return ""
    (least, low), (most, high) = (
        (shown_name(about, variant), _two(power)) for power, variant in (known[0], known[-1])
    )
    return f"Time grows with exponents from n^{low} ({least}) to n^{high} ({most})."


def theory_remarks(about: About, rows: Sequence[TableOneRow]) -> tuple[Remark, ...]:
    """Return a remark for each variant whose measurements disagree with theory."""
    texts = ((row.variant, capitalized("; ".join(theory_gaps(row)))) for row in rows)
    named = ((shown_name(about, variant), f"{text}.") for variant, text in texts if text)
    return tuple(Remark(name=name, text=text) for name, text in named)


def formula(text: str) -> str:
    """Return a formula of theory in readable form: ``n² d`` for ``n**2 * d``."""
    return text.replace("**2", "²").replace(" * ", " ")


def _exponents(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    for metric, title in _TITLES.items():
        for axis, symbol in AXIS_SYMBOLS.items():
            entries = {row.variant: _exponent(row.exponents[metric, axis]) for row in rows}
            yield _column(
                f"{title.lower()}_power_in_{symbol}", f"{title}, exponent of {symbol}", entries
            )


def _exponent(found: Exponent) -> Entry:
    estimate = found.estimate
    if estimate.point is None:
        return Entry(estimate=estimate, text=found.why_missing, tone="none")
    return Entry(
        estimate=estimate,
        text=_two(estimate.point),
        interval=as_interval(estimate, _two),
        marks=_mark(found),
    )


def _mark(found: Exponent) -> tuple[Mark, ...]:
    """Return the most important mark, if any: for a noisy exponent no other mark is meaningful."""
    held = {
        _NOISY: found.is_noisy,
        _DISAGREES: found.disagrees,
        _PRE_ASYMPTOTIC: found.is_pre_asymptotic,
    }
    return tuple(mark for mark, holds in held.items() if holds)[:1]


def _steps(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    counted = find(rows[0].growths, STEPS) if rows else None
    if counted is None:
        return
    last = counted.places[-1]
    entries = {}
    for row in rows:
        theory = formula(row.theory.sequential_operations)
        entries[row.variant] = _count(counted.point(row.variant, last), theory)
    yield _counts("sequential operations", last, entries)


def _paths(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    """Yield a column of path lengths, each at the largest length at which it was measured."""
    places = [place for row in rows for place in row.numbers(PATH)]
    if places:
        entries = {row.variant: _path(row, max(places)) for row in rows}
        yield _counts("maximum path length", max(places), entries)


def _path(row: TableOneRow, last: int) -> Entry:
    numbers, theory = row.numbers(PATH), formula(row.theory.maximum_path_length)
    place = max(numbers, default=last)
    where = "" if place == last else f"at {place:,} tokens"
    return _count(numbers.get(place), theory, where)


def _count(number: float | None, theory: str, where: str = "") -> Entry:
    if number is None:
        return NO_ENTRY
    note = ", ".join(filter(None, [where, theory and f"theory {theory}"]))
    return Entry(estimate=Estimate(n=1, point=number), text=f"{number:,.0f}", note=note)


def _counts(name: str, place: int, entries: Mapping[str, Entry]) -> Column:
    key = f"{name.replace(' ', '_')}_length={place}"
    return _column(key, name, entries, f"at {place:,} tokens")


def _column(key: str, title: str, entries: Mapping[str, Entry], note: str = "") -> Column:
    return Column(key=key, title=title, measured_unit="1", note=note, entries=entries)


def _two(power: float) -> str:
    """Write a power with two decimals, without a negative zero."""
    return f"{power:.2f}".replace("-0.00", "0.00").replace("-", "−")
