"""The machine's own change is read off kernels of both sides, paired; and off nothing else."""

from __future__ import annotations

import pytest

from reports.machine_drift import machine_drift
from tests.reports.made_sides import THERE, rows, side

KERNEL = "linear_kernel_seconds"


def test_it_is_the_median_ratio_of_the_kernels() -> None:
    a = side(rows(KERNEL, [1.0, 1.0, 1.0]), rows("seconds", [1.0, 1.0, 1.0]))
    b = side(rows(KERNEL, [1.1, 1.2, 5.0]), rows("seconds", [9.0, 9.0, 9.0]))
    found = machine_drift(a.results, b.results)
    assert found is not None
    assert found.ratio == pytest.approx(1.2)
    assert found.num_pairs == 3


def test_kernels_of_other_machines_are_no_pair() -> None:
    a, b = side(rows(KERNEL, [1.0])), side(rows(KERNEL, [2.0], made=THERE))
    assert machine_drift(a.results, b.results) is None
