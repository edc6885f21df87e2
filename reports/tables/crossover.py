"""Tabulate from which length each mixer is faster: one row a variant, one column a rival.

Rivals are the baseline, and attention with its matrix written out, which papers compare with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from reports.analysis.crossover import Kind, crossover
from reports.document import Column, Entry, Table
from reports.results.length_sweep import Growth
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate
from reports.tables.comparison import table_of_variants
from reports.tables.length_sweep import no_number
from suite.schema import MIXER_ALONE, About

MATERIALISED = "kernel=materialised"
_REST = re.compile(r" (?=[\[(])|(?<=\d), (?=where)")  # before the interval, or a remark
_UNSURE = (Kind.NOISY, Kind.NOT_MEASURED, Kind.UNDECIDED)


def crossover_table(about: About, timed: Mapping[str, Growth]) -> Table | None:
    """From which length each variant is faster than each rival; None where no other was timed.

    Args:
        about: Names the baseline, and a variant ``kernel=materialised`` where there is one.
        timed: As ``forward and backward`` -> the times of that.
    """
    columns = [
        Column(
            key=f"{growth.metric}_against_{rival}", title=f"than {shown_name(about, rival)}",
            measured_unit="tokens", unit="from so many tokens on", arrow="", note=kind,
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
        return no_number(())
    found = crossover(growth, variant, rival)
    head, *rest = _REST.split(found.text, maxsplit=1)
    return Entry(
        estimate=found.place or Estimate(n=0),
        text=head,
        interval=" ".join(rest),
        tone="none" if found.kind in _UNSURE else "",
    )
