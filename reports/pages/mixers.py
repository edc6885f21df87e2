"""Build the sections on mixers measured alone.

They show crossovers, growth (Table 1, figures, times) and checks (controls, published figures). All
numbers come from one environment, since those of two are never compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from bakeoff.reports.analysis.theory_gap import table_one
from bakeoff.reports.document import Exhibit, ReportTable, Section, View, capitalized
from bakeoff.reports.literature.speed import published_table
from bakeoff.reports.pages.crossings import crossings_in_words
from bakeoff.reports.plots.length_sweep import crossover_figure, growth_figure
from bakeoff.reports.results.length_sweep import Axis, Growth, find, growths
from bakeoff.reports.results.spoken_names import baseline_in_words
from bakeoff.reports.tables.controls import controls_table, describe_controls, instruments
from bakeoff.reports.tables.exponents import exponents_table, powers_in_words, theory_remarks
from bakeoff.reports.tables.largest import failures_in_words, largest_table
from bakeoff.reports.tables.length_sweep import (
    costs_table,
    crossover_table,
    extremes_in_words,
    peaks_in_words,
    ratios_table,
    use_in_words,
    utilisation_table,
)
from bakeoff.suite.schema import MIXER_ALONE, About, Provenance, launched, metric_title

_TIME, _MEMORY = "forward_backward_seconds", "forward_backward_peak_bytes"
_FOLDED = {
    "forward_seconds": "Forward, without gradients",
    "decode_token_seconds": "Decoding one token after the given number of tokens",
    _MEMORY: "Peak memory, forward and backward",
    "forward_peak_bytes": "Peak memory, forward without gradients",
}
_LAUNCHED = tuple(map(launched, (_TIME, *(name for name in _FOLDED if name.endswith("_seconds")))))
_ON_GPU = (
    "Times are those of CUDA graphs: what the GPU needs, without the launches of each kernel by "
    "Python; tables of launched passes say so."
)
_BY_OTHERS: Mapping[Axis, str] = {
    "dim": "Forward and backward, by width",
    "batch": "Forward and backward, for several sequences at once",
    "threads": "Forward and backward, with several threads",
}
_RATIOS = "Forward and backward, ratio to the baseline"
_TABLE_ONE = (
    "The table shows the exponents of the length n and of the width d with which each cost grows, "
    "measured at the longest lengths and largest widths; exponents that differ from those of the "
    "theoretical formula over the same range are marked. Each name is followed by the theoretical "
    "number of operations without constant factors. Time and memory are for forward and backward, "
    "FLOPs for forward."
)
_CROSSOVER = (
    "The table shows the length from which a mixer is faster, with its 95 % interval; “not below” "
    "means that it is not faster at any measured length."
)
_LARGEST = (
    "The table covers the lengths and batches of the scale; mixers that are timed together share "
    "the memory."
)
_DEFINITION = (
    "A mixer alone is one layer on one sequence of vectors, without causality. Its exponent in n "
    "is the slope of time against length on logarithmic axes over the longest lengths; it is "
    "marked pre-asymptotic if the slope still changes. Two times are compared by the interval of "
    "their ratio, paired by process: faster or slower if the interval is more than 0.5 % from 1, "
    "same if it is within 2 %. No verdict is given if the data are not conclusive, or if the ratio "
    "is no larger than that between repeated measurements of the baseline at that length. The "
    "controls estimate how often these verdicts are wrong."
)


@dataclass(frozen=True)
class _Case:
    """The data from which the exhibits are built."""

    about: About
    results: pd.DataFrame
    growths: Sequence[Growth]
    environment_id: str

    def growth(self, metric: str, axis: Axis = "length") -> Growth | None:
        """Return the growth of a metric in the environment that is shown."""
        return find(self.growths, metric, axis, self.environment_id)


def mixers_section(about: About, results: pd.DataFrame) -> Section | None:
    """Return the section on mixers alone, or None if nothing was measured."""
    environment_id = main_environment(results)
    if not environment_id:
        return None
    case = _Case(about, results, growths(about, results), environment_id)
    exhibits = tuple(_exhibits(case))
    if not exhibits:
        return None
    return Section(
        title="The mixers alone",
        sentences=_said(
            _where(about, results, environment_id),
            _ON_GPU if case.growth(launched(_TIME)) else "",
        ),
        exhibits=exhibits,
        definition=_DEFINITION,
    )


def controls_section(about: About, results: pd.DataFrame) -> Section | None:
    """Return the controls of timings on tasks, for a report without mixers alone, if any."""
    # The section has a single exhibit, which needs no heading of its own.
    exhibits = tuple(
        replace(one, title="", is_folded=False) for one in _controls(_Case(about, results, (), ""))
    )
    return (
        Section(title="Reliability of the times", exhibits=exhibits, is_folded=True)
        if exhibits
        else None
    )


def main_environment(results: pd.DataFrame) -> str:
    """Return the environment with most times (else most numbers) of mixers alone, or ""."""
    rows = results[(results["task"] == MIXER_ALONE) & (results["environment_id"] != "")]
    rows = rows[rows["value"].notna()]
    timed = rows[rows["unit"] == "s"]
    counts = (timed if len(timed) else rows)["environment_id"].value_counts()
    return max(counts.index, key=lambda name: (counts[name], name), default="")


def _where(about: About, results: pd.DataFrame, environment_id: str) -> str:
    """Describe the environment that is shown, and name the others."""
    alone = results[(results["task"] == MIXER_ALONE) & results["value"].notna()]
    others = sorted(set(alone["environment_id"]) - {"", environment_id})
    shown = f"One layer, one sequence, measured on {_place(about, environment_id)}"
    names = "; ".join(_place(about, other) for other in others)
    if not others:
        return f"{shown}."
    return (
        f"{shown}, the environment with most measurements. Measurements from other environments "
        f"({names}) are in results.csv and are never shown side by side, because times of "
        "different devices, thread counts or torch versions are not comparable."
    )


def _place(about: About, environment_id: str) -> str:
    made: Provenance | None = about.provenances.get(environment_id)
    if made is None:
        return f"environment {environment_id}"
    threads = "1 thread" if made.num_threads == 1 else f"{made.num_threads} threads"
    torch = made.versions.get("torch", "")
    return ", ".join(filter(None, [made.device, threads, f"torch {torch}" if torch else ""]))


def _exhibits(case: _Case) -> Iterator[Exhibit]:
    yield from _table_one(case)
    yield from _crossover(case)
    yield from _figures(case)
    yield from _costs(case)
    yield from _largest(case)
    used = utilisation_table(case.about, case.growths, case.environment_id)
    if used:
        peaks = peaks_in_words(case.growths, case.environment_id)
        said = _said(use_in_words(used), peaks)
        yield Exhibit(title=used.title, sentences=said, tables=(used,), is_folded=True)
    yield from _controls(case)
    known = published_table(case.about, case.growths, case.environment_id)
    if known:
        yield Exhibit(title=known.title, sentences=(known.introduction,), tables=(known,))


def _table_one(case: _Case) -> Iterator[Exhibit]:
    rows = table_one(case.about, case.growths, case.environment_id)
    table = exponents_table(case.about, rows)
    if table:
        yield Exhibit(
            title=table.title,
            sentences=_said(powers_in_words(case.about, rows), _TABLE_ONE),
            tables=(table,),
            remarks_title="Differences between measurement and theory",
            remarks=theory_remarks(case.about, rows),
        )


def _said(*sentences: str) -> tuple[str, ...]:
    """Return the sentences that are not empty; the first one answers the title."""
    return tuple(filter(None, sentences))


def _crossover(case: _Case) -> Iterator[Exhibit]:
    kinds = {"forward and backward": _TIME, "forward": "forward_seconds"}
    found = {kind: case.growth(metric) for kind, metric in kinds.items()}
    timed = {kind: growth for kind, growth in found.items() if growth}
    table = crossover_table(case.about, timed)
    if table:
        drawn = {kind: crossover_figure(case.about, growth, kind) for kind, growth in timed.items()}
        views = tuple(View(title=kind, drawings=(one,)) for kind, one in drawn.items() if one)
        answers = (crossings_in_words(case.about, growth) for growth in timed.values())
        said = _said(*answers, _CROSSOVER)
        yield Exhibit(title=table.title, sentences=said, tables=(table,), views=views)


def _figures(case: _Case) -> Iterator[Exhibit]:
    titles = {
        _TIME: "Time of forward and backward against length",
        _MEMORY: "Peak memory of forward and backward against length",
    }
    found = [(growth, title) for metric, title in titles.items() if (growth := case.growth(metric))]
    drawings = tuple(filter(None, (growth_figure(case.about, *one) for one in found)))
    if drawings:
        yield Exhibit(title="Time and memory against length", drawings=drawings)


def _costs(case: _Case) -> Iterator[Exhibit]:
    time = case.growth(_TIME)
    table = costs_table(case.about, time, "Forward and backward") if time else None
    others = tuple(_other_costs(case))
    if table and time:
        sentence = (
            "The table shows the median time of forward and backward over processes, and its "
            f"ratio to {baseline_in_words(case.about)} with the verdict. The ratio is computed per "
            "process and then averaged, so it differs slightly from the quotient of the medians."
        )
        yield Exhibit(
            title="Times by length",
            tables=(table,),
            folded=others,
            sentences=_said(extremes_in_words(case.about, time), sentence),
        )
    elif others:
        yield Exhibit(title="Costs by length", folded=others)


def _other_costs(case: _Case) -> Iterator[ReportTable]:
    """Yield ratios with intervals, the other costs, and times by width, batch and threads."""
    time = case.growth(_TIME)
    others = [(case.growth(metric), title) for metric, title in _FOLDED.items()]
    others += [(case.growth(name), capitalized(metric_title(name))) for name in _LAUNCHED]
    others += [(case.growth(_TIME, axis), title) for axis, title in _BY_OTHERS.items()]
    made = [ratios_table(case.about, time, _RATIOS)] if time else []
    made += [costs_table(case.about, growth, title) for growth, title in others if growth]
    yield from filter(None, made)


def _largest(case: _Case) -> Iterator[Exhibit]:
    given = (case.about, case.results, case.environment_id)
    table = largest_table(*given)
    if table:
        said = _said(failures_in_words(*given), _LARGEST)
        yield Exhibit(title=table.title, sentences=said, tables=(table,))


def _controls(case: _Case) -> Iterator[Exhibit]:
    kept = instruments(case.about, case.results, case.environment_id)
    if kept:
        table = controls_table(case.about, kept, case.growths)
        yield Exhibit(
            title="Reliability of the times",
            sentences=describe_controls(kept),
            tables=(table,),
            is_folded=True,
        )
