"""Check tasks on folders in the form in which Hugging Face `datasets` 5.2 saves them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bakeoff.suite.spec.own_data import SavedDataset
from bakeoff.suite.tasks.own.data import files_of
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import TaskError

CLASSES = ["negative", "positive"]
FEATURES = {
    "text": {"dtype": "string", "_type": "Value"},
    "label": {"names": CLASSES, "_type": "ClassLabel"},
    "score": {"dtype": "float32", "_type": "Value"},
}


@pytest.fixture(autouse=True)
def prepared_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))


def rows(first: int = 0, count: int = 200, **columns: Sequence[Any]) -> dict[str, Any]:
    numbers = range(first, first + count)
    found = {
        "text": [f"text {i} is {CLASSES[i % 2]}" for i in numbers],
        "label": [i % 2 for i in numbers],
        "score": pa.array([float(i) for i in numbers], pa.float32()),
    }
    return found | columns


def save(folder: Path, columns: Mapping[str, Any], num_files: int = 1) -> Path:
    """Write what `Dataset.save_to_disk` writes."""
    folder.mkdir(parents=True)
    table = pa.table(dict(columns))
    names = [f"data-{i:05}-of-{num_files:05}.arrow" for i in range(num_files)]
    size = -(-len(table) // num_files)
    for i, name in enumerate(names):
        with pa.ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table.slice(i * size, size), max_chunksize=37)
    state = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "125c82238c46107c",
        "_format_columns": None,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def save_splits(folder: Path, **splits: Mapping[str, Any]) -> Path:
    """Write what `DatasetDict.save_to_disk` writes."""
    for name, columns in splits.items():
        save(folder / name, columns)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return folder


def spelled(folder: Path, **fields: Any) -> str:
    return str(SavedDataset(folder, **fields))


def test_all_files_are_read_in_order_with_the_names_of_classes(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", rows(), num_files=3)
    spelling = spelled(folder, text="text", label="label", symbols="characters")
    task: Any = build_task(spelling, 40)
    assert task.prepared.facts["classes"] == CLASSES
    assert len(files_of(spelling)) == 5
    for part in ("training", "validation", "test"):
        for row in task.prepared.array(f"{part}_rows").tolist():
            first, end = task.prepared.array("offsets")[row : row + 2]
            wanted = rows()["text"][row].encode()
            assert task.prepared.array("text")[first:end].tobytes() == wanted
    batch = task.training_batch(0, 16, 0)
    for tokens, label in zip(batch.inputs["inputs"], batch.targets.tolist(), strict=True):
        assert task.text(tokens[tokens > 0].tolist()).endswith(CLASSES[label])


def test_splits_are_those_that_were_saved(tmp_path: Path) -> None:
    unlabelled = rows(900, 50, label=[-1] * 50)
    folder = save_splits(
        tmp_path / "s",
        test=rows(400, 30),
        train=rows(0, 100),
        unsupervised=unlabelled,
        validation=rows(200, 20),
    )
    task: Any = build_task(spelled(folder, features=["score"], label="label"), 1)
    sizes = {part: len(task.prepared.array(f"{part}_rows")) for part in ("training", "test")}
    assert sizes == {"training": 100, "test": 30}
    assert len(task.prepared.array("validation_rows")) == 20
    values = task.prepared.array("values")[task.prepared.array("test_rows"), 0]
    assert values.tolist() == list(range(400, 430))
    assert "as saved" in task.source.title


def test_training_rows_validate_if_no_split_does(tmp_path: Path) -> None:
    folder = save_splits(tmp_path / "s", train=rows(0, 300), test=rows(400, 30))
    task: Any = build_task(spelled(folder, text="text", target="score"), 9)
    assert len(task.prepared.array("test_rows")) == 30
    validation = len(task.prepared.array("validation_rows"))
    assert 10 <= validation <= 50
    assert len(task.prepared.array("training_rows")) == 300 - validation


def test_a_single_split_is_divided_whatever_its_name(tmp_path: Path) -> None:
    folder = save_splits(tmp_path / "s", unsupervised=rows())
    whole = save(tmp_path / "whole", rows())
    found = [
        task_class(spelled(path, text="text", label="label")).source.title.partition(": ")[2]
        for path in (folder, whole)
    ]
    assert found[0] == found[1]


def test_another_content_is_another_task(tmp_path: Path) -> None:
    folders = [save(tmp_path / str(i), rows(i)) for i in range(2)]
    digests = {task_class(spelled(each, text="text", label="label")).source for each in folders}
    assert len({source.sha256 for source in digests}) == 2


def _without(path: str) -> Any:
    return lambda folder: (folder / path).unlink()


def _with(path: str, content: str | bytes) -> Any:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / path).write_bytes(data)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without("state.json"), "has neither dataset_dict.json nor state.json"),
        (_without("dataset_info.json"), "lacks the file dataset_info.json; save it again"),
        (_without("data-00001-of-00002.arrow"), "lacks the file data-00001-of-00002.arrow"),
        (_with("data-00000-of-00002.arrow", b"ARROW"), "is not a whole Arrow stream"),
        (_with("data-00000-of-00002.arrow", b""), "is not a whole Arrow stream"),
        (_with("state.json", "{"), "state.json is not JSON"),
        (_with("state.json", "[]"), "state.json is not an object of JSON"),
        (_with("state.json", "{}"), "state.json does not name the data files"),
        (
            _with("state.json", '{"_data_files": [], "_indices_files": [{"filename": "x"}]}'),
            "holds a selection of rows, as old versions",
        ),
        (_with("state.json", '{"_data_files": []}'), "has no rows"),
        (_with("dataset_dict.json", '{"splits": []}'), r"has the splits \(none\)"),
        (_with("dataset_dict.json", '{"splits": ["train", "b"]}'), "one must be train and one"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    folder = save(tmp_path / "saved", rows(), num_files=2)
    change(folder)
    with pytest.raises(TaskError, match=said) as raised:
        task_class(spelled(folder, text="text", label="label"))
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", rows())
    file = folder / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:-900])
    with pytest.raises(TaskError, match="is not a whole Arrow stream"):
        task_class(spelled(folder, text="text", label="label"))


@pytest.mark.parametrize(
    ("columns", "fields", "said"),
    [
        (
            rows(label=[-1, *[1] * 199]),
            {"text": "text", "label": "label"},
            "is empty in row 1",
        ),
        (rows(), {"text": "text", "label": "lable"}, "no column 'lable'; did you mean 'label'"),
        (rows(), {"text": "score", "label": "label"}, "type float, not texts"),
        (rows(), {"text": "text", "label": "score"}, "type float, not texts or whole numbers"),
        (rows(), {"features": ["text"], "label": "label"}, "'text 0 is negative' in row 1"),
        (rows(), {"features": ["score"], "target": "label"}, "'negative' in row 1, which is not"),
        (
            rows(text=[["a", "b"]] * 200),
            {"text": "text", "label": "label"},
            "type list<.*>, not texts",
        ),
    ],
)
def test_unsuited_columns_are_refused(
    tmp_path: Path, columns: Mapping[str, Any], fields: Mapping[str, Any], said: str
) -> None:
    folder = save(tmp_path / "saved", columns)
    with pytest.raises(TaskError, match=said):
        task_class(spelled(folder, **fields))


def test_a_missing_label_is_found_in_its_split(tmp_path: Path) -> None:
    test = rows(300, 30, label=[-1] * 30)
    folder = save_splits(tmp_path / "s", train=rows(), test=test)
    with pytest.raises(TaskError, match="is empty in 30 rows, the first is row 1 of test; fill"):
        task_class(spelled(folder, text="text", label="label"))


def test_a_file_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TaskError, match="is a file; give the folder that save_to_disk wrote"):
        task_class(spelled(tmp_path / "file", text="text", label="label"))
    with pytest.raises(TaskError, match="does not exist"):
        task_class(spelled(tmp_path / "none", text="text", label="label"))
