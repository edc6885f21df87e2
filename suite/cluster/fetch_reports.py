"""Fetch the reports of a submitted sweep from the head of its cluster.

A job of its own packs them and prints them into its log, which the Jobs API gives to whoever may
ask. So no other port is needed, and no ray here.
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

from suite.cluster.head_client import HeadClient
from suite.cluster.jobs import SUCCEEDED, Job, get_job
from suite.events import Unavailable

_MARK = "bakeoff-reports "
_MOST_BYTES = 64 * 2**20  # packed
_MOST_UNPACKED = 8 * _MOST_BYTES
_TRIES = 3
_SECONDS = 120.0
_SECONDS_BETWEEN_LOOKS = 0.5


def fetch_reports(url: str, job: Job, folder: Path) -> list[Path]:
    """Write the reports of the job's ablations below the folder; returns their pages.

    Raises:
        Unavailable: if the cluster does not answer, or has no such reports.
        OSError: if the folder cannot be written.
    """
    names = [Path(name).stem for name in job.names.split()]
    tar = _sound_tar(url, job, names)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        _unpack(tar, Path(temporary), url)
        for name in names:
            if (folder / name).exists():
                (folder / name).rename(Path(temporary) / f"{name}.before")
            (Path(temporary) / name).rename(folder / name)
    return [folder / name / "index.html" for name in names]


def pack_command(out: str, names: Sequence[str]) -> str:
    """The shell command for the head: print the reports, packed, on one line after a mark."""
    place = f'"$HOME"/{shlex.quote(out[2:])}' if out.startswith("~/") else shlex.quote(out)
    pages = shlex.join(f"{name}/index.html" for name in names)
    # Ray's own lines come into the log first; without the pages tar would pack what there is.
    return (
        f"sleep 1; cd {place}/reports && ls -- {pages} >/dev/null && printf '\\n{_MARK}' && "
        f"tar -cz -- {shlex.join(names)} | head -c {_MOST_BYTES + 1} | base64 -w0"
    )


def _packed(url: str, job: Job, names: Sequence[str]) -> bytes:
    client, key = HeadClient(url), f"fetch-{uuid.uuid4().hex[:12]}"
    command = pack_command(job.out, names)
    client.ask("/api/jobs/", method="POST", body={"entrypoint": command, "submission_id": key})
    ended = _ended(url, key)
    log = str(client.ask(f"/api/jobs/{key}/logs", seconds=_SECONDS)["logs"])
    packed = next((x.removeprefix(_MARK) for x in log.splitlines() if x.startswith(_MARK)), "")
    if ended.status != SUCCEEDED:
        raise Unavailable(
            f"--address {url}: there are no reports of {', '.join(names)} in {job.out}/reports "
            f"there ({job.submission_id}: {job.status.lower()})."
        )
    archive = base64.b64decode(packed)
    if len(archive) > _MOST_BYTES:
        raise Unavailable(
            f"--address {url}: the reports in {job.out} are larger than the "
            f"{_MOST_BYTES >> 20} MiB that can be fetched; copy them from the head."
        )
    return archive


def _ended(url: str, key: str) -> Job:
    until = time.monotonic() + _SECONDS
    while (found := get_job(url, key)).is_alive:
        if time.monotonic() > until:
            raise Unavailable(f"--address {url}: no reports came within {_SECONDS:g} seconds.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return found


def _sound_tar(url: str, job: Job, names: Sequence[str]) -> bytes:
    """Unpacked, which checks the sum; Ray writes into the same log, perhaps in the middle."""
    for _ in range(_TRIES):
        with suppress(OSError, EOFError, ValueError, zlib.error):
            file = gzip.GzipFile(fileobj=io.BytesIO(_packed(url, job, names)))
            if tar := file.read(_MOST_UNPACKED):
                return tar
    raise Unavailable(f"--address {url}: the reports do not arrive whole; try again.")


def _unpack(tar: bytes, folder: Path, url: str) -> None:
    """Plain files and folders only, and none outside the folder."""
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as members:
            members.extractall(folder, filter="data")
    except (tarfile.TarError, ValueError) as error:
        raise Unavailable(f"--address {url}: what came is no report ({error}).") from error
