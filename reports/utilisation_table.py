"""How much of what the machine can do does each mixer use, at the longest length?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from reports.document import Column, Entry, Table
from reports.growth import Growth, find
from reports.growth_tables import no_number
from reports.stats.intervals import Estimate
from reports.stats.number_format import as_percent, for_quantities
from reports.tables.comparison import table_of_variants
from reports.utilisation import TIME, flops_per_second, matrix_peak, utilisation
from suite.schema import MIXER_ALONE, About

_COPY = "copy_peak_bytes_per_second"


def utilisation_table(about: About, growths: Sequence[Growth], environment_id: str) -> Table | None:
    """FLOPs a second and their share of the matrix peak; None where no peak was measured."""
    times = find(growths, TIME, "length", environment_id)
    if times is None or matrix_peak(growths, environment_id) is None:
        return None
    last = {v: (times.measured(v) or times.places)[-1] for v in times.variants}
    rates = {
        variant: flops_per_second(growths, variant, place, "length", environment_id)
        for variant, place in last.items()
    }
    shares = {
        variant: utilisation(growths, variant, place, "length", environment_id)
        for variant, place in last.items()
    }
    if not any(rates.values()):
        return None
    columns = [_rates(times, rates, last), _shares(times, shares)]
    return table_of_variants(
        about, columns, name=f"{MIXER_ALONE}-utilisation", title="Use made of the machine",
        task=MIXER_ALONE,
    )  # fmt: skip


def peaks_in_words(growths: Sequence[Growth], environment_id: str) -> str:
    """The peaks that the instrument measured, in one sentence."""
    copies = [
        value
        for growth in growths
        if growth.metric == _COPY and growth.environment_id == environment_id
        for variant in growth.variants
        for place in growth.places
        for value in growth.values(variant, place).values()
    ]
    parts = []
    peak = matrix_peak(growths, environment_id)
    if peak is not None:
        parts.append(f"multiplies large matrices at {_written('FLOP/s', peak)}")
    if copies:
        parts.append(f"copies memory at {_written('B/s', statistics.median(copies))}")
    return f"In the same processes this machine {' and '.join(parts)} (medians)."


def _written(unit: str, value: float) -> str:
    notation = for_quantities(unit, [value])
    return notation.with_unit(f"{value / notation.factor:.3g}")


def _rates(times: Growth, rates: dict[str, float | None], last: dict[str, int]) -> Column:
    written = for_quantities("FLOP/s", [rate for rate in rates.values() if rate])
    longest = max(last.values())
    entries = {}
    for variant, rate in rates.items():
        where = "" if last[variant] == longest else f"at {last[variant]:,} tokens"
        entries[variant] = (
            Entry(estimate=Estimate(n=1, point=rate), text=written.write(rate), note=where)
            if rate
            else no_number(times.of(variant, last[variant]))
        )
    return Column(
        key="flops_per_second", title=f"FLOPs a second at {longest:,} tokens",
        measured_unit="FLOP/s", unit=written.unit, arrow="", note="forward and backward",
        entries=entries,
    )  # fmt: skip


def _shares(times: Growth, shares: dict[str, float | None]) -> Column:
    entries = {
        variant: Entry(estimate=Estimate(n=1, point=share), text=as_percent(share))
        if share
        else Entry(estimate=Estimate(n=0), text="–", tone="none")
        for variant, share in shares.items()
    }
    return Column(
        key="share_of_matrix_peak", title="share of the matrix peak", measured_unit="1", unit="",
        arrow="", note="", entries=entries,
    )  # fmt: skip
