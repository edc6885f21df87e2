"""Test that the length from which a mixer is faster is found if and only if it exists."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from bakeoff.reports.analysis.crossover import Crossover, CrossoverKind, crossover
from bakeoff.reports.analysis.time_comparison import DifferentEnvironments
from bakeoff.reports.stats.intervals import Estimate
from tests.reports.made_growth import LENGTHS, counted, growth, reading, timed

Law = Callable[[float], float]
FACTORS = dict(zip(LENGTHS, (2.0, 0.5, 0.5, 2.0, 2.0, 0.5, 0.5), strict=True))


def _attention(n: float) -> float:
    return 30e-6 + 8e-7 * n + 1e-9 * n * n


def _linear(n: float) -> float:
    return 200e-6 + 1.7e-6 * n


def _found(
    a: Law, b: Law, rng: np.random.Generator | None = None, noise: float = 0.02
) -> Crossover:
    laws = {"a": a, "b": b}
    values = {v: timed(f, rng, noise=noise) if rng else counted(f) for v, f in laws.items()}
    return crossover(growth(values), "a", "b")


@pytest.mark.parametrize(
    ("a", "b", "kind", "text", "point"),
    [
        (lambda n: 1000 * n, lambda n: n * n, CrossoverKind.FASTER_FROM, "1,000", 1000),
        (
            lambda n: n * n,
            lambda n: 1000 * n,
            CrossoverKind.FASTER_BELOW,
            "faster only below 1,000",
            1000,
        ),
        (
            lambda n: FACTORS[int(n)] * n,
            lambda n: n,
            CrossoverKind.FASTER_FROM,
            "1,450 (the last of 3 changes)",
            1448.1547,
        ),
        (
            _linear,
            _linear,
            CrossoverKind.UNDECIDED,
            "no significant difference from 64 to 4,096",
            None,
        ),
    ],
)
def test_exact_numbers_have_a_crossover_without_an_interval(
    a: Law, b: Law, kind: CrossoverKind, text: str, point: float | None
) -> None:
    found = _found(a, b)
    assert (found.kind, found.text) == (kind, text)
    assert found.place == (point and Estimate(n=7, point=pytest.approx(point, rel=1e-5)))


def test_last_bits_of_times_move_nothing() -> None:
    values = {
        v: timed(f, np.random.default_rng(1))
        for v, f in (("a", lambda n: 1000 * n), ("b", lambda n: n * n))
    }
    found = [
        crossover(growth({v: _off_by(bits, of) for v, of in values.items()}), "a", "b")
        for bits in (0, 1, 3)
    ]
    assert found[0].kind is CrossoverKind.FASTER_FROM
    assert found[0] == found[1] == found[2]


def _off_by(bits: int, times: Mapping[int, Sequence[float]]) -> dict[int, list[float]]:
    rng = random.Random(bits)
    return {
        place: [time + rng.randint(-bits, bits) * math.ulp(time) for time in some]
        for place, some in times.items()
    }


def test_intervals_keep_their_word_at_three_processes() -> None:
    true = brentq(lambda n: math.log(_linear(n) / _attention(n)), 64, 4096)
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(300):
        place = _found(_linear, _attention, rng).place
        hits += place.low <= true <= place.high
    assert 270 <= hits <= 297


@pytest.mark.parametrize(
    ("slow", "noise", "seed", "kind", "text", "ends"),
    [
        (1.0, 0.02, 0, CrossoverKind.FASTER_FROM, "1,010 [955, 1,060]", (955, 1010, 1060)),
        (10.0, 0.02, 0, CrossoverKind.NEVER, "not below 4,096", None),
        (0.05, 0.02, 0, CrossoverKind.ALWAYS, "below 64 (faster at every length)", None),
        (
            0.97 * _attention(4096) / _linear(4096),
            0.05,
            3,
            CrossoverKind.FASTER_FROM,
            "4,070 [3,600, beyond 4,096]",
            (3600, 4070, 4096),
        ),
    ],
)
def test_the_text_holds_the_point_and_both_ends(
    slow: float,
    noise: float,
    seed: int,
    kind: CrossoverKind,
    text: str,
    ends: tuple[float, ...] | None,
) -> None:
    found = _found(lambda n: slow * _linear(n), _attention, np.random.default_rng(seed), noise)
    assert (found.kind, found.text) == (kind, text)
    place = found.place and (found.place.low, found.place.point, found.place.high)
    assert place == (ends and pytest.approx(ends, rel=0.005))


def test_two_of_the_same_speed_seldom_seem_to_have_a_crossover() -> None:
    rng = np.random.default_rng(5)
    found = [_found(_linear, _linear, rng) for _ in range(100)]
    bounded = [x for x in found if x.place and "below 64" not in x.text and "beyond" not in x.text]
    assert len(bounded) <= 9
    assert sum(x.kind is CrossoverKind.UNDECIDED for x in found) > 50


@pytest.mark.parametrize("variant", ["a", "b"])
def test_noise_beside_the_crossover_makes_it_noisy(variant: str) -> None:
    rng = np.random.default_rng(2)
    values = {"a": timed(_linear, rng), "b": timed(_attention, rng)}
    beside = crossover(growth(values, noisy=[(variant, 1024)]), "a", "b")
    assert beside == Crossover(
        CrossoverKind.NOISY, "noisy at 1,024", compared=(64, 4096), num_changes=1
    )
    elsewhere = crossover(growth(values, noisy=[(variant, 64)]), "a", "b")
    assert elsewhere.kind is CrossoverKind.FASTER_FROM


@pytest.mark.parametrize(
    ("slow", "noise", "text"), [(1.02, 0.1, "noisy at 4,096"), (10.0, 0.02, "not below 4,096")]
)
def test_noise_at_the_top_hides_whether_there_is_one(slow: float, noise: float, text: str) -> None:
    rng = np.random.default_rng(2)
    values = {
        v: timed(lambda n, s=s: s * _attention(n), rng, noise=noise)
        for v, s in {"a": slow, "b": 1.0}.items()
    }
    assert crossover(growth(values, noisy=[("a", 4096)]), "a", "b").text == text


def test_what_cannot_be_compared() -> None:
    of = growth({"a": counted(_linear), "b": {}, "c": counted(_attention)})
    assert crossover(of, "a", "a") == Crossover(CrossoverKind.NOT_MEASURED, "the baseline")
    assert crossover(of, "b", "a") == Crossover(CrossoverKind.NOT_MEASURED, "not measured")
    of.readings["c"][64] = (reading(1.0, place="elsewhere"),)  # type: ignore[index]
    with pytest.raises(DifferentEnvironments):
        crossover(of, "a", "c")


def test_a_crossover_is_no_surer_than_the_baseline_against_itself() -> None:
    """Use exact laws that cross at 1,000 tokens, unresolved from 64 to 4,096 tokens at 10 %."""
    rng = np.random.default_rng(0)
    laws = {"a": lambda n: 1000 * n**0.9, "b": lambda n: 1000**0.9 * n}
    made = growth({v: timed(law, rng, noise=1e-4) for v, law in laws.items()})
    sharp = crossover(made, "a", "b").place
    blurred = crossover(replace(made, resolutions=dict.fromkeys(LENGTHS, math.log(1.1))), "a", "b")
    blind = crossover(replace(made, resolutions=dict.fromkeys(LENGTHS, math.log(2.0))), "a", "b")
    assert sharp.high / sharp.low < 1.1
    low, high = (1000 * 1.1**power for power in (-10, 10))  # at these lengths n^0.1 differs by 10 %
    assert blurred.place.low == pytest.approx(low, rel=0.05)
    assert blurred.place.high == pytest.approx(high, rel=0.05)
    assert blind.kind is CrossoverKind.UNDECIDED


def test_a_lead_within_the_resolution_is_not_sure() -> None:
    made = growth({"a": counted(lambda n: 0.95 * n), "b": counted(lambda n: n)})
    found = crossover(replace(made, resolutions={64: math.log(1.07)}), "a", "b")
    assert found.text == "below 64 (faster at every length, but not significantly at 64)"
    assert found.unsure == (64,)
