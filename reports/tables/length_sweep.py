"""Tabulate the costs of mixers alone: by length or width, by rival, and as a share of the peak.

Tables have one row for each variant. Each time has its ratio to the baseline and the verdict on
that ratio. A word such as faster is written only if the interval of the ratio supports it and the
ratio is larger than that of the baseline to itself; otherwise the time has a mark. A second table
gives the length from which each variant is faster than the baseline, and than attention that
materialises its matrix, which papers compare with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bakeoff.reports.analysis.crossover import CrossoverKind, crossover
from bakeoff.reports.analysis.theory_gap import (
    COPY_PEAK,
    MATRIX_PEAK,
    TIME,
    flops_per_second,
    machine_peak,
)
from bakeoff.reports.analysis.time_comparison import TimeOutcome, compare
from bakeoff.reports.document import NO_ENTRY, Column, Entry, ReportTable
from bakeoff.reports.escape import slug
from bakeoff.reports.results.length_sweep import (
    Growth,
    find,
    is_written_out,
    measured_in,
    place_label,
)
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_interval,
    as_percent,
    as_quantity,
    as_ratio,
    for_quantities,
    median_range,
)
from bakeoff.reports.tables.comparison import no_number, table_of_variants, time_marks
from bakeoff.suite.schema import MIXER_ALONE, About

_REST = re.compile(r" (?=[\[(])|(?<=\d), (?=where)")  # before the interval, or a remark
_UNSURE = (CrossoverKind.NOISY, CrossoverKind.NOT_MEASURED, CrossoverKind.UNDECIDED)
_TONES = {TimeOutcome.FASTER: "better", TimeOutcome.SLOWER: "worse"}


def costs_table(about: About, growth: Growth, title: str) -> ReportTable | None:
    """Return the metric by place, with ratios to the baseline, or None if there are no numbers."""
    columns = []
    for place in growth.places:
        points = [growth.point(variant, place) for variant in growth.variants]
        notation = for_quantities(growth.unit, [point for point in points if point is not None])
        entries = {v: _cost(about, growth, v, place, notation) for v in growth.variants}
        columns.append(_column(growth, place, entries, growth.unit, notation.unit))
    return _table(about, columns, f"{growth.metric}-by-{growth.axis}", title)


def ratios_table(about: About, growth: Growth, title: str) -> ReportTable | None:
    """Return ratios of times to the baseline with interval and verdict, or None if empty."""
    columns = []
    for place in growth.places:
        entries = {variant: _ratio(about, growth, variant, place) for variant in growth.variants}
        columns.append(_column(growth, place, entries, "1", ""))
    return _table(about, columns, f"{growth.metric}-by-{growth.axis}-ratios", title)


def _table(about: About, columns: Sequence[Column], name: str, title: str) -> ReportTable | None:
    if not any(e.estimate.point is not None for c in columns for e in c.entries.values()):
        return None
    name = slug(f"{MIXER_ALONE}-{name}")
    return table_of_variants(about, columns, name=name, title=title, task=MIXER_ALONE)


def _column(
    growth: Growth, place: int, entries: Mapping[str, Entry], measured_unit: str, unit: str
) -> Column:
    return Column(
        key=f"{growth.metric}_{growth.axis}={place}",
        title=place_label(growth.axis, place),
        measured_unit=measured_unit,
        unit=unit,
        entries=entries,
    )


def _cost(about: About, growth: Growth, variant: str, place: int, notation: Notation) -> Entry:
    readings = growth.of(variant, place)
    estimate = median_range(tuple(growth.values(variant, place).values()))
    if estimate.point is None:
        return no_number(readings, "–")
    text = notation.write(estimate.point)
    is_noisy = growth.is_noisy(variant, place)
    if variant == about.baseline:
        marks = time_marks(None, is_noisy=is_noisy)
        return Entry(estimate=estimate, text=text, marks=marks)
    found = compare(readings, growth.of(about.baseline, place), growth.resolution(place))
    if found.ratio.point is None:
        return Entry(estimate=estimate, text=text, marks=time_marks(None, is_noisy=is_noisy))
    times = f"{as_ratio(found.ratio.point)} ×"
    if growth.unit != "s":  # counts and bytes are exact, so they need no verdict
        return Entry(estimate=estimate, text=text, note=times)
    return Entry(
        estimate=estimate,
        text=text,
        tone=_TONES.get(found.outcome, ""),
        note=f"{times}, {found.outcome}" if found.is_certain else times,
        marks=time_marks(found, is_noisy=is_noisy),
    )


def _ratio(about: About, growth: Growth, variant: str, place: int) -> Entry:
    if variant == about.baseline:
        return Entry(text="baseline")
    readings = growth.of(variant, place)
    found = compare(readings, growth.of(about.baseline, place), growth.resolution(place))
    ratio = found.ratio
    if ratio.point is None:
        return no_number(readings, "–")
    return Entry(
        estimate=ratio,
        text=as_ratio(ratio.point),
        interval=as_interval(ratio, as_ratio),
        note=str(found.outcome) if found.is_certain else "",
        marks=time_marks(found, is_noisy=False),
        tone=_TONES.get(found.outcome, ""),
    )


def crossover_table(about: About, timed: Mapping[str, Growth]) -> ReportTable | None:
    """Return the length from which each variant is faster than each rival.

    Args:
        about: The sweep, which identifies the baseline and a variant that materialises its matrix.
        timed: Name of the operation, such as ``forward and backward`` -> its times.

    Returns:
        The table, or None if no other variant than the baseline was timed.
    """
    columns = [
        Column(
            key=f"{growth.metric}_against_{rival}",
            title=f"faster than {shown_name(about, rival)}",
            measured_unit="tokens",
            unit="from this number of tokens",
            note=kind,
            entries={v: _entry(growth, v, rival) for v in growth.variants if v != about.baseline},
        )
        for kind, growth in timed.items()
        for rival in _rivals(about, growth)
    ]
    if not columns or not columns[0].entries:
        return None
    return table_of_variants(
        about,
        columns,
        name=f"{MIXER_ALONE}-crossover",
        title="Length from which a mixer is faster",
        task=MIXER_ALONE,
    )


def extremes_in_words(about: About, growth: Growth) -> str:
    """Name the cheapest and the costliest variant at the last place; empty for fewer than two."""
    last = growth.places[-1]
    points = {v: point for v in growth.variants if (point := growth.point(v, last)) is not None}
    if len(points) < 2:
        return ""
    ranked = sorted(points.items(), key=lambda item: item[1])
    (least, low), (most, high) = ranked[0], ranked[-1]
    return (
        f"At {place_label(growth.axis, last)} {shown_name(about, least)} takes the least "
        f"({as_quantity(growth.unit, low)}) and {shown_name(about, most)} the most "
        f"({as_quantity(growth.unit, high)})."
    )


def _rivals(about: About, growth: Growth) -> list[str]:
    """Return the baseline, and the first variant that materialises its matrix."""
    written_out = [v for v in growth.variants if is_written_out(about, v)]
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


def utilisation_table(
    about: About, growths: Sequence[Growth], environment_id: str
) -> ReportTable | None:
    """Return FLOPs per second and shares of the matrix peak, or None if no peak was measured."""
    here = measured_in(growths, environment_id)
    times, peak = find(here, TIME), machine_peak(here, MATRIX_PEAK)
    if times is None or peak is None:
        return None
    last = {v: (times.measured(v) or times.places)[-1] for v in times.variants}
    rates = {variant: flops_per_second(here, variant, place) for variant, place in last.items()}
    if not any(rates.values()):
        return None
    shares = dict.fromkeys(rates, NO_ENTRY)
    for variant, share in ((v, rate / peak) for v, rate in rates.items() if rate):
        shares[variant] = Entry(estimate=Estimate(n=1, point=share), text=as_percent(share))
    key, title = "share_of_matrix_peak", "share of the matrix peak"
    shares_column = Column(key=key, title=title, measured_unit="1", entries=shares)
    return table_of_variants(
        about,
        [_rates_column(times, rates, last), shares_column],
        name=f"{MIXER_ALONE}-utilisation",
        title="Utilisation of the machine",
        task=MIXER_ALONE,
    )


def use_in_words(used: ReportTable) -> str:
    """Describe the smallest and the largest share in that table; empty if there are none."""
    shares = {row.title: row.entries[1] for row in used.rows}
    known = {name: e for name, e in shares.items() if e.estimate.point is not None}
    if not known:
        return ""
    ranked = sorted(known.items(), key=lambda item: item[1].estimate.point or 0.0)
    (least, low), (most, high) = ranked[0], ranked[-1]
    return (
        f"Utilisation ranges from {low.text} ({least}) to {high.text} ({most}) of the machine's "
        "matrix peak."
    )


def peaks_in_words(growths: Sequence[Growth], environment_id: str) -> str:
    """Describe the peaks that the instrument measured in one sentence."""
    here = measured_in(growths, environment_id)
    matrix, copy = (machine_peak(here, metric) for metric in (MATRIX_PEAK, COPY_PEAK))
    parts = []
    if matrix is not None:
        parts.append(f"multiplies large matrices at {as_quantity('FLOP/s', matrix)}")
    if copy is not None:
        parts.append(f"copies memory at {as_quantity('B/s', copy)}")
    return f"In the same processes this machine {' and '.join(parts)} (medians)."


def _rates_column(
    times: Growth, rates: Mapping[str, float | None], last: Mapping[str, int]
) -> Column:
    notation = for_quantities("FLOP/s", [rate for rate in rates.values() if rate])
    longest = max(last.values())
    entries = {}
    for variant, rate in rates.items():
        where = "" if last[variant] == longest else f"at {last[variant]:,} tokens"
        entries[variant] = (
            Entry(estimate=Estimate(n=1, point=rate), text=notation.write(rate), note=where)
            if rate
            else no_number(times.of(variant, last[variant]), "–")
        )
    return Column(
        key="flops_per_second",
        title=f"FLOPs a second at {longest:,} tokens",
        measured_unit="FLOP/s",
        unit=notation.unit,
        note="forward and backward",
        entries=entries,
    )
