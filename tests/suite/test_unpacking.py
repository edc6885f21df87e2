"""An archive is unpacked into its own folder, or not at all."""

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.tasks.task import TaskError
from suite.unpacking import unpack

MEMBERS = {"a/one.txt": b"one", "two.txt": b"two" * 1000}


def _zip(path: Path, members: dict[str, bytes], mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            about = zipfile.ZipInfo(name)
            about.external_attr = mode << 16
            archive.writestr(about, content)
    return path


def _tar(path: Path, members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "/etc/passwd"
            about.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(about, io.BytesIO(content))
    return path


Maker = Callable[[Path, dict[str, bytes]], Path]


@pytest.mark.parametrize("make", [_zip, _tar])
def test_members_stand_in_the_folder(tmp_path: Path, make: Maker) -> None:
    unpack(make(tmp_path / "x", MEMBERS), tmp_path / "out", most_bytes=10_000)
    for name, content in MEMBERS.items():
        assert (tmp_path / "out" / name).read_bytes() == content
    assert {path.name for path in tmp_path.iterdir()} == {"x", "out"}


@pytest.mark.parametrize("make", [_zip, _tar])
@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../out.txt", "a\\..\\b", "."])
def test_a_member_that_would_stand_elsewhere_is_refused(
    tmp_path: Path, make: Maker, name: str
) -> None:
    with pytest.raises(TaskError, match="would stand outside of its folder"):
        unpack(make(tmp_path / "x", MEMBERS | {name: b"!"}), tmp_path / "out", most_bytes=10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(TaskError, match="'l' is a link or a device"):
        unpack(_tar(tmp_path / "x", {"l": b""}, kind), tmp_path / "out", most_bytes=10_000)
    assert not (tmp_path / "out").exists()


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "x", {"l": b"/etc/passwd"}, stat.S_IFLNK | 0o777)
    with pytest.raises(TaskError, match="'l' is a link or a device"):
        unpack(archive, tmp_path / "out", most_bytes=10_000)


@pytest.mark.parametrize("make", [_zip, _tar])
def test_more_bytes_than_expected_are_refused(tmp_path: Path, make: Maker) -> None:
    archive = make(tmp_path / "x", {"a": bytes(5_000), "b": bytes(5_001)})
    with pytest.raises(TaskError, match="larger than they should be"):
        unpack(archive, tmp_path / "out", most_bytes=10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    unpack(archive, tmp_path / "out", most_bytes=10_001)


@pytest.mark.parametrize("make", [_zip, _tar])
def test_a_damaged_archive_is_refused(tmp_path: Path, make: Maker) -> None:
    archive = make(tmp_path / "x", {"a": bytes(range(256)) * 400})
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(TaskError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "out", most_bytes=1_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"<html>not found</html>")
    with pytest.raises(TaskError, match="cannot be unpacked"):
        unpack(tmp_path / "x", tmp_path / "out", most_bytes=10_000)


def test_a_member_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x", "w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("same"), io.BytesIO(b""))
    with pytest.raises(TaskError, match="cannot be unpacked"):
        unpack(tmp_path / "x", tmp_path / "out", most_bytes=10_000)
