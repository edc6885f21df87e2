"""Test that numbers are written with as many digits as their precision justifies."""

from __future__ import annotations

import pytest

from bakeoff.reports.stats.intervals import for_quantities, for_scores


@pytest.mark.parametrize(
    ("half_width", "text"), [(0.012, "2.414"), (0.0012, "2.4142"), (0.99, "2.41"), (31.0, "2")]
)
def test_two_digits_of_the_interval(half_width: float, text: str) -> None:
    assert for_scores("bit", [half_width], [2.41421]).write(2.41421) == text


def test_without_an_interval_four_digits() -> None:
    assert for_scores("bit", [], [2.41421]).write(2.41421) == "2.414"
    assert for_scores("1", [0.0], [0.0]).write(0.0) == "0"


def test_rounding_errors_are_no_interval() -> None:
    assert for_scores("bit", [1e-16], [3 / 7]).write(3 / 7) == "0.4286"


def test_signs() -> None:
    written = for_scores("bit", [0.01], [])
    assert written.write_signed(0.5) == "+0.500"
    assert written.write_signed(-0.5) == "−0.500"
    assert written.write_signed(-0.0001) == "0.000"


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("s", 0.02205, "22.05 ms"),
        ("s", 3.2e-5, "32 µs"),
        ("s", 75.0, "75 s"),
        ("FLOP", 29_360_128.0, "29.36 MFLOP"),
        ("bytes", 3 * 2.0**20, "3 MiB"),
        ("B", 6_515_000.0, "6.213 MiB"),
        ("B", 12.0, "12 B"),
        ("1", 107_264.0, "107.3 thousand"),
        ("1", 512.0, "512"),
        ("1", 0.25, "0.2500"),
        ("bytes", 0.0, "0 bytes"),
        ("s", 0.0, "0 s"),
        ("furlong", 1.5, "1.500 furlong"),
    ],
)
def test_prefixes(unit: str, value: float, text: str) -> None:
    written = for_quantities(unit, [value])
    assert written.with_unit(written.write(value)) == text


def test_no_values_no_prefix() -> None:
    assert for_quantities("FLOP", []).unit == "FLOP"
