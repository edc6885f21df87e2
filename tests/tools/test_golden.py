"""Test that the comparison with an earlier commit names each number that differs."""

from __future__ import annotations

import pandas as pd
import pytest

from tools.golden import KEY, differences


def rows(*values: object) -> pd.DataFrame:
    keys = [("quick", f"heads={index}", 0, "mqar", "quality", "loss", "") for index in range(3)]
    named = pd.DataFrame(keys[: len(values)], columns=KEY)
    return named.assign(value=values, status="ok").set_index(KEY)


@pytest.mark.parametrize(
    ("after", "num_different"),
    [
        (rows(1.0, 2.0), 0),
        (rows(1.0, 2.0000000000000004), 1),
        (rows(1.0), 1),
        (rows(1.0, 2.0, 3.0), 1),
    ],
    ids=["equal", "the last bit", "a row is missing", "a row is new"],
)
def test_every_difference_is_one_line(after: pd.DataFrame, num_different: int) -> None:
    assert len(list(differences(rows(1.0, 2.0), after))) == num_different


def test_a_trial_that_fails_now_is_a_difference() -> None:
    (found,) = differences(rows(1.0), rows(1.0).assign(status="error"))
    assert "heads=0" in found
