"""Test the table of tasks: names, and the state of the data behind them."""

import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.suite.tasks import data_files, shakespeare_characters
from bakeoff.suite.tasks.images import fashion_mnist
from bakeoff.suite.tasks.registry import TASKS, data_sources, task_class, verify_data
from bakeoff.suite.tasks.task import Task, TaskError

NOT_TASKS = {
    "__init__",
    "batch",
    "metrics",
    "sequence_metrics",
    "caption_metrics",
    "picture_metrics",
    "reading",
    "task",
    "registry",
    "data_files",
    "data_order",
    # modules that several tasks share
    "generated",
    "contours",
    "corruptions",
    "labelled_data",
    "labelled_texts",
    "text_windows",
    "atlas",
    "photo_captions",
    "scenes",
    "corpora",
    "masking",
    "windows",
    "episodes",
    "playing",
    "world",
    "world_task",
}


def test_each_line_resolves_to_a_task_of_that_name() -> None:
    for name in TASKS:
        assert issubclass(task_class(name), Task)
        assert task_class(name).name == name


def test_each_task_file_is_in_the_table() -> None:
    folder = data_files.DATA_FOLDER.parent
    inner = (
        "sequence_to_sequence",
        "long_range",
        "images",
        "emoji",
        "photos",
        "pretraining",
        "worlds",
    )
    folders = (folder, *(folder / name for name in inner))
    paths = [path for each in folders for path in each.glob("*.py")]
    files = {path.stem for path in paths} - NOT_TASKS
    assert files == {home.split(":")[0].rpartition(".")[2] for home in TASKS.values()}


@pytest.mark.whole
def test_importing_the_table_loads_no_task() -> None:
    modules = sorted({home.split(":")[0] for home in TASKS.values()})
    shown = f"print([m for m in {modules} if m in sys.modules])"
    program = f"import sys, bakeoff.suite.tasks.registry; {shown}"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]", loaded.stderr


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(TaskError, match="did you mean 'shakespeare_characters'"):
        task_class("shakespear_characters")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(TaskError) as refusal:
        task_class("../../etc/passwd")
    assert all(name in str(refusal.value) for name in TASKS)


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("reviews.csv", 'Table("reviews.csv", text=..., label=...)'),
        ("data/my.TXT", 'TextFile("data/my.TXT")'),
        ("x.npz", 'Arrays("x.npz")'),
    ],
)
def test_a_file_is_answered_with_the_class_that_reads_it(file: str, written: str) -> None:
    with pytest.raises(TaskError) as caught:
        task_class(file)
    assert str(caught.value) == f"no task {file!r}. A task of a file is written {written}."


def test_each_data_set_is_listed_once() -> None:
    sources = data_sources()
    assert len(sources) == len(set(sources)) == len({source.name for source in sources})
    assert {task_class(name).source for name in TASKS} == set(sources)


def test_the_shipped_data_verify() -> None:
    shipped = {source.name: problem for source, problem in verify_data() if not source.is_fetched}
    assert set(shipped.values()) == {""}
    assert {"shakespeare", "fashion_mnist", "wikipedia", "listops"} <= set(shipped)


def test_verify_says_what_is_wrong_with_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered, missing = shakespeare_characters.SOURCE, fashion_mnist.SOURCE
    (tmp_path / altered.file).write_bytes(b"other data")
    monkeypatch.setattr(data_files, "DATA_FOLDER", tmp_path)
    problems = dict(verify_data())
    assert "is not the one that shipped" in problems[altered]
    assert "is missing" in problems[missing]
    assert missing.file in problems[missing]


def test_the_package_holds_no_file_that_nothing_accounts_for() -> None:
    shipped = {path.name for path in data_files.DATA_FOLDER.iterdir() if path.is_file()}
    sources = [source for source in data_sources() if source.file and not source.is_fetched]
    licences = {f"{source.file.split('.')[0]}.LICENSE" for source in sources}
    assert shipped == {source.file for source in sources} | licences | {"README.md", "__init__.py"}


def test_generated_data_are_named_by_their_definition() -> None:
    generated = [source for source in data_sources() if not source.file]
    assert {source.name for source in generated} >= {"listops", "mqar", "parity"}
    assert len({source.sha256 for source in generated}) == len(generated)
    for source in generated:
        assert source.licence == "; ".join(["generated", *(x.licence for x in source.beside)])
        assert len(source.sha256) == 64


def test_what_ships_is_small() -> None:
    """Check the size limit, which keeps the package easy to install."""
    files = [path for path in data_files.DATA_FOLDER.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 13.5e6
