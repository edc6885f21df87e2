"""Checks knobs against the fields of a Config; nothing is converted or dropped silently.

A peer's ablation once varied a setting that no code read. So an unknown knob is refused with the
nearest names, True is no whole number, 8.0 is none either, and "1e-3" is no number. The one
conversion is from whole number to number, so that 1 and 1.0 name the same trial.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from models.errors import ModelError, did_you_mean
from models.model_spec import Knob

_REFUSED = object()
_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    str: "a string",
    type(None): "None",
}


def config_from_knobs(config_class: type[Any], knobs: Mapping[str, Knob], owner: str) -> Any:
    """An instance of the frozen dataclass `config_class`, each knob checked against its field.

    Args:
        config_class: A mixer's `Config`.
        knobs: Values by field name; a field left out keeps its default.
        owner: The mixer's name, for messages.

    Raises:
        ModelError: a knob that the dataclass lacks, or a value that its annotation forbids.
    """
    names = [field.name for field in dataclasses.fields(config_class)]
    hints = get_type_hints(config_class)
    checked = {}
    for name, value in knobs.items():
        if name not in names:
            has = f"its knobs are {', '.join(names)}" if names else "it has no knobs"
            raise ModelError(f"{owner} has no knob {name!r}{did_you_mean(name, names)} ({has})")
        checked[name] = _fit(value, hints[name])
        if checked[name] is _REFUSED:
            allowed = _describe(hints[name])
            raise ModelError(f"{owner}: knob {name}={value!r} is not allowed, give {allowed}")
    return config_class(**checked)


def _fit(value: Knob, hint: Any) -> Any:
    """The value as the field holds it, or `_REFUSED`."""
    if get_origin(hint) is Literal:
        matches = [choice for choice in get_args(hint) if _is_same(choice, value)]
        return matches[0] if matches else _REFUSED
    if get_origin(hint) in (Union, UnionType):
        fits = [_fit(value, option) for option in get_args(hint)]
        return next((fit for fit in fits if fit is not _REFUSED), _REFUSED)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is float and not math.isfinite(value):
        return _REFUSED
    return value if type(value) is hint else _REFUSED


def _is_same(choice: Any, value: Knob) -> bool:
    return type(choice) is type(value) and choice == value


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_describe(option) for option in get_args(hint))
    return _WORDS.get(hint, str(hint))
