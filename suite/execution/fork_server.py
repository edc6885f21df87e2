"""Start the processes of trials: new ones, and forks of a process that has imported everything.

A fork server has imported all that a trial needs, so that a fork is ready in milliseconds. It runs
no trial itself, has no threads, and imports no user code: so it is in the same state for each
trial. It forks one trial at a time. The code in the child is
`bakeoff.suite.execution.subprocess_main`.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO

from bakeoff.suite.places import NAME, PACKAGE, program_folder

NUMBER = struct.Struct("q")  # a message of a fork server: a process id, or an exit code
# The child loads our package from its present location, regardless of its import path.
_START = (
    "import sys; file = sys.argv[1]; sys.path[:] = sys.argv[2:]; del sys.argv[1:]; "
    f"import importlib.util; spec = importlib.util.spec_from_file_location('{NAME}', file); "
    f"sys.modules['{NAME}'] = ours = importlib.util.module_from_spec(spec); "
    "spec.loader.exec_module(ours); from bakeoff.suite.execution import subprocess_main; "
)


def _python_command(statement: str) -> list[str]:
    """Return the command of a Python process with our package and this process's import path.

    The folder of the program, and the current one, come last: with `-m` a user's `queue.py` would
    be found before Python's own.

    Args:
        statement: The statement to execute, which may use the module `subprocess_main`.
    """
    path = sorted(sys.path, key=lambda entry: entry in ("", program_folder()))
    return [sys.executable, "-c", _START + statement, str(PACKAGE / "__init__.py"), *path]


def exit_code(pid: int, options: int = 0) -> int | None:
    """Return how a child of this process ended, or None if it still runs (with `os.WNOHANG`).

    The child stays a zombie, so that its process id is not reused.

    Returns:
        The exit code, or the negative number of the signal that killed it.
    """
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | options)
    if end is None:
        return None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


class FreshProcess:
    """The process of one trial, started as a new Python process.

    Attributes:
        pid: Its process id, and that of its session.
        stdin: The stream from which it reads the trial.
        stdout: The stream to which it writes events.
    """

    def __init__(self, environment: Mapping[str, str], output: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            _python_command("subprocess_main.main()"),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self.pid, self.stdin, self.stdout = (
            self._process.pid,
            self._process.stdin,
            self._process.stdout,
        )

    def exit_code(self) -> int | None:
        """Return how it ended, see the function `exit_code`, or None while it runs."""
        return exit_code(self.pid, os.WNOHANG)

    def wait(self) -> None:
        """Wait for its end, and release its process id."""
        self._process.wait()


class ForkedProcess:
    """The process of one trial, forked by a fork server; see `FreshProcess`."""

    def __init__(self, pid: int, stdin: int, stdout: int, connection: socket.socket) -> None:
        self.pid = pid
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb")
        self._connection = connection
        self._exit_code: int | None = None
        self._lock = threading.Lock()

    def exit_code(self, *, is_patient: bool = False) -> int | None:
        """Return how it ended, or None while it runs, unless `is_patient` waits for the end."""
        with self._lock:
            if self._exit_code is None:
                self._connection.setblocking(is_patient)
                try:
                    answer = self._connection.recv(NUMBER.size)
                except BlockingIOError:
                    return None
                finally:
                    self._connection.setblocking(True)
                # Without an answer the server was killed, and its fork ends when its input closes.
                self._exit_code = NUMBER.unpack(answer)[0] if answer else -signal.SIGKILL
            return self._exit_code

    def wait(self) -> None:
        """Wait for its end, and release its process id."""
        self.exit_code(is_patient=True)
        with suppress(OSError):
            self._connection.sendall(b"f")


class ForkServer:
    """A process that forks trials, until it is closed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                _python_command(f"subprocess_main.serve({theirs.fileno()})"),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, output: IO[bytes]) -> ForkedProcess:
        """Fork a process for one trial, which prints to the file.

        Raises:
            OSError: If the server has ended.
        """
        stdin, ours_in = os.pipe()
        ours_out, stdout = os.pipe()
        try:
            socket.send_fds(self._ours, [b"f"], [stdin, stdout, output.fileno()])
            answer = self._ours.recv(NUMBER.size)
            if not answer:
                raise ConnectionResetError("the fork server has ended")
        except BaseException:
            self.close()  # this also ends a child that was forked: its input closes
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        return ForkedProcess(NUMBER.unpack(answer)[0], ours_in, ours_out, self._ours)

    def close(self) -> None:
        """End the server."""
        self._ours.close()
        self._process.kill()
        self._process.wait()


class ForkServers:
    """Fork servers by the environment of their trials, started when needed, until closed.

    Several threads may use one object.
    """

    def __init__(self) -> None:
        self._all: list[ForkServer] = []
        self._idle: dict[frozenset[tuple[str, str]], list[ForkServer]] = {}

    @contextmanager
    def one_with(self, environment: Mapping[str, str]) -> Iterator[ForkServer]:
        """Yield a server for exclusive use in the block."""
        idle = self._idle.setdefault(frozenset(environment.items()), [])
        try:
            server = idle.pop()
        except IndexError:
            server = ForkServer(environment)
            self._all.append(server)
        yield server
        idle.append(server)  # not after an error, which may have left a trial running

    def close(self) -> None:
        """End all of them."""
        for server in self._all:
            server.close()
