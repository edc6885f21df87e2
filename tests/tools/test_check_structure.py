"""The structure check finds what it forbids, and passes on this repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_structure import violations

ROOT = Path(__file__).parents[2]


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_repository_keeps_its_limits() -> None:
    assert list(violations(ROOT)) == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({f"suite/f{i}.py": "" for i in range(12)}, "suite: 12 Python files, at most 11"),
        ({f"models/x/f{i}.py": "" for i in range(25)}, "models/x: 25 Python files, at most 24"),
        ({"models/a.py": "#\n" * 501}, "models/a.py: 501 lines, at most 500"),
        ({"models/a.py": "def f():\n" + "    1\n" * 40}, "models/a.py:1: f has 41 lines"),
        (
            {"models/a.py": "class A: ...\n", "reports/b.py": "class A: ...\n"},
            "class A is defined 2 times: reports/b.py:1, models/a.py:1",
        ),
    ],
    ids=["loose", "crowded", "long file", "long function", "class twice"],
)
def test_a_limit_that_is_exceeded_is_named(
    files: dict[str, str], said: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    (found,) = violations(tmp_path)
    assert said in found


def test_documentation_makes_no_function_long(tmp_path: Path) -> None:
    write(
        tmp_path, "models/a.py", 'def f():\n    """A.\n' + "\n" * 50 + '    """\n' + "    1\n" * 39
    )
    assert list(violations(tmp_path)) == []


def test_every_mixer_may_have_a_config(tmp_path: Path) -> None:
    write(tmp_path, "models/a.py", "class A:\n    class Config: ...\n")
    write(tmp_path, "models/b.py", "class B:\n    class Config: ...\n")
    assert list(violations(tmp_path)) == []
