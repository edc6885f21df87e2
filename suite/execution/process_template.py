"""A process that has imported all that a trial needs, and is forked for each, in milliseconds.

It runs nothing itself, has no thread, and knows no code of the user's: each trial finds it as it
was. One trial at a time. The other side is `suite.execution.subprocess_main.serve`.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, NamedTuple

from suite.import_order import ROOT, program_folder

PID, END = struct.Struct("q"), struct.Struct("qq")  # what it answers
# The other process gets our packages from where they are here, whatever lies on its import path.
_START = (
    "import sys; file = sys.argv[1]; sys.path[:] = sys.argv[2:]; del sys.argv[1:]; "
    "import importlib.util; spec = importlib.util.spec_from_file_location('suite', file); "
    "sys.modules['suite'] = suite = importlib.util.module_from_spec(spec); "
    "spec.loader.exec_module(suite); from suite.execution import subprocess_main; "
)


def python_command(statement: str) -> list[str]:
    """Return the command of a Python with our packages and this one's import path.

    The folder of the program, and the current one, come last: with `-m` the user's `queue.py`
    would be found before Python's own.

    Args:
        statement: What it executes, with the module `subprocess_main` at hand.
    """
    path = sorted(sys.path, key=lambda entry: entry in ("", program_folder()))
    return [sys.executable, "-c", _START + statement, str(ROOT / "suite" / "__init__.py"), *path]


class ProcessEnd(NamedTuple):
    """How a process ended, as `os.waitid` says it."""

    si_code: int
    si_status: int


class ForkedProcess:
    """A process of one trial; in what is used of it like a `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: int, stdout: int, connection: socket.socket) -> None:
        self.pid = pid
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb")
        self._connection = connection
        self._end: ProcessEnd | None = None
        self._lock = threading.Lock()

    def end(self, *, is_patient: bool = False) -> ProcessEnd | None:
        """How it ended; None while it runs."""
        with self._lock:
            if self._end is None:
                self._connection.setblocking(is_patient)
                try:
                    answer = self._connection.recv(END.size)
                except BlockingIOError:
                    return None
                finally:
                    self._connection.setblocking(True)
                lost = ProcessEnd(os.CLD_KILLED, signal.SIGKILL)  # with its template
                self._end = ProcessEnd(*END.unpack(answer)) if answer else lost
            return self._end

    def wait(self) -> None:
        """Wait for its end, and free its number."""
        self.end(is_patient=True)
        with suppress(OSError):
            self._connection.sendall(b"f")


class ProcessTemplate:
    """The process to fork; it starts with the first trial, and ends with the `with` block."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                python_command(f"subprocess_main.serve({theirs.fileno()})"),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, output: IO[bytes]) -> ForkedProcess:
        """A process for one trial, which prints to the file.

        Raises:
            OSError: if there is no template any more.
        """
        stdin, ours_in = os.pipe()
        ours_out, stdout = os.pipe()
        try:
            socket.send_fds(self._ours, [b"f"], [stdin, stdout, output.fileno()])
            answer = self._ours.recv(PID.size)
            if not answer:
                raise ConnectionResetError("the template has ended")
        except BaseException:
            self.close()  # which ends what it may have forked: its input closes
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        return ForkedProcess(PID.unpack(answer)[0], ours_in, ours_out, self._ours)

    def close(self) -> None:
        """End it."""
        self._ours.close()
        self._process.kill()
        self._process.wait()
