"""Run a trial in a process of its own, without Ray.

Every timing gets a new process, because its numbers depend on memory addresses, and on what an
earlier trial left in caches. Every trial with user code gets a fork of its own. The running program
is not imported again, and nothing is unpickled. The other process executes `subprocess_main`.
"""

from __future__ import annotations

import os
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import IO, Any

from pydantic import ValidationError

from bakeoff.suite import stopping
from bakeoff.suite.events import (
    Checkpoints,
    Event,
    Finished,
    PlannedCode,
    RunAgainEagerly,
    code_for,
    eagerly_remark,
)
from bakeoff.suite.execution.fork_server import ForkedProcess, ForkServer, FreshProcess
from bakeoff.suite.execution.output import appended_only, end_of, with_output
from bakeoff.suite.execution.subprocess_main import EVENT, REQUEST, TrialRequest
from bakeoff.suite.provenance import COMMIT, commit, provenance
from bakeoff.suite.schema import Resources, Result, Status, Trial
from bakeoff.suite.timeouts import SECONDS_OF_GRACE, timeout_reason

_Process = FreshProcess | ForkedProcess
_BYTES_PER_READ = 65_536
_POLL_SECONDS = 0.2
_SECONDS_TO_END = 5.0  # after its last output


def run_in_subprocess(
    trial: Trial,
    resources: Resources,
    trial_seconds: float | None = None,
    checkpoints: Checkpoints | None = None,
    server: ForkServer | None = None,
    *,
    code: PlannedCode | None = None,
    is_stopped: threading.Event | None = None,
) -> Iterator[Event]:
    """Run one trial in a process of its own, and yield its events, the last of them a result.

    The process and all its children are killed when the generator ends or is closed, and
    `SECONDS_OF_GRACE` after `trial_seconds` if the trial has not ended by then. If a GPU cannot
    capture the trial's steps, the trial is started again in a second process, which runs them
    eagerly with the same time limit.

    Args:
        trial: The trial.
        resources: The resources that it may use.
        trial_seconds: Its time limit, or None for no limit.
        checkpoints: The place where a training saves its state, or None for a timing.
        server: The server that forks the process; by default a new Python process is started. A
            timing must not be forked, because all forks have the same memory layout.
        code: The user's modules as they were planned, for a trial that imports them.
        is_stopped: If another thread sets it, the generator soon ends without a result.
    """
    asked: dict[str, Any] = {
        "trial_seconds": trial_seconds,
        "checkpoints": checkpoints,
        "code": code_for(trial, code),
    }
    request = TrialRequest(trial=trial, resources=resources, **asked)
    is_stopped = is_stopped or threading.Event()
    with closing(_run_once(request, server, is_stopped)) as events:
        for event in events:
            if isinstance(event, RunAgainEagerly):
                break
            yield event
        else:
            return
    yield eagerly_remark(event)
    yield from _run_once(replace(request, why_eager=event.why), server, is_stopped)


def _run_once(
    request: TrialRequest, server: ForkServer | None, is_stopped: threading.Event
) -> Generator[Event]:
    """Run the trial in one process; its result comes last, or `RunAgainEagerly`."""
    trial, resources, trial_seconds = request.trial, request.resources, request.trial_seconds
    with (
        tempfile.TemporaryFile() as output,
        _process(resources, output, server) as process,
        _killed_after(trial_seconds, process) as is_late,
    ):
        _ask(process, request)
        try:
            for line in _lines(process, is_stopped):
                try:
                    event = EVENT.validate_json(line)
                except ValidationError:  # for example a line that was truncated
                    break
                yield with_output(event, output.fileno())
                if isinstance(event, Finished | RunAgainEagerly):
                    return
        except BaseException:  # Ctrl-C, the time limit of the sweep, or the generator is closed
            _let_it_save(process, trial, request.checkpoints)
            raise
        if is_stopped.is_set():
            return _let_it_save(process, trial, request.checkpoints)
        reason = timeout_reason(trial_seconds) if trial_seconds and is_late.is_set() else ""
        status = Status.TIMEOUT if reason else Status.CRASHED
        reason, printed = reason or _how_it_ended(process), end_of(output.fileno())
        yield Finished(
            Result(
                trial_id=trial.trial_id,
                status=status,
                reason=reason,
                output=printed,
                provenance=provenance(resources),
                seconds=0.0,
            )
        )


def _let_it_save(process: _Process, trial: Trial, checkpoints: Checkpoints | None) -> None:
    """Ask a training that ends before its result for a checkpoint, and wait some seconds for it."""
    if checkpoints is None:
        return
    stopping.ask(checkpoints.folder)
    running, pipe = [trial.trial_id], process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        for _ in stopping.moments_to_wait(
            checkpoints.folder, lambda: running if process.exit_code() is None else []
        ):
            # At the end of its output, the process is about to end.
            if selector.select(_POLL_SECONDS) and not os.read(pipe, _BYTES_PER_READ):
                time.sleep(0.01)


def _ask(process: _Process, request: TrialRequest) -> None:
    with suppress(BrokenPipeError):  # the process has ended; the reason is determined later
        process.stdin.write(REQUEST.dump_json(request) + b"\n")
        process.stdin.flush()


def _lines(process: _Process, is_stopped: threading.Event) -> Iterator[bytes]:
    """Yield the lines that the process writes, until it ends or `is_stopped` is set.

    A forked child of the process may hold the pipe open, so this does not wait for the end of the
    pipe.
    """
    rest, pipe, has_ended = b"", process.stdout.fileno(), False
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not is_stopped.is_set():
            if selector.select(_POLL_SECONDS):
                chunk = os.read(pipe, _BYTES_PER_READ)
                if not chunk:
                    break
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
            elif has_ended:
                break
            has_ended = process.exit_code() is not None
    if rest:
        yield rest


@contextmanager
def _process(
    resources: Resources, output: IO[bytes], server: ForkServer | None
) -> Iterator[_Process]:
    """Start a process in a session of its own, unaffected by Ctrl-C; kill it after the block."""
    appended_only(output.fileno())
    process = _started(resources, output, server)
    try:
        yield process
    finally:
        _kill_group(process)  # safe: the process id is not reused before wait()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def _started(resources: Resources, output: IO[bytes], server: ForkServer | None) -> _Process:
    if server is not None:
        with suppress(OSError):  # the server has ended
            return server.fork(output)
    return FreshProcess(environment_of(resources), output)


def _kill_group(process: _Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _killed_after(trial_seconds: float | None, process: _Process) -> Iterator[threading.Event]:
    """Kill the process after the time limit, from a thread, since the event consumer may be busy.

    The event is set once the process was killed at the time limit.
    """
    is_late = threading.Event()
    if trial_seconds is None:
        yield is_late
        return

    def kill() -> None:
        if process.exit_code() is None:
            is_late.set()
        _kill_group(process)

    timer = threading.Timer(trial_seconds + SECONDS_OF_GRACE, kill)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        timer.join()  # before the process id may be reused


def environment_of(resources: Resources) -> dict[str, str]:
    """Return the environment of a process that may use these resources.

    The number of threads must be set before torch is imported. GPUs are hidden from a trial that
    requests none.
    """
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(resources.num_threads),
        COMMIT: commit(),
    }
    if not resources.num_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def _how_it_ended(process: _Process) -> str:
    until = time.monotonic() + _SECONDS_TO_END
    while (code := process.exit_code()) is None:
        if time.monotonic() > until:
            return "its process sent a message that cannot be read"
        time.sleep(0.01)
    if code >= 0:
        return f"its process ended with exit code {code} before it left a result"
    return f"its process was ended by signal {-code} ({signal.strsignal(-code)})"
