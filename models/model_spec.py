"""Define `ModelSpec`, the frozen value from which `build_model` builds a whole model.

This module imports no torch, so a plan of these values can be printed on any laptop; the hash of a
value is part of a trial's id.

Knobs are checked against the fields of a Config; nothing is converted or dropped silently, since an
ablation could otherwise vary a setting that no code reads. An unknown knob raises an error with the
nearest names; True and 8.0 are not accepted as whole numbers, nor "1e-3" as a number. The only
conversion is from int to float, so that 1 and 1.0 give the same trial.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bakeoff.models.errors import ModelError, did_you_mean
from bakeoff.models.interface import INPUTS, Input, InputKind

Knob = bool | int | float | str | None
Runtime = Literal["eager", "compiled"]


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A complete model: in a plan, every knob is stored with its value, defaults included.

    Attributes:
        architecture: A key of `bakeoff.models.ARCHITECTURES`, or a user's own as
            ``package.module:Class``.
        mixer: A key of `bakeoff.models.MIXERS`, or a user's own; empty if the architecture takes
            no mixer.
        knobs: The mixer's `Config`, field by field.
        position: A key of `bakeoff.models.POSITIONS`: an absolute one is combined with the
            embeddings, a relative one acts inside the mixers; empty if the architecture takes none.
        dim: Width of the model; 0 if the architecture does not take it, like `depth`.
        depth: Number of blocks.
        length: Length of the longest sequence, in tokens.
        input_kind: Kind of the first input; `length`, `input_size` and `grid` belong to it too, as
            in `Input`.
        output_size: Number of logits per token (language models, tagger), or per sequence or pair
            (classifiers).
        settings: The architecture's `Config`, field by field; a field left out has its default.
        runtime: How a timing runs forward and backward: operation by operation (``eager``), or
            compiled by torch (``compiled``). It changes the cost of the model, never its result. A
            model to be trained is always ``eager``: its training says how steps are run.
        others: Further inputs, by the parameters of the model's `forward`.
    """

    architecture: str
    mixer: str = ""
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    position: str = ""
    dim: int = 0
    depth: int = 0
    length: int
    input_kind: InputKind
    input_size: int
    output_size: int
    settings: Mapping[str, Knob] = field(default_factory=dict)
    runtime: Runtime = "eager"
    grid: tuple[int, int] | None = None
    others: Mapping[str, Input] = field(default_factory=dict)

    @property
    def inputs(self) -> Mapping[str, Input]:
        """All inputs of the model, by name."""
        first = Input(
            kind=self.input_kind, size=self.input_size, length=self.length, grid=self.grid
        )
        return {INPUTS: first, **self.others}

    @property
    def is_own(self) -> bool:
        """True if a part of the model is a user's own class."""
        return ":" in self.mixer or ":" in self.architecture

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The fields to hash, as plain values by name; cached, since a plan hashes them often."""
        late: dict[str, Any] = {
            "grid": None,
            "others": {},
        }  # not hashed at their defaults, so that old ids stay valid
        found = asdict(self)
        return in_hashed_words({k: v for k, v in found.items() if k not in late or v != late[k]})

    @cached_property
    def spelling(self) -> str:
        """JSON that is equal for two models if and only if they are the same."""
        return canonical_json(self.fields)

    @classmethod
    def of_spelling(cls, spelling: str) -> ModelSpec:
        """Return the model with this `spelling`."""
        found = json.loads(in_present_words(spelling))
        found["others"] = {k: _read_input(v) for k, v in found.get("others", {}).items()}
        return cls(**{**found, "grid": _read_grid(found.get("grid"))})


def _read_input(found: Mapping[str, Any]) -> Input:
    return Input(**{**found, "grid": _read_grid(found["grid"])})


def _read_grid(found: Sequence[int] | None) -> tuple[int, int] | None:
    return None if found is None else (found[0], found[1])


_PRESENT, _HASHED = "architecture", "skeleton"  # one field: its present name and its hashed name


def in_hashed_words(content: Mapping[str, Any]) -> dict[str, Any]:
    """Rename fields to the names under which they were first hashed, which never change."""
    return {_HASHED if name == _PRESENT else name: value for name, value in content.items()}


def in_present_words(body: str | bytes) -> bytes:
    """Rename fields in JSON of this or an older version to their present names."""
    text = body.encode() if isinstance(body, str) else body  # SQLite returns either
    return text.replace(f'"{_HASHED}":'.encode(), f'"{_PRESENT}":'.encode())


def canonical_json(content: Any) -> str:
    """Return the canonical JSON to hash. Raises for NaN and infinities."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(content: Any) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:32]


_LATE = {"is_late": True}


def late_knob(default: Any) -> Any:
    """Return a field of a `Config` that was added after trials had been given ids.

    At its default it is left out of a `ModelSpec`, and so of the hash: old ids stay valid.
    """
    return field(default=default, metadata=_LATE)


def reading_knob(default: Any) -> Any:
    """Return a late knob for evaluation only; variants that differ in it share one training."""
    return field(default=default, metadata={**_LATE, "reading_only": True})


def without_reading_knobs(config_class: type[Any], knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Return the knobs that affect training."""
    idle = {f.name for f in dataclasses.fields(config_class) if "reading_only" in f.metadata}
    return {name: value for name, value in knobs.items() if name not in idle}


def without_late_defaults(config_class: type[Any], knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Return the knobs, complete or not, without late ones that have their default."""
    idle = {
        each.name: each.default
        for each in dataclasses.fields(config_class)
        if "is_late" in each.metadata
    }
    return {name: v for name, v in knobs.items() if name not in idle or v != idle[name]}


def whole_numbers(config: Any, key: str, owner: str, separator: str = "-") -> list[int]:
    """Return the numbers of a knob that holds several, such as ``2-2-6-2``.

    Raises:
        ModelError: They are not whole numbers of at least 1, joined by the separator.
    """
    text: str = getattr(config, key)
    if not re.fullmatch(rf"[1-9]\d*({separator}[1-9]\d*)*", text, re.ASCII):
        raise ModelError(
            f"{owner}: {key}={text!r} are not whole numbers of at least 1, joined by {separator!r}"
        )
    return [int(number) for number in text.split(separator)]


_REFUSED = object()
_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    str: "a string",
    type(None): "None",
}


def config_from_knobs(config_class: type[Any], knobs: Mapping[str, Knob], owner: str) -> Any:
    """Return an instance of the frozen dataclass `config_class`, with each knob checked.

    Args:
        config_class: A mixer's `Config`.
        knobs: Values by field name; a field left out keeps its default.
        owner: The mixer's name, for messages.

    Raises:
        ModelError: The dataclass has no such field, or its annotation does not allow the value.
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
    """Return the value as the field stores it, or `_REFUSED`."""
    if get_origin(hint) is Literal:
        same = (one for one in get_args(hint) if type(one) is type(value) and one == value)
        return next(same, _REFUSED)
    if get_origin(hint) in (Union, UnionType):
        fits = [_fit(value, option) for option in get_args(hint)]
        return next((fit for fit in fits if fit is not _REFUSED), _REFUSED)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is float and not math.isfinite(value):
        return _REFUSED
    return value if type(value) is hint else _REFUSED


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_describe(option) for option in get_args(hint))
    return _WORDS.get(hint, str(hint))
