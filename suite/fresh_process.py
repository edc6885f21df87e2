"""How does a trial run in a process of its own, where there is no Ray?

Processes are the outer level of every timing: where a process's memory lies moves its numbers, and
what an earlier trial left in caches would be in them. The program that runs now is not imported
again, and nothing is unpickled: see `suite.one_trial`, which is at the other end.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from pydantic import ValidationError

from suite.events import Event, Finished
from suite.one_trial import EVENT, ORDER, Order
from suite.provenance import COMMIT, commit, provenance
from suite.schema import Resources, Result, Status, Trial
from suite.trial_limit import SECONDS_OF_GRACE, reason_of

# Whatever this process can import, the other one can, in the same order; `-P` and `-m` together
# would not find a suite that lies in the folder where we stand, and `-m` alone would find the
# user's `queue.py` before Python's own.
_START = "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]; " + (
    "from suite.one_trial import main; main()"
)
_MOST_BYTES_KEPT = 16_384  # of what it said on standard error
_MOST_BYTES_AT_ONCE = 65_536
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_END = 5.0  # after its last word


def events_of(
    trial: Trial, resources: Resources, trial_seconds: float | None = None
) -> Iterator[Event]:
    """Run one trial in a process of its own; whatever ends the process, a result comes last.

    The process and all that it has started are gone when this ends, or is closed; and some seconds
    after it has had `trial_seconds`, if it has not ended itself.
    """
    with (
        tempfile.TemporaryFile() as errors,
        _process(resources, errors) as process,
        _ended_after(trial_seconds, process) as is_late,
    ):
        assert process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # it died at once; why is seen below
            order = Order(trial=trial, resources=resources, trial_seconds=trial_seconds)
            process.stdin.write(ORDER.dump_json(order) + b"\n")
            process.stdin.flush()
        for line in _lines(process):
            event = _understood(line)
            if event is None:
                break
            yield event
            if isinstance(event, Finished):
                return
        reason = reason_of(trial_seconds) if trial_seconds and is_late.is_set() else ""
        yield Finished(_without_words(trial, resources, process, errors, reason))


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What it says, to its end: what it has forked may hold the pipe open for longer."""
    assert process.stdout is not None, "it is a pipe"
    rest = b""
    for said in _chunks(process, process.stdout.fileno()):
        *lines, rest = (rest + said).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _chunks(process: subprocess.Popen[bytes], pipe: int) -> Iterator[bytes]:
    """What stands in the pipe, until that is closed, or is empty though the process had ended."""
    has_ended = False
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if selector.select(_SECONDS_BETWEEN_LOOKS):
                said = os.read(pipe, _MOST_BYTES_AT_ONCE)
                if not said:
                    return
                yield said
            elif has_ended:
                return
            has_ended = _end_of(process) is not None


@contextmanager
def _process(resources: Resources, errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Started, and ended with the block; in a session of its own, so that Ctrl-C is ours alone."""
    process = subprocess.Popen(
        [sys.executable, "-c", _START, *sys.path], env=_environment(resources),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        _kill_group(process)  # safe: it has not been waited for yet
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None, "both are pipes"
                pipe.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _ended_after(
    trial_seconds: float | None, process: subprocess.Popen[bytes]
) -> Iterator[threading.Event]:
    """Counts beside the block; the event is set once the process was killed for being late."""
    is_late, is_over = threading.Event(), threading.Event()

    def watch(seconds: float) -> None:
        if not is_over.wait(seconds + SECONDS_OF_GRACE):
            if _end_of(process) is None:
                is_late.set()
            _kill_group(process)

    watcher = threading.Thread(target=watch, args=(trial_seconds or 0.0,), daemon=True)
    if trial_seconds is not None:
        watcher.start()
    try:
        yield is_late
    finally:
        is_over.set()
        if trial_seconds is not None:
            watcher.join()  # before the process's number may become another's


def _environment(resources: Resources) -> dict[str, str]:
    """Threads are settled before torch is imported; a GPU is shown only to who asked for one."""
    environment = {
        **os.environ, "OMP_NUM_THREADS": str(resources.num_threads), COMMIT: commit(),
    }  # fmt: skip
    if not resources.num_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def _understood(line: bytes) -> Event | None:
    """None for what is no event, such as a line that was cut short."""
    try:
        return EVENT.validate_json(line)
    except ValidationError:
        return None


def _without_words(
    trial: Trial,
    resources: Resources,
    process: subprocess.Popen[bytes],
    errors: IO[bytes],
    late: str,
) -> Result:
    """The result of a trial whose process ended before it had left one; `late` says it was too."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _MOST_BYTES_KEPT))
    said = errors.read().decode(errors="replace")
    return Result(
        trial_id=trial.trial_id, status=Status.TIMEOUT if late else Status.CRASHED,
        reason=late or _how_it_ended(process),
        traceback=said, provenance=provenance(resources), seconds=0.0,
    )  # fmt: skip


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + _SECONDS_TO_END
    while not (end := _end_of(process)):
        if time.monotonic() > until:
            return "its process says nothing more that can be understood"
        time.sleep(0.01)
    if end.si_code == os.CLD_EXITED:
        return f"its process ended with exit code {end.si_status} before it left a result"
    name = signal.strsignal(end.si_status)
    return f"its process was ended by signal {end.si_status} ({name})"


def _end_of(process: subprocess.Popen[bytes]) -> os.waitid_result | None:
    """Looks without taking it off the kernel's list: until then its number is nobody else's."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
