"""Test the effect that a number of seeds can detect, estimated from existing pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bakeoff.reports.analysis.power import power_in_words
from bakeoff.reports.stats.significance import num_seeds_to_find, power, smallest_effect
from bakeoff.suite.schema import ClaimSpec
from tests.reports.analysis.test_gate import BETTER, GOOD, measured


def _said(num_seeds: int, a: list[float] = BETTER, by: float = 0.0) -> str:
    about, series = measured(a, GOOD, {})
    claim = ClaimSpec(statement="", metric="bits", a="a", b="b", by=by, source="", task="t")
    return power_in_words(replace(about, claim=claim), series, num_seeds)


UNEVEN = [2.20, 2.25, 2.13]  # differences .30, .27, .35, with standard deviation .0404


def test_it_is_the_effect_that_so_many_seeds_find() -> None:
    effect = smallest_effect(float(np.std([0.30, 0.27, 0.35], ddof=1)), 10, num_pairs=3)
    assert _said(10, UNEVEN) == (
        f"10 seeds detect a difference of {effect:.5f} bit in 80 of 100 sweeps, given the spread "
        "of 3 earlier pairs (0.04041)."
    )


def test_a_claim_that_is_smaller_is_named_with_the_seeds_that_it_takes() -> None:
    assert _said(10, UNEVEN, by=0.01).endswith(
        "The claimed size is 0.01, which needs about 327 seeds."
    )
    assert "The claimed size is" not in _said(10, UNEVEN, by=0.2)
    assert _said(10, UNEVEN, by=1e-4).endswith("which needs more than 1,000 seeds.")


def test_nothing_is_said_of_what_shows_no_spread() -> None:
    assert _said(10, [2.2, 2.22]) == ""
    assert _said(10, [value - 1 for value in GOOD]) == ""
    assert _said(2, UNEVEN) == ""


@pytest.mark.parametrize("effect", [0.5, 1.0, 3.0])
def test_so_many_seeds_and_no_fewer_find_an_effect(effect: float) -> None:
    needed = num_seeds_to_find(effect, 1.0)
    assert needed is not None
    assert power(effect, 1.0, needed) >= 0.8
    assert needed == 3 or power(effect, 1.0, needed - 1) < 0.8
