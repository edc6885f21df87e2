"""Runs commands of bakeoff under faults, quickly and often.

Forked from this process, which has imported what the command needs: that saves four seconds of
imports each time. A fork of a process with threads would inherit their locks, so this one must have
none: torch computes with one thread, and no Ray is imported here.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.chaos.faults import Fault, install

ROOT = Path(__file__).parents[2]
KILLED = -int(signal.SIGKILL)
_QUIET = {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code; of a signal, minus its number.
        said: On standard output and standard error together.
        seconds: How long it took.
    """

    code: int
    said: str
    seconds: float

    @property
    def last_line(self) -> str:
        """The last of what it said."""
        lines = self.said.strip().splitlines()
        return lines[-1] if lines else ""


@dataclass(frozen=True)
class Forked:
    """A command that runs: its process, which leads a session of its own."""

    pid: int
    log: Path
    began: float

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)

    def is_over(self) -> bool:
        """Whether it has ended; it can still be waited for."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def wait(self, limit_seconds: float = 120.0) -> Ended:
        """Until it has ended; past the limit it is killed, which its code then says."""
        until = time.monotonic() + limit_seconds
        while not self.is_over():
            if time.monotonic() > until:
                self.send(signal.SIGKILL)
            time.sleep(0.005)
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.began
        return Ended(os.waitstatus_to_exitcode(status), self.log.read_text("utf-8"), seconds)


def warm_up() -> None:
    """Import what every command needs; once, before the first fork."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import torch

    torch.set_num_threads(1)
    from suite.tracking.connect import connect

    with suppress(Exception):  # there is no such store: it has imported mlflow by then
        connect("sqlite:////nowhere/at/all.db")
    importlib.import_module("mlflow.store.tracking.sqlalchemy_store")  # what opening one imports
    parameter = torch.nn.Parameter(torch.zeros(1))
    torch.optim.AdamW([parameter]).zero_grad()  # it imports for seconds when it is first used
    gc.freeze()  # no collection in a child touches, and so copies, what was made here


def inline(sweep: Path, out: Path, *more: str) -> list[str]:
    """The command that runs a sweep in its own process, with a checkpoint at every validation."""
    return [
        "run", str(sweep), "--executor", "inline", "--checkpoint-every", "0.001", "--out", str(out),
        *more,
    ]  # fmt: skip


def fork(
    arguments: Sequence[str],
    log: Path,
    *,
    faults: Sequence[Fault] = (),
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Forked:
    """Start `bakeoff ARGUMENTS` in a child.

    Args:
        arguments: Of the command line, without the name of the program.
        log: What it says goes there.
        faults: Installed in the child alone.
        environment: Added to that of this process.
        before: Called in the child, first.
    """
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        _child(arguments, log, faults, environment or {}, before)
    return Forked(pid, log, began)


def bakeoff(*arguments: str, log: Path, faults: Sequence[Fault] = ()) -> Ended:
    """Run `bakeoff ARGUMENTS` in a child, to its end."""
    return fork(arguments, log, faults=faults).wait()


def _child(
    arguments: Sequence[str],
    log: Path,
    faults: Sequence[Fault],
    environment: Mapping[str, str],
    before: Callable[[], None] | None,
) -> None:
    """Never returns, whatever happens: what stands above it on the stack is the parent's."""
    code = 70
    try:
        os.setsid()
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.environ.update(environment)
        if before is not None:
            before()
        install(faults)
        code = _called(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _called(arguments: Sequence[str]) -> int:
    from suite.cli import main

    sys.argv = ["bakeoff", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


def start(
    *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `bakeoff ARGUMENTS` as a user does, in a session of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "suite.cli", *arguments],
            cwd=ROOT, env={**os.environ, **_QUIET, **(environment or {})}, stdout=said,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
