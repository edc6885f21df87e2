"""Test the rows made from samples: medians with intervals, ratios, counts, reasons for doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bakeoff.suite.schema import CONTROLS, Measurement, Status
from bakeoff.suite.timing.measurements import measurements, outliers
from bakeoff.suite.timing.passes import Key, Missing
from bakeoff.suite.timing.rounds import Timings

MAIN, OTHER = "forward_backward_seconds", "forward_seconds"
AGAIN, SLOWED = "baseline_again_ratio", "baseline_slowed_ratio"
STEADY = [1.0, 1.01, 0.99] * 5
FOUND = Timings(
    samples={
        Key(MAIN, 0): STEADY,
        Key(OTHER, 0): [0.5] * 10,
        Key(MAIN, 1): [*[2.0] * 12, 2.5, 9.0],
        Key(AGAIN, 0): [1.01] * 15,
        Key(SLOWED, 0): [1.05] * 15,
        Key("linear_kernel_seconds", 0): [0.1] * 10,
    },
    noise=dict.fromkeys(
        [
            Key(MAIN, 0),
            Key(OTHER, 0),
            Key(MAIN, 1),
            Key(AGAIN, 0),
            Key(SLOWED, 0),
            Key("linear_kernel_seconds", 0),
        ],
        "",
    ),
    first_calls={Key(MAIN, 0): 7.0, Key(MAIN, 1): 8.0},
    missing={Key("decode_token_seconds", 1): Missing(Status.SKIPPED, "no step form")},
    num_disturbed=3,
    other_load=0.25,
)


def rows(timings: Timings) -> dict[tuple[str, int], Measurement]:
    compared = frozenset({MAIN, OTHER, "decode_token_seconds"})
    found = list(measurements(timings, main=MAIN, compared=compared, at="length=8"))
    table = {(m.metric, m.subject): m for m in found}
    assert len(table) == len(found)
    assert all(m.at == "length=8" for m in found)
    assert all((m.value is None) == (m.status not in (Status.OK, Status.NOISY)) for m in found)
    return table


def test_a_time_is_a_median_with_its_interval() -> None:
    found = rows(FOUND)[MAIN, 0]
    assert (found.value, found.unit, found.better) == (1.0, "s", "lower")
    assert (found.spread_low, found.spread_high) == (0.99, 1.01)
    assert found.status is Status.OK


def test_controls_are_better_neither_way() -> None:
    table = rows(FOUND)
    for (metric, _), found in table.items():
        assert found.better == ("none" if metric in CONTROLS else "lower")
    assert table["linear_kernel_seconds", 0].unit == "s"


def test_ratios_are_of_medians() -> None:
    table = rows(FOUND)
    assert table[AGAIN, 0].value == pytest.approx(1.01)
    assert table[SLOWED, 0].value == pytest.approx(1.05)
    assert table[SLOWED, 0].unit == "1"


def test_each_subject_says_what_its_samples_were_like() -> None:
    table = rows(FOUND)
    assert [table["num_samples", i].value for i in (0, 1)] == [15.0, 14.0]
    assert table["mild_outliers", 1].value == 0.0
    assert table["severe_outliers", 1].value == 2.0
    assert [table["first_call_seconds", i].value for i in (0, 1)] == [7.0, 8.0]
    assert table["num_disturbed", 0].value == 3.0
    assert table["other_load", 0].value == 0.25


def test_a_noisy_cell_keeps_its_value_and_says_why() -> None:
    noise = {**FOUND.noise, Key(MAIN, 0): "fewer than 10 rounds, after 4 rounds and 8 s"}
    table = rows(replace(FOUND, noise=noise))
    for metric in (MAIN, AGAIN, SLOWED):  # a ratio is only as reliable as its denominator
        found = table[metric, 0]
        assert found.status is Status.NOISY
        assert found.value is not None
        assert found.reason == "fewer than 10 rounds, after 4 rounds and 8 s"
    assert table[OTHER, 0].status is Status.OK


def test_few_samples_have_no_interval() -> None:
    key = Key(OTHER, 0)
    few = replace(FOUND, samples={**FOUND.samples, key: [0.5] * 3}, noise={**FOUND.noise, key: "?"})
    found = rows(few)[OTHER, 0]
    assert (found.value, found.spread_low, found.spread_high) == (0.5, None, None)


def test_what_is_missing_has_a_row_with_the_reason() -> None:
    found = rows(FOUND)["decode_token_seconds", 1]
    assert (found.status, found.reason) == (Status.SKIPPED, "no step form")
    assert (found.unit, found.better) == ("s", "lower")


def test_without_a_baseline_there_are_no_ratios() -> None:
    gone = Missing(Status.OUT_OF_MEMORY, "out of memory")
    samples = {key: value for key, value in FOUND.samples.items() if key != Key(MAIN, 0)}
    table = rows(replace(FOUND, samples=samples, missing={**FOUND.missing, Key(MAIN, 0): gone}))
    for metric in (AGAIN, SLOWED, MAIN, "num_samples", "first_call_seconds", "severe_outliers"):
        assert table[metric, 0].status is Status.OUT_OF_MEMORY
    assert table["num_samples", 1].value == 14.0


def test_an_unknown_load_is_no_number() -> None:
    found = rows(replace(FOUND, other_load=None))["other_load", 0]
    assert found.status is Status.SKIPPED
    assert found.reason == "this system does not say how much CPU time others take"


NINE = [float(i) for i in range(1, 10)]


@pytest.mark.parametrize(
    ("samples", "mild", "severe"),
    [
        (NINE, 0, 0),
        # Two more at each end put the quartiles at 2 and 8: fences at -7, 17 and at -16, 26.
        ([*NINE, -10.0, 20.0, -30.0, 30.0], 2, 2),
        ([0.0, 1.0, 2.0, 3.0, 6.0], 0, 0),  # on the fence: 3 + 1.5 * 2
        ([0.0, 1.0, 2.0, 3.0, 6.001], 1, 0),
        ([1.0], 0, 0),
        ([], 0, 0),
        ([1.0] * 9 + [1.1], 0, 1),  # if all others are equal, any deviation is severe
    ],
)
def test_mild_and_severe_outliers(samples: list[float], mild: int, severe: int) -> None:
    assert outliers(samples) == (mild, severe)
