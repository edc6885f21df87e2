"""Read the values of an ablation's variants on its axes.

A plan stores them as data: `About.axis_values`, `About.named_axes`. Results of older versions do
not have them, and the values are parsed from the labels instead
(`bakeoff.suite.schema.old_labels`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import pandas as pd
import pyarrow as pa

from bakeoff.suite.schema import About
from bakeoff.suite.schema.old_labels import Value, tasks_in, value_in, values_in

PREFIX = "axis_"  # prefix of the column names
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?")


def values_of(about: About, variant: str) -> dict[str, Value]:
    """Return the values that the variant's label names, by axis, in the order of the label."""
    if about.axis_values:
        every = about.axis_values.get(variant, {})
        return {name: every[name] for name in about.named_axes.get(variant, ())}
    return values_in(variant)


def all_values_of(about: About, variant: str) -> dict[str, Value]:
    """Return the variant's value on every axis; empty for a floor.

    If values are parsed from labels, axes that a label does not name have the baseline's value.
    """
    if about.axis_values or variant not in about.variants:
        return dict(about.axis_values.get(variant, {}))
    of_baseline = {name: value_in(value_of_baseline(about, name)) for name in about.axes}
    return of_baseline | values_of(about, variant)


def value_of_baseline(about: About, name: str) -> str:
    """Return the baseline's value as a label would show it.

    It is ``default`` if the baseline does not set it, and empty if it is not known.
    """
    named = about.axis_values.get(about.baseline, {}) or values_of(about, about.baseline)
    value = {**about.settings, **about.model, **named}.get(name, "")
    return "default" if value is None else as_text(value)


def belongs(about: About, variant: str, task: str) -> bool:
    """Return True if a variant is measured on a task; tasks may be an axis."""
    if about.axis_values:
        return values_of(about, variant).get("task", task) == task
    return task in (tasks_in(variant) or [task])


def as_text(value: Value) -> str:
    """Return the value as a label shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def number(value: Value) -> float | None:
    """Return a value or a text as a finite number, or None if it is not one."""
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else None
    if value is None or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)


def with_axes(about: About, results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with an additional column per axis, as ``axis_heads``.

    Floors have no value in them.
    """
    values = {variant: all_values_of(about, variant) for variant in about.variants}
    of_rows = [values.get(variant, {}) for variant in results["variant"]]
    columns = {
        f"{PREFIX}{name}": pd.Series(
            [of_row.get(name) for of_row in of_rows], index=results.index, dtype=object
        )
        for name in about.axes
    }
    return results.assign(**columns)


def arrow_array(values: Sequence[Value]) -> pa.Array:
    """Return the values of an axis as an array of one type: bool, int, float, or else text."""
    plain = [None if isinstance(v, float) and math.isnan(v) else v for v in values]
    kinds = {type(value) for value in plain if value is not None}
    if kinds == {bool}:
        return pa.array(plain, type=pa.bool_())
    if kinds == {int}:
        return pa.array(plain, type=pa.int64())
    if kinds and kinds <= {int, float}:
        return pa.array(plain, type=pa.float64())
    return pa.array([v if v is None else as_text(v) for v in plain], type=pa.string())


def columns_of(names: Iterable[str]) -> list[str]:
    """Return the names that are columns of axes."""
    return [name for name in names if name.startswith(PREFIX)]
