"""Tabulate the longest sequence that fits into memory, and the most sequences decoded at once.

The candidates are the lengths and batch sizes of the scale; a reading records that one ran out of
memory. On a GPU the table is also shown if all candidates fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from bakeoff.reports.document import NO_ENTRY, Column, Entry, ReportTable, capitalized, readable
from bakeoff.reports.results.reading import Reading, coordinates, reading_of
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import Estimate, as_quantity, median_range
from bakeoff.reports.tables.comparison import table_of_variants
from bakeoff.suite.schema import MIXER_ALONE, About, Status

_TIME, _RATE = "forward_backward_seconds", "decode_tokens_per_second"
_Places = Mapping[int, Sequence[Reading]]  # the readings of one variant, ascending


@dataclass(frozen=True)
class _Ladder:
    """A quantity that is increased until memory runs out.

    Attributes:
        key: The key of the column.
        title: The title of the column.
        unit: The unit of the column.
        readings: Variant -> its readings at each value of the quantity.
        is_rate: True if the readings are tokens per second, which are then shown.
    """

    key: str
    title: str
    unit: str
    readings: Mapping[str, _Places]
    is_rate: bool = False

    @property
    def failures(self) -> dict[str, int]:
        """Variant -> the first value at which it ran out of memory; other variants are absent."""
        found = {
            v: [p for p, some in at.items() if _is_out(some)] for v, at in self.readings.items()
        }
        return {variant: places[0] for variant, places in found.items() if places}

    @property
    def num_places(self) -> int:
        """The number of distinct values over all variants."""
        return len({place for at in self.readings.values() for place in at})


def largest_table(about: About, results: pd.DataFrame, environment_id: str) -> ReportTable | None:
    """Return a row for each variant, or None if nothing failed and no GPU tried several values."""
    made = about.provenances.get(environment_id)
    is_on_gpu = made is not None and made.num_gpus > 0
    ladders = [
        ladder
        for ladder in _ladders(about, results[results["environment_id"] == environment_id])
        if ladder.failures or (is_on_gpu and ladder.num_places > 1)
    ]
    if not ladders:
        return None
    return table_of_variants(
        about,
        [_column(about, ladder) for ladder in ladders],
        name=f"{MIXER_ALONE}-largest",
        title="The largest that fits",
        task=MIXER_ALONE,
    )


def failures_in_words(about: About, results: pd.DataFrame, environment_id: str) -> str:
    """Return text such as ``Attention runs out of memory at 65,536 tokens.``, or ""."""
    here = results[results["environment_id"] == environment_id]
    said = [
        f"{shown_name(about, variant)} runs out of memory at {place:,} {ladder.unit}"
        for ladder in _ladders(about, here)
        for variant, place in ladder.failures.items()
    ]
    return f"{capitalized('; '.join(said))}." if said else ""


def _ladders(about: About, results: pd.DataFrame) -> Iterator[_Ladder]:
    timed = results[(results["task"] == MIXER_ALONE) & (results["metric"] == _TIME)]
    yield _Ladder(
        "longest_sequence",
        "longest sequence, forward and backward",
        "tokens",
        _by_place(about, timed, "length"),
    )
    decoded = results[results["metric"] == _RATE]
    for task in about.tasks:
        readings = _by_place(about, decoded[decoded["task"] == task], "batch")
        title = f"most sequences decoded at once, {readable(task)}"
        yield _Ladder(f"{task}_decoded_at_once", title, "sequences", readings, is_rate=True)


def _by_place(about: About, rows: pd.DataFrame, axis: str) -> dict[str, _Places]:
    """Group readings along the axis; drop those at coordinates other than the axis and length."""
    found: dict[str, dict[int, list[Reading]]] = {}
    for row in rows.to_dict("records"):
        at = coordinates(row["at"])
        at = {"batch": 1, **at} if axis == "batch" else at
        if axis in at and at.keys() <= {axis, "length"}:
            by_place = found.setdefault(row["variant"], {})
            by_place.setdefault(int(str(at[axis])), []).append(reading_of(row))
    return {v: dict(sorted(found[v].items())) for v in about.variants if v in found}


def _is_out(some: Sequence[Reading]) -> bool:
    return any(r.status is Status.OUT_OF_MEMORY for r in some) and not _fits(some)


def _fits(some: Sequence[Reading]) -> bool:
    return any(reading.is_usable for reading in some)


def _column(about: About, ladder: _Ladder) -> Column:
    return Column(
        key=ladder.key,
        title=ladder.title,
        measured_unit=ladder.unit,
        unit=ladder.unit,
        entries={variant: _entry(ladder, variant) for variant in about.variants},
    )


def _entry(ladder: _Ladder, variant: str) -> Entry:
    at = ladder.readings.get(variant, {})
    fitting = [place for place, some in at.items() if _fits(some)]
    failed = ladder.failures.get(variant)
    why = "" if failed is None else f"out of memory at {failed:,}"
    if not fitting:
        return Entry(text=why, tone="none") if why else NO_ENTRY
    largest = fitting[-1]
    values = [r.value for r in at[largest] if r.is_usable]
    rate = as_quantity("tokens/s", median_range(values).point or 0.0) if ladder.is_rate else ""
    return Entry(
        estimate=Estimate(n=len(values), point=float(largest)),
        text=f"{largest:,}",
        note=", ".join(filter(None, [rate, why])),
    )
