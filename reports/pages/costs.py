"""Show the cost of the trials of each variant: hours, energy, and money at a given price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bakeoff.reports.document import (
    NO_ENTRY,
    Column,
    Entry,
    Exhibit,
    ReportTable,
    Section,
    column_rows,
)
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.reports.stats.intervals import Estimate, Notation
from bakeoff.suite.schema import About, Expense, Price

_ALL = "all trials"
_J_PER_KWH = 3.6e6
_LEAST_IN_KWH = 0.1 * _J_PER_KWH
_LEAST_MONEY = 0.01  # smaller sums are written as less than that
_IN_KWH, _IN_KJ = Notation(factor=_J_PER_KWH, unit="kWh"), Notation(factor=1e3, unit="kJ")
_HELD = (
    "Hours are the time for which trials occupied CPUs and GPUs, according to the resources that "
    "they request. Trials shared by several variants, such as timings, have a separate row. "
    "Attempts that failed and were repeated are not included; bakeoff status counts them."
)
_ENERGY = (
    "Energy is the energy of the GPUs only, read from NVML's counter from the start to the end of "
    "a trial. A trial on part of a card is assigned that part of the energy of the card."
)


def costs_section(about: About) -> Section:
    """Return a folded section with the table of costs; there must be at least one cost."""
    has_energy = any(each.joules is not None for each in about.costs)
    exhibit = Exhibit(
        title="",
        sentences=(_HELD, *([_ENERGY] if has_energy else [])),
        tables=(costs_table(about),),
    )
    return Section(title="Cost", exhibits=(exhibit,), is_folded=True)


def costs_table(about: About) -> ReportTable:
    """Return a row for each expense and a total; energy and money are included if known."""
    rows = {each.name: each for each in (*about.costs, _total(about.costs))}
    columns = tuple(_columns(rows, about.price))
    return ReportTable(
        name="costs",
        title="Cost",
        task="",
        row_title="trials of",
        columns=columns,
        rows=column_rows(columns, rows, shown=shown_names(about)),
    )


def _total(costs: Sequence[Expense]) -> Expense:
    told = [each.joules for each in costs if each.joules is not None]
    return Expense(
        name=_ALL,
        num_trials=sum(each.num_trials for each in costs),
        cpu_hours=sum(each.cpu_hours for each in costs),
        gpu_hours=sum(each.gpu_hours for each in costs),
        joules=sum(told) if told else None,
        num_told=sum(each.num_told for each in costs),
    )


def _columns(rows: Mapping[str, Expense], price: Price | None) -> Iterator[Column]:
    every = rows.values()
    hours, count = Notation(), Notation(decimals=0)
    yield _column("num_trials", "trials", "1", count, {e.name: e.num_trials for e in every})
    yield _column("cpu_hours", "CPU-hours", "h", hours, {e.name: e.cpu_hours for e in every})
    yield _column("gpu_hours", "GPU-hours", "h", hours, {e.name: e.gpu_hours for e in every})
    joules = rows[_ALL].joules
    if joules is not None:
        written = _IN_KWH if joules >= _LEAST_IN_KWH else _IN_KJ
        energy = _column("energy", "energy", "J", written, {e.name: e.joules for e in every})
        entries = {name: _of_those(rows[name], entry) for name, entry in energy.entries.items()}
        yield replace(energy, entries=entries)
    if price is not None:
        money = {e.name: price.amount * e.gpu_hours for e in every}
        written = Notation(unit=price.currency, decimals=2)
        title = f"at {price.amount:g} a GPU-hour"
        column = _column("money", title, price.currency or "1", written, money)
        least = {n: "less than 0.01" for n, amount in money.items() if 0 < amount < _LEAST_MONEY}
        entries = {n: replace(e, text=least.get(n, e.text)) for n, e in column.entries.items()}
        yield replace(column, entries=entries)


def _column(
    key: str, title: str, unit: str, written: Notation, amounts: Mapping[str, float | None]
) -> Column:
    """Return a column of amounts in the given unit."""
    return Column(
        key=key,
        title=title,
        measured_unit=unit,
        unit=written.unit,
        entries={
            name: NO_ENTRY
            if amount is None
            else Entry(text=written.write(amount), estimate=Estimate(n=1, point=amount))
            for name, amount in amounts.items()
        },
    )


def _of_those(one: Expense, entry: Entry) -> Entry:
    """Return the entry with the number of trials that reported energy, if some did not."""
    if one.joules is None or one.num_told == one.num_trials:
        return entry
    return replace(entry, note=f"of {one.num_told:,} of {one.num_trials:,} trials")
