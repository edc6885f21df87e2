"""A data file that is not the one that shipped is never read."""

import hashlib
import lzma
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from suite.tasks import (
    data_files,
    fashion_mnist,
    movie_reviews,
    registry,
    shakespeare_characters,
    shakespeare_plays,
    wikipedia_bytes,
    wordnet_glosses,
)
from suite.tasks.task import DataSource, TaskError


def _flip_one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def _make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (_flip_one_bit, "is not the one that shipped"),
    (_truncate, "is not the one that shipped"),
    (_empty, "SHA-256 of its 0 bytes is"),
    (_append, "is not the one that shipped"),
    (Path.unlink, "is missing"),
    (_make_a_folder, "cannot be read"),
]


REMEMBERED = [
    shakespeare_characters.corpus,
    fashion_mnist.data_set,
    shakespeare_plays.acts,
    wikipedia_bytes.corpus,
    movie_reviews.data_set,
    wordnet_glosses.data_set,
]
ON_SHIPPED_FILES = [
    name
    for name in registry.TASKS
    if (source := registry.task_class(name).source).file and not source.is_fetched
]


def _forget() -> None:
    for remembered in REMEMBERED:
        remembered.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the shipped files that a test may damage; nothing read before is remembered."""
    for file in {registry.task_class(name).source.file for name in ON_SHIPPED_FILES}:
        shutil.copy(data_files.DATA_FOLDER / file, tmp_path)
    monkeypatch.setattr(data_files, "DATA_FOLDER", tmp_path)
    _forget()
    yield tmp_path
    _forget()


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
@pytest.mark.parametrize("name", ON_SHIPPED_FILES)
def test_a_damaged_file_is_refused_at_the_first_batch(
    folder: Path, name: str, damage: Callable[[Path], None], message: str
) -> None:
    task = registry.build_task(name, registry.task_class(name).fixed_length or 64)
    damage(folder / task.source.file)
    with pytest.raises(TaskError, match=message) as refusal:
        task.training_batch(0, 2, seed=0)
    assert str(folder / task.source.file) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    with pytest.raises(TaskError, match=message):
        next(task.held_out("test", 2))


def test_an_altered_file_is_refused_with_both_digests(folder: Path) -> None:
    source = shakespeare_characters.SOURCE
    (folder / source.file).write_bytes(b"not the plays")
    with pytest.raises(TaskError) as refusal:
        data_files.read_verified(source)
    assert source.sha256 in str(refusal.value)
    assert hashlib.sha256(b"not the plays").hexdigest() in str(refusal.value)


def test_a_file_is_read_once_per_process(folder: Path) -> None:
    task = registry.build_task("fashion_mnist_patches", 49)
    task.training_batch(0, 2, seed=0)
    (folder / task.source.file).unlink()
    task.training_batch(1, 2, seed=0)
    registry.build_task("fashion_mnist_pixels", 784).training_batch(1, 2, seed=0)


def _ship(source: DataSource, packed: bytes) -> DataSource:
    """Put other bytes in place of a file, under their own digest, as a wrong build would."""
    (data_files.DATA_FOLDER / source.file).write_bytes(packed)
    return replace(source, sha256=hashlib.sha256(packed).hexdigest())


def test_a_file_that_is_no_whole_xz_stream_is_refused(folder: Path) -> None:
    source = shakespeare_characters.SOURCE
    for packed in (b"", b"plain text", lzma.compress(b"x" * 1000)[:-8]):
        with pytest.raises(TaskError, match="malformed: not a whole xz stream"):
            data_files.read_content(_ship(source, packed))


PLAYS = "".join(f"\f{number}\ntext" for number in range(34)) + "".join(
    f"\f{name}\ntext" for names in shakespeare_characters.HELD_OUT_PLAYS.values() for name in names
)


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 plays where 38 are expected"),
        (b"\xff\xfe", "not UTF-8"),
        (PLAYS.rpartition("\f")[0].encode(), "37 plays .* expected, without tragedies/macbeth$"),
        (PLAYS.replace("\f33\n", "\fother\nline\n\f33\n").encode(), "39 plays where 38"),
        (PLAYS.replace("\f33\ntext", "\f33\nteät").encode(), "'ä', character 2 of 33, is not"),
        (PLAYS.replace("\f33\ntext", "\f33\nte\N{PILE OF POO}").encode(), "character 2 of 33"),
    ],
)
def test_malformed_plays_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    source = _ship(shakespeare_characters.SOURCE, lzma.compress(content))
    monkeypatch.setattr(shakespeare_characters, "SOURCE", source)
    with pytest.raises(TaskError, match=message):
        shakespeare_characters.corpus()


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", r"no IDX array of bytes of shape \[10000, 28, 28\]"),
        (lambda content: content[:-1], r"no IDX array of bytes of shape \[2000\]"),
        (lambda content: b"\x80\x04" + content[2:], "no IDX array"),
        (lambda content: content[:7] + b"\x11" + content[8:], "no IDX array"),
        (lambda content: content + b"\0", "1 bytes after the last array"),
        (lambda content: content[:-1] + b"\x0a", "label 10 of image 1999 is not in 0..9"),
    ],
)
def test_malformed_images_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], message: str
) -> None:
    content = change(data_files.read_content(fashion_mnist.SOURCE))
    monkeypatch.setattr(fashion_mnist, "read_content", lambda source: content)
    with pytest.raises(TaskError, match=message):
        fashion_mnist.data_set()


def _other_content(module: ModuleType, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(module, "read_content", lambda source: content)


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", "0 whole articles where 106"),
        (lambda content: content + b"x", "106 whole articles where 106 and nothing else"),
        (lambda content: content[:-2], "105 whole articles where 106"),
        (lambda content: b"  <page>\n  </page>\n" + content, "an article without a title"),
    ],
)
def test_malformed_articles_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], message: str
) -> None:
    content = change(data_files.read_content(wikipedia_bytes.SOURCE))
    _other_content(wikipedia_bytes, monkeypatch, content)
    with pytest.raises(TaskError, match=message):
        wikipedia_bytes.corpus()


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"\xff" + content, "no rating, tab and sentence"),
        (lambda content: content + b"x\ty\n", "no rating, tab and sentence"),
        (lambda content: content + b"1.0\n", "no rating, tab and sentence"),
        (lambda content: content + b"1.0\ta film\n", "10606 sentences where 10605"),
    ],
)
def test_malformed_reviews_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], message: str
) -> None:
    content = change(data_files.read_content(movie_reviews.SOURCE))
    _other_content(movie_reviews, monkeypatch, content)
    with pytest.raises(TaskError, match=message):
        movie_reviews.data_set()


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"\xff" + content, "no supersense, tab and definition"),
        (lambda content: content + b"act\n", "no supersense, tab and definition"),
        (lambda content: content + b"act\ta deed\n", "48001 definitions where 48000"),
        (lambda content: b"x" + content, "and x[a-zT]* among the supersenses"),
    ],
)
def test_malformed_definitions_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], message: str
) -> None:
    content = change(data_files.read_content(wordnet_glosses.SOURCE))
    _other_content(wordnet_glosses, monkeypatch, content)
    with pytest.raises(TaskError, match=message):
        wordnet_glosses.data_set()


def test_a_play_without_its_five_acts_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = shakespeare_characters.read_plays()
    plays["tragedies/hamlet"] = plays["tragedies/hamlet"].replace("ACT V\n", "")
    monkeypatch.setattr(shakespeare_plays, "read_plays", lambda: plays)
    with pytest.raises(TaskError, match="4 acts of tragedies/hamlet where 5 are expected"):
        shakespeare_plays.acts()


def test_generated_data_have_nothing_that_could_be_damaged() -> None:
    data_files.refuse_damaged(registry.task_class("parity").source)
