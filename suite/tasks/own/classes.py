"""The user's own classes of tasks, named ``module:Class``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from bakeoff.models.errors import ModelError
from bakeoff.models.interface import ANSWERS
from bakeoff.models.registry import USUAL_ARCHITECTURES, class_named
from bakeoff.suite.errors import unknown_name
from bakeoff.suite.tasks.task import DataSource, Task, TaskError

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    if kind.asks_for not in ANSWERS:
        raise TaskError(f"{name}: {unknown_name('answer', str(kind.asks_for), ANSWERS)}")
    if not hasattr(kind, "architecture") and kind.asks_for not in USUAL_ARCHITECTURES:
        raise TaskError(f"{name}: a task that asks for {kind.asks_for} must define architecture")
    added: dict[str, object] = {
        "name": name,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    if not hasattr(kind, "architecture"):
        added["architecture"] = USUAL_ARCHITECTURES[kind.asks_for]
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
