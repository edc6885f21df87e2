"""How does Table 1 of "Attention Is All You Need" look with every column measured?

One row a variant. Powers are slopes on logarithmic axes over the last places; theory's stand
beside them, and the words where the two disagree stand under the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from reports.disagreements import Power
from reports.document import Column, Entry, Remark, Table
from reports.growth import Axis, Growth, find
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate
from reports.table_one import PathLength, TableOneRow
from reports.tables.comparison import table_of_variants
from suite.schema import MIXER_ALONE, About

_SYMBOLS: dict[Axis, str] = {"length": "n", "dim": "d"}
_STEPS = "sequential_operations"
_NEW_LINE = "\n"
_LONG = 9  # letters of a formula that gets a line of its own
_NO_GROWTH = 0.005  # a power that two decimals show as none
_PRE_ASYMPTOTIC = (
    "Pre-asymptotic: the slope still changes where the measurements end, or its leading term is "
    "not yet 90 % of the whole; such a power describes this range, and is no law."
)


def powers_table(
    about: About, rows: Sequence[TableOneRow], growths: Sequence[Growth]
) -> Table | None:
    """Table 1, measured; None where nothing was.

    Args:
        about: Says which variant is the baseline.
        rows: Of one environment.
        growths: As the rows were made from; the lengths of the counted steps are read off them.
    """
    columns = [*_powers(rows), *_steps(rows, growths), *_paths(rows)]
    kept = [c for c in columns if any(e.estimate.point is not None for e in c.entries.values())]
    if not kept:
        return None
    made = table_of_variants(
        about, kept, name=f"{MIXER_ALONE}-table-1", title="Table 1, measured", task=MIXER_ALONE
    )
    theory = {row.variant: formula(row.theory.time) for row in rows}
    named = tuple(replace(row, note=_with_theory(row.note, theory[row.name])) for row in made.rows)
    notes = [entry.note for row in made.rows for entry in row.entries]
    is_bent = any("pre-asymptotic" in note for note in notes)
    return replace(made, rows=named, footnotes=(_PRE_ASYMPTOTIC,) if is_bent else ())


def disagreements_in_words(about: About, rows: Sequence[TableOneRow]) -> tuple[Remark, ...]:
    """Where measurement and theory disagree: one remark a variant that does."""
    return tuple(
        Remark(name=shown_name(about, row.variant), text=" ".join(row.disagreements))
        for row in rows
        if row.disagreements
    )


def formula(text: str) -> str:
    """A formula of theory as it is read: ``n² d`` for ``n**2 * d``."""
    return text.replace("**2", "²").replace(" * ", " ")


def _with_theory(note: str, theory: str) -> str:
    """What is said of a variant's name, and theory's formula of its time."""
    return "; ".join(filter(None, [note, f"theory {theory}" if theory else ""]))


def _powers(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    for name in ("time", "flops", "memory"):
        for axis, symbol in _SYMBOLS.items():
            yield Column(
                key=f"{name}_power_in_{symbol}",
                title=f"{'FLOPs' if name == 'flops' else name}, power of {symbol}",
                measured_unit="1", unit="", arrow="", note="",
                entries={row.variant: _power(getattr(row, name)[axis]) for row in rows},
            )  # fmt: skip


def _power(power: Power) -> Entry:
    found = power.measured.estimate
    if found.point is None:
        return Entry(estimate=found, text=power.measured.reason or "–", tone="none")
    interval = ""
    if found.low is not None and found.high is not None:
        interval = f"[{_two(found.low)}, {_two(found.high)}]"
    notes = [
        _beside_theory(power),
        "noisy" if power.measured.is_noisy else "",
        "pre-asymptotic" if power.measured.is_pre_asymptotic else "",
    ]
    return Entry(
        estimate=found, text=_two(found.point), interval=interval,
        note=_lines(*notes),
    )  # fmt: skip


def _beside_theory(power: Power) -> str:
    if power.theory is None:
        return ""
    words = "not theory’s" if power.disagrees else "theory"
    unjudged = ", not judged" if power.measured.is_noisy else ""
    return f"{words} {_two(power.theory)}{unjudged}"


def _lines(*parts: str) -> str:
    """What there is, each on a line of its own."""
    return ",\n".join(filter(None, parts))


def _two(power: float) -> str:
    """Two decimals; a power of nothing is 0.00, whichever side of zero rounding fell."""
    return f"{power:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _steps(rows: Sequence[TableOneRow], growths: Sequence[Growth]) -> Iterator[Column]:
    counted = find(growths, _STEPS)
    if counted is None:
        return
    last = counted.places[-1]
    entries = {}
    for row in rows:
        number = counted.point(row.variant, last)
        power = row.sequential_operations.measured.estimate.point
        by_formula = row.theory.sequential_operations
        theory = f"theory {formula(by_formula)}" if by_formula else ""
        entries[row.variant] = _count(number, _lines(_growth_in_words(power), theory))
    yield _counts("sequential operations", last, entries)


def _growth_in_words(power: float | None) -> str:
    if power is None:
        return ""
    return "constant" if abs(power) < _NO_GROWTH else f"as n^{_two(power)}"


def _paths(rows: Sequence[TableOneRow]) -> Iterator[Column]:
    places = [row.maximum_path_length.place for row in rows if row.maximum_path_length]
    if not places:
        return
    entries = {
        row.variant: _path(row.maximum_path_length, max(places), row.theory.maximum_path_length)
        for row in rows
    }
    yield _counts("maximum path length", max(places), entries)


def _path(found: PathLength | None, place: int, by_formula: str) -> Entry:
    if found is None:
        return _count(None, "")
    where = "" if found.place == place else f"at {found.place:,} tokens"
    shown = formula(by_formula)
    theory = f"theory{_NEW_LINE if len(shown) > _LONG else ' '}{shown}" if shown else ""
    is_number = not by_formula or by_formula.isdigit() or found.by_theory is None
    value = "" if is_number else f"which is {found.by_theory:,.4g}"
    return _count(found.measured, _lines(where, theory, value))


def _count(number: float | None, note: str) -> Entry:
    if number is None:
        return Entry(estimate=Estimate(n=0), text="–", tone="none")
    return Entry(estimate=Estimate(n=1, point=number), text=f"{number:,.0f}", note=note)


def _counts(name: str, place: int, entries: dict[str, Entry]) -> Column:
    return Column(
        key=f"{name.replace(' ', '_')}_length={place}", title=name, measured_unit="1", unit="",
        arrow="", note=f"at {place:,} tokens", entries=entries,
    )  # fmt: skip
