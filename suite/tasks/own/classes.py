"""The user's own classes of tasks, named ``module:Class``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from bakeoff.models.errors import ModelError
from bakeoff.models.registry import class_named
from bakeoff.suite.tasks.task import DataSource, Task, TaskError

if TYPE_CHECKING:
    from collections.abc import Mapping

_USUAL = {  # the architecture for models that do not name one, by the kind of answer
    "class": "classifier",
    "number": "classifier",
    "symbols": "tagger",
    "next_symbols": "language_model",
    "sequence": "translator",
    "pair": "pair_classifier",
}


def own_task(name: str, shipped: Mapping[str, str]) -> type[Task]:
    """Return the user's class under the name that a trial records, as ``my_task:MyTask``.

    The class need not define `name`, `source` and `architecture`.

    Args:
        name: The name, with a colon.
        shipped: The table of shipped tasks, for the message.

    Raises:
        TaskError: if the module cannot be imported, or the class is not a complete task.
    """
    try:
        found: type[Task] = class_named("task", shipped, name, Task)
    except ModelError as error:
        raise TaskError(str(error)) from error
    return _named(name, found)


@cache
def _named(name: str, kind: type[Task]) -> type[Task]:
    """Return a subclass with the attributes that every task of a trial has."""
    for attribute in ("asks_for", "input_size", "output_size"):
        if not hasattr(kind, attribute):
            raise TaskError(f"{name} does not define {attribute}; see the guide, 'Your own task'")
    added: dict[str, object] = {
        "name": name,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    if not hasattr(kind, "architecture"):
        added["architecture"] = _USUAL.get(kind.asks_for, "classifier")
    if not hasattr(kind, "source"):
        first, *_ = (kind.__doc__ or name).strip().splitlines()
        added["source"] = DataSource(
            name=name,
            title=first.rstrip("."),
            licence="not stated",
            origin=f"the class {name}",
            sha256="",
            file="",
        )
    return type(kind.__name__, (kind,), added)
