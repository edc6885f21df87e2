"""What is recorded and differs is named, with both values; what agrees is not."""

from __future__ import annotations

from dataclasses import replace

from reports.side_facts import differing_facts
from tests.reports.made_sides import ABOUT, HERE, THERE, rows, side

BITS = [1.0, 1.1, 1.2]


def test_sides_that_agree_have_no_difference() -> None:
    assert differing_facts(side(rows("bits", BITS)), side(rows("bits", [9.0]))) == ()


def test_each_difference_is_named_once() -> None:
    newer = replace(
        HERE, commit="bbbb00000000", versions={"torch": "2.14.0"}, num_threads=2,
        conditions={"governor": "powersave"},
    )  # fmt: skip
    assert ABOUT.claim is not None
    about = replace(
        ABOUT, provenances={newer.environment_id: newer}, num_seeds=5,
        settings={"dim": 64, "steps": 600}, claim=replace(ABOUT.claim, by=0.1),
    )  # fmt: skip
    b = side(rows("bits", BITS, made=newer), about=about)
    found = {fact.name: (fact.a, fact.b) for fact in differing_facts(side(rows("bits", BITS)), b)}
    assert found == {
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
    found = differing_facts(side(rows("bits", BITS)), side(rows("bits", BITS, made=THERE)))
    assert {fact.name for fact in found} == {"environment", "device"}
    assert next(fact for fact in found if fact.name == "device").b == "New GPU"
