"""Copies of a module with a bug in them: what a test must notice."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


def broken(
    module: ModuleType, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """The module with one text replaced in its source, under a name of its own."""
    text = Path(str(module.__file__)).read_text()
    assert text.count(right) == 1, f"{right!r} stands {text.count(right)} times"
    copy = ModuleType(f"{module.__name__}_broken")
    monkeypatch.setitem(sys.modules, copy.__name__, copy)  # where dataclasses look for names
    exec(compile(text.replace(right, wrong), copy.__name__, "exec"), vars(copy))
    return copy
