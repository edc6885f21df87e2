"""The structure check finds what it forbids, and passes on this repository."""

from __future__ import annotations

from pathlib import Path

from tools.check_structure import ambiguous_names

ROOT = Path(__file__).parents[2]


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_repository_uses_every_class_name_once() -> None:
    assert list(ambiguous_names(ROOT)) == []


def test_a_class_name_that_is_used_twice_is_named(tmp_path: Path) -> None:
    write(tmp_path, "models/a.py", "class A: ...\n")
    write(tmp_path, "reports/b.py", "class A: ...\n")
    (found,) = ambiguous_names(tmp_path)
    assert found == "class A is defined 2 times: reports/b.py:1, models/a.py:1"


def test_every_mixer_may_have_a_config(tmp_path: Path) -> None:
    write(tmp_path, "models/a.py", "class A:\n    class Config: ...\n")
    write(tmp_path, "models/b.py", "class B:\n    class Config: ...\n")
    assert list(ambiguous_names(tmp_path)) == []
