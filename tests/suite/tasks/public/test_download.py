"""Test that a download, and an unpacked archive, is complete and verified, or absent."""

import dataclasses
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from filelock import FileLock

from bakeoff.suite.commands import data
from bakeoff.suite.errors import DONE, UNAVAILABLE, USAGE, exit_code_of
from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.public.download import FetchUnavailable, fetch, unpack
from bakeoff.suite.tasks.public.sets import PUBLIC_SETS, PublicSet, public_set, source_of
from bakeoff.suite.tasks.task import TaskError
from tests.suite.fake_server import http_server

CONTENT = bytes(range(256)) * 8_000
MEMBERS = {"a/one.txt": b"one", "two.txt": b"two" * 1000}
Maker = Callable[[Path, dict[str, bytes]], Path]


class Server:
    """A server of one file that aborts or hides the length on demand."""

    url = ""
    content = CONTENT
    breaks_after: int | None = None
    says_length = True
    status = 200
    num_requests = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.num_requests += 1
        if self.status != 200:
            request.send_error(self.status)
            return
        request.send_response(200)
        if self.says_length:
            request.send_header("Content-Length", str(len(self.content)))
        request.end_headers()
        request.wfile.write(self.content[: self.breaks_after])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    serving = Server()
    with http_server(serving.answer) as port:
        serving.url = f"http://127.0.0.1:{port}/set.bin"
        yield serving


def _public(server: Server, **changes: object) -> PublicSet:
    public = PublicSet(
        name="some",
        title="Some set",
        licence="free",
        url=server.url,
        num_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        is_unpacked=False,
        most_bytes=10_000_000,
    )
    return dataclasses.replace(public, **changes)  # type: ignore[arg-type]


def _names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "some").iterdir()}


def test_a_set_is_brought_once(server: Server, tmp_path: Path) -> None:
    said: list[str] = []
    path = fetch(_public(server), tmp_path, said.append)
    assert path.read_bytes() == CONTENT
    assert _names(tmp_path) == {"set.bin"}
    assert "as published" in said[-1]
    fetch(_public(server), tmp_path, said.append)
    assert "already exists" in said[-1]
    assert server.num_requests == 1


def test_a_download_that_breaks_off_leaves_nothing_and_starts_again(
    server: Server, tmp_path: Path
) -> None:
    server.breaks_after = 1_234_567
    with pytest.raises(FetchUnavailable, match=r"1234567 bytes read.*; no file was kept"):
        fetch(_public(server), tmp_path)
    assert _names(tmp_path) == set()
    server.breaks_after = None
    assert fetch(_public(server), tmp_path).read_bytes() == CONTENT


def test_another_content_is_refused_and_nothing_kept(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(TaskError, match=r"not the published some: SHA-256 is .*nothing was kept"):
        fetch(_public(server), tmp_path)
    assert _names(tmp_path) == set()


@pytest.mark.parametrize("says_length", [True, False])
def test_more_than_announced_is_refused_and_nothing_kept(
    server: Server, tmp_path: Path, says_length: bool
) -> None:
    server.content, server.says_length = CONTENT * 2, says_length
    with pytest.raises(FetchUnavailable, match="more than the 2048000 bytes of some"):
        fetch(_public(server), tmp_path)
    with pytest.raises(FetchUnavailable, match="more than the 2500000 bytes of some"):
        fetch(_public(server, num_bytes=None, most_bytes=2_500_000), tmp_path)
    assert _names(tmp_path) == set()


def test_an_altered_file_is_refused_by_name_and_left_alone(server: Server, tmp_path: Path) -> None:
    path = fetch(_public(server), tmp_path)
    path.write_bytes(b"altered")
    with pytest.raises(TaskError, match=r"set\.bin is not the published some: .*fetch again"):
        fetch(_public(server), tmp_path)
    assert path.read_bytes() == b"altered"
    assert server.num_requests == 1


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_does_not_give_it_is_named(
    server: Server, tmp_path: Path, status: int
) -> None:
    server.status = status
    with pytest.raises(
        FetchUnavailable, match=rf"some cannot be fetched from {server.url} to .*{status}"
    ) as refusal:
        fetch(_public(server), tmp_path)
    assert exit_code_of(refusal.value) == UNAVAILABLE
    assert "\n" not in str(refusal.value)


def test_a_server_that_is_not_there_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchUnavailable, match=r"cannot be fetched from http://127\.0\.0\.1:1/x "):
        fetch(_public(server, url="http://127.0.0.1:1/x"), tmp_path)


def test_two_downloads_of_a_set_do_not_meet(server: Server, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    with (
        FileLock(tmp_path / "some" / "set.bin.part"),
        pytest.raises(FetchUnavailable, match="another process is downloading some"),
    ):
        fetch(_public(server), tmp_path)
    assert fetch(_public(server), tmp_path).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "some").write_text("a file")
    with pytest.raises(FetchUnavailable, match=r"some cannot be fetched .*exists"):
        fetch(_public(server), tmp_path)


def test_a_set_that_would_not_fit_is_refused_before_a_byte(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchUnavailable, match=r"bytes at .*, where .* are free"):
        fetch(_public(server, num_bytes=10**18), tmp_path)
    assert server.num_requests == 0


def test_an_archive_is_unpacked_beside_itself(server: Server, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("a/b.txt", b"text")
    server.content = packed.getvalue()
    public = _public(
        server,
        is_unpacked=True,
        num_bytes=None,
        sha256=hashlib.sha256(server.content).hexdigest(),
    )
    for _ in range(2):
        fetch(public, tmp_path)
        assert (tmp_path / "some" / "unpacked" / "a" / "b.txt").read_bytes() == b"text"


def test_a_set_without_a_recorded_digest_is_said_to_be_unproven(
    server: Server, tmp_path: Path
) -> None:
    said: list[str] = []
    fetch(_public(server, sha256="", num_bytes=None), tmp_path, said.append)
    assert said[-1].endswith("no digest is recorded")


def test_a_set_may_be_proven_by_an_md5_alone(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    public = _public(server, sha256="", md5=hashlib.md5(CONTENT).hexdigest())
    monkeypatch.setitem(PUBLIC_SETS, "some", public)
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path))
    source = source_of("some")
    assert source.digest == public.md5
    said: list[str] = []
    fetch(public, tmp_path, said.append)
    assert said[-1].endswith("its MD5 is as published; no other digest is recorded")
    assert data_files.read_verified(source) == CONTENT
    data.show()
    assert f"  md5      {public.md5}\n" in capsys.readouterr().out
    (tmp_path / "some" / "set.bin").write_bytes(b"altered")
    with pytest.raises(TaskError, match=r"was published: MD5 of its 7 bytes is .* expected"):
        data_files.refuse_damaged(source)
    with pytest.raises(TaskError, match=r"not the published some: MD5 is"):
        fetch(public, tmp_path)
    server.content = CONTENT[:-1]
    (tmp_path / "some" / "set.bin").unlink()
    with pytest.raises(TaskError, match="nothing was kept"):
        fetch(public, tmp_path)
    assert _names(tmp_path) == set()


def test_a_task_reads_proven_data_only(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLIC_SETS, "some", _public(server, sha256=""))
    with pytest.raises(AssertionError, match="proven data only"):
        source_of("some")


def test_every_recorded_digest_is_one() -> None:
    for each in (file for public in PUBLIC_SETS.values() for file in public.files):
        assert len(each.sha256) in (0, 64)
        assert len(each.md5) in (0, 32)
        assert not (each.sha256 and each.md5)
        assert each.num_bytes is None or each.num_bytes <= each.most_bytes


def test_the_command_fetches_by_name_into_the_folder_that_tasks_read(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLIC_SETS, "some", _public(server))
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path))
    assert data_files.is_absent(source_of("some"))
    assert data.fetch_by_name("some", None) == DONE
    assert data_files.read_verified(source_of("some")) == CONTENT
    (tmp_path / "some" / "set.bin").write_bytes(b"altered")
    with pytest.raises(TaskError, match="is not the one that was published"):
        data_files.refuse_damaged(source_of("some"))


def test_another_folder_is_said_to_need_a_word(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(PUBLIC_SETS, "some", _public(server))
    monkeypatch.delenv("BAKEOFF_DATA", raising=False)
    data.fetch_by_name("some", tmp_path)
    assert f"BAKEOFF_DATA={tmp_path} is set" in capsys.readouterr().out


def test_all_files_of_a_set_are_brought_each_once(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check that after a failure between two files the download resumes with the second."""
    others = [_public(server, url=server.url.replace("set", name)) for name in ("b", "c")]
    monkeypatch.setitem(PUBLIC_SETS, "some", _public(server, beside=tuple(others)))
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path))
    assert data_files.is_absent(source_of("some"))
    assert fetch(public_set("some"), tmp_path).name == "set.bin"
    assert _names(tmp_path) == {"set.bin", "b.bin", "c.bin"}
    (tmp_path / "some" / "b.bin").unlink()
    fetch(public_set("some"), tmp_path)
    assert server.num_requests == 4
    assert [data_files.read_verified(each) for each in source_of("some").files] == [CONTENT] * 3
    (tmp_path / "some" / "c.bin").write_bytes(b"other")
    with pytest.raises(TaskError, match=r"c\.bin is not the published some"):
        fetch(public_set("some"), tmp_path)
    with pytest.raises(TaskError, match=r"c\.bin is not the one that was published"):
        data_files.refuse_damaged(source_of("some"))
    capsys.readouterr()
    data.show()
    told = capsys.readouterr().out
    assert all(f"some/{name}.bin (no task" in told for name in ("set", "b", "c"))


def test_an_unknown_set_is_answered_with_those_there_are() -> None:
    with pytest.raises(TaskError, match="did you mean 'enwik8'"):
        public_set("enwik9")
    with pytest.raises(TaskError, match="enwik8, wikitext-103, imdb, lra, multi30k"):
        data.fetch_by_name(None, None)


def test_what_is_not_fetched_is_no_fault_and_an_altered_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path))
    assert data.verify() == DONE
    assert "`bakeoff data fetch enwik8`" in capsys.readouterr().out
    (tmp_path / "enwik8").mkdir()
    (tmp_path / "enwik8" / "enwik8.zip").write_bytes(b"other")
    assert data.verify() == USAGE
    assert "enwik8.zip is not the one that was published" in capsys.readouterr().out


def test_the_list_holds_every_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert data.show() == DONE
    told = capsys.readouterr().out
    for name in ("shakespeare", "listops", *PUBLIC_SETS):
        assert told.count(f"\n{name}: ") + told.startswith(f"{name}: ") == 1


def _zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


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
    with pytest.raises(TaskError, match="would be outside its folder"):
        unpack(make(tmp_path / "x", MEMBERS | {name: b"!"}), tmp_path / "out", most_bytes=10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("make", [_zip, _tar])
def test_more_bytes_than_expected_are_refused(tmp_path: Path, make: Maker) -> None:
    archive = make(tmp_path / "x", {"a": bytes(5_000), "b": bytes(5_001)})
    with pytest.raises(TaskError, match="larger than they should be"):
        unpack(archive, tmp_path / "out", most_bytes=10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    unpack(archive, tmp_path / "out", most_bytes=10_001)
