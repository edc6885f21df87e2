"""Tests for importing the planned modules, and no other code of the user's, in a trial."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bakeoff.suite.events import PlannedCode, PlannedModule
from bakeoff.suite.execution.planned_code import ChangedFile, import_only, refuse_changed_files


@pytest.fixture
def code(tmp_path: Path) -> Iterator[PlannedCode]:
    """Yield a planned package whose files were edited after planning."""
    (tmp_path / "own_pkg").mkdir()
    modules = {}
    for name, place in {"own_pkg": "own_pkg/__init__.py", "own_pkg.net": "own_pkg/net.py"}.items():
        (tmp_path / place).write_text("1 / 0")
        folders = (str(tmp_path / "own_pkg"),) if name == "own_pkg" else None
        source = "def made():\n    return __file__\n"
        modules[name] = PlannedModule(file=str(tmp_path / place), source=source, folders=folders)
    (tmp_path / "own_pkg" / "new.py").touch()
    (tmp_path / "words.txt").write_text("one")
    digests = {str(tmp_path / "words.txt"): "0" * 64}
    sys.path.append(str(tmp_path))
    yield PlannedCode(modules=modules, digests=digests, folders=(str(tmp_path),))
    import_only(None)


def test_modules_have_the_planned_text_and_their_own_file(
    code: PlannedCode, tmp_path: Path
) -> None:
    import_only(code)
    net = importlib.import_module("own_pkg.net")
    assert net.made() == str(tmp_path / "own_pkg" / "net.py")
    assert inspect.getsource(net.made) == "def made():\n    return __file__\n"
    assert str(tmp_path) not in sys.path
    with pytest.raises(ImportError, match=r"write `import own_pkg\.new` at the top"):
        importlib.import_module("own_pkg.new")


def test_an_edited_file_is_told(code: PlannedCode, tmp_path: Path) -> None:
    refuse_changed_files()
    import_only(code)
    with pytest.raises(ChangedFile, match=r"words\.txt was changed after the sweep was planned"):
        refuse_changed_files()
