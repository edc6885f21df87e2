"""Check tasks on tables: splits, batches, vocabularies, standardisation, floors, learning."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from torch import nn

from bakeoff.models.interface import Outputs
from bakeoff.suite.execution.run_task import run_task
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.planning.training_examination import remarks_on
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.spec.own_data import Table
from bakeoff.suite.tasks.bases.labelled_texts import words_of
from bakeoff.suite.tasks.own.split_names import SPLITS
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Batch, Task, TaskError

Row = dict[str, Any]
TABLES = (".csv", ".tsv", ".parquet", ".jsonl")


@pytest.fixture(autouse=True)
def prepared_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))


def reviews(count: int = 400) -> list[Row]:
    """Return texts whose class is that of the word `good` or `bad` in them."""
    draw = random.Random(0)
    words = ["the", "film", "actor's", "plot", "was", "long", "über", "ok,"]
    rows = []
    for _ in range(count):
        stars = draw.randrange(2)
        text = [*draw.choices(words, k=draw.randint(3, 9)), ("bad", "good")[stars]]
        draw.shuffle(text)
        rows.append({"text": " ".join(text), "stars": stars, "price": stars * 10 + draw.random()})
    return rows


def numbers(count: int = 400) -> list[Row]:
    """Return rows of numbers, of which `y` and `label` are functions of `a` and `b`."""
    drawn = np.random.default_rng(0).normal(size=(count, 3)) * [1, 1_000, 0.01] + [0, 50, 7]
    return [
        {"a": a, "b": b, "c": c, "y": 3 * a + b / 500, "label": "pn"[a + b / 1_000 < 0.05]}
        for a, b, c in drawn.tolist()
    ]


def written(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows in the format that the name of the file says."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            separator = "\t" if path.suffix == ".tsv" else ","
            table = csv.DictWriter(file, list(rows[0]), delimiter=separator)
            table.writeheader()
            table.writerows(rows)
    return path


def all_of(task: Task) -> dict[str, Batch]:
    found = {split: next(iter(task.held_out(split, 10_000))) for split in ("validation", "test")}
    return {"training": task.training_batch(0, task.num_training_examples() or 0, 0), **found}


def are_equal(first: Batch, second: Batch) -> bool:
    return torch.equal(first.targets, second.targets) and all(
        torch.equal(tensor, second.inputs[name]) for name, tensor in first.inputs.items()
    )


def texts_of(task: Any, batch: Batch) -> list[str]:
    return [task.text(row[row > 0].tolist()) for row in batch.inputs["inputs"]]


def test_each_text_is_in_one_split_with_its_class(tmp_path: Path) -> None:
    rows = reviews()
    path = written(tmp_path / "reviews.csv", [*rows, *rows[:50]])
    table = Table(path, text="text", label="stars", symbols="characters")
    task = build_task(str(table), 200)
    parts = all_of(task)
    shown = {name: texts_of(task, batch) for name, batch in parts.items()}
    assert sum(map(len, shown.values())) == 450
    assert not set(shown["test"]) & set(shown["training"])
    assert not set(shown["validation"]) & set(shown["training"])
    assert 0.6 < len(shown["training"]) / 450 < 0.8
    known = {row["text"]: row["stars"] for row in rows}
    for name in ("training", "test"):
        # A character that no training text has is shown as another.
        for text, label in zip(shown[name], parts[name].targets.tolist(), strict=True):
            assert known.get(text, label) == label
    assert set(shown["training"]) < set(known)
    assert type(task).source.title.startswith(f"{path}: 450 rows: ")
    assert "2 classes: 0 " in type(task).source.title
    assert task.name == "reviews"
    assert type(task).num_test_examples() == len(shown["test"])


def test_texts_that_differ_in_white_space_are_in_one_split(tmp_path: Path) -> None:
    rows = [{**row, "text": f"{i} {row['text']}"} for i, row in enumerate(reviews())]
    spaced = [{**row, "text": f" {row['text'].replace(' ', '  ')}\t"} for row in rows]
    path = written(tmp_path / "t.csv", [*rows, *spaced])
    task: Any = build_task(str(Table(path, text="text", label="stars")), 12)
    chosen = {name: set(task.prepared.array(f"{name}_rows").tolist()) for name in SPLITS}
    for rows_of in chosen.values():
        assert {(row + len(rows)) % (2 * len(rows)) for row in rows_of} == rows_of


def test_a_label_is_the_same_however_its_accents_are_written(tmp_path: Path) -> None:
    labels = ["caf\u00e9", "cafe\u0301", "the"]
    rows = [{"x": i, "y": labels[i % 3]} for i in range(300)]
    task: Any = build_task(
        str(Table(written(tmp_path / "t.csv", rows), features=["x"], label="y")), 1
    )
    assert task.prepared.facts["classes"] == ["caf\u00e9", "the"]


def test_words_are_those_of_a_text(tmp_path: Path) -> None:
    rows = reviews()
    path = written(tmp_path / "reviews.csv", rows)
    task: Any = build_task(str(Table(path, text="text", label="stars")), 6)
    chosen = task.data().training
    batch = task.batch_of(chosen[:20])
    vocabulary = task.prepared.facts["symbols"]["words"]
    assert set(vocabulary) <= {word for row in rows for word in words_of(row["text"])}
    assert "actor's" in vocabulary
    assert "," in vocabulary
    for text, tokens in zip(chosen[:20].inputs, batch.inputs["inputs"].tolist(), strict=True):
        words = words_of(text.decode())[:6]
        assert [vocabulary[token - 2] for token in tokens if token] == words
    assert torch.equal(batch.inputs["mask"], batch.inputs["inputs"] != 0)


@pytest.mark.parametrize("definition", [{"label": "stars"}, {"target": "price"}])
def test_all_formats_give_the_same_batches(tmp_path: Path, definition: Row) -> None:
    found = []
    for suffix in TABLES:
        path = written(tmp_path / f"reviews{suffix}", reviews(300))
        found.append(all_of(build_task(str(Table(path, text="text", **definition)), 12)))
    for each in found[1:]:
        assert all(are_equal(batch, found[0][name]) for name, batch in each.items())


@pytest.mark.parametrize("suffix", TABLES)
def test_all_formats_give_the_same_numbers(tmp_path: Path, suffix: str) -> None:
    columns = ["a", "b", "c"]
    wanted = Table(written(tmp_path / "w.csv", numbers()), features=columns, label="label")
    path = written(tmp_path / f"numbers{suffix}", numbers())
    found = all_of(build_task(str(Table(path, features=columns, label="label")), 3))
    other = all_of(build_task(str(wanted), 3))
    assert all(are_equal(batch, other[name]) for name, batch in found.items())


@pytest.mark.whole
def test_a_batch_is_a_function_of_seed_and_step_in_every_process(tmp_path: Path) -> None:
    path = written(tmp_path / "reviews.csv", reviews())
    spelling = str(Table(path, text="text", label="stars", symbols="subwords", vocabulary=99))
    task = build_task(spelling, 10)
    batch = task.training_batch(7, 16, 3)
    assert are_equal(batch, task.training_batch(7, 16, 3))
    assert not are_equal(batch, task.training_batch(8, 16, 3))
    assert not are_equal(batch, task.training_batch(7, 16, 4))
    code = (
        "import sys\nfrom bakeoff.suite.tasks.registry import build_task\n"
        "batch = build_task(sys.argv[1], 10).training_batch(7, 16, 3)\n"
        "print(batch.inputs['inputs'].tolist(), batch.targets.tolist())"
    )
    command = [sys.executable, "-c", code, spelling]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"{batch.inputs['inputs'].tolist()} {batch.targets.tolist()}"


@pytest.mark.parametrize("symbols", ["words", "characters", "bytes", "subwords"])
def test_a_longer_input_begins_as_a_shorter_one(tmp_path: Path, symbols: str) -> None:
    rows = reviews(200)
    rows[0]["text"] = "good " + "über " * 3_000  # much longer than what is read of it
    path = written(tmp_path / "reviews.csv", rows)
    spelling = str(Table(path, text="text", label="stars", symbols=symbols, vocabulary=64))
    short, long = (all_of(build_task(spelling, length)) for length in (5, 400))
    for name, batch in short.items():
        assert torch.equal(batch.inputs["inputs"], long[name].inputs["inputs"][:, :5])
        assert (batch.inputs["inputs"][:, 0] > 0).all()
    assert long["training"].inputs["inputs"].max() < task_class(spelling).input_size


def test_a_word_of_other_splits_is_unknown(tmp_path: Path) -> None:
    rows = [{**row, "part": ("train", "val", "test")[i % 3]} for i, row in enumerate(reviews(90))]
    for row in rows:
        if row["part"] == "test":
            row["text"] += " zebra"
    path = written(tmp_path / "t.csv", rows)
    task: Any = build_task(str(Table(path, text="text", label="stars", split="part")), 20)
    assert "zebra" not in task.prepared.facts["symbols"]["words"]
    tokens = all_of(task)["test"].inputs["inputs"]
    assert ((tokens == 1).sum(dim=1) == 1).all()


def test_the_vocabulary_holds_the_most_frequent_words(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", reviews())
    kind: Any = task_class(str(Table(path, text="text", label="stars", vocabulary=16)))
    everything: Any = task_class(str(Table(path, text="text", label="stars", vocabulary=17)))
    assert kind.input_size == 13 == everything.input_size  # 11 words with the comma, two more
    few: Any = task_class(str(Table(path, text="text", label="stars", symbols="characters")))
    assert few.input_size == len(few.characters)


def test_features_are_standardised_by_the_training_part(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", [{**row, "same": 5} for row in numbers()])
    spelling = str(Table(path, features=["a", "b", "c", "same"], label="label"))
    task = build_task(spelling, 4)
    batch = all_of(task)["training"].inputs["inputs"]
    assert batch.shape == (task.num_training_examples(), 4, 1)
    assert batch.dtype == torch.float32
    assert batch[:, :3, 0].mean(dim=0).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
    assert batch[:, :3, 0].std(dim=0, correction=0).tolist() == pytest.approx([1] * 3, rel=1e-5)
    assert (batch[:, 3] == 0).all()
    assert "the same number everywhere: 'same'" in type(task).source.title
    with pytest.raises(TaskError, match="an example is 4 tokens"):
        build_task(spelling, 3)


def test_a_target_is_standardised_so_that_its_mean_scores_one(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", numbers())
    spelling = str(Table(path, features=["a", "b", "c"], target="y"))
    task = build_task(spelling, 3)
    training = all_of(task)["training"].targets
    assert training.mean().item() == pytest.approx(0, abs=1e-5)
    assert training.std(correction=0).item() == pytest.approx(1, rel=1e-5)
    scores = {name: FLOORS[name].score(task) for name in type(task).floors}
    assert scores["mean_answer"] == pytest.approx(1, abs=0.5)
    assert scores["ridge_regression"] < 0.01
    batch = task.training_batch(0, 8, 0)
    loss = task.loss(Outputs(torch.zeros(8, 1)), batch)
    assert loss.item() == pytest.approx(batch.targets.square().mean().item())


@pytest.mark.parametrize(
    "definition",
    [
        {"text": "text", "label": "stars"},
        {"text": "text", "target": "price"},
        {"features": ["a", "b"], "label": "label"},
        {"features": ["a", "b"], "target": "y"},
    ],
)
def test_every_floor_suits_and_beats_chance(tmp_path: Path, definition: Row) -> None:
    rows = [{**words, **row} for words, row in zip(reviews(), numbers(), strict=True)]
    spelling = str(Table(written(tmp_path / "t.csv", rows), **definition))
    kind = task_class(spelling)
    task = build_task(spelling, kind.fixed_length or 10)
    assert all(FLOORS[name].suits(kind) for name in kind.floors)
    scores = [FLOORS[name].score(task) for name in kind.floors]
    if "target" in definition:
        assert scores[-1] < 0.1 < 0.7 < scores[0]
    else:
        assert scores[0] == 0.5 < 0.85 < max(scores[2:])


def test_a_column_of_splits_is_followed(tmp_path: Path) -> None:
    names = {
        "training": ["train", "training", " Train "],
        "validation": ["validation", "valid", "val", "DEV"],
        "test": ["test"],
    }
    parts = [(part, each) for part, several in names.items() for each in several]
    rows = [{"x": i, "y": i % 2, "part": parts[i % len(parts)][1]} for i in range(len(parts) * 12)]
    path = written(tmp_path / "t.csv", rows)
    task: Any = build_task(str(Table(path, features=["x"], label="y", split="part")), 1)
    for part in names:
        wanted = [i for i in range(len(rows)) if parts[i % len(parts)][0] == part]
        assert task.prepared.array(f"{part}_rows").tolist() == wanted


def test_training_rows_validate_if_no_other_does(tmp_path: Path) -> None:
    rows = [{"x": i, "y": i % 2, "part": ("train", "test")[i % 5 == 0]} for i in range(300)]
    rows += [{**rows[1], "part": "test"}]  # also in training
    path = written(tmp_path / "t.csv", rows)
    task: Any = build_task(str(Table(path, features=["x"], label="y", split="part")), 1)
    assert len(task.prepared.array("test_rows")) == 61
    assert 10 <= len(task.prepared.array("validation_rows")) <= 45
    summary = task.prepared.facts["summary"]
    assert "one in ten of the training rows for validation by a hash" in summary
    assert "1 rows of test equal a training row" in summary


def test_smaller_subsets_are_part_of_larger_ones(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", numbers())
    for definition in ({"label": "label"}, {"target": "y"}):
        spelling = str(Table(path, features=["a", "b"], **definition))
        kept = []
        for count in (20, 60):
            task: Any = build_task(spelling, 2, count)
            assert task.num_training_examples() == count
            kept.append({str(x) for x in task.training_batch(0, count, 0).inputs["inputs"]})
        assert kept[0] < kept[1]
        with pytest.raises(TaskError, match="num_training_examples must be 1 to"):
            build_task(spelling, 2, 401)


def test_a_large_table_is_scored_and_fitted_in_part(tmp_path: Path) -> None:
    count = 140_000  # sorted by class
    lines = (f"{i * 7 % 1_000_003},{'ab'[i > 70_000]}\n" for i in range(count))
    path = tmp_path / "large.csv"
    path.write_text("x,y\n" + "".join(lines))
    kind: Any = task_class(str(Table(path, features=["x"], label="y")))
    task = kind(1)
    sizes = {split: len(task.data().held_out[split].labels) for split in ("validation", "test")}
    assert sizes == {"validation": 10_000, "test": 25_000}
    assert 0.4 < task.data().held_out["validation"].labels.mean() < 0.6
    assert "10,000 random rows of validation are scored" in kind.source.title
    labels = [FLOORS[name].label_on(kind) for name in kind.floors]
    assert labels[0] == "uniform"
    assert all("20,000 examples" in label for label in labels[1:])
    assert 0.4 < FLOORS["majority"].score(task) < 0.6


@pytest.mark.whole
def test_the_vocabulary_of_long_texts_is_of_the_whole_file(tmp_path: Path) -> None:
    texts = [f"{'early' if i < 150 else 'late'}{i} {'x' * 99_000}" for i in range(300)]
    path = written(tmp_path / "t.csv", [{"text": text, "y": i % 2} for i, text in enumerate(texts)])
    task: Any = build_task(str(Table(path, text="text", label="y")), 2)
    words = task.prepared.facts["symbols"]["words"]
    assert words[0] == "x" * 99_000
    assert len(words) < 300  # 20 million characters do not hold all of them
    assert 50 < sum(word.startswith("early") for word in words) < len(words) - 50


class BagOfWords(nn.Module):
    def __init__(self, num_symbols: int, num_outputs: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(num_symbols, num_outputs, padding_idx=0, mode="sum")

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.table(tokens)
        return found


@pytest.mark.parametrize(
    ("definition", "is_learnt"),
    [
        ({"label": "stars"}, lambda score: score > 0.95),
        ({"target": "price"}, lambda score: score < 0.1),
    ],
)
def test_a_model_learns(
    tmp_path: Path, definition: Row, is_learnt: Callable[[float], bool]
) -> None:
    spelling = str(Table(written(tmp_path / "t.csv", reviews()), text="text", **definition))
    kind = task_class(spelling)
    torch.manual_seed(0)
    module = BagOfWords(kind.input_size, kind.output_size)
    found = run_task(
        module, task=spelling, steps=200, length=12, learning_rate=0.03, progress=False
    )
    assert is_learnt(found.value)


def test_a_length_that_the_features_do_not_have_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", numbers())
    table = Table(path, features=["a", "b", "c"], label="label")

    def planned(length: int) -> Plan:
        return plan(
            Ablation(
                question="How many heads?",
                baseline=Model(mixer="attention"),
                axes=[vary("heads", [1, 2])],
                tasks=[table],
                probes=["quality"],
                scales={"quick": Scale(dim=8, depth=1, length=length, steps=2, batch=2)},
            )
        )

    wanted = "n: each example has 3 tokens, so length=16 has no effect on it"
    assert remarks_on([planned(16)]) == [wanted]
    assert remarks_on([planned(3)]) == []


def test_a_refusal_leaves_one_lock_for_all_data(tmp_path: Path) -> None:
    for number in range(3):
        path = written(tmp_path / f"{number}.csv", [{"a": number, "label": "p"}] * 400)
        with pytest.raises(TaskError):
            task_class(str(Table(path, features=["a"], label="label")))
    assert [path.name for path in (tmp_path / "data/own").iterdir()] == ["preparing.lock"]


def test_a_model_learns_from_features(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", numbers())
    spelling = str(Table(path, features=["a", "b", "c"], label="label"))
    module = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    found = run_task(module, task=spelling, steps=200, learning_rate=0.03, progress=False)
    assert found.value > 0.9


@pytest.fixture
def million(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "million.csv"
    draw = random.Random(0)
    words = [f"w{draw.randrange(20_000)}" for _ in range(100_000)]
    with path.open("w") as file:
        file.write("text,label\n")
        for i in range(1_000_000):
            first = draw.randrange(99_000)
            file.write(f"{' '.join(words[first : first + 12])},{i % 5}\n")
    yield path
    path.unlink()


@pytest.mark.slow
def test_a_million_rows_need_little_memory(million: Path) -> None:
    code = (
        "import resource, sys\nfrom bakeoff.suite.tasks.registry import build_task\n"
        "import bakeoff.suite.floors.registry, pyarrow.csv, pyarrow.parquet\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\nbuild_task(sys.argv[1], 16).training_batch(0, 32, 0)\n"
        "print(peak() - before)"
    )
    spelling = str(Table(million, text="text", label="label"))
    command = [sys.executable, "-c", code, spelling]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(said) < 1 << 20  # kilobytes
