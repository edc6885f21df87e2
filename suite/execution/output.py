"""Keep the end of the output of a trial's process, including that of C code.

The output goes to a file, so that it is available after the process has died. A thread truncates
the file from time to time, because a trial may print for days.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bakeoff.suite.events import Checkpoints, Event, Finished
from bakeoff.suite.schema import FAILURES, Result, Status

MOST_BYTES = 65_536  # kept with a failure
_MOST_BYTES_IN_FILE = 1 << 20
_SECONDS_BETWEEN_CUTS = 0.5
_FILE, _OF_WORKER = "output.txt", "output-{}.txt"


def with_output(event: Event, file: int) -> Event:
    """Return the event; add the trial's output if its result is a failure."""
    if isinstance(event, Finished) and (event.result.status in {*FAILURES, Status.OUT_OF_MEMORY}):
        _flush()
        return Finished(replace(event.result, output=end_of(file)))
    return event


def end_of(file: int, most: int = MOST_BYTES) -> str:
    """Return the end of the output, without moving the position of the file."""
    size = os.fstat(file).st_size
    text = os.pread(file, most, max(0, size - most)).decode(errors="replace")
    return f"... {text}" if size > most else text


def appended_only(file: int) -> None:
    """Set the file to append mode, so that it can be truncated while it is written."""
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)


def cut_when_long(file: int, is_over: threading.Event) -> None:
    """Truncate the file repeatedly until the event is set; run this in a thread."""
    while not is_over.wait(_SECONDS_BETWEEN_CUTS):
        with suppress(OSError):
            size = os.fstat(file).st_size
            if size > _MOST_BYTES_IN_FILE:
                end = os.pread(file, MOST_BYTES + 1, size - MOST_BYTES - 1)
                os.ftruncate(file, 0)
                os.write(file, end)


def output_file(checkpoints: Checkpoints, trial_id: str, worker: int | None = None) -> Path:
    """Return the file for the output of a running trial, or a worker, beside its checkpoints."""
    name = _FILE if worker is None else _OF_WORKER.format(worker)
    return checkpoints.folder / trial_id / name


@contextmanager
def captured_output(
    checkpoints: Checkpoints, trial_id: str, worker: int | None = None
) -> Iterator[int]:
    """Redirect the output of this process in the block to a file; yield its descriptor.

    The file is removed after the block. If the process dies the file stays, and the driver reads it
    with `with_left_output`. If the folder of checkpoints is not on this host, the file has no name.
    """
    path, is_over = output_file(checkpoints, trial_id, worker), threading.Event()
    named = checkpoints.folder.is_dir()
    if named:
        path.parent.mkdir(exist_ok=True)
    with path.open("wb+") if named else tempfile.TemporaryFile() as file:
        appended_only(file.fileno())
        threading.Thread(target=cut_when_long, args=(file.fileno(), is_over), daemon=True).start()
        try:
            with _redirected(file.fileno()):
                yield file.fileno()
        finally:
            is_over.set()
            _remove(path)


@contextmanager
def _redirected(file: int) -> Iterator[None]:
    before = [(number, os.dup(number)) for number in (1, 2)]
    _flush()
    for number, _ in before:
        os.dup2(file, number)
    try:
        yield
    finally:
        _flush()
        for number, copy in before:
            os.dup2(copy, number)
            os.close(copy)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # The stream may be closed, or None, or a user's own.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _remove(path: Path) -> None:
    """Remove the file, and the trial's folder if it is empty."""
    with suppress(OSError):
        path.unlink()
        path.parent.rmdir()


def with_left_output(result: Result, checkpoints: Checkpoints) -> Result:
    """Return the result of a trial whose process died, with its output if it is found here.

    For several workers, the output of each one that died is added, shortened to the limit of one.
    """
    folder, texts = checkpoints.folder / result.trial_id, []
    files = sorted([*folder.glob(_FILE), *folder.glob(_OF_WORKER.format("*"))])
    for path in files:
        with suppress(OSError), path.open("rb") as file:
            text = end_of(file.fileno(), MOST_BYTES // len(files))
            is_worker, number = path.name != _FILE, path.stem.rpartition("-")[2]
            texts.append(f"worker {number}:\n{text}" if is_worker else text)
        _remove(path)
    return replace(result, output="\n".join(texts)) if texts else result
