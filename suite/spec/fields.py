"""The base class of specifications, the types of their fields, and their error messages."""

from __future__ import annotations

import itertools
import re
import reprlib
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bakeoff.suite.errors import UsageError, message, unknown_name

_PATTERNS = {  # the requirement in words, for fields with a pattern
    ("Model", "label"): "it must have 1 to 40 characters, not begin with a space, and be without "
    "the signs = , ; ( )",
    ("Ablation", "opens_with"): "it must be attention, positions, filters, words, drawings, or by "
    "and the name of an axis or a coordinate",
    ("Scale", "gpu_model"): "it must have at most 64 letters, digits, underscores and hyphens",
}
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "True or False",
    "string_type": "a text in quotes",
}
Budget = Literal["steps", "flops", "tokens", "parameters", "seconds"]
TUNED = "tuned"  # stands for a learning rate that a search in the plan finds


class SpecError(UsageError):
    """Raised for an invalid specification; one sentence names key, value, and what is allowed."""

    def __init__(self, sentence: str) -> None:
        super().__init__(message(sentence))


class FrozenSpec(BaseModel):
    """The base class of specifications: frozen, strictly typed, with errors of one sentence.

    Raises:
        SpecError: For an unknown field, a missing field, or a value that is not allowed.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=False
    )

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise SpecError(_explain(type(self), error)) from None


def _explain(spec: type[BaseModel], error: ValidationError) -> str:
    """Explain the first error in one sentence; an unknown field precedes a missing one."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{spec.__name__}: {unknown_name('field', key, spec.model_fields)}"
    if first["type"] == "missing":
        # An example is dims=16 for dim.
        near = get_close_matches(key, first["input"], n=1, cutoff=0.8)
        other = "".join(f"; {name} is another field" for name in near)
        return f"{spec.__name__} needs a value for {key!r}{other}."
    if isinstance(given := first["input"], type) and first["type"] != "value_error":
        wanted = first.get("ctx", {}).get("class_name", given.__name__)
        return f"{spec.__name__}: {key} is a class; give an object, {wanted}(...)."
    message = _in_our_words(first, spec)
    if not key:  # the error is about several fields together
        return f"{spec.__name__}: {message}."
    return f"{spec.__name__}: {key}={reprlib.repr(first['input'])}: {message}."


def _in_our_words(error: Mapping[str, Any], spec: type[BaseModel]) -> str:
    """Return what is allowed, for the errors that pydantic words for programmers."""
    kind, said = error["type"], str(error["msg"])
    if kind == "sequence_str":
        return f"it must be a list, as [{error['input']!r}]"
    if kind in ("is_instance_of", "list_type", "tuple_type") and "Sequence" in said:
        return f"it must be a list, as [{reprlib.repr(error['input'])}]"
    if kind in _KINDS:
        return f"it must be {_KINDS[kind]}"
    if kind in ("too_short", "too_long"):
        bound = "least" if kind == "too_short" else "most"
        number = error["ctx"]["min_length" if kind == "too_short" else "max_length"]
        return f"it must have at {bound} {number} {'item' if number == 1 else 'items'}"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get((spec.__name__, str(error["loc"][0])), said)
    return said.removeprefix("Value error, ").removeprefix("Input ")


def printed(text: str) -> str:
    """Return the text normalized to NFC; raise ValueError if it is not printable on one line."""
    if not text.isprintable():
        raise ValueError("it must be printable, on one line")
    return unicodedata.normalize("NFC", text)


def is_record_name(name: str) -> bool:
    """Return True if records may have the name: it is also that of files and of a module."""
    return re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) is not None


def _record_name(name: str) -> str:
    if not is_record_name(name):
        raise ValueError(
            "it must have 1 to 64 lower-case letters, digits and underscores, and begin with a "
            "letter"
        )
    return name


def _ascending(values: Sequence[int]) -> tuple[int, ...]:
    found = tuple(values)
    if any(first >= second for first, second in itertools.pairwise(found)):
        raise ValueError("they must ascend")
    return found


def _rate(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_tuned = isinstance(value, str) and value == TUNED
    if not is_tuned and not (is_number and 0 < value <= 100):  # type: ignore[operator]
        raise ValueError(f"it must be a number above 0 and up to 100, or {TUNED!r}")
    return value


Ascending = Annotated[
    Sequence[Annotated[int, Field(ge=1, le=16_777_216)]],
    Field(max_length=64),
    AfterValidator(_ascending),
]
_Printed = AfterValidator(printed)
Text = Annotated[str, Field(min_length=1, max_length=2000), _Printed]
Note = Annotated[str, Field(max_length=2000), _Printed]  # may be left empty
Name = Annotated[str, Field(min_length=1, max_length=200), _Printed]
Names = Annotated[
    Sequence[Name],
    Field(min_length=1, max_length=1000),
    AfterValidator(lambda names: tuple(dict.fromkeys(names))),
]
RecordName = Annotated[str, AfterValidator(_record_name)]
Count = Annotated[int, Field(ge=1, le=100_000_000)]
Rate = Annotated[float | Literal["tuned"], BeforeValidator(_rate)]
