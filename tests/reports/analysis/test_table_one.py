"""Do measured powers stand beside theory, and is every disagreement said, with its cause?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reports.analysis.table_one import TableOneRow, table_one
from reports.analysis.utilisation import utilisation
from reports.results.length_sweep import Axis, Growth
from suite.schema import MixerFacts
from tests.reports.made_growth import LENGTHS, counted, growth, timed

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


def _seconds(n: float, d: float) -> float:
    """Half of the peak at best, and a fixed cost: ever better used as it grows."""
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


@pytest.fixture
def row(synthetic: ModuleType) -> Callable[..., TableOneRow]:
    def made(*args: Any, **laws: Law) -> TableOneRow:
        facts = MixerFacts(mixer="attention", time="n**2 * d", maximum_path_length="1")
        about = synthetic.about(variants=("a",), baseline="a", subjects={"a": facts})
        (found,) = table_one(about, _growths(*args, **laws))
        return found

    return made


Row = Callable[..., TableOneRow]


def _said(row: TableOneRow, start: str) -> str:
    (found,) = [sentence for sentence in row.disagreements if sentence.startswith(start)]
    return found


def test_theory_stands_beside_the_measured_powers(row: Row) -> None:
    found = row()
    assert found.mixer == "attention"
    assert found.theory.time == "n**2 * d"
    assert found.time["length"].theory == pytest.approx(2.0)
    assert found.time["dim"].theory == pytest.approx(1.0)
    exact = math.log(_attention_flops(4096, 64) / _attention_flops(1024, 64)) / math.log(4)
    assert found.flops["length"].measured.estimate.point == pytest.approx(exact)
    assert found.memory["length"].theory is None
    assert found.sequential_operations.measured.estimate.point == pytest.approx(0.0)
    assert found.maximum_path_length is not None
    assert (found.maximum_path_length.place, found.maximum_path_length.by_theory) == (512, 1.0)


def test_theory_is_taken_over_the_places_that_were_measured(row: Row) -> None:
    """Of n log n the slope depends on where it is taken."""

    def law(n: float, d: float) -> float:
        return n * math.log2(n) * d

    flops = row(theory_operations=law, forward_flops=lambda n, d: 5 * law(n, d)).flops["length"]
    assert flops.measured.places == (1024, 2048, 4096)
    assert flops.theory == pytest.approx(math.log(4 * 12 / 10) / math.log(4))
    assert not flops.disagrees


def test_projections_are_found_to_be_what_table_1_leaves_out(row: Row) -> None:
    along_n, along_d = (_said(row(), f"FLOPs grow with {symbol}") for symbol in ("n^", "d^"))
    assert along_n == (
        "FLOPs grow with n^1.94 here, not n^2.00: the projections (n d^2), which Table 1 leaves "
        "out, make up 67 % of them at 64 tokens and 3 % at 4,096 tokens."
    )
    assert along_d == (
        "FLOPs grow with d^1.21 here, not d^1.00: the projections (n d^2), which Table 1 leaves "
        "out, make up 5.9 % of them at width 32 and 33 % at width 256."
    )


def test_what_is_no_projection_is_not_called_one(row: Row) -> None:
    found = row(forward_flops=lambda n, d: 2 * n**1.5 * d)
    assert _said(found, "FLOPs grow with n^1.50") == (
        "FLOPs grow with n^1.50 here, not n^2.00: to each operation of the formula belong 0.25 "
        "FLOPs at 64 tokens and 0.0312 at 4,096 tokens."
    )


def test_the_power_of_the_time_is_that_of_the_flops_less_that_of_the_use(row: Row) -> None:
    found = row()
    sentence = _said(found, "Time grows with n^")
    first, last = (100 * 3 * _attention_flops(n, 64) / _seconds(n, 64) / PEAK for n in (1024, 4096))
    assert "here, not n^2.00: its FLOPs themselves grow with n^1.94; the machine's use " in sentence
    assert f"rises from {first:.0f} % to {last:.0f} % of its matrix peak between 1,024" in sentence
    assert "what does not grow with n is still 9" not in sentence
    assert utilisation(_growths(), "a", 4096) == pytest.approx(last / 100, rel=0.02)


def test_a_use_that_falls_is_said_as_that(row: Row) -> None:
    found = row(lambda n, d: 1e-12 * n**2.5 * d)
    assert "the machine's use falls from " in _said(found, "Time grows with n^2.50 ")


def test_a_time_that_follows_theory_and_flops_needs_no_word(row: Row) -> None:
    found = row(lambda n, d: 1e-12 * n * n * d, forward_flops=lambda n, d: 4 * n * n * d)
    assert found.disagreements == ()
    assert not found.time["length"].disagrees


def test_a_fixed_cost_is_named_where_it_counts(row: Row) -> None:
    found = row(lambda n, d: 1.0 + 1e-8 * n * n * d, forward_flops=lambda n, d: 4 * n * n * d)
    share = 100 / (1 + 1e-8 * 1024**2 * 64)
    assert f"what does not grow with n is still {share:.0f} % of it at 1,024 tokens" in _said(
        found, "Time grows with n^"
    )


def test_a_mixer_without_flops_is_told_as_that(row: Row) -> None:
    found = row(lambda n, d: 1e-9 * n * d, forward_flops=lambda n, d: 0.0)
    assert _said(found, "Time grows with n^1").endswith(
        ", not n^2.00: it has no FLOPs by formula that could say why."
    )
    assert utilisation(_growths(forward_flops=lambda n, d: 0.0), "a", 64) is None


def test_memory_beyond_its_formula_is_said(row: Row) -> None:
    found = row(forward_peak_bytes=lambda n, d: 24 * n * n + 20 * n * d)
    assert _said(found, "The peak memory") == (
        "The peak memory of the forward pass is 1.49 times its formula at 4,096 tokens: more is "
        "held at once than the formula counts, by 128 MiB."
    )


def test_steps_that_grow_where_theory_has_none_are_said(row: Row) -> None:
    found = row(sequential_operations=lambda n, d: n)
    assert _said(found, "Sequential operations grow") == (
        "Sequential operations grow with n^1.00 here, not n^0.00: this form of the mixer has more "
        "dependent steps, 64 at 64 tokens and 512 at 512 tokens, where the formula gives 1 and 1."
    )


def test_whole_steps_of_a_slow_formula_are_no_disagreement(row: Row) -> None:
    found = row(
        maximum_path_length=lambda n, d: math.ceil(math.log(n, 3)),
        theory_maximum_path_length=lambda n, d: math.log(n, 3),
    )
    assert not [s for s in found.disagreements if "path" in s]


def test_a_path_that_is_longer_by_a_constant_is_told_with_the_constant(row: Row) -> None:
    found = row(
        maximum_path_length=lambda n, d: n - 1, theory_maximum_path_length=lambda n, d: n / 3
    )
    assert _said(found, "The maximum path length") == (
        "The maximum path length grows as theory says and is 3 times as long, 511 at 512 tokens "
        "where the formula gives 170.7: Table 1 leaves constant factors out, as that a centred "
        "kernel of k taps reaches (k - 1) / 2 tokens to a side."
    )


def test_noise_at_a_place_of_the_power_silences_it(synthetic: ModuleType) -> None:
    times = timed(lambda n: 1e-9 * n, np.random.default_rng(2))
    made = [
        growth({"a": times}, metric="forward_backward_seconds", noisy=[("a", 4096)]),
        growth({"a": counted(lambda n: n * n)}, metric="theory_operations"),
    ]
    (found,) = table_one(synthetic.about(variants=("a",), baseline="a"), made)
    assert found.time["length"].theory == pytest.approx(2.0)
    assert found.disagreements == ()
    assert found.flops["length"].measured.reason == "not measured"


def test_two_machines_have_a_row_each(synthetic: ModuleType) -> None:
    times = growth(
        {"a": timed(lambda n: 1e-9 * n, np.random.default_rng(2))},
        metric="forward_backward_seconds",
    )
    made = (times, replace(times, environment_id="bbbbbbbbbbbb"))
    found = table_one(synthetic.about(variants=("a",), baseline="a"), made)
    assert [row.environment_id for row in found] == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]
