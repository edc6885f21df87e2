"""What moved, in sentences, tables and CSV; and how much did not."""

from __future__ import annotations

import pytest

from reports.movement import movements
from reports.movement_table import (
    MOST_ROWS,
    NOTHING_IN_COMMON,
    elsewhere_table,
    headline,
    moved_table,
    movement_frame,
    one_sided_table,
    still_tables,
)
from tests.reports.made_sides import THERE, row, rows, side

SECONDS = [0.010, 0.0101, 0.0099]


def test_the_headline_counts_every_kind() -> None:
    same = rows("accuracy", [0.5, 0.6, 0.7])
    a = side(same, rows("bits", [2.0, 2.1, 2.2]), rows("seconds", SECONDS),
             rows("num_parameters", [5.0]))  # fmt: skip
    b = side(same, rows("bits", [3.0, 3.1, 3.2001]), rows("seconds", [2 * x for x in SECONDS]),
             rows("num_parameters", [5.0]))  # fmt: skip
    assert headline(movements(a, b)) == (
        "1 of 2 scores moved, 1 identical; 1 of 1 time slower; 1 of 1 count identical."
    )


def test_nothing_that_moved_is_said_first() -> None:
    a = side(rows("bits", [2.0, 2.1, 2.2]), rows("num_parameters", [5.0]))
    assert headline(movements(a, a)) == (
        "Nothing moved for certain: 1 of 1 score identical; 1 of 1 count identical."
    )


def test_nothing_in_common_is_said_with_what_to_do() -> None:
    a, b = side(rows("bits", [2.0])), side(rows("bits", [2.0], variant="heads=1"))
    assert headline(movements(a, b)) == NOTHING_IN_COMMON
    assert "two folders" in NOTHING_IN_COMMON
    apart = side([row("bits", 2.0, seed=9)])
    assert headline(movements(a, apart)) == NOTHING_IN_COMMON


def test_a_row_shows_both_sides_the_change_and_what_else_differs() -> None:
    a = side(rows("num_parameters", [107_264.0]))
    b = side(rows("num_parameters", [107_265.0], commit="bbbb00000000"))
    table = moved_table(movements(a, b))
    assert table is not None
    (line,) = table.rows
    assert [entry.text for entry in line.entries] == [
        "num parameters", "1.000 ×", "107,264", "107,265", "commit",
    ]  # fmt: skip
    assert line.entries[1].note == "moved"


def test_other_devices_stand_beside_their_numbers() -> None:
    found = movements(side(rows("seconds", SECONDS)), side(rows("seconds", SECONDS, made=THERE)))
    assert still_tables(found) == ()
    table = elsewhere_table(found)
    assert table is not None
    (line,) = table.rows
    assert [entry.note for entry in line.entries[1:4]] == ["other device", "Old CPU", "New GPU"]
    assert line.entries[1].interval.startswith("[")


def test_a_long_table_ends_with_where_the_rest_is() -> None:
    many = [row("num_parameters", 1.0, at=f"length={n}") for n in range(MOST_ROWS + 5)]
    (table,) = still_tables(movements(side(many), side(many)))
    assert len(table.rows) == MOST_ROWS
    assert table.footnotes == ("Shown are 200 of 205 rows; moved.csv has them all.",)
    assert len(movement_frame(movements(side(many), side(many)))) == MOST_ROWS + 5


def test_what_one_side_has_is_named_and_counted() -> None:
    lengths = [row("bits", 1.0, at=f"length={n}") for n in (64, 128)]
    found = movements(side(lengths, rows("num_parameters", [1.0])), side(rows("accuracy", [1.0])))
    table = one_sided_table(found.one_sided)
    assert table is not None
    assert [[entry.text for entry in line.entries] for line in table.rows] == [
        ["B only", "words", "accuracy"],
        ["A only", "words", "bits (2), num parameters"],
    ] or [[entry.text for entry in line.entries] for line in table.rows] == [
        ["A only", "words", "num parameters, bits (2)"],
        ["B only", "words", "accuracy"],
    ]


def test_the_frame_holds_exact_numbers_and_what_moved_first() -> None:
    a = side(rows("bits", [2.0, 2.1, 2.2]), rows("num_parameters", [5.0]), rows("accuracy", [0.1]))
    b = side(rows("bits", [2.0, 2.1, 2.2]), rows("num_parameters", [6.0]))
    frame = movement_frame(movements(a, b))
    assert frame["metric"].tolist() == ["num_parameters", "bits", "accuracy"]
    assert frame["has_moved"].tolist() == ["yes", "no", "no"]
    assert frame["outcome"].tolist() == ["moved", "identical", "only in A"]
    first = frame.iloc[0]
    assert (first["a"], first["b"], first["change"]) == (5.0, 6.0, pytest.approx(1.2))
    assert frame.iloc[1]["a"] == pytest.approx(2.1)
