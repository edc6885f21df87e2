"""Tests for exit codes of errors, one-line messages, and names with suggestions."""

from __future__ import annotations

import ast
import errno
import importlib
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bakeoff
from bakeoff.models.errors import did_you_mean
from bakeoff.suite.errors import REFUSED, UNAVAILABLE, USAGE, exit_code_of, one_line, unknown_name
from bakeoff.suite.spec import SpecError

ROOT = Path(bakeoff.__file__).parents[1]
CODES = {
    USAGE: (
        "SpecError",
        "TaskError",
        "ModelError",
        "FrameError",
        "PublishedError",
        "NotAFolder",
        "BadUri",
        "BadAddress",
    ),
    REFUSED: ("RefusedUri", "RefusedAddress", "RefusedArchive"),
    UNAVAILABLE: (
        "FetchUnavailable",
        "FolderUnavailable",
        "JournalError",
        "StoreUnavailable",
        "Unavailable",
    ),
}


def modules_that_define(name: str) -> list[str]:
    """Return the modules that define a class; it may move between them and keep its exit code."""
    return [
        ".".join(("bakeoff", *file.relative_to(ROOT).with_suffix("").parts))
        for room in ("suite", "models", "reports")
        for file in sorted((ROOT / room).rglob("*.py"))
        if f"class {name}(" in file.read_text()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for code, names in CODES.items() for name in names]
)
def test_every_error_of_a_user_has_its_exit_code(name: str, code: int) -> None:
    found = modules_that_define(name)
    assert found
    for module in found:
        kind = getattr(importlib.import_module(module), name)
        assert exit_code_of(kind("x")) == code


def test_a_subclass_takes_the_code_of_its_base_and_others_have_none() -> None:
    class Closer(SpecError):
        pass

    assert exit_code_of(Closer("x")) == USAGE
    assert exit_code_of(KeyError("x")) is None
    read_only = OSError(errno.EROFS, "Read-only file system", "out/journal.db")
    assert exit_code_of(read_only) == UNAVAILABLE
    assert exit_code_of(click.ClickException("a library's, whose code is 1")) is None


def test_the_nearest_names_come_first_then_all() -> None:
    assert unknown_name("ablation", "heds", ["complexity", "heads"]) == (
        "no ablation 'heds'; did you mean 'heads'? Allowed: complexity, heads."
    )
    assert unknown_name("task", "xyz", []) == "no task 'xyz'. Allowed: none."


@given(st.text())
def test_one_line_is_printable_and_can_be_encoded(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    shown.encode()  # a lone surrogate, as in some file names, would raise


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"])))
def test_what_prints_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text


def test_many_names_do_not_follow_where_a_near_one_was_found() -> None:
    names = [*(f"name_{number}" for number in range(80)), "fashion_mnist"]
    said = unknown_name("task", "fashion_mnst", names)
    wanted = "no task 'fashion_mnst'; did you mean 'fashion_mnist'? "
    assert said == f"{wanted}`bakeoff list --tasks` shows all 81."
    assert "name_79" in unknown_name("task", "qqq", names)


def test_the_nearest_by_edits_comes_first() -> None:
    near = did_you_mean("positon", ["position_std", "pooling", "position"])
    assert near.startswith("; did you mean 'position' or ")
