"""Check that only the data files that shipped are ever read."""

import hashlib
import lzma
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bakeoff.suite.tasks import data_files, registry, shakespeare_characters, shakespeare_plays
from bakeoff.suite.tasks.emoji import atlas
from bakeoff.suite.tasks.images.digits_images import DigitsImages
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistPatches
from bakeoff.suite.tasks.images.openmoji import OpenmojiGroups
from bakeoff.suite.tasks.movie_reviews import MovieReviews
from bakeoff.suite.tasks.shakespeare_characters import ShakespeareCharacters
from bakeoff.suite.tasks.task import DataSource, Task, TaskError
from bakeoff.suite.tasks.wikipedia_bytes import WikipediaBytes
from bakeoff.suite.tasks.wordnet_glosses import WordnetGlosses


def _write(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit flipped": (
        _write(lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:]),
        "is not the one that shipped",
    ),
    "a byte short": (_write(lambda content: content[:-1]), "is not the one that shipped"),
    "empty": (_write(lambda content: b""), "SHA-256 of its 0 bytes is"),
    "a byte more": (_write(lambda content: content + b"\0"), "is not the one that shipped"),
    "missing": (Path.unlink, "is missing"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
}


ON_SHIPPED_FILES = [
    name
    for name in registry.TASKS
    if (source := registry.task_class(name).source).file and not source.is_fetched
]


def _forget() -> None:
    """Clear each cache of the tasks, so that files are read again whatever ran before."""
    for module in [
        held for name, held in sys.modules.items() if name.startswith("bakeoff.suite.tasks")
    ]:
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        for owner in [module, *classes]:
            for name in vars(owner):
                if clear := getattr(getattr(owner, name, None), "cache_clear", None):
                    clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a copy of the shipped files that a test may damage, with empty caches."""
    for file in {registry.task_class(name).source.file for name in ON_SHIPPED_FILES}:
        shutil.copy(data_files.DATA_FOLDER / file, tmp_path)
    monkeypatch.setattr(data_files, "DATA_FOLDER", tmp_path)
    _forget()
    yield tmp_path
    _forget()


def _damaged() -> Iterator[Any]:
    """Yield each task with each damage: by default a damage per task, and all for the first."""
    for number, name in enumerate(ON_SHIPPED_FILES):
        for place, (damage, told) in enumerate(DAMAGES.items()):
            is_default = number == 0 or number % len(DAMAGES) == place
            marks = [] if is_default else [pytest.mark.battery]
            yield pytest.param(name, *told, id=f"{name}-{damage}", marks=marks)


@pytest.mark.parametrize(("name", "damage", "message"), [*_damaged()])
def test_a_damaged_file_is_refused_at_the_first_batch(
    folder: Path, name: str, damage: Callable[[Path], object], message: str
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
    """Replace a file and return its source with the new digest, as a wrong build would."""
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
        ShakespeareCharacters.read()


Change = Callable[[bytes], bytes]
MALFORMED: list[tuple[type[Task], Change, str]] = [
    (FashionMnistPatches, lambda content: b"", r"no IDX array of bytes of shape \[10000, 28, 28\]"),
    (FashionMnistPatches, lambda content: content[:-1], r"no IDX array of bytes of shape \[2000\]"),
    (FashionMnistPatches, lambda content: b"\x80\x04" + content[2:], "no IDX array"),
    (FashionMnistPatches, lambda content: content[:7] + b"\x11" + content[8:], "no IDX array"),
    (FashionMnistPatches, lambda content: content + b"\0", "1 bytes after the last array"),
    (FashionMnistPatches, lambda content: content[:-1] + b"\x0a", "label 10 of image 1999 is not"),
    (DigitsImages, lambda content: content + b"\0", "1 bytes after the last array"),
    (OpenmojiGroups, lambda content: b"", r"no IDX array of bytes of shape \[1200, 32, 32, 3\]"),
    (OpenmojiGroups, lambda content: content + b"\0", "1 bytes after the last array"),
    (OpenmojiGroups, lambda content: content[:-1] + b"\x09", "label 9 of image 472 is not in 0..8"),
    (WikipediaBytes, lambda content: b"", "0 whole articles where 106"),
    (
        WikipediaBytes,
        lambda content: content + b"x",
        "106 whole articles where 106 and nothing else",
    ),
    (WikipediaBytes, lambda content: content[:-2], "105 whole articles where 106"),
    (WikipediaBytes, lambda content: b"  <page>\n  </page>\n" + content, "article without a title"),
    (MovieReviews, lambda content: b"\xff" + content, "not a rating, a tab and a sentence"),
    (MovieReviews, lambda content: content + b"x\ty\n", "not a rating, a tab and a sentence"),
    (MovieReviews, lambda content: content + b"1.0\n", "not a rating, a tab and a sentence"),
    (MovieReviews, lambda content: content + b"1.0\ta film\n", "10606 sentences where 10605"),
    (WordnetGlosses, lambda content: b"\xff" + content, "no supersense, tab and definition"),
    (WordnetGlosses, lambda content: content + b"act\n", "no supersense, tab and definition"),
    (WordnetGlosses, lambda content: content + b"act\ta\n", "48001 definitions where 48000"),
    (WordnetGlosses, lambda content: b"x" + content, "and x[a-zT]* among the supersenses"),
]


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(("task", "change", "message"), MALFORMED)
def test_malformed_content_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, task: type[Task], change: Change, message: str
) -> None:
    content = change(data_files.read_content(task.source))
    monkeypatch.setattr(sys.modules[task.__module__], "read_content", lambda source: content)
    with pytest.raises(TaskError, match=message):
        task(task.fixed_length or 8).training_batch(0, 1, seed=0)


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


def test_scenes_are_refused_where_the_file_that_they_are_composed_of_is_damaged(
    folder: Path,
) -> None:
    task = registry.build_task("emoji_scenes", 19)
    (folder / atlas.SOURCE.file).write_bytes(b"no emoji")
    with pytest.raises(TaskError, match="is not the one that shipped"):
        data_files.refuse_damaged(task.source)
    with pytest.raises(TaskError, match="is not the one that shipped"):
        task.training_batch(0, 2, seed=0)
    assert task.source.digest != replace(task.source, beside=()).digest
