"""What differs besides the numbers: what is recorded, and how fast the machine itself was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.compare.page import machine_drift, recorded_differences
from tests.reports.compare.made_selections import ABOUT, HERE, THERE, rows, selection

BITS = [1.0, 1.1, 1.2]
KERNEL = "linear_kernel_seconds"


def test_each_difference_is_named_with_both_values_and_what_agrees_is_not() -> None:
    a = selection(rows("bits", BITS))
    assert recorded_differences(a, selection(rows("bits", [9.0]))) == {}
    newer = replace(
        HERE, commit="bbbb00000000", versions={"torch": "2.14.0"}, num_threads=2,
        conditions={"governor": "powersave"},
    )  # fmt: skip
    assert ABOUT.claim is not None
    about = replace(
        ABOUT, provenances={newer.environment_id: newer}, num_seeds=5,
        settings={"dim": 64, "steps": 600}, claim=replace(ABOUT.claim, by=0.1),
    )  # fmt: skip
    b = selection(rows("bits", BITS, made=newer), about=about)
    assert recorded_differences(a, b) == {
        "commit": ("aaaa00000000", "bbbb00000000"),
        "environment": (HERE.environment_id, newer.environment_id),
        "threads": ("1", "2"),
        "torch version": ("2.13.0", "2.14.0"),
        "python version": ("3.11.9", "none"),
        "governor": ("performance", "powersave"),
        "seeds planned": ("3", "5"),
        "setting: steps": ("300", "600"),
        "claim: by": ("0.0", "0.1"),
    }


def test_only_environments_of_the_rows_count() -> None:
    a, b = selection(rows("bits", BITS)), selection(rows("bits", BITS, made=THERE))
    assert recorded_differences(a, b) == {
        "environment": (HERE.environment_id, THERE.environment_id),
        "device": ("Old CPU", "New GPU"),
    }


def test_the_drift_is_the_median_ratio_of_the_kernels_of_one_machine() -> None:
    a = selection(rows(KERNEL, [1.0, 1.0, 1.0]), rows("seconds", [1.0, 1.0, 1.0]))
    b = selection(rows(KERNEL, [1.1, 1.2, 5.0]), rows("seconds", [9.0, 9.0, 9.0]))
    assert machine_drift(a, b) == (pytest.approx(1.2), 3)
    elsewhere = selection(rows(KERNEL, [2.0], made=THERE))
    assert machine_drift(a, elsewhere) is None
