"""Is the length found from which it pays, and is it never found where it is not?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.optimize import brentq

from reports.analysis.time_comparison import DifferentEnvironments
from reports.crossover import Crossover, Kind, crossover
from tests.reports.made_growth import LENGTHS, counted, growth, reading, timed


def _attention(n: float) -> float:
    return 30e-6 + 8e-7 * n + 1e-9 * n * n


def _linear(n: float) -> float:
    return 200e-6 + 1.7e-6 * n


def _found(
    a: Mapping[int, Sequence[float]], b: Mapping[int, Sequence[float]], **more: object
) -> Crossover:
    return crossover(growth({"a": a, "b": b}, **more), "a", "b")


def _noisy(slow: float, noise: float, seed: int = 0) -> Crossover:
    rng = np.random.default_rng(seed)
    return _found(
        timed(lambda n: slow * _linear(n), rng, noise=noise), timed(_attention, rng, noise=noise)
    )


def test_an_exact_crossover_is_read_off_without_an_interval() -> None:
    found = _found(counted(lambda n: 1000.0 * n), counted(lambda n: 1.0 * n * n))
    assert found.kind is Kind.FASTER_FROM
    assert found.place is not None
    assert found.place.point == pytest.approx(1000.0)
    assert found.place.low is None
    assert found.text == "1,000"


def test_intervals_keep_their_word_at_three_processes() -> None:
    true = brentq(lambda n: math.log(_linear(n) / _attention(n)), 64, 4096)
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(300):
        found = _found(timed(_linear, rng), timed(_attention, rng))
        assert found.place is not None
        assert found.place.low is not None
        assert found.place.high is not None
        hits += found.place.low <= true <= found.place.high
    assert 270 <= hits <= 297


def test_the_text_holds_the_point_and_both_ends() -> None:
    found = _noisy(1.0, 0.02)
    assert found.place is not None
    assert found.text == "1,010 [955, 1,060]"
    ends = (found.place.low, found.place.point, found.place.high)
    assert ends == pytest.approx((955, 1010, 1060), rel=0.005)


def test_beyond_the_range_is_not_below_it() -> None:
    found = _noisy(10.0, 0.02)
    assert (found.kind, found.text, found.place) == (Kind.NEVER, "not below 4,096", None)


def test_faster_at_every_length() -> None:
    found = _noisy(0.05, 0.02)
    assert (found.kind, found.place) == (Kind.ALWAYS, None)
    assert found.text == "below 64 (faster at every length)"


def test_an_interval_that_leaves_the_range_says_so() -> None:
    slow = 0.97 * _attention(4096) / _linear(4096)
    found = _noisy(slow, 0.05, seed=3)
    assert found.kind is Kind.FASTER_FROM
    assert found.text.endswith(", beyond 4,096]")
    assert found.place is not None
    assert found.place.high == pytest.approx(4096)


def test_two_of_the_same_speed_seldom_seem_to_have_a_crossover() -> None:
    rng = np.random.default_rng(5)
    found = [_found(timed(_linear, rng), timed(_linear, rng)) for _ in range(100)]
    bounded = [x for x in found if x.place and "below 64" not in x.text and "beyond" not in x.text]
    assert len(bounded) <= 9
    assert sum(x.kind is Kind.UNDECIDED for x in found) > 50


def test_two_that_are_the_same_cannot_be_told_apart() -> None:
    found = _found(counted(_linear), counted(_linear))
    assert found.kind is Kind.UNDECIDED
    assert found.text == "the two cannot be told apart anywhere from 64 to 4,096"


def test_a_lead_that_is_lost_again_is_told_as_that() -> None:
    found = _found(counted(lambda n: 1.0 * n * n), counted(lambda n: 1000.0 * n))
    assert (found.kind, found.text) == (Kind.FASTER_BELOW, "faster only below 1,000")


def test_of_several_changes_the_last_counts_and_that_is_said() -> None:
    factors = dict(zip(LENGTHS, (2.0, 0.5, 0.5, 2.0, 2.0, 0.5, 0.5), strict=True))
    found = _found(counted(lambda n: factors[int(n)] * n), counted(lambda n: n))
    assert found.text == "1,450 (the last of 3 changes)"


@pytest.mark.parametrize("variant", ["a", "b"])
def test_noise_beside_the_crossover_makes_it_noisy(variant: str) -> None:
    rng = np.random.default_rng(2)
    values = {"a": timed(_linear, rng), "b": timed(_attention, rng)}
    beside = crossover(growth(values, noisy=[(variant, 1024)]), "a", "b")
    assert (beside.kind, beside.text, beside.place) == (Kind.NOISY, "noisy at 1,024", None)
    elsewhere = crossover(growth(values, noisy=[(variant, 64)]), "a", "b")
    assert elsewhere.kind is Kind.FASTER_FROM


def test_noise_at_the_top_hides_whether_there_is_one() -> None:
    rng = np.random.default_rng(2)
    laws = {"a": lambda n: 1.02 * _attention(n), "b": _attention}
    alike = {name: timed(law, rng, noise=0.1) for name, law in laws.items()}
    assert crossover(growth(alike, noisy=[("a", 4096)]), "a", "b").text == "noisy at 4,096"
    behind = {"a": timed(lambda n: 10 * _linear(n), rng), "b": timed(_attention, rng)}
    assert crossover(growth(behind, noisy=[("a", 4096)]), "a", "b").text == "not below 4,096"


def test_the_baseline_and_what_was_not_measured() -> None:
    of = growth({"a": counted(_linear), "b": {}})
    assert crossover(of, "a", "a").text == "the baseline"
    assert crossover(of, "b", "a").text == "not measured"
    assert crossover(of, "b", "a").kind is Kind.NOT_MEASURED


def test_what_was_measured_elsewhere_is_refused() -> None:
    of = growth({"a": counted(_linear), "b": counted(_attention)})
    of.readings["b"][64] = (reading(1.0, place="elsewhere"),)  # type: ignore[index]
    with pytest.raises(DifferentEnvironments):
        crossover(of, "a", "b")
