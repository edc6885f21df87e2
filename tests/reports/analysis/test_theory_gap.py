"""Test measured exponents against theory, and the cause given for each disagreement."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bakeoff.reports.analysis.theory_gap import (
    FLOPS,
    MEMORY,
    PATH,
    STEPS,
    TIME,
    TableOneRow,
    flops_per_second,
    table_one,
    theory_gaps,
)
from bakeoff.reports.results.length_sweep import Axis, Growth
from bakeoff.suite.schema import MixerFacts
from tests.reports import conftest as synthetic
from tests.reports.made_growth import HERE, LENGTHS, counted, growth, timed

DIMS, DIM, LENGTH = (32, 64, 128, 256), 64, 1024
PEAK = 1e11
Law = Callable[[float, float], float]


def _attention_flops(n: float, d: float) -> float:
    return 4 * n * n * d + 8 * n * d * d


COUNTS: Mapping[str, Law] = {
    "forward_flops": _attention_flops,
    "theory_operations": lambda n, d: n * n * d,
    "forward_backward_peak_bytes": lambda n, d: 32 * n * n + 40 * n * d,
    "forward_peak_bytes": lambda n, d: 16 * n * n + 20 * n * d,
    "forward_formula_bytes": lambda n, d: 16 * n * n + 20 * n * d,
    "sequential_operations": lambda n, d: 1.0,
    "theory_sequential_operations": lambda n, d: 1.0,
    "maximum_path_length": lambda n, d: 1.0,
    "theory_maximum_path_length": lambda n, d: 1.0,
}


def _pure(n: float, d: float) -> float:
    return 4 * n * n * d


def _seconds(n: float, d: float) -> float:
    """Return half of the peak rate at best plus a fixed cost: utilisation grows with size."""
    return 2e-3 + 3 * _attention_flops(n, d) / (PEAK / 2)


def _along(law: Law, axis: Axis) -> Callable[[float], float]:
    return (lambda n: law(n, DIM)) if axis == "length" else (lambda d: law(LENGTH, d))


def _growths(seconds: Law = _seconds, **laws: Law) -> tuple[Growth, ...]:
    made = []
    axes: dict[Axis, tuple[int, ...]] = {"length": LENGTHS, "dim": DIMS}
    for axis, places in axes.items():
        times = timed(_along(seconds, axis), np.random.default_rng(1), noise=0.005, places=places)
        made.append(growth({"a": times}, metric="forward_backward_seconds", axis=axis))
        for metric, law in {**COUNTS, **laws}.items():
            is_short = "path" in metric or "sequential" in metric  # up to 512 tokens
            values = counted(_along(law, axis), places[:4] if is_short else places)
            made.append(growth({"a": values}, metric=metric, axis=axis))
        peaks = {place: [PEAK * x for x in (0.99, 1.0, 1.01)] for place in places}
        made.append(growth({"a": peaks}, metric="matrix_peak_flops_per_second", axis=axis))
    return tuple(made)


def row(*args: Any, **laws: Law) -> TableOneRow:
    facts = MixerFacts(mixer="attention", time="n**2 * d", maximum_path_length="1")
    about = synthetic.about(variants=("a",), baseline="a", subjects={"a": facts})
    (found,) = table_one(about, _growths(*args, **laws), HERE)
    return found


def test_theory_stands_beside_the_measured_exponents() -> None:
    found = row()
    assert found.theory.time == "n**2 * d"
    assert found.exponents[TIME, "length"].theory == pytest.approx(2.0)
    assert found.exponents[TIME, "dim"].theory == pytest.approx(1.0)
    exact = math.log(_attention_flops(4096, 64) / _attention_flops(1024, 64)) / math.log(4)
    assert found.exponents[FLOPS, "length"].estimate.point == pytest.approx(exact)
    assert found.exponents[MEMORY, "length"].theory is None
    assert found.exponents[STEPS, "length"].estimate.point == pytest.approx(0.0)
    assert found.numbers(PATH) == dict.fromkeys(LENGTHS[:4], 1.0)


def test_theory_is_taken_over_the_places_that_were_measured() -> None:
    """Use n log n, whose slope depends on where it is measured."""

    def law(n: float, d: float) -> float:
        return n * math.log2(n) * d

    made = row(theory_operations=law, forward_flops=lambda n, d: 5 * law(n, d))
    flops = made.exponents[FLOPS, "length"]
    assert flops.places == (1024, 2048, 4096)
    assert flops.theory == pytest.approx(math.log(4 * 12 / 10) / math.log(4))
    assert not flops.disagrees


@pytest.mark.parametrize(
    ("laws", "clause"),
    [
        (
            {},
            "FLOPs grow with n^1.94, not n^2.00 (projections, which Table 1 omits, are 67 % of "
            "them at 64 tokens)",
        ),
        (
            {},
            "FLOPs grow with d^1.21, not d^1.00 (projections, which Table 1 omits, are 33 % of "
            "them at width 256)",
        ),
        (
            {"forward_flops": lambda n, d: 2 * n**1.5 * d},
            "FLOPs grow with n^1.50, not n^2.00 (0.25 to an operation of the formula at 64 tokens, "
            "0.0312 at 4,096 tokens)",
        ),
        (
            {"forward_peak_bytes": lambda n, d: 24 * n * n + 20 * n * d},
            "forward memory is 1.49 times its formula at 4,096 tokens",
        ),
        (
            {STEPS: lambda n, d: n},
            "sequential operations grow with n^1.00, not n^0.00 (64 at 64 tokens and 512 at 512 "
            "tokens, by formula 1 and 1)",
        ),
        (
            {PATH: lambda n, d: n - 1, f"theory_{PATH}": lambda n, d: n / 3},
            "the maximum path length is 3 times the formula’s, because Table 1 omits constant "
            "factors",
        ),
    ],
)
def test_each_disagreement_is_one_clause_with_its_cause(
    laws: Mapping[str, Law], clause: str
) -> None:
    assert list(theory_gaps(row(**laws))).count(clause) == 1


def _about_time(row: TableOneRow) -> str:
    (found,) = [text for text in theory_gaps(row) if text.startswith("time grows with n^")]
    return found


def test_the_exponent_of_the_time_is_that_of_the_flops_less_that_of_the_use() -> None:
    found = row()
    first, last = (100 * 3 * _attention_flops(n, 64) / _seconds(n, 64) / PEAK for n in (1024, 4096))
    clause = _about_time(found)
    assert "not n^2.00 (FLOPs grow with n^1.94, utilisation of the matrix peak rises" in clause
    assert f"rises from {first:.0f} % to {last:.0f} %" in clause
    assert "the part that does not grow with n is 9" not in clause
    assert flops_per_second(_growths(), "a", 4096) == pytest.approx(last / 100 * PEAK, rel=0.02)
    rest = tuple(growth for growth in found.growths if not growth.metric.startswith("matrix_peak"))
    without_peak = _about_time(replace(found, growths=rest))
    assert re.search(r"work rises from \d+ to \d+ GFLOP/s", without_peak)


@pytest.mark.parametrize(
    ("seconds", "flops", "words"),
    [
        (lambda n, d: 1e-12 * n**2.5 * d, _attention_flops, "matrix peak falls from "),
        (
            lambda n, d: 1.0 + 1e-8 * n * n * d,
            _pure,
            "the part that does not grow with n is 60 % of it at 1,024 tokens",
        ),
        (
            lambda n, d: 1e-9 * n * d,
            lambda n, d: 0.0,
            ", not n^2.00 (no FLOP formula is available to explain this)",
        ),
    ],
)
def test_a_time_that_follows_neither_theory_nor_flops_has_its_cause_named(
    seconds: Law, flops: Law, words: str
) -> None:
    found = row(seconds, forward_flops=flops)
    assert words in _about_time(found)
    assert (flops_per_second(found.growths, "a", 64) is None) == (flops(64, DIM) == 0)


def test_what_follows_theory_needs_no_word() -> None:
    found = row(lambda n, d: 1e-12 * n * n * d, forward_flops=_pure)
    assert list(theory_gaps(found)) == []
    assert not found.exponents[TIME, "length"].disagrees


def test_whole_steps_of_a_slow_formula_are_no_disagreement() -> None:
    found = row(
        maximum_path_length=lambda n, d: math.ceil(math.log(n, 3)),
        theory_maximum_path_length=lambda n, d: math.log(n, 3),
    )
    assert not [clause for clause in theory_gaps(found) if "path" in clause]


def test_noise_at_a_place_of_the_exponent_silences_it() -> None:
    times = timed(lambda n: 1e-9 * n, np.random.default_rng(2))
    made = [
        growth({"a": times}, metric=TIME, noisy=[("a", 4096)]),
        growth({"a": counted(lambda n: n * n)}, metric="theory_operations"),
    ]
    (found,) = table_one(synthetic.about(variants=("a",), baseline="a"), made, HERE)
    assert found.exponents[TIME, "length"].theory == pytest.approx(2.0)
    assert list(theory_gaps(found)) == []
    assert found.exponents[FLOPS, "length"].why_missing == "not measured"


def test_each_machine_has_its_own_exponents() -> None:
    times = growth({"a": timed(lambda n: 1e-9 * n, np.random.default_rng(2))}, metric=TIME)
    made = (times, replace(times, environment_id="bbbbbbbbbbbb"))
    about = synthetic.about(variants=("a", "never measured"), baseline="a")
    for one in made:
        (row,) = table_one(about, made, one.environment_id)
        assert row.growths == (one,)
