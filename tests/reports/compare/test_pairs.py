"""Numbers are paired by metric, by seed, and by environment where they depend on the machine."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from reports.compare.pairs import MetricPair, Selection, UnpairedMetric, pair_metrics
from tests.reports.compare.made_selections import HERE, THERE, row, rows, selection

HERE_ID, THERE_ID = HERE.environment_id, THERE.environment_id


def pairs(a: Selection, b: Selection) -> list[MetricPair]:
    return [found for found in pair_metrics(a, b) if isinstance(found, MetricPair)]


def values(a: Selection, b: Selection) -> list[tuple[dict[int, float], dict[int, float]]]:
    return [(pair.a.values, pair.b.values) for pair in pairs(a, b)]


def unpaired(a: Selection, b: Selection) -> set[tuple[str, str, str]]:
    only = [found for found in pair_metrics(a, b) if isinstance(found, UnpairedMetric)]
    return {(found.selection, found.key.metric, found.device) for found in only}


@pytest.mark.parametrize(
    "change", [{"variant": "heads=1"}, {"task": "mixer_alone"}, {"at": "length=64"}]
)
def test_a_metric_of_something_else_is_another_number(change: dict[str, str]) -> None:
    sides = selection(rows("bits", [1.0])), selection(rows("bits", [2.0], **change))
    assert values(*sides) == []
    assert unpaired(*sides) == {("A", "bits", ""), ("B", "bits", "")}


def test_controls_are_left_out() -> None:
    some = rows("linear_kernel_seconds", [1.0])
    assert list(pair_metrics(selection(some), selection(some))) == []


def test_times_are_paired_environment_by_environment() -> None:
    a = selection(rows("seconds", [1.0]), rows("seconds", [5.0], made=THERE))
    b = selection(rows("seconds", [2.0]), rows("seconds", [6.0], made=THERE))
    assert sorted(values(a, b), key=str) == [({0: 1.0}, {0: 2.0}), ({0: 5.0}, {0: 6.0})]
    assert all(pair.a.environment_id == pair.b.environment_id for pair in pairs(a, b))
    assert unpaired(a, b) == set()
    only_here = selection(rows("seconds", [2.0]))
    assert values(a, only_here) == [({0: 1.0}, {0: 2.0})]
    assert unpaired(a, only_here) == {("A", "seconds", "New GPU")}


def test_without_a_common_environment_those_with_most_numbers_are_paired() -> None:
    third = {"environment_id": "third", "device": "Third CPU"}
    a = selection(rows("seconds", [1.0, 1.0]), rows("seconds", [7.0], **third))
    b = selection(rows("seconds", [2.0], made=THERE))
    (pair,) = pairs(a, b)
    assert (pair.a.environment_id, pair.a.device) == (HERE_ID, "Old CPU")
    assert (pair.b.environment_id, pair.b.device) == (THERE_ID, "New GPU")
    assert unpaired(a, b) == {("A", "seconds", "Third CPU")}


def test_a_score_of_several_environments_comes_from_the_shared_one() -> None:
    both = [row("bits", 1.0), row("bits", 2.0, made=THERE)]
    for order in (both, both[::-1]):
        for shared, wanted in ((HERE, 1.0), (THERE, 2.0)):
            other = selection(rows("bits", [wanted], made=shared))
            assert values(selection(order), other) == [({0: wanted}, {0: wanted})]


def test_a_failure_is_paired_with_its_reason() -> None:
    failed = row("bits", None, status="diverged", reason="nan at step 3")
    (pair,) = pairs(selection(rows("bits", [1.0])), selection([failed]))
    assert pair.b.values == {}
    assert [reading.reason for reading in pair.b.readings] == ["nan at step 3"]


def test_what_is_recorded_and_differs_is_named() -> None:
    a, other = rows("bits", [1.0]), {"commit": "bbbb00000000", "trial_id": "another"}
    for b, wanted in ((a, ()), (rows("bits", [1.0], **other), ("trial", "commit"))):
        (pair,) = pairs(selection(a), selection(b))
        assert pair.differs == wanted


def test_the_order_of_the_rows_does_not_matter() -> None:
    a = selection(rows("bits", [1.0, 2.0]), rows("seconds", [1.0]), rows("num_parameters", [3.0]))
    b = selection(rows("bits", [1.5, 2.0], made=THERE), rows("seconds", [1.0, 2.0], made=THERE))

    def shuffled(given: Selection) -> Selection:
        mixed = pd.DataFrame(given.results.sample(frac=1, random_state=3))
        return replace(given, results=mixed.reset_index(drop=True))

    # As text, since a spread of NaN equals nothing.
    assert repr(list(pair_metrics(shuffled(a), shuffled(b)))) == repr(list(pair_metrics(a, b)))
