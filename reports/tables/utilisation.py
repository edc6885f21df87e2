"""Tabulate how much of what the machine can do each mixer uses, at the longest length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.analysis.utilisation import (
    COPY_PEAK,
    MATRIX_PEAK,
    TIME,
    flops_per_second,
    machine_peak,
)
from reports.document import NO_ENTRY, Column, Entry, Table
from reports.results.length_sweep import Growth, find, measured_in
from reports.stats.intervals import Estimate
from reports.stats.number_format import as_percent, as_quantity, for_quantities
from reports.tables.comparison import no_number, table_of_variants
from suite.schema import MIXER_ALONE, About


def utilisation_table(about: About, growths: Sequence[Growth], environment_id: str) -> Table | None:
    """FLOPs a second and their share of the matrix peak; None where no peak was measured."""
    here = measured_in(growths, environment_id)
    times, peak = find(here, TIME), machine_peak(here, MATRIX_PEAK)
    if times is None or peak is None:
        return None
    last = {v: (times.measured(v) or times.places)[-1] for v in times.variants}
    rates = {variant: flops_per_second(here, variant, place) for variant, place in last.items()}
    if not any(rates.values()):
        return None
    shares = {
        variant: Entry(estimate=Estimate(n=1, point=rate / peak), text=as_percent(rate / peak))
        if rate
        else NO_ENTRY
        for variant, rate in rates.items()
    }
    shares_column = Column(
        key="share_of_matrix_peak", title="share of the matrix peak", measured_unit="1",
        entries=shares,
    )  # fmt: skip
    return table_of_variants(
        about, [_rates_column(times, rates, last), shares_column],
        name=f"{MIXER_ALONE}-utilisation", title="Use made of the machine", task=MIXER_ALONE,
    )  # fmt: skip


def peaks_in_words(growths: Sequence[Growth], environment_id: str) -> str:
    """The peaks that the instrument measured, in one sentence."""
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
        key="flops_per_second", title=f"FLOPs a second at {longest:,} tokens",
        measured_unit="FLOP/s", unit=notation.unit, note="forward and backward", entries=entries,
    )  # fmt: skip
