"""Read and write the two typed frames of a sweep: results and curves.

A report reads only `results.parquet` and `curves.parquet`. Their description (`About`) is stored in
the schema's metadata of `results.parquet`. Equal frames give equal bytes.
"""

from __future__ import annotations

import difflib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from bakeoff.reports.escape import without_passwords
from bakeoff.reports.results.axis_values import arrow_array, columns_of
from bakeoff.suite.schema import LATE_IN_SAMPLES, About, Better, in_present_words
from bakeoff.suite.schema.training import without_idle

RESULT_COLUMNS = (
    "ablation",
    "scale",
    "variant",
    "seed",
    "task",
    "probe",
    "metric",
    "at",
    "value",
    "unit",
    "better",
    "spread_low",
    "spread_high",
    "status",
    "reason",
    "trial_id",
    "environment_id",
    "device",
    "commit",
)
RESULT_KEY = ("ablation", "scale", "trial_id", "variant", "metric", "at", "environment_id")
CURVE_COLUMNS = (
    "ablation",
    "scale",
    "variant",
    "seed",
    "task",
    "metric",
    "step",
    "flops",
    "value",
    "unit",
    "better",
    "trial_id",
    "environment_id",
)

METADATA_KEY = b"bakeoff"
CURVE_KEY = ("ablation", "scale", "trial_id", "variant", "metric", "step", "environment_id")
_NUMBERS = {
    "seed": "int64",
    "step": "int64",
    "value": "float64",
    "flops": "float64",
    "spread_low": "float64",
    "spread_high": "float64",
}
_ARROW = {"int64": pa.int64(), "float64": pa.float64(), "str": pa.string()}
_ABOUT: TypeAdapter[About] = TypeAdapter(About)
_LATE_IN_ABOUT = (
    "editions",
    "costs",
    "price",
    "part_titles",
    "opens_with",
    "words",
    "held_out",
    "axis_values",
    "named_axes",
    "num_test_examples",
    "training_steps",
)
_LATE = {k: [] if v == () else v for k, v in LATE_IN_SAMPLES.items()}  # JSON has lists, not tuples


class FrameError(ValueError):
    """Raised for a frame that no report can be made from; the message is one sentence."""

    exit_code = 2  # exit code of the command line for wrong usage


def results_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a typed frame of measurements; it is typed even if there are none.

    Args:
        rows: One mapping per measurement, with every key of `RESULT_COLUMNS`. A missing number or
            an empty text is None. Passwords inside URIs are removed.

    Raises:
        FrameError: if a key is missing or unknown.
    """
    return _frame("results", rows, RESULT_COLUMNS)


def curves_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a typed frame of curve points, as `results_frame` does, with `CURVE_COLUMNS`."""
    return _frame("curves", rows, CURVE_COLUMNS)


def to_parquet_bytes(frame: pd.DataFrame, about: About | None = None) -> bytes:
    """Return the frame as a Parquet file; equal frames give equal bytes.

    Passwords inside URIs are removed from `about`, too. Results may have additional columns of
    axes.

    Raises:
        FrameError: if its columns are neither those of results nor those of curves.
    """
    columns = CURVE_COLUMNS if "step" in frame.columns else RESULT_COLUMNS
    axes = [] if columns is CURVE_COLUMNS else columns_of(frame.columns)
    names = [name for name in frame.columns if name not in axes]
    _check_names("curves" if columns is CURVE_COLUMNS else "results", names, columns)
    metadata = {METADATA_KEY: _to_json(about, without_passwords).encode()} if about else None
    arrays = {
        name: pa.array(frame[name].to_numpy(), type=_ARROW[_dtype(name)], from_pandas=True)
        for name in columns
    }
    arrays |= {name: arrow_array(frame[name].tolist()) for name in axes}
    schema = pa.schema([(name, array.type) for name, array in arrays.items()], metadata=metadata)
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([*arrays.values()], schema=schema), buffer)
    return buffer.getvalue()


def about_to_json(about: About) -> str:
    """Return the canonical JSON of an `About`; mappings keep their order, that of the page."""
    return _to_json(about, str)


def _to_json(about: About, clean: Callable[[str], str]) -> str:
    content = _cleaned(_ABOUT.dump_python(about, mode="json", by_alias=True), clean)
    # Omit empty newer fields, so that older files are reproduced unchanged.
    for name in _LATE_IN_ABOUT:
        if not getattr(about, name):
            del content[name]
    for of_task in content["specimens"].values():
        for variant, some in of_task.items():
            of_task[variant] = [without_idle(each, **_LATE) for each in some]
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"))


def _cleaned(content: Any, clean: Callable[[str], str]) -> Any:
    """Return the content with `clean` applied to every text, including keys."""
    if isinstance(content, dict):
        return {clean(key): _cleaned(value, clean) for key, value in content.items()}
    if isinstance(content, list):
        return [_cleaned(each, clean) for each in content]
    return clean(content) if isinstance(content, str) else content


def about_from_json(text: str) -> About:
    """Return the `About` that `about_to_json` wrote.

    Raises:
        FrameError: if the text is not an `About`.
    """
    try:
        return _ABOUT.validate_json(in_present_words(text.encode()))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "text"
        raise FrameError(f"About: {key}: {first['msg']}.") from None


def about_in(path: Path) -> About:
    """Return the `About` in a `results.parquet`, without reading its rows.

    Raises:
        FrameError: if the file is missing or damaged, or holds none.
    """
    with _readable(path) as file:
        content = (file.schema_arrow.metadata or {}).get(METADATA_KEY)
    if content is None:
        raise FrameError(f"{path} contains no description of its ablation (no 'bakeoff' metadata).")
    return about_from_json(content.decode())


def read_table(path: Path) -> pa.Table:
    """Return the table of a Parquet file.

    Raises:
        FrameError: if the file is missing or damaged.
    """
    with _readable(path) as file:
        return file.read()


@contextmanager
def _readable(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise FrameError(f"{path} does not exist.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise FrameError(
            f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}"
        ) from None


def _dtype(column: str) -> str:
    return _NUMBERS.get(column, "str")


def _frame(kind: str, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    kept = list(rows)
    for row in kept:
        _check_names(kind, row, columns)
    return typed_frame(kind, {name: [row[name] for row in kept] for name in columns}, columns)


def typed_frame(
    kind: str, content: Mapping[str, list[Any]], columns: Sequence[str]
) -> pd.DataFrame:
    """Return a frame of these columns, each with its type.

    Raises:
        FrameError: if a column is missing, unknown, or holds something that is not a number.
    """
    _check_names(kind, content, columns)
    return pd.DataFrame({name: _series(kind, name, content[name]) for name in columns})


def _series(kind: str, column: str, values: list[Any]) -> pd.Series[Any]:
    dtype = _dtype(column)
    if dtype == "str":
        # Clean each distinct text once: most of them are in many rows.
        texts = {v: "" if v is None else without_passwords(str(v)) for v in set(values)}
        return pd.Series([texts[value] for value in values], dtype="str")
    empty = float("nan") if dtype == "float64" else None
    try:
        return pd.Series([empty if value is None else value for value in values], dtype=dtype)
    except (TypeError, ValueError):
        raise FrameError(
            f"{kind}: column {column!r} holds something that is not a number."
        ) from None


def check_frame(kind: str, frame: pd.DataFrame, columns: Sequence[str], key: Sequence[str]) -> None:
    """Raise `FrameError` if columns, types, units or the key do not match the schema."""
    _check_names(kind, frame.columns, columns)
    for name in set(columns) & set(_NUMBERS):
        if str(frame[name].dtype) != _dtype(name):
            raise FrameError(f"{kind}: column {name!r} is {frame[name].dtype}, not {_dtype(name)}.")
    if (frame["unit"] == "").any():
        metric = frame.loc[frame["unit"] == "", "metric"].iloc[0]
        raise FrameError(f"{kind}: metric {metric!r} has no unit; a pure number has the unit '1'.")
    check_values(kind, frame["better"], get_args(Better))
    repeated = frame[frame.duplicated(list(key))]
    if len(repeated):
        first = ", ".join(f"{name}={repeated.iloc[0][name]!r}" for name in key)
        raise FrameError(f"{kind}: {len(repeated)} rows repeat a key; the first is {first}.")


def _check_names(kind: str, names: Iterable[str], columns: Sequence[str]) -> None:
    given = list(names)
    for missing in [name for name in columns if name not in given]:
        near = difflib.get_close_matches(missing, [n for n in given if n not in columns], n=1)
        hint = f"; it has {near[0]!r}" if near else ""
        raise FrameError(f"{kind}: column {missing!r} is missing{hint}.")
    for unknown in [name for name in given if name not in columns]:
        raise FrameError(f"{kind}: unknown column {unknown!r}; allowed: {', '.join(columns)}.")


def check_values(kind: str, values: pd.Series[Any], allowed: Sequence[str]) -> None:
    """Raise `FrameError` if a column holds a value that is not allowed."""
    for value in sorted(set(values.unique()) - set(allowed), key=repr):
        near = difflib.get_close_matches(str(value), list(allowed), n=3) or list(allowed)[:8]
        raise FrameError(
            f"{kind}: {values.name} {value!r} is not known; allowed: {', '.join(near)}"
            f"{'' if len(near) == len(allowed) else ', ...'}."
        )
