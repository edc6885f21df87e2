"""Test what sentences say where a comparison has no test, lost seeds, or numbers that are exact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bakeoff.reports.analysis.verdict import ClaimOutcome, verdict
from bakeoff.reports.pages.answer import answer
from bakeoff.reports.pages.crossings import crossing_in_words, crossings_in_words
from bakeoff.reports.pages.findings_in_words import over_tasks
from bakeoff.reports.pages.gaps import best_of, gap
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.length_sweep import Growth, find, growths
from bakeoff.reports.results.series import Series, all_series
from bakeoff.reports.tables.comparison import comparison_table
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import MIXER_ALONE, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic

Values = Sequence[float | str | None]  # by seed: a number, how it ended, or nothing
PEAK = MetricSpec(name="peak_memory", unit="B", better="lower")
STATE = MetricSpec(name="state_bytes", unit="B", better="lower")
STEP = MetricSpec(name="forward_backward_seconds", unit="s", better="lower")
ATTENTION = "mixer=attention"


def _sweep(
    values: Mapping[str, Values],
    spec: MetricSpec = synthetic.BITS,
    probe: str = "quality",
    task: str = "t",
    **changes: Any,
) -> Sweep:
    fields = {
        "variants": tuple(values),
        "baseline": next(iter(values)),
        "tasks": (task,),
        "probes": (probe,),
        "claim": None,
        "num_seeds": max(map(len, values.values())),
        "metrics": {task: {probe: (spec,)}},
        "data_sets": {},
    }
    about = synthetic.about("standard", **(fields | changes))
    rows = [
        synthetic.row(about, variant, task, probe, spec, seed=seed, **_ended(value))
        for variant, some in values.items()
        for seed, value in enumerate(some)
        if value is not None
    ]
    return Sweep(about=about, results=results_frame(rows), curves=curves_frame([]))


def _ended(value: float | str) -> dict[str, Any]:
    return {"status": value, "reason": "because"} if isinstance(value, str) else {"value": value}


def _series(values: Mapping[str, Values], *arguments: Any, **changes: Any) -> Series:
    sweep = _sweep(values, *arguments, **changes)
    return all_series(sweep.about, sweep.results)[0]


def _said(sweep: Sweep) -> str:
    found = answer(sweep.about, sweep.measured, sweep.verdict, sweep.growths)
    return " ".join((found.sentence, found.finding, *found.besides))


LOST = {
    "heads=8": [2.50, 2.51, 2.52, 2.50, 2.51],
    "heads=1": [2.60, 2.61, 2.62, 2.60, 2.61],
    "heads=2": [2.40, "diverged", 2.42, "diverged", 2.41],
}


def test_a_variant_that_loses_its_bad_seeds_is_not_the_best() -> None:
    series = _series(LOST)
    assert best_of(series, list(LOST)) == ("heads=8", [])
    one = gap(series, "heads=2", "heads=8")
    assert (one.text, one.is_seen, one.is_tested) == ("2 of 5 seeds diverged", False, False)
    assert gap(series, "heads=8", "heads=2").text == "2 of 5 seeds diverged"
    said = _said(_sweep(LOST))
    assert "no variant is significantly better than all others: 8 heads has the best mean" in said
    assert "but is not compared with 2 heads, of which seeds diverged." in said
    assert "2.410 at 2 (2 of 5 seeds diverged), 2.508 at 8; the best is 8." in said


def test_a_ranking_leaves_out_who_lost_seeds() -> None:
    named = {v.replace("heads=", "mixer=m"): some for v, some in LOST.items()}
    said = _said(_sweep(named))
    assert "the first is better than every other" in said or "m8 has the best" in said
    assert "m2 has the best" not in said


@pytest.mark.parametrize("others", [[2.4], [2.4, None, None]])
def test_nothing_is_said_to_be_alike_where_nothing_is_tested(others: Values) -> None:
    first = [2.5] if len(others) == 1 else [2.50, 2.51, 2.52]
    last = [2.9] if len(others) == 1 else [2.90, 2.91, 2.92]
    said = _said(_sweep({"heads=8": first, "heads=2": others, "heads=1": last}))
    assert "no value differs significantly" not in said
    assert "no significant difference" not in said
    assert "too few seeds for a test" in said or "no difference can be tested" in said


def test_a_difference_that_may_be_none_keeps_its_unit() -> None:
    mebi = 2**20
    memory = {
        "base": [50.0 * mebi, 10.0 * mebi, 30.0 * mebi],
        "a": [52.0 * mebi, 30.0 * mebi, 10.0 * mebi],
    }
    assert "MiB, " in gap(_series(memory, PEAK, "peak_memory"), "a", "base").text
    bits = {"base": [2.5, 2.1, 2.3], "a": [2.1, 2.5, 2.4]}
    assert " bit, " in gap(_series(bits), "a", "base").text


def test_tasks_that_were_not_compared_do_not_count() -> None:
    both: dict[str, Values] = {"base": [2.50, 2.51, 2.52], "a": [2.400, 2.411, 2.419]}
    scores = [
        _series(both, task="t"),
        _series(both, task="u"),
        _series({"base": ["crashed"] * 3, "a": both["a"]}, task="w"),
    ]
    assert "a better on 2 of 2." in "".join(over_tasks(_sweep(both).about, scores))


CHECK = ClaimSpec(
    statement="a needs less state",
    metric="state_bytes",
    a="a",
    b="base",
    by=0.0,
    source="",
    task="t",
    is_check=True,
)


@pytest.mark.parametrize(
    ("state", "by", "outcome"),
    [
        (2048.0, 0.0, ClaimOutcome.SUPPORTED),
        (2048.0, 6144.0, ClaimOutcome.SUPPORTED),
        (2048.0, 7000.0, ClaimOutcome.SMALLER),
        (8192.0, 0.0, ClaimOutcome.NO_DIFFERENCE),
        (9000.0, 0.0, ClaimOutcome.REFUTED),
    ],
)
def test_one_reading_of_a_count_is_enough(state: float, by: float, outcome: ClaimOutcome) -> None:
    values = {"base": [8192.0], "a": [state]}
    sweep = _sweep(values, STATE, "state_bytes", claim=replace(CHECK, by=by), num_seeds=3)
    found = verdict(sweep.about, sweep.measured)
    assert found is not None
    assert (found.outcome, found.details) == (outcome, ())
    assert "interval" not in found.basis
    one = gap(_series(values, STATE, "state_bytes"), "a", "base")
    assert one.is_seen == (state != 8192.0)
    assert "(" not in one.text


def test_a_significant_difference_is_not_written_as_zero() -> None:
    sweep = _sweep(
        {
            "base": [2.500, 2.510, 2.520],
            "a": [2.4960, 2.5061, 2.5159],
            "b": [2.9, 3.4, 3.1],
            "c": [3.9, 3.0, 3.4],
            "d": [3.1, 4.0, 3.6],
        }
    )
    table = comparison_table(sweep.about, sweep.measured, "t")
    key = "bits_per_character_difference"
    assert synthetic.entry(table, "a", key).text == "−0.00400"
    assert synthetic.entry(table, "d", key).text == "+1.06"


def test_numbers_that_are_no_shares_in_spite_of_their_name_are_not_cut_off() -> None:
    percent = MetricSpec(name="top5_accuracy", unit="1", better="higher")
    series = _series({"base": [80.0, 81.0, 82.0], "a": [84.0, 85.5, 86.0]}, percent)
    advantage = gap(series, "a", "base").advantage
    low, point, high = (
        synthetic.known(x) for x in (advantage.low, advantage.point, advantage.high)
    )
    assert 3 < low < point < high < 5


def _times(at: Mapping[str, Mapping[int, float | str]]) -> tuple[Sweep, Growth]:
    """Return a sweep of mixers alone, and both sentences on where they cross."""
    about = synthetic.about(
        variants=tuple(at),
        baseline=ATTENTION,
        tasks=(MIXER_ALONE,),
        probes=("mixer_time",),
        claim=None,
        metrics={MIXER_ALONE: {"mixer_time": (STEP,)}},
        data_sets={},
    )
    rows = [
        synthetic.row(
            about,
            variant,
            MIXER_ALONE,
            "mixer_time",
            STEP,
            seed=seed,
            **(
                {"at": f"length={place}"}
                | _ended(x if isinstance(x, str) else x * (1 + 0.003 * seed))
            ),
        )
        for variant, places in at.items()
        for place, x in places.items()
        for seed in range(3)
    ]
    found = results_frame(rows)
    growth = find(growths(about, found), STEP.name)
    assert growth is not None
    sweep = Sweep(about=about, results=found, curves=curves_frame([]))
    return sweep, growth


def _crossings(at: Mapping[str, Mapping[int, float | str]]) -> str:
    sweep, growth = _times(at)
    return crossings_in_words(sweep.about, growth)


def _doubling(first: float, last: int = 2048) -> dict[int, float | str]:
    return {
        n: first * n / 64 if n <= last else "out_of_memory" for n in (64, 128, 256, 512, 1024, 2048)
    }


def test_crossovers_are_stated_for_the_lengths_that_both_have() -> None:
    page = _crossings(
        {
            ATTENTION: _doubling(1.0),
            "mixer=gru": _doubling(2.0),
            "mixer=fnet": _doubling(2.0, last=256),
            "mixer=conv": _doubling(0.5, last=128),
        }
    )
    assert "measured from 64 to 2,048 tokens" in page
    assert "convolution at every length from 64 to 128, the last that both have" in page
    assert "GRU never; FNet never from 64 to 256, the last that both have." in page


def test_a_clause_on_one_variant_says_where_it_was_not_compared() -> None:
    sweep, growth = _times(
        {
            ATTENTION: _doubling(1.0),
            "mixer=gru": _doubling(2.0),
            "mixer=fnet": _doubling(2.0, last=256),
        }
    )
    in_pass = "in forward and backward,"
    assert crossing_in_words(sweep.about, growth, "mixer=gru") == f"{in_pass} GRU is never faster"
    assert crossing_in_words(sweep.about, growth, "mixer=fnet") == (
        f"{in_pass} FNet is never faster from 64 to 256, the last that both have"
    )


def test_a_lead_that_is_not_significant_everywhere_is_said() -> None:
    sweep, growth = _times({ATTENTION: _doubling(1.05), "mixer=gru": _doubling(1.0)})
    within = replace(growth, resolutions={64: math.log(1.07)})
    assert crossings_in_words(sweep.about, within) == (
        "Faster than the baseline (attention) in forward and backward, measured from 64 to 2,048 "
        "tokens: GRU at every length, not significantly at 64."
    )


def test_a_baseline_that_ends_early_ends_the_comparison() -> None:
    page = _crossings({ATTENTION: _doubling(1.0, last=256), "mixer=gru": _doubling(2.0)})
    assert "measured from 64 to 256 tokens: GRU never." in page


def test_several_changes_are_stated() -> None:
    places = (64, 128, 256, 512, 1024, 2048)
    factors = (2.0, 2.0, 0.5, 0.5, 2.0, 2.0)
    gru = {n: f * n / 64 for n, f in zip(places, factors, strict=True)}
    page = _crossings({ATTENTION: _doubling(1.0), "mixer=gru": gru})
    assert "GRU below 724 tokens (" in page
    assert ", the last of 2 changes." in page
