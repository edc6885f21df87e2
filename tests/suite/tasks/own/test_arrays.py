"""Test arrays of the user's own: each kind of input and answer, the splits, odd files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from bakeoff.suite.execution.run_task import run_task
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.spec.fields import SpecError
from bakeoff.suite.spec.own_data import own_data
from bakeoff.suite.tasks.bases.images import IMAGE_FLOORS
from bakeoff.suite.tasks.own import labelled
from bakeoff.suite.tasks.own.labelled import floors_of
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import TaskError
from tests.suite.tasks.own.laws import (
    ROOT,
    another_process_sees_the_same,
    inputs_of,
    keep,
    small_model,
)

Arrays = Mapping[str, NDArray[Any]]
DRAWN = np.random.default_rng(0)
N = 300


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "own"


TOKENS = DRAWN.integers(0, 20, (N, 12))
VECTORS = DRAWN.normal(3, 5, (N, 9, 4)).astype(np.float32)
IMAGES = DRAWN.integers(0, 256, (N, 8, 10, 3)).astype(np.uint8)
CLASSES = DRAWN.integers(0, 3, N)
NUMBERS = DRAWN.normal(100, 7, N)
GOOD: Arrays = {"inputs": TOKENS, "targets": CLASSES}


def saved(folder: Path, arrays: Arrays, name: str = "a.npz") -> Path:
    np.savez(folder / name, **arrays)  # type: ignore[arg-type]
    return folder / name


def spelled(path: Path, **fields: object) -> str:
    return f'Arrays("{path}"{"".join(f", {k}={v!r}" for k, v in fields.items())})'


KINDS: dict[str, tuple[Arrays, int, dict[str, object]]] = {
    "tokens and a class": (
        {"inputs": TOKENS, "targets": CLASSES},
        12,
        {"asks_for": "class", "architecture": "classifier", "input_size": 20, "output_size": 3},
    ),
    "vectors and a class": (
        {"inputs": VECTORS, "targets": CLASSES},
        9,
        {"asks_for": "class", "input_kind": "vectors", "input_size": 4},
    ),
    "a series and a number": (
        {"inputs": VECTORS[..., 0], "targets": NUMBERS},
        9,
        {"asks_for": "number", "input_size": 1, "output_size": 1, "architecture": "classifier"},
    ),
    "tokens and a number": (
        {"inputs": TOKENS, "targets": NUMBERS},
        12,
        {"asks_for": "number", "input_kind": "tokens"},
    ),
    "tokens and symbols": (
        {"inputs": TOKENS, "targets": np.where(TOKENS % 2, TOKENS % 5, -100) + 0 * (TOKENS + 1)},
        12,
        {"asks_for": "symbols", "architecture": "tagger", "output_size": 5},
    ),
    "vectors and symbols": (
        {"inputs": VECTORS, "targets": DRAWN.integers(0, 4, (N, 9)).astype(np.uint8)},
        9,
        {"asks_for": "symbols", "output_size": 4},
    ),
    "colour images and a class": (
        {"inputs": IMAGES, "targets": CLASSES.astype(bool)},
        80,
        {"architecture": "vit", "grid": (8, 10), "input_size": 3, "output_size": 2},
    ),
    "grey images and a number": (
        {"inputs": IMAGES[..., 0].astype(np.int64), "targets": NUMBERS.astype(np.float16)},
        80,
        {"architecture": "perceiver", "asks_for": "number", "grid": (8, 10), "input_size": 1},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_task_keeps_the_laws(name: str, tmp_path: Path) -> None:
    arrays, length, wanted = KINDS[name]
    arrays = {**arrays, "targets": arrays["targets"].copy()}
    if wanted["asks_for" if "asks_for" in wanted else "grid"] == "symbols":
        arrays["targets"][:, 0] = 1  # each example asks for something
    task = keep(spelled(saved(tmp_path, arrays)), length)
    assert {key: getattr(task, key) for key in wanted} == wanted
    assert task.fixed_length == length
    found = [inputs_of(task, split) for split in ("training", "validation", "test")]
    assert sum(map(len, found)) == N
    fields = {"mixer": "attention", "dim": 16, "depth": 1}
    if task.input_kind != "image":
        model = small_model(task, position="sinusoidal", **fields)
        run_task(model, task=spelled(tmp_path / "a.npz"), steps=2, batch=8, progress=False)


@pytest.mark.whole
def test_another_process_sees_the_same_batches(tmp_path: Path) -> None:
    path = saved(tmp_path, {"inputs": VECTORS, "targets": CLASSES})
    assert another_process_sees_the_same(spelled(path), 9)


def test_the_inputs_have_the_answers_of_the_file(tmp_path: Path) -> None:
    task = build_task(spelled(saved(tmp_path, GOOD)), 12)
    known = {row.tobytes(): int(label) for row, label in zip(TOKENS, CLASSES, strict=True)}
    for batch in (task.training_batch(0, 150, 0), *task.held_out("test", 64)):
        for row, label in zip(batch.inputs["inputs"].numpy(), batch.targets, strict=True):
            assert known[row.tobytes()] == label


def test_given_splits_names_and_orders_are_used(tmp_path: Path) -> None:
    splits = np.repeat([2, 0, 1], [40, 200, 60])
    arrays = {"x": np.asfortranarray(TOKENS).astype(">i2"), "y": CLASSES * 7 - 3, "part": splits}
    path = saved(tmp_path, arrays)
    task = build_task(spelled(path, inputs="x", targets="y", split="part"), 12)
    assert inputs_of(task, "test") == {row.tobytes() for row in TOKENS[:40]}
    assert inputs_of(task, "validation") == {row.tobytes() for row in TOKENS[240:]}
    test = torch.cat([batch.targets for batch in task.held_out("test", 64)])
    assert test.tolist() == CLASSES[:40].tolist()
    assert "3 classes: -3 (" in task.source.title
    assert "200 for training, 60 for validation and 40 for the test" in task.source.title


def test_equal_inputs_are_in_one_split(tmp_path: Path) -> None:
    arrays = {"inputs": np.repeat(TOKENS, 4, axis=0), "targets": np.tile(CLASSES, 4)}
    task = build_task(spelled(saved(tmp_path, arrays)), 12)
    found = [inputs_of(task, split) for split in ("training", "validation", "test")]
    assert not (found[0] & found[1] | found[0] & found[2] | found[1] & found[2])


def test_a_negative_zero_does_not_make_an_input_another(tmp_path: Path) -> None:
    vectors = np.repeat(VECTORS, 2, axis=0)
    vectors[:, 0, 0] = np.tile([0.0, -0.0], N)
    arrays = {"inputs": vectors, "targets": CLASSES.repeat(2)}
    task = build_task(spelled(saved(tmp_path, arrays)), 9)
    found = [inputs_of(task, split) for split in ("training", "validation", "test")]
    assert sum(map(len, found)) == N
    assert not (found[0] & found[1] | found[0] & found[2] | found[1] & found[2])


def test_a_constant_that_rounding_moves_is_no_target(tmp_path: Path) -> None:
    inputs = np.random.default_rng(1).integers(0, 20, (2_000, 12))
    path = saved(tmp_path, {"inputs": inputs, "targets": np.full(2_000, 0.1)})
    with pytest.raises(TaskError, match=r"is 0\.1 in all training examples"):
        build_task(spelled(path), 12)


def test_splits_without_validation_take_it_from_training(tmp_path: Path) -> None:
    splits = np.repeat([0, 2], [200, 100])
    vectors = VECTORS.copy()
    vectors[200:230] = vectors[:30]
    path = saved(tmp_path, {"inputs": vectors, "targets": CLASSES, "s": splits})
    task = build_task(spelled(path, split="s"), 9)
    training, validation, test = task.prepared.facts["counts"]
    assert (training + validation, test) == (200, 100)
    assert 10 <= validation <= 40
    repeated = np.isin(np.arange(30), _rows_of(task, vectors, "training")).sum()
    assert 0 < repeated <= 30
    assert f"; {repeated} test examples equal a training example" in task.source.title


def _rows_of(task: Any, vectors: NDArray[Any], split: str) -> list[int]:
    """Return the rows of a split, found by their first number."""
    found = np.load(task.prepared.folder / f"{split}_inputs.npy")[:, 0, 0]
    mean, deviation = (task.prepared.facts[name][0] for name in ("mean", "deviation"))
    standard = ((vectors[:200, 0, 0].astype(np.float64) - mean) / deviation).astype(np.float32)
    return np.flatnonzero(np.isin(standard, found)).tolist()


def test_vectors_and_numbers_are_standardised_by_the_training_part(tmp_path: Path) -> None:
    vectors = VECTORS.astype(np.float64) * [1, 100, 1e-6, 0] + [0, 1e9, 0, 5]
    splits = np.repeat([0, 1, 2], [200, 50, 50])
    vectors[200:] += 1e6  # does not count
    path = saved(tmp_path, {"inputs": vectors, "targets": NUMBERS, "s": splits})
    task = build_task(spelled(path, split="s"), 9)
    batch = task.training_batch(0, 200, 0)
    inputs = batch.inputs["inputs"].double().flatten(0, 1)
    assert torch.allclose(inputs.mean(dim=0), torch.zeros(4).double(), atol=1e-5)
    deviations = inputs.std(dim=0, correction=0)
    assert torch.allclose(deviations, torch.tensor([1.0, 1, 1, 0]).double(), atol=1e-5)
    assert batch.targets.mean().item() == pytest.approx(0, abs=1e-6)
    assert batch.targets.std(correction=0).item() == pytest.approx(1, abs=1e-6)


def test_pixels_are_standardised_and_can_be_shown_again(tmp_path: Path) -> None:
    path = saved(tmp_path, {"inputs": IMAGES, "targets": CLASSES})
    task = build_task(spelled(path), 80)
    batch = task.training_batch(0, task.num_training_examples() or 0, 0)
    found = batch.inputs["inputs"]
    assert found.mean(dim=(0, 1, 2)).abs().max() < 1e-4
    assert (found.std(dim=(0, 1, 2)) - 1).abs().max() < 1e-3
    mean, deviation = map(torch.tensor, (task.pixel_mean, task.pixel_standard_deviation))
    again = ((found * deviation + mean) * 255).round().to(torch.uint8).numpy()
    assert {image.tobytes() for image in again} <= {image.tobytes() for image in IMAGES}


def test_a_subset_of_numbers_is_not_the_smallest_ones(tmp_path: Path) -> None:
    path = saved(tmp_path, {"inputs": TOKENS, "targets": NUMBERS})
    task = build_task(spelled(path), 12, num_training_examples=100)
    other = build_task(spelled(path), 12, num_training_examples=50)
    found = task.training_batch(0, 100, 0)
    assert found.targets.mean().abs() < 0.3
    rows = {row.numpy().tobytes() for row in found.inputs["inputs"]}
    assert {r.numpy().tobytes() for r in other.training_batch(0, 50, 0).inputs["inputs"]} <= rows


def test_a_subset_of_classes_is_balanced(tmp_path: Path) -> None:
    labels = np.array([0] * 250 + [1] * 50)
    path = saved(tmp_path, {"inputs": TOKENS, "targets": labels})
    task = build_task(spelled(path), 12, num_training_examples=40)
    assert task.training_batch(0, 40, 0).targets.bincount().tolist() == [20, 20]


def test_floors_find_what_is_linear(tmp_path: Path) -> None:
    numbers = VECTORS.sum(axis=(1, 2)) * 1e6
    task = build_task(spelled(saved(tmp_path, {"inputs": VECTORS, "targets": numbers})), 9)
    assert task.floors == ("mean_answer", "ridge_regression")
    mean, ridge = (FLOORS[name].score(task) for name in task.floors)
    test = torch.cat([batch.targets for batch in task.held_out("test", 64)])
    assert mean == pytest.approx(test.square().mean().item(), rel=1e-4)
    assert ridge < 1e-3


def test_floors_of_many_examples_read_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "MOST_FITTED", 50)
    path = saved(tmp_path, {"inputs": VECTORS, "targets": (VECTORS[:, 0, 0] > 3).astype(int)})
    task = build_task(spelled(path), 9)
    assert task.most_fitted == 50
    assert FLOORS["nearest_centroid"].score(task) > 0.6
    assert FLOORS["logistic_regression"].label_on(type(task)).endswith("(fitted to 50 examples)")
    assert FLOORS["uniform"].label_on(type(task)) == "uniform"


def test_many_validation_examples_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(labelled._MOST_SCORED, 1, 20)
    splits = np.repeat([0, 1, 2], [100, 100, 100])
    path = saved(tmp_path, {**GOOD, "s": splits})
    task = build_task(spelled(path, split="s"), 12)
    found = inputs_of(task, "validation")
    assert len(found) == 20
    assert not found <= {row.tobytes() for row in TOKENS[100:120]}
    assert "100 for validation" in task.source.title
    assert "for the test; 20 of those for validation are used; 3 classes" in task.source.title


def test_large_images_have_no_floors_that_take_minutes() -> None:
    assert floors_of("image", "class", 200 * 200 * 3) == ("uniform", "majority")
    assert "logistic_regression" not in floors_of("image", "class", 64 * 64 * 3)
    assert floors_of("image", "class", 32 * 32 * 3) == IMAGE_FLOORS
    assert floors_of("vectors", "number", 200 * 200) == ("mean_answer",)


class FirstToken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.table(tokens[:, 0])
        return found


def test_a_model_learns_the_classes(tmp_path: Path) -> None:
    path = saved(tmp_path, {"inputs": TOKENS, "targets": TOKENS[:, 0] % 2})
    found = run_task(
        FirstToken(), task=spelled(path), steps=200, batch=64, learning_rate=0.1, progress=False
    )
    assert found.value == 1.0


def test_an_array_has_one_part() -> None:
    with pytest.raises(SpecError, match="the array 'x' has two parts"):
        own_data('Arrays("a.npz", inputs="x", targets="x")')


def _with(array: NDArray[Any], place: tuple[int, ...], value: object) -> NDArray[Any]:
    changed = array.copy()
    changed[place] = value
    return changed


BIG = DRAWN.normal(size=(N, 3))
REFUSED: dict[str, tuple[Arrays, dict[str, object], str]] = {
    "no targets": ({"inputs": TOKENS, "target": CLASSES}, {}, "no array 'targets'; did you mean"),
    "no split": (GOOD, {"split": "s"}, "no array 's'"),
    "other numbers of examples": (
        {"inputs": TOKENS, "targets": CLASSES[:9]},
        {},
        r"'targets' is int64 of shape \[9\], but 'inputs' has 300 examples",
    ),
    "no example": ({"inputs": TOKENS[:0], "targets": CLASSES[:0]}, {}, "at least one"),
    "a single number": ({"inputs": np.array(3), "targets": CLASSES}, {}, "at least one example"),
    "few": ({"inputs": TOKENS[:40], "targets": CLASSES[:40]}, {}, "needs at least 10"),
    "Python objects": ({**GOOD, "targets": np.array([{}] * N)}, {}, "is not an array of numbers"),
    "texts": ({**GOOD, "targets": np.array(["a"] * N)}, {}, "whole numbers or floats are needed"),
    "complex": ({**GOOD, "targets": CLASSES * 1j}, {}, "whole numbers or floats are needed"),
    "dates": ({**GOOD, "targets": np.array(["2020-01-01"] * N, "M8[D]")}, {}, "or floats"),
    "negative tokens": (
        {**GOOD, "inputs": _with(TOKENS, (7, 3), -1)},
        {},
        r"'inputs' at \[7, 3\] is -1; tokens are whole numbers from 0 to 999,999",
    ),
    "huge tokens": ({**GOOD, "inputs": _with(TOKENS, (7, 3), 10**12)}, {}, r"at \[7, 3\] is 1000"),
    "NaN": (
        {**GOOD, "inputs": _with(_with(VECTORS, (5, 2, 1), np.nan), (6, 0, 0), np.inf)},
        {},
        r"'inputs' at \[5, 2, 1\] holds nan, and 1 more such values; NaN, infinities",
    ),
    "more than 32 bits": (
        {**GOOD, "inputs": _with(BIG, (1, 2), 1e300)},
        {},
        r"at \[1, 2\] holds 1e\+300",
    ),
    "NaN to predict": (
        {**GOOD, "targets": _with(NUMBERS, (3,), np.nan)},
        {},
        r"'targets' at \[3\] holds nan",
    ),
    "one number to predict": ({**GOOD, "targets": np.ones(N)}, {}, "is 1 in all training examples"),
    "one class": ({**GOOD, "targets": np.zeros(N, int)}, {}, "has one class, 0"),
    "a class outside of training": (
        {**GOOD, "targets": np.where(np.arange(N) < 250, CLASSES, 9), "s": np.arange(N) // 101},
        {"split": "s"},
        "the class 9 has no example in the training part, but 50 in others",
    ),
    "too many classes": (
        {"inputs": np.zeros((10_001, 1), int), "targets": np.arange(10_001), "s": np.zeros(10_001)},
        {},
        "each of the three splits needs at least 10",  # equal inputs are in one split
    ),
    "another split": (
        {**GOOD, "s": _with(np.zeros(N, int), (4,), 3)},
        {"split": "s"},
        r"'s' at \[4\] is 3; 0 is for training, 1 for validation, 2 for the test",
    ),
    "splits as floats": ({**GOOD, "s": np.zeros(N)}, {"split": "s"}, "splits are whole numbers"),
    "one axis": ({**GOOD, "inputs": CLASSES}, {}, r"is int64 of shape \[300\]; inputs are whole"),
    "five axes": ({**GOOD, "inputs": IMAGES[..., None]}, {}, "inputs are whole numbers"),
    "floats as images": ({**GOOD, "inputs": IMAGES / 255}, {}, "images are whole numbers from 0"),
    "channels first": (
        {**GOOD, "inputs": np.moveaxis(IMAGES, 3, 1)},
        {},
        "the last axis; numpy.moveaxis",
    ),
    "pixels beyond 255": (
        {**GOOD, "inputs": _with(IMAGES.astype(np.int16), (1, 2, 3, 0), 256)},
        {},
        r"at \[1, 2, 3, 0\] is 256; pixels of images are whole numbers from 0 to 255",
    ),
    "small images": ({**GOOD, "inputs": IMAGES[:, :3]}, {}, "images have 4 to 512 rows"),
    "a column of targets": ({**GOOD, "targets": CLASSES[:, None]}, {}, r"reshape\(-1\) removes"),
    "floats for tokens": ({**GOOD, "targets": TOKENS / 2}, {}, "targets are whole numbers"),
    "symbols of images": (
        {"inputs": IMAGES, "targets": np.zeros((N, 8), int)},
        {},
        "for images, targets are",
    ),
    "a negative symbol": (
        {**GOOD, "targets": _with(TOKENS, (2, 1), -1)},
        {},
        r"at \[2, 1\] is -1; symbols are whole numbers from 0 to 999,999, and -100 where",
    ),
    "nothing asked": ({**GOOD, "targets": _with(TOKENS, (2,), -100)}, {}, "nothing in example 2"),
    "one symbol": ({**GOOD, "targets": 0 * TOKENS}, {}, "has one symbol, 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path, prepared: Path) -> None:
    arrays, fields, sentence = REFUSED[name]
    path = saved(tmp_path, arrays)
    with pytest.raises(TaskError, match=sentence) as error:
        task_class(spelled(path, **fields))
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert not [each for each in prepared.iterdir() if each.suffix != ".lock"], "half-written"


class _Touched:
    """A file is written wherever this is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.path,))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    harm = np.array([_Touched(tmp_path / "harm")] * N)
    path = saved(tmp_path, {**GOOD, "targets": harm})
    pickle.loads(pickle.dumps(_Touched(tmp_path / "control")))
    assert (tmp_path / "control").exists()
    with pytest.raises(TaskError, match="is not an array of numbers"):
        task_class(spelled(path))
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("damage", ["text", "cut", "an array alone", "flipped"])
def test_damaged_files_are_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, inputs=TOKENS, targets=CLASSES)
    whole = path.read_bytes()
    if damage == "an array alone":
        np.save(tmp_path / "b.npy", TOKENS)
        whole = (tmp_path / "b.npy").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 255
    path.write_bytes(
        {"text": b"hello", "cut": whole[: len(whole) // 2], "flipped": bytes(flipped)}.get(
            damage, whole
        )
    )
    with pytest.raises(TaskError, match=r"is not a whole \.npz file"):
        task_class(spelled(path))


_MEMORY = """
import resource, sys
import torch
from bakeoff.suite.tasks.registry import build_task
data = next(int(line.split()[1]) for line in open("/proc/self/status") if "VmData" in line)
most = (data << 10) + (110 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
task = build_task(sys.argv[1], 4096)
for step in range(3):
    task.training_batch(step, 16, 0)
"""


@pytest.mark.whole
def test_many_images_are_not_held_in_memory(tmp_path: Path) -> None:
    """Prepare 10,000 images of 64 x 64, 123 MB, with 110 MB of memory, without mapped files."""
    images = DRAWN.integers(0, 256, (10_000, 64, 64, 3), dtype=np.uint8)
    path = saved(tmp_path, {"inputs": images, "targets": np.arange(10_000) % 10})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-c", _MEMORY, spelled(path)]
    subprocess.run(program, check=True, env=environment)
