"""What do the mixers alone cost at each length? One row a variant, one column a place.

Each time stands beside its ratio to the baseline and the verdict on that ratio; a word such as
faster stands only where the interval of the ratio says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reports.analysis.time_comparison import Comparison, Outcome, compare
from reports.document import Column, Entry, Table
from reports.escape import slug
from reports.growth import Growth
from reports.results.readings import Reading
from reports.stats.intervals import Estimate, median_range
from reports.stats.number_format import as_ratio, for_quantities
from reports.tables.comparison import table_of_variants
from suite.schema import MIXER_ALONE, About

_TONES = {Outcome.FASTER: "better", Outcome.SLOWER: "worse"}
_MakeEntry = Callable[[str, int], Entry]


def costs_table(about: About, growth: Growth, title: str) -> Table | None:
    """The metric of each variant at each place, with the ratio to the baseline; None if empty."""
    name = f"{MIXER_ALONE}-{growth.metric}-by-{growth.axis}"
    columns = []
    for place in growth.places:
        points = [growth.point(variant, place) for variant in growth.variants]
        written = for_quantities(growth.unit, [point for point in points if point is not None])

        def entry(variant: str, place: int, write: Callable[[float], str] = written.write) -> Entry:
            return _cost(about, growth, variant, place, write)

        columns.append(_column(growth, place, written.unit, growth.unit, entry))
    return _table(about, columns, name, title)


def ratios_table(about: About, growth: Growth, title: str) -> Table | None:
    """Each ratio of times to the baseline, with its interval and verdict; None if empty."""
    name = f"{MIXER_ALONE}-{growth.metric}-by-{growth.axis}-ratios"
    columns = [
        _column(growth, place, "", "1", lambda variant, at: _ratio(about, growth, variant, at))
        for place in growth.places
    ]
    return _table(about, columns, name, title)


def place_title(growth: Growth, place: int) -> str:
    """As a column is headed: ``1,024 tokens``."""
    return f"{place:,} tokens" if growth.axis == "length" else f"width {place:,}"


def _table(about: About, columns: Sequence[Column], name: str, title: str) -> Table | None:
    if not any(e.estimate.point is not None for c in columns for e in c.entries.values()):
        return None
    return table_of_variants(about, columns, name=slug(name), title=title, task=MIXER_ALONE)


def _column(growth: Growth, place: int, unit: str, measured: str, entry: _MakeEntry) -> Column:
    return Column(
        key=f"{growth.metric}_{growth.axis}={place}",
        title=place_title(growth, place),
        measured_unit=measured,
        unit=unit,
        arrow="",
        note="",
        entries={variant: entry(variant, place) for variant in growth.variants},
    )


def _cost(
    about: About, growth: Growth, variant: str, place: int, write: Callable[[float], str]
) -> Entry:
    values = tuple(growth.values(variant, place).values())
    estimate = median_range(values)
    if estimate.point is None:
        return no_number(growth.of(variant, place))
    text = write(estimate.point)
    noise = "noisy" if growth.is_noisy(variant, place) else ""
    if variant == about.baseline:
        return Entry(estimate=estimate, text=text, note=noise)
    found = compare(growth.of(variant, place), growth.of(about.baseline, place))
    if growth.unit != "s":  # counts and bytes are exact: no verdict is needed
        return Entry(estimate=estimate, text=text, note=_times(found))
    words = dict.fromkeys((_times(found), _word(found), noise))  # the verdict may be that word
    note = ", ".join(filter(None, words))
    return Entry(estimate=estimate, text=text, note=note, tone=_TONES.get(found.outcome, ""))


def _ratio(about: About, growth: Growth, variant: str, place: int) -> Entry:
    if variant == about.baseline:
        return Entry(estimate=Estimate(n=0), text="baseline")
    found = compare(growth.of(variant, place), growth.of(about.baseline, place))
    ratio = found.ratio
    if ratio.point is None:
        return no_number(growth.of(variant, place))
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f"[{as_ratio(ratio.low)}, {as_ratio(ratio.high)}]"
    tone = _TONES.get(found.outcome, "")
    return Entry(
        estimate=ratio, text=as_ratio(ratio.point), interval=interval, note=_word(found), tone=tone
    )


def _times(found: Comparison) -> str:
    return "" if found.ratio.point is None else f"{as_ratio(found.ratio.point)} ×"


def _word(found: Comparison) -> str:
    """The verdict; nothing where there is no pair to judge."""
    return "" if found.ratio.point is None else str(found.outcome)


def no_number(readings: Sequence[Reading]) -> Entry:
    """What became of it, in place of a number."""
    fates = dict.fromkeys(reading.fate for reading in readings)
    return Entry(estimate=Estimate(n=0), text=", ".join(fates) or "–", tone="none")
