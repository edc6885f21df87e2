"""Test pairs of the user's own: the reading, the splits, the vocabulary, odd files."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from bakeoff.suite.execution.run_task import run_task
from bakeoff.suite.spec.fields import SpecError
from bakeoff.suite.spec.own_data import own_data
from bakeoff.suite.tasks.own import pairs as reader
from bakeoff.suite.tasks.own.columns import column_parts
from bakeoff.suite.tasks.own.growing import GrowingArray
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import TaskError
from tests.suite.tasks.own.laws import another_process_sees_the_same, inputs_of, keep, small_model

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fuenf"}


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "own"


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return different sentences with a translation word by word."""
    drawn, found = random.Random(seed), dict[str, str]()
    while len(found) < count:
        words = drawn.choices(list(WORDS), k=drawn.randint(2, 6))
        found[" ".join(words)] = " ".join(WORDS[word] for word in words)
    return list(found.items())


def as_csv(path: Path, pairs: Sequence[Sequence[str]], names: Sequence[str] = ("en", "de")) -> Path:
    separator = "\t" if path.suffix == ".tsv" else ","
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows([names, *pairs])
    return path


def as_jsonl(path: Path, pairs: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join(json.dumps({"en": a, "de": b}) + "\n" for a, b in pairs))
    return path


def as_parquet(path: Path, pairs: Sequence[Sequence[str]]) -> Path:
    parquet.write_table(pa.table({"en": [a for a, _ in pairs], "de": [b for _, b in pairs]}), path)
    return path


def spelled(path: Path, **fields: object) -> str:
    given = {"source": "en", "target": "de", **fields}
    return f'Pairs("{path}", {", ".join(f"{k}={v!r}" for k, v in given.items())})'


@pytest.mark.whole
def test_a_task_keeps_the_laws(tmp_path: Path) -> None:
    spelling = spelled(as_csv(tmp_path / "p.csv", sentences(400)))
    task = keep(spelling, 16)
    assert task.name == "p"
    assert another_process_sees_the_same(spelling, 16)
    found = [inputs_of(task, name) for name in ("training", "validation", "test")]
    assert not found[0] & found[1]
    assert not found[0] & found[2]
    assert not found[1] & found[2]
    assert list(map(len, found)) == [
        len(type(task).pairs().splits[name])  # type: ignore[attr-defined]
        for name in ("training", "validation", "test")
    ]


def test_the_symbols_are_those_of_the_sentences(tmp_path: Path) -> None:
    wanted = dict(sentences(400))
    task = build_task(spelled(as_csv(tmp_path / "p.csv", list(wanted.items()))), 64)
    seen = set()
    for batch in (task.training_batch(0, 250, 0), *task.held_out("test", 64)):
        for context, targets in zip(batch.inputs["context"], batch.targets, strict=True):
            source = task.text(context.tolist())
            assert task.text([t for t in targets.tolist() if t >= 0]) == wanted[source]
            seen.add(source)
    assert len(seen) > 300


@pytest.mark.parametrize("write", [as_csv, as_jsonl, as_parquet])
def test_each_format_gives_the_same_batches(
    tmp_path: Path, write: Callable[[Path, Sequence[Sequence[str]]], Path]
) -> None:
    suffix = {as_csv: "tsv", as_jsonl: "jsonl", as_parquet: "parquet"}[write]
    path = write(tmp_path / f"p.{suffix}", sentences(300))
    other = as_csv(tmp_path / "p.csv", sentences(300))
    found = [build_task(spelled(each), 24).training_batch(0, 50, 0) for each in (path, other)]
    assert torch.equal(found[0].targets, found[1].targets)
    assert torch.equal(found[0].inputs["context"], found[1].inputs["context"])


def test_given_splits_are_used_whatever_their_case(tmp_path: Path) -> None:
    names = ["Train"] * 60 + ["dev"] * 20 + [" test "] * 20
    pairs = [(*pair, name) for pair, name in zip(sentences(100), names, strict=True)]
    path = as_csv(tmp_path / "p.csv", pairs, ("en", "de", "part"))
    task = build_task(spelled(path, split="part"), 24)
    assert {task.text(np.frombuffer(c, np.int64).tolist()) for c in inputs_of(task, "test")} == {
        source for source, *_ in pairs[80:]
    }
    assert "60 for training, 20 for validation and 20 for the test" in task.source.title


def test_splits_without_validation_take_it_from_training(tmp_path: Path) -> None:
    names = ["train"] * 250 + ["test"] * 50
    pairs = [(*pair, name) for pair, name in zip(sentences(300), names, strict=True)]
    path = as_csv(tmp_path / "p.csv", pairs, ("en", "de", "part"))
    task = build_task(spelled(path, split="part"), 24)
    training, validation, test = type(task).prepared.facts["counts"]  # type: ignore[attr-defined]
    assert (training + validation, test) == (250, 50)
    assert 10 <= validation <= 45


def test_a_cell_may_have_quotes_line_feeds_and_odd_spaces(tmp_path: Path) -> None:
    pairs = [(f'say "hi",\n{a}', f"a\u0308\u00a0 {b}") for a, b in sentences(200)]
    path = as_csv(tmp_path / "p.csv", pairs)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\r\n", b"\n\n"))  # blank lines
    task = build_task(spelled(path), 64)
    batch = task.training_batch(0, 1, 0)
    assert task.text(batch.inputs["context"][0].tolist()).startswith('say "hi", ')
    assert task.text([t for t in batch.targets[0].tolist() if t >= 0]).startswith("\u00e4 ")


def test_an_encoding_and_a_separator_can_be_given(tmp_path: Path) -> None:
    text = "en;de\n" + "".join(f"{a};{b} \u00fc\n" for a, b in sentences(200))
    (tmp_path / "p.csv").write_text(text, encoding="latin-1")
    task = build_task(spelled(tmp_path / "p.csv", separator=";", encoding="latin-1"), 40)
    targets = task.training_batch(0, 1, 0).targets[0].tolist()
    assert task.text([t for t in targets if t >= 0]).endswith(" \u00fc")


def test_very_long_sentences_are_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [*sentences(200), ("x" * 30_000, "long"), ("many", "a b " * 600)]
    task = task_class(spelled(as_csv(tmp_path / "p.csv", pairs)))
    assert "200 pairs, " in task.source.title
    assert "2 pairs are left out, because a side has more than 20,000" in task.source.title


def test_subwords_are_learnt_from_the_first_training_pairs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_LEARNT_PAIRS", 100)
    monkeypatch.setattr(reader, "_ROWS_AT_ONCE", 50)
    later = [(f"{a} \u0416", b) for a, b in sentences(300, seed=1)]
    kind = task_class(spelled(as_csv(tmp_path / "p.csv", [*sentences(300), *later])))
    assert "\u0416" not in kind.prepared.facts["subwords"]["characters"]  # type: ignore[attr-defined]
    assert "600 pairs" in kind.source.title


def test_scored_pairs_are_a_sample_of_a_sorted_file(tmp_path: Path) -> None:
    pairs = sorted(sentences(2_000))
    task = build_task(spelled(as_csv(tmp_path / "p.csv", pairs)), 40)
    splits = type(task).pairs().splits  # type: ignore[attr-defined]
    firsts = [task.text(pair.source) for pair in splits["validation"][:50]]
    assert len({text[0] for text in firsts}) > 1
    assert firsts != sorted(firsts)


@pytest.mark.whole
def test_a_translator_learns_the_words(tmp_path: Path) -> None:
    pairs = [(a, b) for a, b in zip("abcdefgh", "stuvwxyz", strict=True)]
    drawn = random.Random(0)
    chosen = [drawn.choices(pairs, k=5) for _ in range(600)]
    lines = {" ".join(a for a, _ in each): " ".join(b for _, b in each) for each in chosen}
    spelling = spelled(as_csv(tmp_path / "p.csv", list(lines.items())), vocabulary=64)
    task = build_task(spelling, 8)
    torch.manual_seed(0)
    model = small_model(task, mixer="attention", position="sinusoidal", dim=32, depth=1)
    found = run_task(
        model, task=spelling, length=8, steps=200, batch=32, learning_rate=0.01, progress=False
    )
    assert found.metric == "bleu"
    assert found.value > 60


def test_a_large_vocabulary_has_no_dictionary_floor(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "p.csv", sentences(200))
    kind = task_class(spelled(path, vocabulary=64))
    assert kind.floors == ("copied_source", "word_by_word", "likeliest_sequence")
    assert kind.input_size == kind.output_size <= 64


def test_a_column_has_one_part() -> None:
    with pytest.raises(SpecError, match="the column 'en' has two parts"):
        own_data('Pairs("p.csv", source="en", target="en")')


HEADER = b"en,de\n"
GOOD = b"".join(f"{a},{b}\n".encode() for a, b in sentences(100))

FEW = GOOD[: GOOD.index(b"\n", 200) + 1]

REFUSED: dict[str, tuple[str, bytes, dict[str, object], str]] = {
    "empty": ("p.csv", b"", {}, "is empty"),
    "only blank lines": ("p.csv", b"\n\n\n", {}, "is empty"),
    "only a header": ("p.csv", HEADER, {}, "of its 0 pairs; each of the three splits"),
    "few rows": ("p.csv", HEADER + FEW, {}, "each of the three splits needs at least 10"),
    "no such column": (
        "p.csv",
        b"id,english,de\n1,a,b\n",
        {"source": "englisch"},
        "no column 'englisch'; did you mean 'english'",
    ),
    "spaces in a name": ("p.csv", b" en,de\na,b\n", {}, "no column 'en'; did you mean ' en'"),
    "twice the same name": ("p.csv", b"en,de,de\na,b,c\n", {}, "has 2 columns named 'de'"),
    "another separator": (
        "p.csv",
        b"en;de\na;b\n",
        {},
        "its only column is 'en;de'; give separator=",
    ),
    "ragged": ("p.csv", HEADER + b"a,b\nc\n", {}, "row 2 has 1 cell, and the header 2 cells"),
    "too many cells": (
        "p.csv",
        HEADER + b"a,b,c\n",
        {},
        "row 1 has 3 cells, and the header 2 cells",
    ),
    "ragged after a line feed": (
        "p.csv",
        HEADER + b'"a\n\nb",c\nd,e,f\n',
        {},
        "row 2 has 3 cells, and the header 2 cells",
    ),
    "an open quote": (
        "p.csv",
        HEADER + b'a,b\n"c,d\ne,f\n',
        {},
        "opens a cell of row 2 is not closed",
    ),
    "an empty cell": (
        "p.csv",
        HEADER + GOOD + b"a,\nb,c\n , d\n",
        {},
        r"row 101: the cell of column 'de' is empty, as in 1 more rows",
    ),
    "not UTF-8": (
        "p.csv",
        HEADER + "a,ü\n".encode("latin-1"),
        {},
        "is not utf-8: byte 9, in line 2, is 0xfc",
    ),
    "no such encoding": (
        "p.csv",
        HEADER,
        {"encoding": "utf-9"},
        "Python has no text encoding 'utf-9'",
    ),
    "not an encoding of texts": (
        "p.csv",
        HEADER,
        {"encoding": "hex"},
        "Python has no text encoding 'hex'",
    ),
    "a split of another name": (
        "p.csv",
        b"en,de,s\na,b,train\nc,d,holdout\n",
        {"split": "s"},
        "row 2: the column 's' has 'holdout'; allowed are train, validation and test",
    ),
    "no validation part": (
        "p.csv",
        b"en,de,s\n" + b"a,b,train\n" * 20 + b"c,d,test\n" * 20,
        {"split": "s"},
        "the validation part has 0",
    ),
    "many characters": (
        "p.csv",
        HEADER + GOOD,
        {"vocabulary": 16},
        "different characters in its training part, more than vocabulary=16",
    ),
    "not JSON": ("p.jsonl", b'{"en": "a", "de": "b"}\n{"en": \n', {}, "line 2 is not JSON"),
    "deep JSON": ("p.jsonl", b"[" * 100_000, {}, "line 1 is nested too deeply"),
    "a list": ("p.jsonl", b'["a", "b"]\n', {}, "line 1 is a list; each line must be a JSON object"),
    "a number in JSON": ("p.jsonl", b'{"en": "a", "de": 1}\n', {}, "line 1: the column 'de' has 1"),
    "a missing key": (
        "p.jsonl",
        b'{"en": "a", "de": "b"}\n{"en": "c"}\n' * 50,
        {},
        "line 2: the cell of column 'de' is empty, as in 49 more rows",
    ),
    "no JSON": ("p.jsonl", b"\n", {}, "line 1 is empty"),
    "not Parquet": ("p.parquet", b"en,de\na,b\n", {}, "cannot be read as Parquet"),
    "another suffix": ("p.xlsx", b"PK", {}, "is not a .csv, .tsv, .parquet or .jsonl file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path, prepared: Path) -> None:
    file, content, fields, sentence = REFUSED[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(TaskError, match=sentence) as error:
        task_class(spelled(tmp_path / file, **fields))
    assert "\n" not in str(error.value)
    assert str(tmp_path / file) in str(error.value)
    assert not [each for each in prepared.iterdir() if each.suffix != ".lock"], "half-written"


def test_other_paths_are_refused(tmp_path: Path) -> None:
    for path, sentence in (
        (tmp_path, "is a folder; give the path of a file"),
        (tmp_path / "none.csv", "does not exist"),
        ("https://example.org/p.csv", "is an address; download the file"),
    ):
        with pytest.raises(TaskError, match=sentence):
            task_class(spelled(Path(path) if "://" not in str(path) else path))  # type: ignore[arg-type]


def test_parquet_columns_must_hold_texts(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"en": [1, 2], "de": ["a", "b"]}), tmp_path / "p.parquet")
    with pytest.raises(TaskError, match="row 1: the column 'en' has 1; a text is needed"):
        task_class(spelled(tmp_path / "p.parquet"))
    parquet.write_table(pa.table({"en": ["a", None], "de": ["a", "b"]}), tmp_path / "q.parquet")
    with pytest.raises(TaskError, match="row 2: the cell of column 'en' is empty"):
        task_class(spelled(tmp_path / "q.parquet"))


def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    path = as_jsonl(tmp_path / "p.jsonl", [(f"{a} \ud800", b) for a, b in sentences(200)])
    with pytest.raises(TaskError, match="half a character in line 1"):
        task_class(spelled(path))


def test_a_cell_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("en,de\nb,c\n" + "a" * 10_000_000 + ",b\n")
    parts = column_parts(path, ["en", "de"])
    found = [len(text) for part in parts for text in part.columns["en"].to_pylist()]
    assert found == [1, 10_000_000]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(as_csv(tmp_path / "p.csv", sentences(200)))
    assert "200 pairs" in task_class(spelled(tmp_path / "link.csv")).source.title


def test_a_length_that_no_pair_fits_is_one_sentence(tmp_path: Path) -> None:
    pairs = [(f"{a} {a} {a} {a}", b) for a, b in sentences(200)]
    task = build_task(spelled(as_csv(tmp_path / "p.csv", pairs)), 8)
    with pytest.raises(TaskError, match="no pair of the training is shorter than length=8"):
        task.training_batch(0, 1, 0)


@pytest.mark.parametrize("row", [(), (3,)])
def test_an_array_grows(tmp_path: Path, row: tuple[int, ...]) -> None:
    parts = [np.arange(size * max(1, sum(row))).reshape(size, *row) for size in (2, 0, 100_000)]
    with GrowingArray(tmp_path / "a.npy", np.int32, row) as array:
        for part in parts:
            array.append(part)
    found = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert found.dtype == np.int32
    assert np.array_equal(found, np.concatenate(parts))
