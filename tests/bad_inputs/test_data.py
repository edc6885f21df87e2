"""Test data that are missing or changed: refused by name before a trial, or before unpacking."""

from __future__ import annotations

import ast
import io
import pickle
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import bakeoff
from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.public.sets import PUBLIC_SETS
from bakeoff.suite.tasks.registry import task_class
from tests.bad_inputs.command import Called, Place, WriteAblation, expect, expect_refused

TASK = "fashion_mnist_patches"
ROOT = Path(bakeoff.__file__).parents[1]


class _Bomb:
    """An object that creates a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return open, ("canary", "w")


def _npy(content: object) -> bytes:
    """Return an array of objects as numpy saves it: a pickle after a header."""
    head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00v\x00" + head + pickle.dumps(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "line-41 missing": (Path.unlink, ["is missing", "reinstall bakeoff"]),
    "line-41 empty": (lambda path: path.write_bytes(b""), ["SHA-256 of its 0 bytes is"]),
    "line-41 short": (lambda path: path.write_bytes(path.read_bytes()[:-9]), ["is not the one"]),
    "line-42 another": (lambda path: path.write_bytes(b"x" * 99), ["of its 99 bytes", "expected"]),
    "line-45 a pickled array": (
        lambda path: path.write_bytes(_npy(_Bomb())),
        ["is not the one that shipped"],
    ),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), ["cannot be read"]),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_is_refused_before_anything_is_made(
    case: str,
    tmp_path: Path,
    write_ablation: WriteAblation,
    place: Place,
    called: Called,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damage, fragments = DAMAGES[case]
    source = task_class(TASK).source
    copy = tmp_path / source.file
    copy.write_bytes((data_files.DATA_FOLDER / source.file).read_bytes())
    damage(copy)
    monkeypatch.setattr(data_files, "DATA_FOLDER", tmp_path)
    path = write_ablation(tasks=f'["{TASK}"]')
    ended = called("run", str(path), "--executor", "inline")
    expect_refused(ended, 2, [f"data file {copy}", *fragments], place)


def _calls(file: Path) -> list[str]:
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return [f"{ast.unparse(call.func)}({ast.unparse(call)})" for call in calls]


@pytest.mark.whole
@pytest.mark.bad_input(45, 46)
def test_no_line_of_ours_unpickles_anything() -> None:
    """Check that no array and no checkpoint can run a program, whatever the file contains."""
    openers = (
        "pickle.",
        "cPickle.",
        "dill.",
        "joblib.",
        "shelve.",
        "marshal.",
        "np.load(",
        "numpy.load(",
        "pd.read_pickle(",
        "torch.load(",
        "yaml.load(",
    )
    files = [
        file for room in ("suite", "models", "reports") for file in (ROOT / room).rglob("*.py")
    ]
    assert len(files) > 100
    found = [
        f"{file.name}: {call}"
        for file in files
        for call in _calls(file)
        if call.startswith(openers)
        and not any(safe in call for safe in ("weights_only=True", "allow_pickle=False"))
    ]
    assert found == []


@pytest.mark.parametrize("folder", ["/dev/null", "/etc/passwd/x", "a" * 300, "nowhere", "\udcff"])
def test_a_folder_of_fetched_data_that_is_none(
    folder: str, place: Place, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", folder)
    for action in ("list", "verify"):
        expect(called("data", action), 0, ["enwik8"])
    assert place.made() == []


def test_a_file_where_a_folder_of_data_ought_to_be(
    write_ablation: WriteAblation, place: Place, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", "/dev/null")
    path = write_ablation(tasks='["enwik8"]')
    ended = called("run", str(path), "--executor", "inline")
    expect_refused(ended, 2, ["/dev/null/", "cannot be read (Not a directory)"])
    expect(called("data", "fetch", "enwik8"), 4, ["to /dev/null/", "Not a directory"], place)


@pytest.fixture
def offered(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes, str], None]:
    """Return a function that offers a downloaded archive as a public set without a digest."""

    def offer(content: bytes, name: str) -> None:
        file = place.here / "data" / "odd" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        known = replace(
            PUBLIC_SETS["enwik8"],
            name="odd",
            url=file.as_uri(),
            sha256="",
            num_bytes=None,
            is_unpacked=True,
            most_bytes=1_000_000,
        )
        monkeypatch.setitem(PUBLIC_SETS, "odd", known)

    return offer


def _zip(name: str, content: bytes = b"x", mode: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        member = zipfile.ZipInfo(name)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = mode << 16
        archive.writestr(member, content)
    return buffer.getvalue()


def _tar(name: str, kind: bytes = tarfile.REGTYPE, to: str = "", compression: str = "gz") -> bytes:
    content = random.Random(0).randbytes(100_000) if kind == tarfile.REGTYPE else b""
    buffer = io.BytesIO()
    with tarfile.open(mode=f"w:{compression}", fileobj=buffer) as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, to, len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


HARM = {
    "line-44 out of a zip": (_zip("../../out.txt"), "a.zip", "outside its folder"),
    "line-44 out of a tar": (_tar("/tmp/out.txt"), "a.tar.gz", "outside its folder"),
    "line-44 a bomb": (_zip("a", b"\0" * 3_000_000), "a.zip", "larger than they should be"),
    "line-44 a link in a zip": (_zip("a", b"/etc/passwd", stat.S_IFLNK), "a.zip", "is a link"),
    "line-44 a link in a tar": (
        _tar("a", tarfile.SYMTYPE, "/etc/passwd"),
        "a.tar.gz",
        "is a link or a device",
    ),
    "a hard link in a tar": (
        _tar("a", tarfile.LNKTYPE, "/etc/passwd"),
        "a.tar.gz",
        "'a' is a link or a device",
    ),
    "a pipe": (_tar("a", tarfile.FIFOTYPE), "a.tar.gz", "'a' is a link or a device"),
    "a device": (_tar("a", tarfile.CHRTYPE), "a.tar.gz", "'a' is a link or a device"),
}


@pytest.mark.parametrize("case", HARM)
def test_an_archive_that_does_harm_is_refused_for_safety(
    case: str, offered: Callable[[bytes, str], None], place: Place, called: Called
) -> None:
    content, name, fragment = HARM[case]
    offered(content, name)
    ended = called("data", "fetch", "odd", "--to", "data")
    expect(ended, 3, [fragment])
    assert sorted(path.name for path in (place.here / "data" / "odd").iterdir()) == [name]


BROKEN = {
    "half a zip": (_zip("a", b"content" * 99)[:-30], "a.zip"),
    "half a tar": (_tar("a")[:50_000], "a.tar.gz"),
    "half a tar of xz": (_tar("a", compression="xz")[:50_000], "a.tar.xz"),
    "half a tar of bz2": (_tar("a", compression="bz2")[:50_000], "a.tar.bz2"),
    "nothing": (b"", "a.zip"),
    "no archive": (b"<html>not found</html>", "a.zip"),
}


def _flipped(content: bytes) -> bytes:
    middle = content.index(b"PK\x01\x02") // 2 + 20
    return content[:middle] + bytes([content[middle] ^ 255] * 8) + content[middle + 8 :]


BROKEN["flipped bits in a zip"] = (_flipped(_zip("a", bytes(range(256)) * 9)), "a.zip")


@pytest.mark.parametrize("case", BROKEN)
def test_an_archive_that_is_damaged_is_one_sentence(
    case: str, offered: Callable[[bytes, str], None], place: Place, called: Called
) -> None:
    content, name = BROKEN[case]
    offered(content, name)
    ended = called("data", "fetch", "odd", "--to", "data")
    expect(ended, 2, ["cannot be unpacked"])
    assert [path.name for path in (place.here / "data" / "odd").iterdir()] == [name]
