"""Tests for a text of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.spec.own_data import TextFile
from bakeoff.suite.tasks.own import text_file
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Task, TaskError
from tests.suite.tasks.own.laws import another_process_sees_the_same, same

pytestmark = pytest.mark.whole

TEXT = "".join(f"{n} bottles of beer,\n{n} on the wall.\n" for n in range(400))
KINDS = ("characters", "bytes", "subwords")


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))


def written(folder: Path, content: str | bytes = TEXT, **fields: object) -> str:
    body = content.encode() if isinstance(content, str) else content
    (folder / "a.txt").write_bytes(body)
    return str(TextFile(folder / "a.txt", **fields))


def scored_text(task: Task, split: str) -> str:
    """Return the text of the scored symbols of a split."""
    batches = task.held_out(split, 7)  # type: ignore[arg-type]
    rows = [row[row >= 0].tolist() for batch in batches for row in batch.targets]
    return task.text([symbol for row in rows for symbol in row])


@pytest.mark.parametrize("symbols", KINDS)
def test_batches_are_a_function_of_seed_and_step(symbols: str, tmp_path: Path) -> None:
    spelling = written(tmp_path, symbols=symbols, vocabulary=100)
    task = build_task(spelling, 16)
    batch = task.training_batch(2, 5, 1)
    assert same(batch, build_task(spelling, 16).training_batch(2, 5, 1))
    assert not same(batch, task.training_batch(3, 5, 1))
    assert torch.equal(batch.inputs["inputs"][:, 1:], batch.targets[:, :-1])
    assert 0 <= batch.targets.min() <= batch.targets.max() < task.output_size
    assert another_process_sees_the_same(spelling, 16)
    uniform = FLOORS["uniform"].score(task)
    assert FLOORS["trigram"].score(task) < uniform


@pytest.mark.parametrize("symbols", ["characters", "bytes"])
def test_the_parts_are_whole_and_apart(symbols: str, tmp_path: Path) -> None:
    task = build_task(written(tmp_path, symbols=symbols), 16)
    first, second = int(len(TEXT) * 0.8), int(len(TEXT) * 0.9)
    assert scored_text(task, "validation") == TEXT[first + 1 : second]
    assert scored_text(task, "test") == TEXT[second + 1 :]
    assert TEXT[:first].startswith(task.text(task.read().training[:100].tolist()))  # type: ignore[attr-defined]
    assert len(task.read().training) == first  # type: ignore[attr-defined]


def test_subwords_are_learnt_from_the_training_part_and_join_to_the_text(tmp_path: Path) -> None:
    text = TEXT + "zyzzyva " * 50
    task = build_task(written(tmp_path, text, symbols="subwords", vocabulary=200), 8)
    assert task.output_size <= 200
    assert "z" not in task.subwords().characters  # type: ignore[attr-defined]
    assert scored_text(task, "validation").strip() in " ".join(text.split())


def test_a_character_that_training_lacks_is_unknown(tmp_path: Path) -> None:
    task = build_task(written(tmp_path, TEXT + "ß" * 500), 16)
    assert "ß" not in task.characters
    assert set(scored_text(task, "test")[-400:]) == {"\N{REPLACEMENT CHARACTER}"}


def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain = build_task(written(tmp_path), 16)
    wanted = plain.training_batch(0, 4, 0)
    marked = TEXT.replace("\n", "\r\n").encode("utf-8-sig")
    assert same(wanted, build_task(written(tmp_path, marked), 16).training_batch(0, 4, 0))


def test_a_long_text_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {kind: build_task(written(tmp_path, symbols=kind), 16) for kind in KINDS}
    monkeypatch.setattr("bakeoff.suite.tasks.own.reading._BYTES_AT_ONCE", 37)
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "others"))
    task_class.__globals__["own_data_task"].__globals__["_task"].cache_clear()
    for kind, task in whole.items():
        in_parts = build_task(written(tmp_path, symbols=kind), 16)
        assert same(task.training_batch(0, 4, 0), in_parts.training_batch(0, 4, 0))


def test_only_the_first_symbols_of_long_parts_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "_MOST_SCORED", {"validation": 100, "test": 200})
    task = build_task(written(tmp_path), 16)
    assert [len(scored_text(task, split)) for split in ("validation", "test")] == [100, 200]


@pytest.mark.parametrize("symbols", KINDS)
def test_a_short_text_is_refused(symbols: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="at least 1,000 are needed"):
        task_class(written(tmp_path, "a b c " * 100, symbols=symbols))
