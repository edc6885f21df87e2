"""Runs commands of bakeoff under faults, quickly and often.

Forked from this process, which has imported what the command needs: that saves four seconds of
imports each time. A fork of a process with threads would inherit their locks, so this one must have
none: torch computes with one thread, and no Ray is imported here.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tools.chaos.faults import Fault, install
from tools.chaos.figures import Figures

ROOT = Path(__file__).parents[2]
SWEEPS = Path(__file__).parent / "sweeps"
KILLED = -int(signal.SIGKILL)
TIMED_OUT = 124
_QUIET = {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
_NEEDED = (
    "suite.cli",
    "suite.commands.run",
    "suite.probes.quality",
    "suite.reporting.build",
    "suite.sweep.verify",
    "suite.tasks.registry",
)
_FORK = multiprocessing.get_context("fork")
_NUM_PROCESSES = 3  # one of them mostly waits for the disk
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code; of a signal, minus its number.
        output: Standard output and standard error together.
        seconds: How long it took.
    """

    code: int
    output: str
    seconds: float

    def failure(self, name: str) -> list[str]:
        """A sentence with the exit code and the last line of output; nothing after success."""
        last_line = (self.output.strip().splitlines() or [""])[-1]
        return [f"{name}: exit code {self.code}: {last_line}"] if self.code else []


def warm_up() -> None:
    """Import what every command needs; once, before the first fork."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import torch

    torch.set_num_threads(1)
    for module in _NEEDED:
        importlib.import_module(module)
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
        "run",
        str(sweep),
        "--executor",
        "inline",
        "--checkpoint-every",
        "0.001",
        "--out",
        str(out),
        *more,
    ]


def bakeoff(
    *arguments: str,
    log: Path,
    faults: Sequence[Fault] = (),
    before: Callable[[], None] = lambda: None,
    limit_seconds: float = 120.0,
) -> Ended:
    """Run `bakeoff ARGUMENTS` in a child to its end; past the limit it is killed.

    Args:
        arguments: Of the command line, without the name of the program.
        log: Its output goes there.
        faults: Installed in the child alone.
        before: Called in the child, first.
        limit_seconds: How long it may take.
    """
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    child = _FORK.Process(target=_run_child, args=(arguments, log, faults, before))
    child.start()
    child.join(limit_seconds)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode is not None, "it was waited for"
    return Ended(child.exitcode, log.read_text("utf-8"), time.monotonic() - began)


def _run_child(
    arguments: Sequence[str], log: Path, faults: Sequence[Fault], before: Callable[[], None]
) -> None:
    """Never returns, so that no clean-up of the parent runs in the child."""
    code = 70
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        before()
        install(faults)
        code = _exit_code_of(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _exit_code_of(arguments: Sequence[str]) -> int:
    from suite.cli import main

    sys.argv = ["bakeoff", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


def forks(num_processes: int = _NUM_PROCESSES) -> ProcessPoolExecutor:
    """Forked processes that run functions side by side."""
    return ProcessPoolExecutor(num_processes, mp_context=_FORK)


def prove_each(items: Sequence[_Item], prove_one: Callable[[_Item], Figures]) -> Figures:
    """The figures of all items, added up; an item whose check fails is a problem."""
    figures = Figures()
    with forks() as pool:
        futures = [pool.submit(prove_one, item) for item in items]
        for item, future in zip(items, futures, strict=True):
            if error := future.exception():
                traceback.print_exception(error)
                figures += Figures(problems=(f"{item}: the check itself failed: {error!r}",))
            else:
                figures += future.result()
    return figures


def start(
    *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `bakeoff ARGUMENTS` as a user does, in a session of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "suite.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, **_QUIET, **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def verify(out: Path, *options: str, log: Path) -> list[str]:
    """Run `bakeoff verify`; returns a sentence if that does not end with 0."""
    code = start("verify", "--out", str(out), *options, log=log).wait()
    return [f"verify: exit code {code}: {log.read_text()[-300:]}"] if code else []


def wait(process: subprocess.Popen[bytes], limit_seconds: float) -> int:
    """The exit code; past the limit the process group is killed and the code is `TIMED_OUT`."""
    try:
        return process.wait(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TIMED_OUT


def wait_until(
    is_so: Callable[[], bool], what: str, limit_seconds: float, seconds_between: float = 0.1
) -> float:
    """Look again and again until it is so; returns how many seconds that took.

    Raises:
        TimeoutError: it was not so within the limit.
    """
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > limit_seconds:
            raise TimeoutError(f"{what}: not within {limit_seconds:.0f} s")
        time.sleep(seconds_between)
    return time.monotonic() - began
