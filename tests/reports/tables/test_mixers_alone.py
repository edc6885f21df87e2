"""Test that the tables of mixers alone agree with the rows and the verdicts."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace
from functools import cache

import pytest

from bakeoff.reports.analysis.crossover import CrossoverKind, crossover
from bakeoff.reports.analysis.theory_gap import FLOPS, MEMORY, TIME, table_one, theory_gaps
from bakeoff.reports.analysis.time_comparison import compare
from bakeoff.reports.document import Entry, ReportTable
from bakeoff.reports.pages.crossings import crossings_in_words
from bakeoff.reports.results.length_sweep import Growth, find, growths
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.tables.exponents import exponents_table, powers_in_words, theory_remarks
from bakeoff.reports.tables.length_sweep import (
    costs_table,
    crossover_table,
    extremes_in_words,
    peaks_in_words,
    ratios_table,
    use_in_words,
    utilisation_table,
)
from bakeoff.reports.tables.marks import NOISY, UNTOLD
from tests.reports import mixers_alone
from tests.reports.conftest import known

ABOUT = mixers_alone.about()
HERE = mixers_alone.PLACE.environment_id


@cache
def _growths() -> tuple[Growth, ...]:
    return growths(ABOUT, mixers_alone.whole().results)


def _growth(metric: str = TIME) -> Growth:
    return known(find(_growths(), metric))


def _entry(table: ReportTable | None, variant: str, column: int) -> Entry:
    return next(row for row in table.rows if row.name == variant).entries[column]


def test_times_are_medians_with_ratio_and_verdict() -> None:
    table = known(costs_table(ABOUT, _growth(), "T"))
    assert [c.title for c in table.columns] == [f"{n:,} tokens" for n in mixers_alone.LENGTHS]
    for column, place in enumerate(mixers_alone.LENGTHS):
        entry = _entry(table, "mixer=linformer", column)
        values = _growth().values("mixer=linformer", place).values()
        assert entry.estimate.point == statistics.median(values)
        sides = (_growth().of(v, place) for v in ("mixer=linformer", "baseline"))
        found = compare(*sides, _growth().resolution(place))
        assert (f" ×, {found.outcome}" in entry.note) == found.is_certain
        assert (UNTOLD in entry.marks) == (not found.is_certain)
    assert _entry(table, "mixer=fnet", 6).tone == "better"
    assert _entry(table, "mixer=lstm", 0).tone == "worse"
    assert _entry(table, "baseline", 0).note == ""
    assert _entry(table, "mixer=performer", 1).note.endswith(", slower")
    assert _entry(table, "mixer=performer", 1).marks == (NOISY,)
    assert any(note.startswith("‡ Noisy: ") for note in table.notes)


def test_a_ratio_that_the_baseline_shows_against_itself_is_marked_and_no_verdict() -> None:
    growth = _growth()
    blind = replace(growth, resolutions=dict.fromkeys(growth.places, math.log(100.0)))
    for make in (costs_table, ratios_table):
        sure, unsure = (_entry(make(ABOUT, one, "T"), "mixer=lstm", 2) for one in (growth, blind))
        assert (sure.marks, sure.tone) == ((), "worse")
        assert sure.note.endswith("slower")
        assert (unsure.marks, unsure.tone) == ((UNTOLD,), "")
        assert "slower" not in unsure.note
        assert unsure.estimate == sure.estimate


def test_ratios_have_intervals() -> None:
    entry = _entry(ratios_table(ABOUT, _growth(), "T"), "mixer=lstm", 3)
    found = compare(_growth().of("mixer=lstm", 512), _growth().of("baseline", 512))
    assert entry.estimate == found.ratio
    assert entry.note == "slower"
    assert entry.interval.startswith("[")


def test_bytes_have_a_ratio_and_no_verdict() -> None:
    table = costs_table(ABOUT, _growth("forward_backward_peak_bytes"), "T")
    assert _entry(table, "kernel=materialised", 6).note == "103 ×"
    assert _entry(table, "mixer=fnet", 6).note == "1.00 ×"


def test_what_cannot_be_is_called_by_its_fate() -> None:
    table = costs_table(ABOUT, _growth("decode_token_seconds"), "T")
    assert _entry(table, "mixer=fnet", 0).text == "skipped"
    empty = Growth(**{**vars(_growth()), "readings": {}})
    assert costs_table(ABOUT, empty, "T") is None
    assert ratios_table(ABOUT, empty, "T") is None


def test_crossovers_stand_beside_both_rivals() -> None:
    table = known(crossover_table(ABOUT, {"forward and backward": _growth()}))
    assert [column.title for column in table.columns] == [
        "faster than attention",
        "faster than kernel materialised",
    ]
    assert [row.name for row in table.rows] == list(ABOUT.variants[1:])
    for index, rival in enumerate(("baseline", "kernel=materialised")):
        for variant in ABOUT.variants[2:]:
            found = crossover(_growth(), variant, rival)
            entry = _entry(table, variant, index)
            assert " ".join(filter(None, [entry.text, entry.interval])) == found.text
    assert _entry(table, "kernel=materialised", 1).text == "–"
    assert crossover_table(ABOUT, {}) is None


def test_exponents_stand_beside_theory_and_say_where_it_is_not_so() -> None:
    rows = table_one(ABOUT, _growths(), HERE)
    table = known(exponents_table(ABOUT, rows))
    titles = [column.title for column in table.columns]
    assert titles == [
        "time, exponent of n",
        "time, exponent of d",
        "FLOPs, exponent of n",
        "FLOPs, exponent of d",
        "memory, exponent of n",
        "memory, exponent of d",
        "sequential operations",
        "maximum path length",
    ]
    for row in rows:
        keys = itertools.product((TIME, FLOPS, MEMORY), ("length", "dim"))
        for column, key in enumerate(keys):
            found, entry = row.exponents[key], _entry(table, row.variant, column)
            assert entry.estimate == found.estimate
            held = {
                "noisy": found.is_noisy,
                "not theory's": found.disagrees,
                "pre-asymptotic": found.is_pre_asymptotic,
            }
            first = [name for name, is_so in held.items() if is_so][:1]
            assert [mark.name for mark in entry.marks] == first
            assert not entry.note
    assert any(note.startswith("† Pre-asymptotic: ") for note in table.notes)
    assert _entry(table, "mixer=lstm", 6).note == "theory n"
    assert _entry(table, "mixer=dilated_conv", 7).note == "theory log2(n) / log2(k)"
    assert table.rows[0].note == "baseline; theory n² d"
    told = [(remark.name, remark.text) for remark in theory_remarks(ABOUT, rows)]
    gaps = [list(theory_gaps(row)) for row in rows]
    assert len(told) == sum(map(bool, gaps)) > 0
    for (_, text), clauses in zip(told, filter(None, gaps), strict=True):
        assert text.lower() == "; ".join(clauses).lower() + "."
        assert text.count(". ") == 0  # one sentence
    assert told[0][0] == "attention"
    assert exponents_table(ABOUT, table_one(ABOUT, (), HERE)) is None


def test_use_of_the_machine_is_flops_over_time_over_peak() -> None:
    table = utilisation_table(ABOUT, _growths(), HERE)
    flops, time = _growth("forward_flops"), _growth()
    rows = mixers_alone.whole().results
    peak = rows[rows["metric"] == "matrix_peak_flops_per_second"]["value"].median()
    numbers = flops.point("mixer=conv", 4096), time.point("mixer=conv", 4096)
    assert None not in numbers
    rate = 3 * (numbers[0] or 0) / (numbers[1] or 1)
    assert _entry(table, "mixer=conv", 0).estimate.point == pytest.approx(rate)
    assert _entry(table, "mixer=conv", 1).estimate.point == pytest.approx(rate / peak)
    assert "at 118 GFLOP/s and copies memory at 11.2 GB/s" in peaks_in_words(_growths(), HERE)
    assert utilisation_table(ABOUT, _growths(), "elsewhere") is None


def test_each_table_is_opened_by_its_answer() -> None:
    for growth in (_growth("forward_seconds"), _growth()):
        said = crossings_in_words(ABOUT, growth)
        assert said.startswith("Faster than the baseline (attention) in ")
        assert ", measured from 64 to 4,096 tokens: " in said
        for variant in ABOUT.variants[1:]:
            found, name = crossover(growth, variant, "baseline"), shown_name(ABOUT, variant)
            assert said.count(name) - said.count(f"dilated {name}") == 1
            if found.kind is CrossoverKind.FASTER_FROM:
                assert f"{name} from {found.text.partition(' ')[0]} tokens on" in said
    assert "kernel materialised and LSTM never" in said
    costs = {v: _growth().point(v, 4096) or 0.0 for v in ABOUT.variants}
    least, most = (
        shown_name(ABOUT, choose(costs, key=lambda v: costs[v])) for choose in (min, max)
    )
    said = extremes_in_words(ABOUT, _growth())
    assert said.startswith(f"At 4,096 tokens {least} takes the least (")
    assert f" and {most} the most (" in said
    rows = table_one(ABOUT, _growths(), HERE)
    powers = {row.variant: row.exponents[TIME, "length"].estimate.point or 0.0 for row in rows}
    top = max(powers, key=lambda v: powers[v])
    assert f"to n^{powers[top]:.2f} ({shown_name(ABOUT, top)}" in powers_in_words(ABOUT, rows)
    used = known(utilisation_table(ABOUT, _growths(), HERE))
    shares = {row.title: row.entries[1] for row in used.rows}
    best = max(shares, key=lambda v: shares[v].estimate.point or 0.0)
    assert use_in_words(used).endswith(
        f" to {shares[best].text} ({best}) of the machine's matrix peak."
    )
