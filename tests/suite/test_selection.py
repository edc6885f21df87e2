"""What a name given to `--compare` stands for, and the sentences where that is not clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reports.frame import Sweep, curves_frame, results_frame
from suite.selection import selected
from suite.spec import SpecError
from suite.tracking.location import RefusedUri
from tests.reports.made_sides import ABOUT, HERE, THERE, rows

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


def two(a: str, b: str, scale: str | None = None) -> list[tuple[str, str, int]]:
    sides = selected((a, b), "heads", lambda: SWEEPS, scale)
    return [(side.name, side.about.scale, len(side.results)) for side in sides]


@pytest.mark.parametrize("old", [OLD, "abcd", "ABCD1", OLD + "0" * 28])
def test_a_commit_is_named_by_its_first_digits(old: str) -> None:
    assert two(old, NEW) == [(OLD, "quick", 2), (NEW, "quick", 4)]


def test_a_commit_with_changes_is_another() -> None:
    assert two(NEW, f"{NEW}+") == [(NEW, "quick", 4), (f"{NEW}+", "quick", 1)]


@pytest.mark.parametrize("there", [THERE.environment_id, "New GPU", "gpu"])
def test_a_device_is_named_by_its_id_or_a_part_of_its_name(there: str) -> None:
    here = HERE.environment_id
    assert two("old", there) == [(here, "quick", 6), (THERE.environment_id, "quick", 1)]
    titles = [side.title for side in selected(("old", there), "heads", lambda: SWEEPS, None)]
    assert titles[1] == f"device New GPU ({THERE.environment_id})"


def test_a_commit_and_a_device_may_be_compared() -> None:
    assert two(OLD, "gpu")[1] == (THERE.environment_id, "quick", 1)


def test_the_scale_is_the_largest_that_both_have_or_the_one_asked_for() -> None:
    own = (SWEEPS[0], sweep("standard", rows("bits", [5.0], commit=OLD),
                            rows("bits", [6.0], commit=NEW, variant="heads=1")))  # fmt: skip
    found = selected((OLD, NEW), "heads", lambda: own, None)
    assert [side.about.scale for side in found] == ["standard", "standard"]
    found = selected((OLD, NEW), "heads", lambda: own, "quick")
    assert [side.about.scale for side in found] == ["quick", "quick"]


REFUSED = {
    "unknown": (("nothing", NEW), ["'nothing'", "no output folder", LISTING, "Old CPU ("]),
    "three digits": (("abc", NEW), ["'abc'", LISTING]),
    "ambiguous digits": (("abce", OLD), [f"may mean commit {NEW} or commit {NEW}+", LISTING]),
    "ambiguous device": (("U", OLD), ["may mean device", "New GPU", " or ", "Old CPU"]),
    "empty": (("", OLD), ["''", LISTING]),
    "the same": (("abcd", OLD), [f"both are commit {OLD}", "two that differ"]),
    "the same device": (("gpu", THERE.environment_id), ["both are device New GPU"]),
    "a folder without a store": (("/", NEW), ["'/'", "no output folder with a store"]),
    "too long": (("a" * 5000, NEW), ["no output folder"]),
    "null": (("a\0b", NEW), [r"a\x00b"]),
    "no file": (("sqlite:////nowhere/mlflow.db", NEW), ["no store at /nowhere/mlflow.db"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_clear_is_refused_with_what_there_is(case: str) -> None:
    names, fragments = REFUSED[case]
    with pytest.raises(SpecError) as caught:
        selected(names, "heads", lambda: SWEEPS, None)
    assert [part for part in fragments if part not in str(caught.value)] == []


def test_a_scale_of_one_side_only_is_refused() -> None:
    with pytest.raises(SpecError, match=r"no scale 'standard' in common; commit abcd11112222 has "
                       r"results at quick, standard, commit abce33334444 at quick\."):  # fmt: skip
        two(OLD, NEW, "standard")


def test_a_bare_folder_as_an_address_is_refused_for_safety() -> None:
    with pytest.raises(RefusedUri):
        two("file:///etc", NEW)
