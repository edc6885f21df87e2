"""Make copies of a module that contain a bug, which a test must detect."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


def broken(
    module: ModuleType, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """Return a copy of the module under its own name, with one text of its source replaced."""
    text = Path(str(module.__file__)).read_text()
    assert text.count(right) == 1, f"{right!r} stands {text.count(right)} times"
    copy = ModuleType(f"{module.__name__}_broken")
    monkeypatch.setitem(sys.modules, copy.__name__, copy)  # dataclasses look up names there
    exec(compile(text.replace(right, wrong), copy.__name__, "exec"), vars(copy))
    return copy
