"""Numbers meet their counterparts: by place, by seed, and by environment where that moves them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.sides import Pairing, Side, paired
from tests.reports.made_sides import HERE, THERE, row, rows, side

HERE_ID, THERE_ID = HERE.environment_id, THERE.environment_id


def values(pairing: Pairing) -> list[tuple[dict[int, float], dict[int, float]]]:
    return [(pair.a.values, pair.b.values) for pair in pairing.pairs]


def only(pairing: Pairing) -> list[tuple[str, str, str]]:
    return [("A" if one.is_a else "B", one.place.metric, one.device) for one in pairing.one_sided]


def test_a_metric_at_another_place_is_another_number() -> None:
    for change in ({"variant": "heads=1"}, {"task": "mixer_alone"}, {"at": "length=64"}):
        found = paired(side(rows("bits", [1.0])), side(rows("bits", [2.0], **change)))
        assert values(found) == []
        assert only(found) == [("A", "bits", ""), ("B", "bits", "")] or only(found) == [
            ("B", "bits", ""), ("A", "bits", ""),
        ]  # fmt: skip


def test_controls_are_left_out() -> None:
    some = rows("linear_kernel_seconds", [1.0])
    assert paired(side(some), side(some)) == Pairing(pairs=(), one_sided=())


def test_times_meet_environment_by_environment() -> None:
    a = side(rows("seconds", [1.0]), rows("seconds", [5.0], made=THERE))
    b = side(rows("seconds", [2.0]), rows("seconds", [6.0], made=THERE))
    found = paired(a, b)
    assert sorted(values(found), key=str) == [({0: 1.0}, {0: 2.0}), ({0: 5.0}, {0: 6.0})]
    assert all(pair.a.environment_id == pair.b.environment_id for pair in found.pairs)
    assert only(found) == []


def test_an_environment_of_one_side_is_named_and_not_compared() -> None:
    a = side(rows("seconds", [1.0]), rows("seconds", [5.0], made=THERE))
    found = paired(a, side(rows("seconds", [2.0])))
    assert values(found) == [({0: 1.0}, {0: 2.0})]
    assert only(found) == [("A", "seconds", "New GPU")]


def test_without_a_common_environment_the_ones_with_most_numbers_meet() -> None:
    third = {"made": HERE, "environment_id": "third", "device": "Third CPU"}
    a = side(rows("seconds", [1.0, 1.0]), rows("seconds", [7.0], **third))
    found = paired(a, side(rows("seconds", [2.0], made=THERE)))
    (pair,) = found.pairs
    assert (pair.a.environment_id, pair.a.device) == (HERE_ID, "Old CPU")
    assert (pair.b.environment_id, pair.b.device) == (THERE_ID, "New GPU")
    assert only(found) == [("A", "seconds", "Third CPU")]


def test_a_score_of_several_environments_comes_from_the_shared_one() -> None:
    both = [row("bits", 1.0), row("bits", 2.0, made=THERE)]
    for order in (both, both[::-1]):
        for shared, wanted in ((HERE, 1.0), (THERE, 2.0)):
            found = paired(side(order), side(rows("bits", [wanted], made=shared)))
            assert values(found) == [({0: wanted}, {0: wanted})]


def test_a_failure_stays_in_its_place() -> None:
    failed: dict[str, Any] = {"status": "diverged", "reason": "nan at step 3"}
    found = paired(side(rows("bits", [1.0])), side([row("bits", None, **failed)]))
    (pair,) = found.pairs
    assert pair.b.values == {}
    assert [reading.reason for reading in pair.b.readings] == ["nan at step 3"]


def test_the_order_of_the_rows_does_not_matter() -> None:
    a = side(rows("bits", [1.0, 2.0]), rows("seconds", [1.0, 2.0]), rows("num_parameters", [3.0]))
    b = side(rows("bits", [1.5, 2.0], made=THERE), rows("seconds", [1.0, 2.0], made=THERE))

    def shuffled(given: Side) -> Side:
        mixed = pd.DataFrame(given.results.sample(frac=1, random_state=3))
        return Side(given.name, given.title, given.about, mixed.reset_index(drop=True))

    # As text, since a spread that is none (NaN) equals nothing.
    assert repr(paired(shuffled(a), shuffled(b))) == repr(paired(a, b))
