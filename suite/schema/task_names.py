"""Names of tasks: shipped ones, the user's own classes, and own data.

A trial names its task by one text. ``mqar`` is a shipped task, ``my_task:MyTask`` a class of the
user's own, and ``Table("my.csv", text="review", label="stars")`` makes a task of own data.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(.*\)\s*", re.DOTALL)
_MOST_LETTERS = 60


class DataCall(NamedTuple):
    """The parts of a text that makes own data."""

    kind: str
    path: Any
    fields: dict[str, Any]


def is_own_data(name: str) -> bool:
    """Return True if the text has the form of own data, as ``TextFile("my.txt")``."""
    return _CALL.fullmatch(name) is not None


def is_own_class(name: str) -> bool:
    """Return True if the text names a class of the user's own, as ``my_task:MyTask``."""
    return ":" in name and not is_own_data(name)


def data_call(spelling: str) -> DataCall:
    """Return the kind, the path and the fields of own data.

    Raises:
        ValueError: If the text is not a call with one path, then fields by name, all of them
            literal values.
    """
    try:
        call = ast.parse(spelling.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(str(error)) from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and len(call.args) == 1):
        raise ValueError("not a call with one path")
    fields = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return DataCall(call.func.id, ast.literal_eval(call.args[0]), fields)


def data_label(path: str, name: str | None) -> str:
    """Return the name of own data in tables and records: by default that of the file."""
    if name is not None:
        return name
    stem = PurePath(path).name.partition(".")[0].lower()
    words = re.sub(r"[^a-z0-9]+", "_", stem).strip("_")[:_MOST_LETTERS] or "data"
    return words if words[0].isalpha() else f"data_{words}"


def task_identity(name: str) -> str:
    """Return what of a task's name its results depend on: of own data all but path and name."""
    if not is_own_data(name):
        return name
    kind, _, fields = data_call(name)
    return json.dumps([kind, {key: fields[key] for key in sorted(fields) if key != "name"}])


@cache
def task_label(name: str) -> str:
    """Return the name of a task in tables and records."""
    if not is_own_data(name):
        return name
    _, path, fields = data_call(name)
    return data_label(path, fields.get("name"))
