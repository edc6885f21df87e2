"""Parse the labels of variants in results of versions that did not store the values of axes.

No other module parses labels: a label is for display, and a text in it may hold any character.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

Value = bool | int | float | str | None


def axes_in(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the names before the equals signs of all labels, each once."""
    parts = (part.partition("=") for label in labels for part in label.split(", "))
    return tuple(dict.fromkeys(name for name, equals, _ in parts if equals))


def values_in(label: str) -> dict[str, Value]:
    """Return the values that a label names."""
    return {name: value_in(text) for name, text in named_values(label).items()}


def value_in(text: str) -> Value:
    """Return the number or the bool that is displayed as the text, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and math.isfinite(value):
            return value
    return text


def tasks_in(label: str) -> list[str]:
    """Return the tasks that a label names."""
    return [part.partition("=")[2] for part in label.split(", ") if part.startswith("task=")]


def named_values(text: str) -> dict[str, str]:
    """Return the values of a label or a coordinate like ``length=1024, batch=8``, by name.

    The result is empty if the text is not a list of ``name=value``.
    """
    parts = [part.partition("=") for part in text.split(", ")]
    named = {name: value for name, _, value in parts}
    return named if all(named) and all(named.values()) and len(named) == len(parts) else {}
