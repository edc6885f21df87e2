"""Test tasks on data that do not ship, on small archives in the published formats."""

import dataclasses
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks import data_files, enwik8, imdb
from bakeoff.suite.tasks.enwik8 import Enwik8
from bakeoff.suite.tasks.imdb import Imdb
from bakeoff.suite.tasks.task import TaskError

BYTES = np.random.default_rng(0).integers(0, 256, 20_000, dtype=np.uint8).tobytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(data_files.FETCHED_FOLDER_VARIABLE, str(tmp_path))
    yield tmp_path
    Enwik8.read.cache_clear()
    Imdb.data.cache_clear()


def _put(module: ModuleType, packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an archive, with its digest, in place of the published one."""
    path = data_files.path_of(module.SOURCE)
    path.parent.mkdir()
    path.write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    monkeypatch.setattr(module, "SOURCE", dataclasses.replace(module.SOURCE, sha256=digest))


def _zip(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def small_enwik8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enwik8, "NUM_BYTES", 20_000)
    monkeypatch.setattr(enwik8, "NUM_HELD_OUT", 1_000)
    monkeypatch.setattr(Enwik8, "num_scored", {"validation": 500, "test": 999})


def test_enwik8_is_cut_from_its_end(small_enwik8: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(enwik8, _zip("enwik8", BYTES), monkeypatch)
    corpus = Enwik8.read()
    assert corpus.training.tobytes() == BYTES[:18_000]
    assert corpus.held_out["validation"][0].tobytes() == BYTES[18_000:19_000]
    assert corpus.held_out["test"][0].tobytes() == BYTES[19_000:]
    targets = torch.cat([batch.targets.flatten() for batch in Enwik8(100).held_out("test", 4)])
    assert bytes(targets[targets != -100].tolist()) == BYTES[19_001:]
    assert Enwik8(64).training_batch(0, 3, seed=0).inputs["inputs"].shape == (3, 64)


def test_enwik8_has_the_usual_split() -> None:
    assert (enwik8.NUM_BYTES, enwik8.NUM_HELD_OUT) == (100_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"no archive", "no zip archive of enwik8"),
        (_zip("other", BYTES), "no zip archive of enwik8"),
        (_zip("enwik8", BYTES[:-1]), "19999 bytes where 20000"),
    ],
    ids=["no archive", "another file", "a byte short"],  # a zip contains its creation time
)
def test_a_malformed_enwik8_is_refused(
    small_enwik8: None, monkeypatch: pytest.MonkeyPatch, packed: bytes, message: str
) -> None:
    _put(enwik8, packed, monkeypatch)
    with pytest.raises(TaskError, match=message):
        Enwik8(10).training_batch(0, 1, seed=0)


@pytest.mark.parametrize("task", [Enwik8(64), Imdb(64)])
def test_what_was_not_fetched_is_refused_with_the_command(task: Enwik8 | Imdb) -> None:
    with pytest.raises(
        TaskError, match=f"is missing; `bakeoff data fetch {task.name}` downloads it"
    ):
        task.training_batch(0, 1, seed=0)
    with pytest.raises(TaskError, match="is missing"):
        data_files.refuse_damaged(task.source)


REVIEWS = {
    f"aclImdb/{part}/{label}/{number}_7.txt": f"{part} {label} {number} ".encode() * 9
    for part in ("train", "test")
    for label in ("pos", "neg")
    for number in range(50)
}


def _tar(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def small_imdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imdb, "NUM_REVIEWS", 200)
    others = {"aclImdb/train/unsup/0_0.txt": b"no label", "aclImdb/README": b"about"}
    _put(imdb, _tar(REVIEWS | others), monkeypatch)


def test_reviews_are_divided_as_published_and_by_their_content(small_imdb: None) -> None:
    data = Imdb.data()
    assert len(data.held_out["test"].labels) == 100
    assert len(data.training.labels) + len(data.held_out["validation"].labels) == 100
    assert 3 <= len(data.held_out["validation"].labels) <= 20
    assert data.held_out["test"].labels.mean() == 0.5
    for text, label in zip(data.training.inputs, data.training.labels, strict=True):
        assert bytes((text - 1).tolist()).startswith(b"train pos" if label else b"train neg")


def test_bytes_are_shifted_and_padded_behind(small_imdb: None) -> None:
    batch = next(Imdb(200).held_out("test", 10))
    assert (batch.inputs["inputs"][~batch.inputs["mask"]] == 0).all()
    text = bytes((Imdb.data().held_out["test"].inputs[0] - 1).tolist())
    assert bytes((batch.inputs["inputs"][0][batch.inputs["mask"][0]] - 1).tolist()) == text
    assert next(Imdb(5).held_out("test", 1)).inputs["inputs"][0].tolist() == [
        byte + 1 for byte in text[:5]
    ]


def test_a_malformed_imdb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _put(imdb, _tar(REVIEWS), monkeypatch)
    with pytest.raises(TaskError, match="200 reviews where 50000"):
        Imdb(10).training_batch(0, 1, seed=0)
    data_files.path_of(imdb.SOURCE).unlink()
    data_files.path_of(imdb.SOURCE).parent.rmdir()
    _put(imdb, b"no archive", monkeypatch)
    with pytest.raises(TaskError, match="no tar archive of reviews"):
        Imdb(10).training_batch(0, 1, seed=0)
