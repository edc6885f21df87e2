"""Test image sets that do not ship, on small files in the published formats."""

import dataclasses
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.images import cifar10, fashion_mnist_full, tiny_imagenet
from bakeoff.suite.tasks.images.cifar10 import Cifar10
from bakeoff.suite.tasks.images.fashion_mnist_full import FashionMnistFull
from bakeoff.suite.tasks.images.tiny_imagenet import TinyImagenet
from bakeoff.suite.tasks.task import Task, TaskError

DRAWN = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(data_files.FETCHED_FOLDER_VARIABLE, str(tmp_path))
    yield tmp_path
    for task in (Cifar10, FashionMnistFull, TinyImagenet):
        task.data.cache_clear()


def _put(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *packed: bytes) -> None:
    """Put files in place of the published ones, with their digests."""
    found = []
    for source, content in zip(module.SOURCE.files, packed, strict=True):
        path = data_files.path_of(source)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        found.append(dataclasses.replace(source, sha256=hashlib.sha256(content).hexdigest()))
    first, *others = found
    monkeypatch.setattr(module, "SOURCE", dataclasses.replace(first, beside=tuple(others)))


@pytest.mark.parametrize(
    "task", [FashionMnistFull(784), Cifar10(1_024), TinyImagenet(4_096)], ids=lambda t: t.name
)
def test_what_was_not_fetched_is_refused_with_the_command(task: Task) -> None:
    with pytest.raises(
        TaskError, match=f"is missing; `bakeoff data fetch {task.name}` downloads it"
    ):
        task.training_batch(0, 1, seed=0)


# Fashion-MNIST: four IDX files, each compressed


def _idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def fashion(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    monkeypatch.setattr(fashion_mnist_full, "SIZES", (30, 8))
    monkeypatch.setattr(fashion_mnist_full, "NUM_TRAINING", 25)
    return [
        array
        for size in (30, 8)
        for array in (
            DRAWN.integers(0, 256, (size, 28, 28), dtype=np.uint8),
            DRAWN.integers(0, 10, size),
        )
    ]


def test_fashion_mnist_is_divided_as_said(
    fashion: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(fashion_mnist_full, monkeypatch, *(gzip.compress(_idx(array)) for array in fashion))
    data = FashionMnistFull.data()
    images, labels, test_images, test_labels = fashion
    validation, test = (data.held_out[split] for split in ("validation", "test"))
    for found, pixels, asked in (
        (data.training, images[:25], labels[:25]),
        (validation, images[25:], labels[25:]),
        (test, test_images, test_labels),
    ):
        assert (found.inputs == pixels).all()
        assert found.labels.tolist() == asked.tolist()
    batch = FashionMnistFull(784).training_batch(0, 4, seed=0)
    assert batch.inputs["inputs"].shape == (4, 28, 28, 1)


def test_fashion_mnist_has_the_published_sizes() -> None:
    assert (fashion_mnist_full.SIZES, fashion_mnist_full.NUM_TRAINING) == ((60_000, 10_000), 55_000)
    assert [each.file.rpartition("/")[2] for each in FashionMnistFull.source.files] == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]


def test_a_malformed_fashion_mnist_is_refused(
    fashion: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = [gzip.compress(_idx(array)) for array in fashion]
    for files, message in (
        ([packed[0][:-9], *packed[1:]], "not a whole gzip file"),
        ([b"none", *packed[1:]], "not a whole gzip file"),
        (packed[2:] + packed[:2], r"no IDX array of bytes of shape \[30, 28, 28\]"),
        ([*packed[:3], gzip.compress(_idx(fashion[3]) + b"x")], "1 bytes after the last array"),
    ):
        _put(fashion_mnist_full, monkeypatch, *files)
        with pytest.raises(TaskError, match=message):
            FashionMnistFull.data()


# CIFAR-10: a tar archive of records


def _records(count: int, label: int) -> bytes:
    """Return records where red is the row, green the column, blue the index of the image."""
    rows, columns = np.indices((32, 32), dtype=np.uint8)
    images = [np.stack([rows, columns, np.full_like(rows, number)]) for number in range(count)]
    return b"".join(bytes([label]) + image.tobytes() for image in images)


def _cifar(**changes: bytes) -> bytes:
    files = {f"data_batch_{number}": _records(4, number) for number in range(1, 6)}
    files |= {"test_batch": _records(4, 7), "batches.meta": b"names"} | changes
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "NUM_IN_FILE", 4)
    monkeypatch.setattr(cifar10, "NUM_VALIDATION", 3)


def test_cifar_is_read_with_its_colours_behind(
    small_cifar: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(cifar10, monkeypatch, _cifar())
    data = Cifar10.data()
    assert data.training.labels.tolist() == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4 + [5]
    assert data.held_out["validation"].labels.tolist() == [5] * 3
    assert data.held_out["test"].labels.tolist() == [7] * 4
    for number, image in enumerate(data.held_out["test"].inputs):
        assert image.shape == (32, 32, 3)
        assert image[5, 9].tolist() == [5, 9, number]
    red = next(Cifar10(1_024).held_out("test", 2)).inputs["inputs"][0, 5, 9, 0].item()
    assert red == pytest.approx((5 / 255 - 0.4914) / 0.2470, rel=1e-5)


def test_cifar_has_the_published_sizes() -> None:
    assert (cifar10.NUM_IN_FILE, cifar10.NUM_VALIDATION) == (10_000, 5_000)
    assert len(cifar10.TRAINING_FILES) == 5


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"no archive", "no tar archive"),
        (_cifar(test_batch=_records(3, 0)), "files are not 4 records of 3073 bytes each"),
        (_cifar(data_batch_3=_records(4, 3)[:-1]), "files are not 4 records"),
        (_cifar(test_batch=b""), "files are not 4 records"),
        (_cifar(test_batch=_records(4, 10)), r"label 10 is not in 0\.\.9"),
    ],
    ids=["no archive", "an image short", "a byte short", "empty", "a label"],
)
def test_a_malformed_cifar_is_refused(
    small_cifar: None, monkeypatch: pytest.MonkeyPatch, packed: bytes, message: str
) -> None:
    _put(cifar10, monkeypatch, packed)
    with pytest.raises(TaskError, match=message):
        Cifar10.data()


def test_a_cifar_without_a_file_is_refused(
    small_cifar: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar10, "TEST_FILE", "cifar-10-batches-bin/other.bin")
    _put(cifar10, monkeypatch, _cifar())
    with pytest.raises(TaskError, match=r"without cifar-10-batches-bin/other\.bin"):
        Cifar10.data()


# Tiny ImageNet: a zip archive of JPEG files

CLASSES = ("n02", "n01", "n03")


def _jpeg(level: int, mode: str = "RGB") -> bytes:
    packed = io.BytesIO()
    Image.new(mode, (64, 64), level if mode == "L" else (level, 20, 40)).save(packed, "JPEG")
    return packed.getvalue()


def _tiny(**changes: bytes) -> bytes:
    files = {"wnids.txt": "\n".join(CLASSES).encode()}
    for name in CLASSES:
        for number in range(5):
            mode = "L" if number == 1 else "RGB"
            level = 60 * int(name[1:]) + number
            files[f"train/{name}/images/{name}_{number}.JPEG"] = _jpeg(level, mode)
    files |= {"val/images/val_0.JPEG": _jpeg(200), "val/images/val_1.JPEG": _jpeg(10)}
    files["val/val_annotations.txt"] = (
        b"val_0.JPEG\tn03\t0\t0\t62\t62\nval_1.JPEG\tn01\t0\t0\t9\t9\n"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in (files | changes).items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)
    return packed.getvalue()


@pytest.fixture
def small_imagenet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("CLASSES", 3), ("OF_CLASS", 5), ("VALIDATION_OF_CLASS", 2)):
        monkeypatch.setattr(tiny_imagenet, f"NUM_{name}", number)


def test_tiny_imagenet_is_divided_class_by_class(
    small_imagenet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(tiny_imagenet, monkeypatch, _tiny())
    data = TinyImagenet.data()
    assert data.training.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.held_out["validation"].labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.held_out["test"].labels.tolist() == [2, 0]
    red = data.training.inputs[:, 30, 30, 0].astype(int)
    assert np.abs(red - [60, 61, 62, 120, 121, 122, 180, 181, 182]).max() <= 2
    assert (
        np.abs(
            data.held_out["validation"].inputs[:, 3, 3, 0] - [63.0, 64, 123, 124, 183, 184]
        ).max()
        <= 2
    )
    grey = data.training.inputs[1]
    assert (grey == grey[..., :1]).all()
    batch = next(TinyImagenet(4_096).held_out("test", 2))
    assert batch.inputs["inputs"].shape == (2, 64, 64, 3)


def test_tiny_imagenet_has_the_published_sizes() -> None:
    module = tiny_imagenet
    assert (module.NUM_CLASSES, module.NUM_OF_CLASS, module.NUM_VALIDATION_OF_CLASS) == (
        200,
        500,
        50,
    )


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"no archive", "no zip archive of images"),
        (_tiny(**{"wnids.txt": b"n01 n02"}), "2 classes where 3 are expected"),
        (_tiny(**{"wnids.txt": b"n01 n02 n04"}), "no zip archive of images .*n03"),
        (_tiny(**{"val/val_annotations.txt": b"val_7.JPEG\tn01\n"}), "images .*val_7"),
        (_tiny(**{"train/n01/images/n01_0.JPEG": b"none"}), "no zip archive of images"),
    ],
    ids=["no archive", "a class short", "another class", "no file", "no image"],
)
def test_a_malformed_tiny_imagenet_is_refused(
    small_imagenet: None, monkeypatch: pytest.MonkeyPatch, packed: bytes, message: str
) -> None:
    _put(tiny_imagenet, monkeypatch, packed)
    with pytest.raises(TaskError, match=message):
        TinyImagenet.data()
