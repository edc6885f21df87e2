"""A download is whole and proven, or the name stays free; what broke off is gone on with."""

import dataclasses
import fcntl
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from suite import data_sets
from suite.errors import DONE, UNAVAILABLE, USAGE, exit_code_of
from suite.fetching import FetchUnavailable, fetch
from suite.tasks import data_files
from suite.tasks.public_sets import PUBLIC_SETS, PublicSet, public_set, source_of
from suite.tasks.task import TaskError

CONTENT = bytes(range(256)) * 8_000


class Server(ThreadingHTTPServer):
    """Serves one file; breaks off, forgets ranges or changes as a test asks."""

    daemon_threads = True
    content = CONTENT
    etag = '"first"'
    breaks_after: int | None = None
    knows_ranges = True
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/set.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range", "")
        server.ranges.append(asked)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if not server.knows_ranges or self.headers.get("If-Range", server.etag) != server.etag:
            start = 0
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            last = len(server.content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(server.content)}")
        self.send_header("Content-Length", str(len(server.content) - start))
        self.send_header("ETag", server.etag)
        self.end_headers()
        self.wfile.write(server.content[start : server.breaks_after])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def _public(server: Server, **changes: object) -> PublicSet:
    public = PublicSet(
        name="some", title="Some set", licence="free", url=server.url, num_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(), is_unpacked=False, most_bytes=10_000_000,
    )  # fmt: skip
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
    assert "is there already" in said[-1]
    assert len(server.ranges) == 1


def test_what_broke_off_is_gone_on_with(server: Server, tmp_path: Path) -> None:
    server.breaks_after = 1_234_567
    with pytest.raises(FetchUnavailable, match=r"1234567 of 2048000 bytes; the same command goes"):
        fetch(_public(server), tmp_path)
    assert _names(tmp_path) == {"set.bin.part", "set.bin.part.etag"}
    server.breaks_after = None
    assert fetch(_public(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["", "bytes=1234567-"]
    assert _names(tmp_path) == {"set.bin"}


@pytest.mark.parametrize("change", ["forgets ranges", "has another file by now"])
def test_where_the_server_cannot_go_on_it_begins_anew(
    server: Server, tmp_path: Path, change: str
) -> None:
    server.breaks_after = 1_000
    with pytest.raises(FetchUnavailable):
        fetch(_public(server), tmp_path)
    server.breaks_after = None
    if change == "forgets ranges":
        server.knows_ranges = False
    else:
        server.etag = '"second"'
    assert fetch(_public(server), tmp_path).read_bytes() == CONTENT


def test_a_partial_file_that_is_whole_is_not_asked_for_again(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "set.bin.part").write_bytes(CONTENT)
    assert fetch(_public(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == []


def test_a_partial_file_beyond_the_servers_is_dropped(server: Server, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "set.bin.part").write_bytes(CONTENT)
    unknown = _public(server, num_bytes=None, sha256="")
    with pytest.raises(FetchUnavailable, match="416"):
        fetch(unknown, tmp_path)
    assert fetch(unknown, tmp_path).read_bytes() == CONTENT


def test_another_content_is_refused_and_nothing_kept(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(TaskError, match=r"not the published some: SHA-256 is .*nothing was kept"):
        fetch(_public(server), tmp_path)
    assert _names(tmp_path) == set()


def test_more_than_announced_is_refused_and_nothing_kept(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT * 2
    with pytest.raises(FetchUnavailable, match="more than the 2048000 bytes of some"):
        fetch(_public(server), tmp_path)
    with pytest.raises(FetchUnavailable, match="more than the 3000000 bytes of some"):
        fetch(_public(server, num_bytes=None, most_bytes=3_000_000), tmp_path)
    assert (tmp_path / "some" / "set.bin.part").stat().st_size == 0
    assert not (tmp_path / "some" / "set.bin").exists()


def test_an_altered_file_is_refused_by_name_and_left_alone(server: Server, tmp_path: Path) -> None:
    path = fetch(_public(server), tmp_path)
    path.write_bytes(b"altered")
    with pytest.raises(TaskError, match=r"set\.bin is not the published some: .*fetch again"):
        fetch(_public(server), tmp_path)
    assert path.read_bytes() == b"altered"
    assert len(server.ranges) == 1


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_does_not_give_it_is_named(
    server: Server, tmp_path: Path, status: int
) -> None:
    server.status = status
    with pytest.raises(FetchUnavailable, match=rf"{server.url} cannot be had \(") as refusal:
        fetch(_public(server), tmp_path)
    assert exit_code_of(refusal.value) == UNAVAILABLE
    assert "\n" not in str(refusal.value)


def test_a_server_that_is_not_there_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchUnavailable, match=r"http://127\.0\.0\.1:1/x cannot be had"):
        fetch(_public(server, url="http://127.0.0.1:1/x"), tmp_path)


def test_two_downloads_of_a_set_do_not_meet(server: Server, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    with (tmp_path / "some" / "set.bin.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FetchUnavailable, match="another process is downloading some"):
            fetch(_public(server), tmp_path)
    assert fetch(_public(server), tmp_path).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "some").write_text("a file")
    with pytest.raises(FetchUnavailable, match="some cannot be kept at"):
        fetch(_public(server), tmp_path)


def test_a_set_that_would_not_fit_is_refused_before_a_byte(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchUnavailable, match=r"bytes more at .*, where .* are free"):
        fetch(_public(server, num_bytes=10**18), tmp_path)
    assert server.ranges == []


def test_an_archive_is_unpacked_beside_itself(server: Server, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("a/b.txt", b"text")
    server.content = packed.getvalue()
    public = _public(
        server, is_unpacked=True, num_bytes=None,
        sha256=hashlib.sha256(server.content).hexdigest(),
    )  # fmt: skip
    for _ in range(2):
        fetch(public, tmp_path)
        assert (tmp_path / "some" / "unpacked" / "a" / "b.txt").read_bytes() == b"text"


def test_a_set_without_a_recorded_digest_is_said_to_be_unproven(
    server: Server, tmp_path: Path
) -> None:
    said: list[str] = []
    fetch(_public(server, sha256="", num_bytes=None), tmp_path, said.append)
    assert said[-1].endswith("nobody recorded what it should be")


def test_the_command_fetches_by_name_into_the_folder_that_tasks_read(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLIC_SETS, "some", _public(server))
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path))
    assert data_files.is_absent(source_of("some"))
    assert data_sets.fetch_by_name("some", None) == DONE
    assert data_files.read_verified(source_of("some")) == CONTENT
    (tmp_path / "some" / "set.bin").write_bytes(b"altered")
    with pytest.raises(TaskError, match="is not the one that was published"):
        data_files.refuse_damaged(source_of("some"))


def test_another_folder_is_said_to_need_a_word(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setitem(PUBLIC_SETS, "some", _public(server))
    monkeypatch.delenv("BAKEOFF_DATA", raising=False)
    data_sets.fetch_by_name("some", tmp_path)
    assert f"BAKEOFF_DATA={tmp_path} is set" in capsys.readouterr().out


def test_an_unknown_set_is_answered_with_those_there_are() -> None:
    with pytest.raises(TaskError, match="did you mean 'enwik8'"):
        public_set("enwik9")
    with pytest.raises(TaskError, match="enwik8, wikitext-103, imdb, lra"):
        data_sets.fetch_by_name(None, None)


def test_what_is_not_fetched_is_no_fault_and_an_altered_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path))
    assert data_sets.verify() == DONE
    assert "`bakeoff data fetch enwik8` brings it" in capsys.readouterr().out
    (tmp_path / "enwik8").mkdir()
    (tmp_path / "enwik8" / "enwik8.zip").write_bytes(b"other")
    assert data_sets.verify() == USAGE
    assert "enwik8.zip is not the one that was published" in capsys.readouterr().out


def test_the_list_holds_every_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert data_sets.show() == DONE
    told = capsys.readouterr().out
    for name in ("shakespeare", "listops", *PUBLIC_SETS):
        assert told.count(f"\n{name}: ") + told.startswith(f"{name}: ") == 1
