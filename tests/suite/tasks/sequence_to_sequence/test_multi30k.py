"""Test captions on three small archives in the published format, and their download."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.bases import translation
from bakeoff.suite.tasks.bases.subwords import END, UNKNOWN
from bakeoff.suite.tasks.data_files import is_absent, refuse_damaged
from bakeoff.suite.tasks.sequence_to_sequence import multi30k
from bakeoff.suite.tasks.sequence_to_sequence.multi30k import (
    FILES,
    Multi30kDeEn,
    Multi30kEnDe,
    read_captions,
)
from bakeoff.suite.tasks.task import UNSCORED, TaskError

Put = Callable[..., None]
TRAINING = {
    "train.en": b"A man walks.\nTwo  dogs run.\nA dog and a man.\n\n",
    "train.de": "Ein Mann läuft.\nZwei\u00a0Hunde rennen.\nEin Hund und ein Mann.\n\n".encode(),
}
VALIDATION = {"val.en": b"A dog walks.\n\n", "val.de": "Ein Hund läuft.\n\n".encode()}
TEST = {
    "./._test.de": b"\x00\xff",
    "./test.de": b"Ein Mann.\nZwei M\xc3\xa4nner.\n",
    "./._test.en": b"\x00\xff",
    "./test.en": b"A man.\nTwo men.\n",
    "./test.fr": b"Un homme.\n",
}


def packed(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Put]:
    """Yield a function that replaces the published archives with three small ones."""
    monkeypatch.setenv(data_files.FETCHED_FOLDER_VARIABLE, str(tmp_path))
    small = {"training": ("train", 3), "validation": ("val", 1), "test": ("test", 2)}
    monkeypatch.setattr(multi30k, "FILES", small)

    def written(*archives: bytes) -> None:
        files = []
        for source, content in zip(multi30k.SOURCE.files, archives, strict=True):
            path = data_files.path_of(source)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            files.append(replace(source, sha256=sha256(content).hexdigest()))
        monkeypatch.setattr(multi30k, "SOURCE", replace(files[0], beside=tuple(files[1:])))

    yield written
    for remembered in (multi30k._pairs, translation._padded):
        remembered.cache_clear()


@pytest.fixture
def archives() -> list[bytes]:
    return [packed(members) for members in (TRAINING, VALIDATION, TEST)]


def test_captions_stand_beside_their_translation(put: Put, archives: list[bytes]) -> None:
    put(*archives)
    assert read_captions() == {
        "training": [
            ("A man walks.", "Ein Mann läuft."),
            ("Two dogs run.", "Zwei Hunde rennen."),
            ("A dog and a man.", "Ein Hund und ein Mann."),
        ],
        "validation": [("A dog walks.", "Ein Hund läuft.")],
        "test": [("A man.", "Ein Mann."), ("Two men.", "Zwei Männer.")],
    }


def test_both_ways_are_the_same_captions(put: Put, archives: list[bytes]) -> None:
    put(*archives)
    ahead, back = Multi30kEnDe.pairs(), Multi30kDeEn.pairs()
    for split in FILES:
        assert [tuple(reversed(pair)) for pair in back.splits[split]] == [*ahead.splits[split]]
    (validated,) = ahead.splits["validation"]
    assert ahead.subwords.decoded(validated.target) == "Ein Hund läuft."
    assert UNKNOWN not in validated.source


def test_the_merges_are_those_of_the_training_captions(put: Put, archives: list[bytes]) -> None:
    put(*archives)
    subwords = Multi30kEnDe.pairs().subwords
    assert [subwords.decoded([s]) for s in subwords.encoded("Mann")] == ["Mann"]
    assert UNKNOWN in subwords.encoded("Äpfel")


def test_held_out_captions_keep_their_order(put: Put, archives: list[bytes]) -> None:
    put(*archives)
    task = Multi30kDeEn(40)
    (batch,) = task.held_out("test", 8)
    asked = [row[(row != UNSCORED) & (row != END)].tolist() for row in batch.targets]
    assert [task.text(row) for row in asked] == ["A man.", "Two men."]
    assert torch.equal(batch.inputs["context_mask"], batch.inputs["context"] != 0)
    assert [word for word, _ in task.words(asked[1])] == ["Two", "men", "."]
    assert task.in_parts(batch)["words=10"].all()
    assert len(task.training_batch(0, 2, seed=0).targets) == 2


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (b"no archive", r"test\.tar\.gz is malformed: no tar archive of captions"),
        (packed({"test.de": b"a\nb\n"}), r"malformed: no test\.en in it"),
        (packed({**TEST, "./test.en": b"a\n"}), "malformed: it has not 2 captions in each"),
        (packed({**TEST, "./test.en": b"\n\xc3\xa4\n"}), "malformed: it has not 2 captions"),
        (packed({**TEST, "./test.en": b"\xff\n"}), r"malformed: test\.en is not UTF-8"),
        (packed(TEST)[:-20], "malformed: no tar archive of captions"),
    ],
    ids=["no archive", "a language", "a caption", "an empty one", "no text", "cut off"],
)
def test_damage_inside_is_one_sentence(
    put: Put, archives: list[bytes], archive: bytes, message: str
) -> None:
    put(*archives[:2], archive)
    with pytest.raises(TaskError, match=message):
        Multi30kEnDe(40).training_batch(0, 2, seed=0)


def test_each_file_is_checked(put: Put, archives: list[bytes]) -> None:
    put(*archives)
    source = multi30k.SOURCE
    assert not is_absent(source)
    refuse_damaged(source)
    last = data_files.path_of(source.files[-1])
    last.write_bytes(b"other")
    with pytest.raises(TaskError, match=r"mmt16_task1_test\.tar\.gz is not the one"):
        refuse_damaged(source)
    last.unlink()
    assert not is_absent(source)  # the set exists, but one of its parts is invalid
    with pytest.raises(TaskError, match="missing; `bakeoff data fetch multi30k` downloads it"):
        read_captions()
    for each in source.files[:-1]:
        data_files.path_of(each).unlink()
    assert is_absent(source)


def test_the_digest_of_the_set_is_of_all_its_files() -> None:
    source = multi30k.SOURCE
    assert len({each.sha256 for each in source.files}) == 3
    assert source.digest != replace(source, beside=source.beside[::-1]).digest
    assert source.files[1].digest == source.beside[0].sha256
