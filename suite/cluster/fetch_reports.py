"""Fetch the reports of a submitted sweep from the head of its cluster.

A separate job packs them and prints them into its log, which the Jobs API returns. So this needs no
other port, and does not import ray.
"""

from __future__ import annotations

import base64
import gzip
import io
import shlex
import tarfile
import tempfile
import time
import uuid
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bakeoff.suite.cluster.head_client import HeadClient
from bakeoff.suite.cluster.jobs import SUCCEEDED, Job, get_job
from bakeoff.suite.events import Unavailable

_MARK = "bakeoff-reports "
_MOST_BYTES = 64 * 2**20  # packed
_MOST_UNPACKED = 8 * _MOST_BYTES
_TRIES = 3
_SECONDS = 120.0
_SECONDS_BETWEEN_LOOKS = 0.5


def fetch_reports(url: str, job: Job, folder: Path) -> list[Path]:
    """Write the reports of the job's output folder below the folder, with their overview.

    Returns:
        The pages of the job's ablations.

    Raises:
        Unavailable: If the cluster does not answer, or has no such reports.
        OSError: If the folder cannot be written.
    """
    names = [Path(name).stem for name in job.names.split()]
    missing = f"there are no reports of {', '.join(names)} in {job.out}/reports there"
    tar = _sound_tar(url, job, pack_command(job.out, names), missing)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        _unpack(tar, Path(temporary), url)
        for new in list(Path(temporary).iterdir()):
            if (folder / new.name).exists():
                (folder / new.name).rename(Path(temporary) / f"{new.name}.before")
            new.rename(folder / new.name)
    return [folder / name / "index.html" for name in names]


def fetch_journal(url: str, job: Job, folder: Path) -> Path:
    """Write a copy of the journal of the job's output folder into the folder; return its path.

    Raises:
        Unavailable: If the cluster does not answer, or has no journal there.
        OSError: If the folder cannot be written.
    """
    missing = f"nothing has been run in {job.out} there"
    _unpack(_sound_tar(url, job, journal_command(job.out), missing), folder, url)
    return folder / "journal.db"


def pack_command(out: str, names: Sequence[str]) -> str:
    """Return the shell command for the head that prints the reports after a mark, on one line."""
    pages = shlex.join(f"{name}/index.html" for name in names)
    # Ray's own lines come into the log first; without the pages tar would pack the other files.
    return f"sleep 1; cd {_place(out)}/reports && ls -- {pages} >/dev/null && {_packed_line('.')}"


def journal_command(out: str) -> str:
    """Return the shell command that prints the journal; a driver may still write to it."""
    copy = (
        "import sqlite3, sys; sqlite3.connect('journal.db').execute('VACUUM INTO ?', "
        "(sys.argv[1] + '/journal.db',))"
    )
    return (
        f"sleep 1; cd {_place(out)} && ls journal.db >/dev/null && copy=$(mktemp -d) && "
        f'{{ python3 -c {shlex.quote(copy)} "$copy" || cp journal.db* "$copy"; }} && '
        f'cd "$copy" && {_packed_line(".")}; ended=$?; rm -rf "$copy"; exit $ended'
    )


def _place(out: str) -> str:
    return f'"$HOME"/{shlex.quote(out[2:])}' if out.startswith("~/") else shlex.quote(out)


def _packed_line(what: str) -> str:
    return f"printf '\\n{_MARK}' && tar -cz -- {what} | head -c {_MOST_BYTES + 1} | base64 -w0"


def _packed(url: str, job: Job, command: str, missing: str) -> bytes:
    client, key = HeadClient(url), f"fetch-{uuid.uuid4().hex[:12]}"
    client.ask("/api/jobs/", method="POST", body={"entrypoint": command, "submission_id": key})
    ended = _ended(url, key)
    log = str(client.ask(f"/api/jobs/{key}/logs", seconds=_SECONDS)["logs"])
    packed = next((x.removeprefix(_MARK) for x in log.splitlines() if x.startswith(_MARK)), "")
    if ended.status != SUCCEEDED:
        raise Unavailable(
            f"--address {url}: {missing} ({job.submission_id}: {job.status.lower()})."
        )
    archive = base64.b64decode(packed)
    if len(archive) > _MOST_BYTES:
        raise Unavailable(
            f"--address {url}: the results in {job.out} are larger than the "
            f"{_MOST_BYTES >> 20} MiB that can be fetched; copy them from the head."
        )
    return archive


def _ended(url: str, key: str) -> Job:
    until = time.monotonic() + _SECONDS
    while (found := get_job(url, key)).is_alive:
        if time.monotonic() > until:
            raise Unavailable(f"--address {url}: no answer within {_SECONDS:g} seconds.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return found


def _sound_tar(url: str, job: Job, command: str, missing: str) -> bytes:
    """Return the unpacked archive; retry if Ray wrote into the log in the middle of it."""
    for _ in range(_TRIES):
        with suppress(OSError, EOFError, ValueError, zlib.error):
            file = gzip.GzipFile(fileobj=io.BytesIO(_packed(url, job, command, missing)))
            if tar := file.read(_MOST_UNPACKED):
                return tar
    raise Unavailable(f"--address {url}: the results arrived incomplete; try again.")


def _unpack(tar: bytes, folder: Path, url: str) -> None:
    """Unpack regular files and folders into the folder, and nothing outside it."""
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as members:
            members.extractall(folder, filter="data")
    except (tarfile.TarError, ValueError) as error:
        raise Unavailable(f"--address {url}: the answer is not a report ({error}).") from error
