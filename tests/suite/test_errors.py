"""Errors are known by their class's name; a name that no class bears would be a dead promise."""

import ast
from pathlib import Path

import suite
from suite import exit_codes
from suite.spec import SpecError

ROOT = Path(suite.__file__).parents[1]


def test_every_name_in_the_table_is_a_class_of_ours() -> None:
    classes = {
        node.name
        for room in ("suite", "models", "reports")
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    assert set(exit_codes._OF) <= classes


def test_a_subclass_takes_the_code_of_its_base_and_a_fault_of_ours_has_none() -> None:
    class Closer(SpecError):
        pass

    assert exit_codes.exit_code_of(Closer("x")) == exit_codes.USAGE
    assert exit_codes.exit_code_of(KeyError("x")) is None
