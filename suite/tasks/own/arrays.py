"""Arrays of the user's own, from an ``.npz`` file."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.errors import unknown_name
from bakeoff.suite.spec.own_data import Arrays
from bakeoff.suite.tasks.own.data import Prepared, Reader
from bakeoff.suite.tasks.own.labelled import (
    MOST_CLASSES,
    Array,
    OwnExamples,
    OwnImages,
    OwnNumbers,
    OwnNumbersOfImages,
    OwnSymbols,
    classes_in_words,
    floors_of,
    mean_and_deviation,
    moments,
    most_fitted,
    parts_of,
    refuse_bad_classes,
    training_parts,
    validated_in_words,
    write_splits,
)
from bakeoff.suite.tasks.own.reading import (
    TRAINING,
    digests_of,
    num_repeated,
    splits_of,
    with_validation,
)
from bakeoff.suite.tasks.own.split_names import SPLITS, counts_of, refuse_few, shares
from bakeoff.suite.tasks.task import UNSCORED, Task, TaskError

_SIDES = (4, 512)  # rows and columns of an image, the least and the most
_CHANNELS = (1, 3)
_MOST_SYMBOLS = 1_000_000  # different tokens or symbols
_MOST_TIME = 65_536
_MOST_PIXEL = 255
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
_INPUTS = (
    "whole numbers [examples, time], floats [examples, time] or [examples, time, size], or images "
    "as whole numbers [examples, rows, columns] or [examples, rows, columns, channels]"
)
_TARGETS = (
    "whole numbers [examples] for classes, floats [examples] for numbers, or whole numbers "
    "[examples, time] for a symbol at each token"
)

Inputs = Literal["tokens", "vectors", "image"]
Targets = Literal["class", "number", "symbols"]

_TASKS: Mapping[tuple[bool, Targets], type[Task]] = {  # by whether inputs are images
    (False, "class"): OwnExamples,
    (False, "number"): OwnNumbers,
    (False, "symbols"): OwnSymbols,
    (True, "class"): OwnImages,
    (True, "number"): OwnNumbersOfImages,
}


class _Named(NamedTuple):
    """An array of the file, for messages."""

    path: Path
    name: str
    values: Array

    def wrong(self, sentence: str) -> TaskError:
        """Return an error that names the file and the array."""
        return TaskError(f"{self.path}: the array {self.name!r} {sentence}")

    @property
    def is_whole(self) -> bool:
        """True for integers and booleans."""
        return self.values.dtype.kind in "biu"

    @property
    def shape(self) -> str:
        """The type and the shape in words."""
        return f"{self.values.dtype} of shape {[*self.values.shape]}"

    def parts(self) -> Iterator[tuple[int, Array]]:
        """Yield the number of the first row of each part, and its rows."""
        for part in parts_of(len(self.values), self.values):
            yield part.start, self.values[part]

    def bounds(self) -> tuple[int, int]:
        """Return the least and the largest number."""
        found = [(int(part.min()), int(part.max())) for _, part in self.parts()]
        return min(low for low, _ in found), max(high for _, high in found)

    def place_of(self, *, below: int, above: int) -> str:
        """Return the first place with a number below or above these, as an index, and it."""
        for first, part in self.parts():
            wrong = np.argwhere((part < below) | (part > above))
            if len(wrong):
                place = wrong[0]
                value = part[tuple(place)]
                return f"{[first + int(place[0]), *map(int, place[1:])]} is {value}"
        raise AssertionError("asked for only if there is one")

    def refuse_infinite(self) -> None:
        """Raise if a float is NaN or infinite, or becomes so with 32 bits."""
        count, first = 0, ""
        for start, part in self.parts():
            with np.errstate(over="ignore"):
                is_wrong = ~np.isfinite(part.astype(np.float32))
            if is_wrong.any() and not count:
                place = np.argwhere(is_wrong)[0]
                where = [start + int(place[0]), *map(int, place[1:])]
                first = f"at {where} holds {part[tuple(place)]}"
            count += int(is_wrong.sum())
        if count:
            rest = f", and {count - 1:,} more such values" if count > 1 else ""
            raise self.wrong(f"{first}{rest}; NaN, infinities and more than 3.4e38 are refused")


class ArraysReader(Reader):
    """The reader of an ``.npz`` file.

    The arrays are unpacked into the prepared folder and mapped into memory, which holds one part of
    a few megabytes, and 32 bytes for each example. Floats are standardised: vectors by the mean and
    the standard deviation of each of their features over the training part, numbers to predict by
    those of the training part.
    """

    data: Arrays
    version = 2

    def prepare(self, path: Path, to: Path) -> dict[str, Any]:
        """Write the inputs and targets of each split, and return what they are."""
        unpacked = to / "unpacked"
        unpacked.mkdir()
        inputs, targets, given = self._read(path, unpacked)
        kind, asks_for = _kind_of(inputs), _answer_of(inputs, targets)
        splits, repeated = _splits(inputs, given)
        facts: dict[str, Any] = {"kind": kind, "asks_for": asks_for}
        counts = counts_of(splits)
        refuse_few(path, counts, "examples")
        answers, about = _answers(targets, asks_for, splits, facts)
        shown = _shown(inputs, kind, splits, facts, unpacked)
        write_splits(to, shown, answers, splits)
        del shown, inputs, targets, given
        shutil.rmtree(unpacked)
        facts["counts"] = counts
        facts["summary"] = (
            f"{sum(counts):,} {_described(facts)}, {shares(counts)}{validated_in_words(counts)}; "
            f"{about}{repeated}"
        )
        return facts

    def task(self, prepared: Prepared) -> dict[str, Any]:
        """Return the task with the sizes of its inputs and answers."""
        facts = prepared.facts
        kind, asks_for, shape = facts["kind"], facts["asks_for"], facts["shape"]
        found: dict[str, Any] = {
            "base": _TASKS[kind == "image", asks_for],
            "asks_for": asks_for,
            "input_kind": kind,
            "input_size": facts["input_size"],
            "output_size": facts["output_size"],
            "fixed_length": shape[0] * shape[1] if kind == "image" else shape[0],
        }
        if kind == "image":
            found["grid"] = tuple(shape[:2])
            found["pixel_mean"] = tuple(facts["mean"])
            found["pixel_standard_deviation"] = tuple(facts["deviation"])
        numbers = found["fixed_length"] * (1 if kind == "tokens" else found["input_size"])
        found["floors"] = floors_of(kind, asks_for, numbers)
        found["most_fitted"] = most_fitted(facts["counts"][TRAINING], numbers)
        return found

    def _read(self, path: Path, to: Path) -> tuple[_Named, _Named, _Named | None]:
        """Return the inputs, the targets and the splits, if they are given."""
        names = [self.data.inputs, self.data.targets]
        if self.data.split:
            names.append(self.data.split)
        try:
            with zipfile.ZipFile(path) as archive:
                held = [name.removesuffix(".npy") for name in archive.namelist()]
                for name in names:
                    if name not in held:
                        raise TaskError(f"{path}: {unknown_name('array', name, held)}".rstrip("."))
                files = [to / f"{number}.npy" for number in range(len(names))]
                both = zip(names, files, strict=True)
                found = [_unpacked(path, archive, name, file) for name, file in both]
        except _DAMAGED as error:
            raise TaskError(
                f"{path} is not a whole .npz file ({error}); numpy.savez(path, inputs=..., "
                "targets=...) writes one"
            ) from error
        inputs, targets, *others = found
        for each in found:
            if each.values.shape[:1] != inputs.values.shape[:1]:
                raise each.wrong(
                    f"is {each.shape}, but {inputs.name!r} has {len(inputs.values)} examples"
                )
        return inputs, targets, others[0] if others else None


def _unpacked(path: Path, archive: zipfile.ZipFile, name: str, to: Path) -> _Named:
    """Write an array into a file, and return it mapped into memory."""
    member = name if name in archive.namelist() else f"{name}.npy"
    with archive.open(member) as packed, to.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    try:
        values = np.load(to, mmap_mode="r", allow_pickle=False)
    except ValueError as error:  # Python objects, no array, an array without elements
        raise TaskError(
            f"{path}: {name!r} is not an array of numbers with at least one ({error})"
        ) from error
    found = _Named(path, name, values)
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise found.wrong(f"is {found.shape}; whole numbers or floats are needed")
    if not values.ndim or not values.size:
        raise found.wrong(f"is {found.shape}; it needs at least one example")
    return found


def _kind_of(inputs: _Named) -> Inputs:
    """Return the kind of the inputs; raise if they have another shape or other values."""
    shape = inputs.values.shape
    if not inputs.is_whole:
        if len(shape) not in (2, 3):
            hint = "; images are whole numbers from 0 to 255" if len(shape) == 4 else ""
            raise inputs.wrong(f"is {inputs.shape}; inputs are {_INPUTS}{hint}")
        inputs.refuse_infinite()
    elif len(shape) not in (2, 3, 4):
        raise inputs.wrong(f"is {inputs.shape}; inputs are {_INPUTS}")
    if len(shape) == 2 or not inputs.is_whole:
        if shape[1] > _MOST_TIME:
            raise inputs.wrong(f"is {inputs.shape}; at most {_MOST_TIME:,} steps are allowed")
        if not inputs.is_whole:
            return "vectors"
        _refuse_outside(inputs, _MOST_SYMBOLS - 1, "tokens")
        return "tokens"
    if len(shape) == 4 and shape[3] not in _CHANNELS:
        hint = "; numpy.moveaxis(x, 1, -1) puts the channels last" if shape[1] in _CHANNELS else ""
        raise inputs.wrong(
            f"is {inputs.shape}; images have 1 or 3 channels, in the last axis{hint}"
        )
    least, most = _SIDES
    if not all(least <= side <= most for side in shape[1:3]):
        raise inputs.wrong(f"is {inputs.shape}; images have {least} to {most} rows and columns")
    _refuse_outside(inputs, _MOST_PIXEL, "pixels of images")
    return "image"


def _refuse_outside(named: _Named, most: int, what: str) -> None:
    """Raise if a number is negative or larger than `most`."""
    low, high = named.bounds()
    if low < 0 or high > most:
        place = named.place_of(below=0, above=most)
        raise named.wrong(f"at {place}; {what} are whole numbers from 0 to {most:,}")


def _answer_of(inputs: _Named, targets: _Named) -> Targets:
    """Return the kind of the targets; raise if they have another shape."""
    shape, time = targets.values.shape, inputs.values.shape[1]
    if len(shape) == 1:
        return "class" if targets.is_whole else "number"
    if len(shape) == 2 and shape[1] == time and targets.is_whole:
        if inputs.values.ndim > 2 and inputs.is_whole:
            raise targets.wrong(f"is {targets.shape}; for images, targets are [examples]")
        return "symbols"
    hint = "; reshape(-1) removes the last axis" if len(shape) == 2 and shape[1] == 1 else ""
    raise targets.wrong(f"is {targets.shape}; targets are {_TARGETS}{hint}")


def _splits(inputs: _Named, given: _Named | None) -> tuple[NDArray[np.uint8], str]:
    """Return the split of each example, and a clause if test examples are in training, too.

    Splits are given or by a hash of the input.
    """
    plain = (part if inputs.is_whole else part + 0.0 for _, part in inputs.parts())  # no -0
    digests = np.concatenate(
        [digests_of(row.tobytes() for row in np.ascontiguousarray(part)) for part in plain]
    )
    if given is None:
        return splits_of(digests), ""
    if given.values.ndim != 1 or not given.is_whole:
        raise given.wrong(f"is {given.shape}; splits are whole numbers [examples]")
    low, high = given.bounds()
    if low < 0 or high >= len(SPLITS):
        place = given.place_of(below=0, above=len(SPLITS) - 1)
        raise given.wrong(f"at {place}; 0 is for training, 1 for validation, 2 for the test")
    splits = with_validation(given.values.astype(np.uint8), digests)
    count = num_repeated(splits, digests)
    return splits, f"; {count:,} test examples equal a training example" if count else ""


def _answers(
    targets: _Named, asks_for: Targets, splits: NDArray[np.uint8], facts: dict[str, Any]
) -> tuple[Array, str]:
    """Return the targets as a model learns them, and a clause about them."""
    if asks_for == "number":
        targets.refuse_infinite()
        means, deviations = mean_and_deviation(training_parts(targets.values, splits), axes=(0,))
        mean, deviation = float(means[0]), float(deviations[0])
        if deviation == 0:
            raise targets.wrong(f"is {mean:g} in all training examples; nothing can be learnt")
        facts |= {"output_size": 1, "target_mean": mean, "target_deviation": deviation}
        numbers = ((targets.values.astype(np.float64) - mean) / deviation).astype(np.float32)
        return numbers, (
            f"numbers to predict, of mean {mean:.4g} and standard deviation {deviation:.4g} in "
            "training, by which they are standardised: an error of 1 is that of their mean"
        )
    if asks_for == "symbols":
        return _symbols(targets, facts)
    values = np.unique(targets.values)
    if len(values) > MOST_CLASSES:
        raise targets.wrong(
            f"has {len(values):,} different whole numbers; at most {MOST_CLASSES:,} classes are "
            "allowed, and numbers to predict are floats"
        )
    labels = np.searchsorted(values, targets.values).astype(np.int64)
    names = values.tolist()
    refuse_bad_classes(targets.path, labels, splits, names)
    facts |= {"output_size": len(names), "classes": names}
    return labels, classes_in_words(labels, names)


def _symbols(targets: _Named, facts: dict[str, Any]) -> tuple[Array, str]:
    num_scored, high = 0, 0
    for first, part in targets.parts():
        is_scored = part != UNSCORED
        wrong = np.argwhere(((part < 0) & is_scored) | (part >= _MOST_SYMBOLS))
        if len(wrong):
            row, place = map(int, wrong[0])
            raise targets.wrong(
                f"at {[first + row, place]} is {part[row, place]}; symbols are whole numbers from "
                f"0 to {_MOST_SYMBOLS - 1:,}, and {UNSCORED} where none is asked for"
            )
        if not is_scored.any(axis=1).all():
            row = first + int(np.argmin(is_scored.any(axis=1)))
            raise targets.wrong(f"asks for nothing in example {row}; leave such examples out")
        num_scored, high = num_scored + int(is_scored.sum()), max(high, int(part.max()))
    if high < 1:
        raise targets.wrong(f"has one symbol, {high}; at least two are needed")
    facts["output_size"] = high + 1
    return targets.values, f"{high + 1:,} symbols, asked for at {num_scored:,} tokens"


def _shown(
    inputs: _Named, kind: Inputs, splits: NDArray[np.uint8], facts: dict[str, Any], to: Path
) -> Array:
    """Return the inputs as they are stored: tokens, standardised vectors, or pixels."""
    values = inputs.values
    if kind == "vectors":
        values = values[..., None] if values.ndim == 2 else values
        found = moments(training_parts(values, splits), axes=(0, 1))
        stored = np.lib.format.open_memmap(
            to / "standardised.npy", mode="w+", dtype=np.float32, shape=values.shape
        )
        mean, deviation = (np.array(found[name]) for name in ("mean", "deviation"))
        for part in parts_of(len(values), values):
            stored[part] = (values[part].astype(np.float64) - mean) / deviation
        facts |= {"input_size": values.shape[2], "shape": [*values.shape[1:]], **found}
        return stored
    if kind == "image":
        values = values[..., None] if values.ndim == 3 else values
        found = moments((p / _MOST_PIXEL for p in training_parts(values, splits)), axes=(0, 1, 2))
        facts |= {"input_size": values.shape[3], "shape": [*values.shape[1:]], **found}
        return _as_type(values, np.uint8, to)
    _, high = inputs.bounds()
    facts |= {"input_size": high + 1, "shape": [*values.shape[1:]]}
    return _as_type(values, np.min_scalar_type(high), to)


def _as_type(values: Array, dtype: Any, to: Path) -> Array:
    """Return the array with another type of number, in a file."""
    if values.dtype == dtype:
        return values
    stored = np.lib.format.open_memmap(
        to / "converted.npy", mode="w+", dtype=dtype, shape=values.shape
    )
    for part in parts_of(len(values), values):
        stored[part] = values[part]
    return stored


def _described(facts: Mapping[str, Any]) -> str:
    """Return what the inputs are, in the plural."""
    shape, size = facts["shape"], facts["input_size"]
    if facts["kind"] == "tokens":
        return f"sequences of {shape[0]:,} tokens from 0 to {size - 1:,}"
    if facts["kind"] == "vectors":
        return f"sequences of {shape[0]:,} vectors of size {size:,}"
    return f"{'colour' if size == 3 else 'grey'} images of {shape[0]} x {shape[1]} pixels"
