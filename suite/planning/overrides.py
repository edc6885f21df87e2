"""Apply `--set` options to an ablation, as if its file had been edited. Pure.

A single value replaces the baseline's; several values replace those of an axis, or add an axis.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from bakeoff.models.model_spec import Knob
from bakeoff.suite.errors import unknown_name
from bakeoff.suite.planning.knobs import knob_types
from bakeoff.suite.planning.loader import VALUE, LoadedAblation
from bakeoff.suite.spec import MODEL_FIELDS, SWEEPS, Ablation, Model, Scale, SpecError, vary
from bakeoff.suite.spec.own_data import task_spelled

Setting = Knob | Sequence[Knob]
_LISTS_OF_SCALE = SWEEPS - {"dims_length"}
_LISTS_OF_ABLATION = frozenset({"tasks", "probes"})
# Fields that may be set besides knobs -> the type of one value.
_FIELDS: Mapping[str, Any] = {
    **{name: field.annotation for name, field in Scale.model_fields.items()},
    **{name: Model.model_fields[name].annotation for name in sorted(MODEL_FIELDS)},
    "task": str,
    "tasks": str,
    "probes": str,
    "claim": None,
}
_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    NoneType: "none",
}
_TRUTHS = {"true": True, "false": False}
_CALL = r"""[A-Za-z]\w*\((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^()"'])*\)"""
_DATA = re.compile(_CALL)
_DATA_OR_WORD = re.compile(rf"({_CALL}|[^,]+)\s*(?:,\s*|$)")


class Text(str):
    """A value as typed on the command line, to be converted to the type of its field."""


def parsed(options: Sequence[str]) -> dict[str, tuple[Text, ...]]:
    """Return field -> values for options like ``heads=1,2,4``.

    A value with a comma is written in double quotes, for example ``kernels="3, 5",3``.

    Raises:
        SpecError: For an option without a field or a value, and for a field that is given twice.
    """
    found: dict[str, tuple[Text, ...]] = {}
    for option in options:
        name, _, values = option.partition("=")
        several = _split(option, values)
        if not name or not all(several):
            raise SpecError(f"--set {option}: give FIELD=VALUE, or FIELD=VALUE,VALUE,...")
        if name in found:
            raise SpecError(f"--set {option}: {name!r} is given twice; give all values at once.")
        found[name] = several
    return found


def _split(option: str, values: str) -> tuple[Text, ...]:
    """Return the comma-separated values, with the quoting rules of CSV."""
    if _DATA.match(values):  # own data, whose commas and quotes do not separate values
        return tuple(Text(found.group(1).strip()) for found in _DATA_OR_WORD.finditer(values))
    try:
        lines = list(csv.reader([values], skipinitialspace=True, strict=True))
    except csv.Error:
        lines = []
    if len(lines) > 1 or (values and not lines):
        raise SpecError(
            f"--set {option}: close each double quote; a double quote within quotes is written "
            "twice."
        )
    return tuple(Text(value.strip()) for line in lines for value in line) or (Text(""),)


def as_options(settings: Mapping[str, Setting]) -> str:
    """Return the equivalent command-line options, for example `` --set heads=1,2,4``."""
    texts = (f"{name}={','.join(map(_typed, _several(v)))}" for name, v in settings.items())
    return "".join(f" --set {shlex.quote(text)}" for text in texts)


def as_keywords(settings: Mapping[str, Setting]) -> str:
    """Return the equivalent arguments of `bakeoff.run`, for example ``, heads=[1, 2, 4]``."""
    several = {name: [*_several(value)] for name, value in settings.items()}
    return "".join(f", {n}={v if len(v) > 1 else repr(v[0])}" for n, v in several.items() if v)


def edited(
    entry: LoadedAblation, scale_name: str, settings: Mapping[str, Setting]
) -> LoadedAblation:
    """Return the ablation with fields of that scale, of its baseline and its axes changed.

    Raises:
        SpecError: For a field that it does not have, or a value of another type.
    """
    entry = replace(entry, ablation=entry.ablation.at_scale(scale_name))
    if scale_name not in entry.ablation.scales:
        return entry
    of_fields = {
        name: _values(name, given, _FIELDS[name])
        for name, given in settings.items()
        if name in _FIELDS
    }
    ablation = _changed(entry.ablation, scale_name, of_fields)
    others = [name for name in settings if name not in of_fields]
    types = knob_types(ablation) if others else {}  # after the mixer has been set
    for name in others:
        if name not in types:
            raise SpecError(unknown_name("field", name, {*_FIELDS, *types}))
    of_knobs = {name: _values(name, settings[name], types[name]) for name in others}
    ablation = _changed(ablation, scale_name, of_knobs)
    said = as_keywords({**of_fields, **of_knobs}) if entry.file == VALUE else as_options(settings)
    return replace(entry, ablation=ablation, options=said)


def _changed(
    ablation: Ablation, scale_name: str, values: Mapping[str, tuple[Knob, ...]]
) -> Ablation:
    axes, model = {axis.name: axis for axis in ablation.axes}, ablation.baseline
    of_ablation: dict[str, Any] = {}
    of_scale: dict[str, Any] = {}
    of_model: dict[str, Any] = {}
    for name, several in values.items():
        if name in _LISTS_OF_SCALE:
            of_scale[name] = several
        elif name in _LISTS_OF_ABLATION:
            of_ablation[name] = several
        elif len(several) > 1:
            axes[name] = vary(name, several)
        elif name in ("task", "claim"):
            of_ablation |= {"tasks": several} if name == "task" else {"claim": None}
        else:
            is_of_scale = name in Scale.model_fields and name not in model.sizes
            (of_scale if is_of_scale else of_model)[name] = several[0]
    before = ablation.scales[scale_name]  # type: ignore[index]
    if "tasks" in of_ablation and before.tasks:
        of_scale["tasks"] = None  # else the tasks of the scale would replace them again
    if of_scale:
        scale = Scale(**{**before.model_dump(exclude_unset=True), **of_scale})
        of_ablation["scales"] = {**ablation.scales, scale_name: scale}
    if of_model:
        fields = {n: getattr(model, n) for n in model.model_fields_set if n != "knobs"}
        of_ablation["baseline"] = Model(**{**fields, **model.knobs, **of_model})
    return ablation.model_copy(update={**of_ablation, "axes": tuple(axes.values())})


def _several(given: object) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple | range) else (given,)


def _values(name: str, given: Setting, hint: Any) -> tuple[Knob, ...]:
    """Return the converted values; values that are not `Text` are checked by their field later."""
    found = [_parsed(name, v, hint) if isinstance(v, Text) else v for v in _several(given)]
    for index, value in enumerate(found):
        if any(type(value) is type(other) and value == other for other in found[:index]):
            raise SpecError(f"{name} is given {_text(value)} twice.")
    if not found:
        raise SpecError(f"{name} is given no value.")
    if name in ("task", "tasks", "start"):
        found = [task_spelled(value) for value in found]
    if name == "claim" and found != [None]:
        raise SpecError("claim can only be set to none; the ablation's file states it.")
    return tuple(found)


def _parsed(name: str, text: Text, hint: Any) -> Knob:
    kinds = list(_kinds(hint))
    for kind in kinds:
        for value in _meanings(text, kind):
            return value
    allowed = " or ".join(dict.fromkeys(_WORDS.get(kind, _text(kind)) for kind in kinds))
    raise SpecError(f"{name}={str(text)!r} must be {allowed}.")


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the plain types and literal values in a type, the narrowest first."""
    found = list(_parts(hint))
    order = [NoneType, bool, int, float, str]
    yield from (kind for kind in found if kind not in order)
    yield from (kind for kind in order if kind in found)


def _parts(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (Annotated, Sequence):
        yield from _parts(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for option in get_args(hint):
            yield from _parts(option)
    elif get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        yield NoneType if hint is None else hint


def _meanings(text: Text, kind: Any) -> Iterator[Knob]:
    """Yield the value of that type, or that literal value, if the text can be converted to it."""
    plain = str(text)
    if not isinstance(kind, type):
        yield from [kind] if plain == _text(kind) else []
    elif kind is NoneType:
        yield from [None] if plain.lower() == "none" else []
    elif kind is bool:
        yield from [_TRUTHS[plain.lower()]] if plain.lower() in _TRUTHS else []
    elif kind is str:
        yield plain
    else:
        try:
            number: float = kind(plain)
        except ValueError:
            return
        yield from [number] if math.isfinite(number) else []


def _typed(value: object) -> str:
    """Return the text of a value in a comma-separated list."""
    text = _text(value)
    has_to_be_quoted = any(c in text for c in ',"') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if has_to_be_quoted else text


def _text(value: object) -> str:
    """Return the text of a single value."""
    is_word = value is None or isinstance(value, bool)
    return str(value).lower() if is_word else str(value)
