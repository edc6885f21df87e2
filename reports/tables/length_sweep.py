"""Tabulate what the mixers alone cost: one row a variant, one column a length or a width.

Each time stands beside its ratio to the baseline and the verdict on that ratio; a word such as
faster stands only where the interval of the ratio says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reports.analysis.crossover import CrossoverKind, crossover
from reports.analysis.time_comparison import TimeComparison, TimeOutcome, compare
from reports.document import NO_ENTRY, Column, Entry, Table
from reports.escape import slug
from reports.results.length_sweep import MATERIALISED, Growth, place_label
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate, median_range
from reports.stats.number_format import Notation, as_interval, as_ratio, for_quantities
from reports.tables.comparison import no_number, table_of_variants
from suite.schema import MIXER_ALONE, About

_TONES = {TimeOutcome.FASTER: "better", TimeOutcome.SLOWER: "worse"}


def costs_table(about: About, growth: Growth, title: str) -> Table | None:
    """The metric of each variant at each place, with the ratio to the baseline; None if empty."""
    columns = []
    for place in growth.places:
        points = [growth.point(variant, place) for variant in growth.variants]
        notation = for_quantities(growth.unit, [point for point in points if point is not None])
        entries = {v: _cost(about, growth, v, place, notation) for v in growth.variants}
        columns.append(_column(growth, place, entries, growth.unit, notation.unit))
    return _table(about, columns, f"{growth.metric}-by-{growth.axis}", title)


def ratios_table(about: About, growth: Growth, title: str) -> Table | None:
    """Each ratio of times to the baseline, with its interval and verdict; None if empty."""
    columns = []
    for place in growth.places:
        entries = {variant: _ratio(about, growth, variant, place) for variant in growth.variants}
        columns.append(_column(growth, place, entries, "1", ""))
    return _table(about, columns, f"{growth.metric}-by-{growth.axis}-ratios", title)


def _table(about: About, columns: Sequence[Column], name: str, title: str) -> Table | None:
    if not any(e.estimate.point is not None for c in columns for e in c.entries.values()):
        return None
    name = slug(f"{MIXER_ALONE}-{name}")
    return table_of_variants(about, columns, name=name, title=title, task=MIXER_ALONE)


def _column(
    growth: Growth, place: int, entries: Mapping[str, Entry], measured_unit: str, unit: str
) -> Column:
    return Column(
        key=f"{growth.metric}_{growth.axis}={place}", title=place_label(growth.axis, place),
        measured_unit=measured_unit, unit=unit, entries=entries,
    )  # fmt: skip


def _cost(about: About, growth: Growth, variant: str, place: int, notation: Notation) -> Entry:
    readings = growth.of(variant, place)
    estimate = median_range(tuple(growth.values(variant, place).values()))
    if estimate.point is None:
        return no_number(readings, "–")
    text = notation.write(estimate.point)
    noise = "noisy" if growth.is_noisy(variant, place) else ""
    if variant == about.baseline:
        return Entry(estimate=estimate, text=text, note=noise)
    found = compare(readings, growth.of(about.baseline, place))
    times = "" if found.ratio.point is None else f"{as_ratio(found.ratio.point)} ×"
    if growth.unit != "s":  # counts and bytes are exact: no verdict is needed
        return Entry(estimate=estimate, text=text, note=times)
    words = dict.fromkeys((times, _verdict(found), noise))  # the verdict may be that word
    note = ", ".join(filter(None, words))
    return Entry(estimate=estimate, text=text, note=note, tone=_TONES.get(found.outcome, ""))


def _ratio(about: About, growth: Growth, variant: str, place: int) -> Entry:
    if variant == about.baseline:
        return Entry(text="baseline")
    found = compare(growth.of(variant, place), growth.of(about.baseline, place))
    ratio = found.ratio
    if ratio.point is None:
        return no_number(growth.of(variant, place), "–")
    return Entry(
        estimate=ratio, text=as_ratio(ratio.point), interval=as_interval(ratio, as_ratio),
        note=_verdict(found), tone=_TONES.get(found.outcome, ""),
    )  # fmt: skip


def _verdict(found: TimeComparison) -> str:
    """Empty where there is no pair to judge."""
    return "" if found.ratio.point is None else str(found.outcome)


_REST = re.compile(r" (?=[\[(])|(?<=\d), (?=where)")  # before the interval, or a remark
_UNSURE = (CrossoverKind.NOISY, CrossoverKind.NOT_MEASURED, CrossoverKind.UNDECIDED)


def crossover_table(about: About, timed: Mapping[str, Growth]) -> Table | None:
    """From which length each variant is faster than each rival; None where no other was timed.

    Args:
        about: Names the baseline, and a variant ``kernel=materialised`` where there is one.
        timed: As ``forward and backward`` -> the times of that.
    """
    columns = [
        Column(
            key=f"{growth.metric}_against_{rival}", title=f"than {shown_name(about, rival)}",
            measured_unit="tokens", unit="from so many tokens on", note=kind,
            entries={v: _entry(growth, v, rival) for v in growth.variants if v != about.baseline},
        )
        for kind, growth in timed.items()
        for rival in _rivals(about, growth)
    ]  # fmt: skip
    if not columns or not columns[0].entries:
        return None
    return table_of_variants(
        about, columns, name=f"{MIXER_ALONE}-crossover", title="Faster from which length?",
        task=MIXER_ALONE,
    )  # fmt: skip


def _rivals(about: About, growth: Growth) -> list[str]:
    """The baseline, and the first with its matrix written out."""
    written_out = [v for v in growth.variants if MATERIALISED in v.split(", ")]
    return list(dict.fromkeys([about.baseline, *written_out[:1]]))


def _entry(growth: Growth, variant: str, rival: str) -> Entry:
    if variant == rival:
        return NO_ENTRY
    found = crossover(growth, variant, rival)
    head, *rest = _REST.split(found.text, maxsplit=1)
    return Entry(
        estimate=found.place or Estimate(n=0),
        text=head,
        interval=" ".join(rest),
        tone="none" if found.kind in _UNSURE else "",
    )
