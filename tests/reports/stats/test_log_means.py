"""Test mixtures of powers with known parts."""

from __future__ import annotations

import numpy as np
import pytest

from bakeoff.reports.stats.log_means import leading_term, log_means, term_names
from tests.reports.conftest import known
from tests.reports.made_growth import LENGTHS, counted, timed


def _attention(n: float) -> float:
    return 60e-6 + 2e-6 * n + 1e-9 * n * n


def test_a_mixture_finds_its_parts() -> None:
    found = known(leading_term(log_means(counted(_attention))))
    assert found.coefficients == pytest.approx([60e-6, 2e-6, 0, 1e-9])
    assert term_names("d")[found.index] == "d^2"
    assert found.share == pytest.approx(1e-9 * 4096**2 / _attention(4096))
    assert leading_term(log_means(counted(_attention, LENGTHS[:3]))) is None
    small = timed(lambda n: 5e-5 * n + 1.1e-9 * n * n, np.random.default_rng(6), noise=0.004)
    led = known(leading_term(log_means(small)))
    assert (led.index, int(100 * led.share)) == (3, 8)


def test_terms_that_differ_by_a_logarithm_lead_together() -> None:
    found = known(leading_term(log_means(counted(lambda n: 3e-6 * n + 1e-6 * n * np.log2(n)))))
    assert (found.index, found.share) == (2, pytest.approx(1.0))


def test_coefficients_are_never_negative_and_the_right_terms_are_chosen() -> None:
    rng = np.random.default_rng(5)
    found = [leading_term(log_means(timed(_attention, rng))) for _ in range(100)]
    wild = [leading_term(log_means(timed(_attention, rng, noise=0.3))) for _ in range(100)]
    assert all(one is not None and (one.coefficients >= 0).all() for one in found + wild)
    chosen = [one is not None and list(one.coefficients > 0) for one in found]
    assert chosen.count([True, True, False, True]) >= 90
