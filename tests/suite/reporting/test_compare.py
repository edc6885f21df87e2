"""Tests for the meaning of a name given to `--compare`, and for errors if it is ambiguous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.reporting.compare import select_for_comparison
from bakeoff.suite.spec import SpecError
from tests.reports.made_selections import ABOUT, HERE, THERE, rows

OLD, NEW = "abcd11112222", "abce33334444"


def sweep(scale: str, *given: Sequence[dict[str, Any]]) -> Sweep:
    found = [row | {"scale": scale} for some in given for row in some]
    return Sweep(
        about=replace(ABOUT, scale=scale), results=results_frame(found), curves=curves_frame(())
    )


SWEEPS = (
    sweep(
        "quick",
        rows("bits", [1.0, 2.0], commit=OLD),
        rows("bits", [1.0, 2.0, 3.0], commit=NEW, variant="heads=1"),
        rows("bits", [4.0], commit=f"{NEW}+", at="length=9"),
        rows("seconds", [4.0], commit=NEW, made=replace(THERE, commit=NEW)),
        rows("bits", [9.0], commit="", environment_id="", device="", task="mixer_alone"),
    ),
    sweep("standard", rows("bits", [5.0], commit=OLD)),
)
LISTING = (
    "'heads' has the commits abcd11112222 (3 rows), abce33334444 (4 rows), abce33334444+ "
    "(1 row) and the devices "
)


Chosen = tuple[str, str, str, int]  # name, title, scale, number of rows
HERE_ID, THERE_ID = HERE.environment_id, THERE.environment_id
OLD_ROWS, NEW_ROWS = (OLD, f"commit {OLD}", "quick", 2), (NEW, f"commit {NEW}", "quick", 4)
CHANGED_ROWS = (f"{NEW}+", f"commit {NEW}+", "quick", 1)
HERE_ROWS = (HERE_ID, f"device Old CPU ({HERE_ID})", "quick", 6)
THERE_ROWS = (THERE_ID, f"device New GPU ({THERE_ID})", "quick", 1)


def two(a: str, b: str, scale: str | None = None, own: Sequence[Sweep] = SWEEPS) -> list[Chosen]:
    both = select_for_comparison(
        (a, b), "heads", lambda: own, scale, lambda: pytest.fail("asked for editions")
    )
    return [(one.name, one.title, one.about.scale, len(one.results)) for one in both]


UNDERSTOOD = {
    "whole commits": ((OLD, NEW), [OLD_ROWS, NEW_ROWS]),
    "first digits": (("abcd", NEW), [OLD_ROWS, NEW_ROWS]),
    "first digits, in capitals": (("ABCD1", NEW), [OLD_ROWS, NEW_ROWS]),
    "a whole hash": ((OLD + "0" * 28, NEW), [OLD_ROWS, NEW_ROWS]),
    "a commit with changes": ((NEW, f"{NEW}+"), [NEW_ROWS, CHANGED_ROWS]),
    "an environment": (("old", THERE_ID), [HERE_ROWS, THERE_ROWS]),
    "a device": (("old", "New GPU"), [HERE_ROWS, THERE_ROWS]),
    "a part of a device": (("old", "gpu"), [HERE_ROWS, THERE_ROWS]),
    "a commit and a device": ((OLD, "gpu"), [OLD_ROWS, THERE_ROWS]),
}


@pytest.mark.parametrize("case", UNDERSTOOD)
def test_a_name_is_a_commit_an_environment_or_a_part_of_a_device(case: str) -> None:
    names, wanted = UNDERSTOOD[case]
    assert two(*names) == wanted


def test_the_scale_is_the_largest_that_both_have_or_the_one_asked_for() -> None:
    own = (
        SWEEPS[0],
        sweep(
            "standard",
            rows("bits", [5.0], commit=OLD),
            rows("bits", [6.0], commit=NEW, variant="heads=1"),
        ),
    )
    assert [one[2:] for one in two(OLD, NEW, own=own)] == [("standard", 1), ("standard", 1)]
    assert two(OLD, NEW, "quick", own) == [OLD_ROWS, NEW_ROWS]
    with pytest.raises(
        SpecError,
        match=r"no scale 'standard' in common; commit abcd11112222 has "
        r"results at quick, standard, commit abce33334444 at quick\.",
    ):
        two(OLD, NEW, "standard")


REFUSED = {
    "unknown": (("nothing", NEW), ["'nothing'", "no output folder", LISTING, "Old CPU ("]),
    "three digits": (("abc", NEW), ["'abc'", LISTING]),
    "ambiguous digits": (("abce", OLD), [f"may mean commit {NEW} or commit {NEW}+", LISTING]),
    "ambiguous device": (("U", OLD), ["may mean device", "New GPU", " or ", "Old CPU"]),
    "empty": (("", OLD), ["''", LISTING]),
    "the same": (("abcd", OLD), [f"both are commit {OLD}", "two that differ"]),
    "the same device": (("gpu", THERE_ID), ["both are device New GPU"]),
    "a folder without a store": (("/", NEW), ["'/'", "no output folder with a store"]),
    "too long": (("a" * 5000, NEW), ["no output folder"]),
    "null": (("a\0b", NEW), [r"a\x00b"]),
    "no file": (("sqlite:////nowhere/mlflow.db", NEW), ["no store at /nowhere/mlflow.db"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_clear_is_refused_with_what_there_is(case: str) -> None:
    names, fragments = REFUSED[case]
    with pytest.raises(SpecError) as caught:
        two(*names)
    assert [part for part in fragments if part not in str(caught.value)] == []
