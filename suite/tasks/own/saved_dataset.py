"""A folder that `save_to_disk` of Hugging Face `datasets` wrote, read without that package.

dataset_dict.json         the names of the splits, each with a folder of its own; or directly:
state.json                the names of the data files, which are Arrow streams
dataset_info.json         the names of the classes of a `ClassLabel`
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute

from bakeoff.suite.errors import one_line
from bakeoff.suite.spec.own_data import SavedDataset
from bakeoff.suite.tasks.own.columns import Part, named_columns, plain
from bakeoff.suite.tasks.own.reading import TEST, TRAINING, VALIDATION
from bakeoff.suite.tasks.own.rows import RowsReader
from bakeoff.suite.tasks.task import TaskError

_SPLITS = {"train": TRAINING, "validation": VALIDATION, "test": TEST}
_DICT, _STATE, _INFO = "dataset_dict.json", "state.json", "dataset_info.json"
_ROWS_AT_ONCE = 10_000


class SavedDatasetReader(RowsReader):
    """The reader of a saved `Dataset` or `DatasetDict`.

    The splits ``train``, ``validation`` and ``test`` are read, and others are not. A single split
    is divided by a hash, whatever its name. The class -1 of a `ClassLabel` is a missing one.
    """

    data: SavedDataset

    def files(self, path: Path) -> Sequence[Path]:
        """Return the files of all splits that are read."""
        if not path.exists():
            raise TaskError(f"{path} does not exist")
        if not path.is_dir():
            raise TaskError(f"{path} is a file; give the folder that save_to_disk wrote")
        is_dict = (path / _DICT).exists()
        found = [path / _DICT] if is_dict else []
        for folder in _folders(path).values():
            found += [folder / _STATE, folder / _INFO, *_data_files(folder)]
        for file in found:
            if not file.is_file():
                raise TaskError(f"{path} lacks the file {file.relative_to(path)}; save it again")
        return found

    def parts(self, path: Path, names: Sequence[str]) -> Iterator[Part]:
        """Yield the named columns of all rows, split by split."""
        folders = _folders(path)
        for split, folder in folders.items():
            inside, first = f" of {split}" if split else "", 1
            classes = _classes(folder)
            for file in _data_files(folder):
                for columns in _batches(file, names):
                    named = {
                        name: _named(cells, classes[name]) if name in classes else cells
                        for name, cells in columns.items()
                    }
                    part = Part(
                        columns=named,
                        first=first,
                        inside=inside,
                        split=_SPLITS[split] if len(folders) > 1 else None,
                    )
                    first += len(part)
                    if len(part):
                        yield part


def _folders(path: Path) -> dict[str, Path]:
    """Return the folder of each split that is read; the only one has an empty name."""
    if not (path / _DICT).exists():
        if not (path / _STATE).exists():
            raise TaskError(
                f"{path} has neither {_DICT} nor {_STATE}; give the folder that save_to_disk of "
                "Hugging Face datasets wrote"
            )
        return {"": path}
    saved = _read(path / _DICT).get("splits")
    names = [str(each) for each in saved] if isinstance(saved, list) else []
    if len(names) == 1:
        return {"": path / names[0]}
    if not {"train", "test"} <= set(names):
        raise TaskError(
            f"{path} has the splits {', '.join(names) or '(none)'}; of several, one must be train "
            "and one test"
        )
    return {name: path / name for name in _SPLITS if name in names}


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TaskError(f"{file} does not exist; save the dataset again") from None
    except ValueError as error:
        raise TaskError(f"{file} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise TaskError(f"{file} is not an object of JSON")
    return found


def _data_files(folder: Path) -> list[Path]:
    state = _read(folder / _STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise TaskError(
            f"{folder} holds a selection of rows, as old versions of datasets saved it; save it "
            "again with version 2 or later"
        )
    try:
        return [folder / each["filename"] for each in state["_data_files"]]
    except (KeyError, TypeError):
        raise TaskError(f"{folder / _STATE} does not name the data files") from None


def _classes(folder: Path) -> dict[str, list[str]]:
    """Return the names of the classes of each column that has them."""
    features = _read(folder / _INFO).get("features") or {}
    return {
        name: list(map(str, feature["names"]))
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }


def _named(cells: Any, classes: Sequence[str]) -> Any:
    """Return the names of classes in place of their numbers, null where there is none."""
    if not pa.types.is_integer(cells.type):
        return cells
    is_known = compute.and_(
        compute.greater_equal(cells, 0), compute.less(cells, pa.scalar(len(classes), cells.type))
    )
    numbers = compute.if_else(is_known, cells, pa.scalar(None, cells.type))
    return compute.take(pa.array(classes, pa.string()), numbers)


def _batches(file: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    try:
        with pa.memory_map(str(file)) as opened, pa.ipc.open_stream(opened) as reader:
            columns = named_columns(file, names, reader.schema.names)
            for batch in reader:
                for first in range(0, len(batch), _ROWS_AT_ONCE):
                    some = batch.slice(first, _ROWS_AT_ONCE)
                    yield {name: plain(some.column(each)) for name, each in columns.items()}
    except (pa.ArrowException, OSError) as error:
        raise TaskError(f"{file} is not a whole Arrow stream ({one_line(str(error))})") from None
