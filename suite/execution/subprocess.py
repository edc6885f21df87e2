"""Runs a trial in a process of its own, without Ray.

Every timing gets a new process: where a process's memory lies changes its numbers, and so does what
an earlier trial left in caches. So does every trial with code of the user's. The program that runs
now is not imported again, and nothing is unpickled; `suite.execution.subprocess_main` is the other
side.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import IO, Any

from pydantic import ValidationError

from suite import stopping
from suite.events import (
    Checkpoints,
    Event,
    Finished,
    PlannedCode,
    RunAgainEagerly,
    eagerly_remark,
    runs_own_code,
)
from suite.execution.output import appended_only, end_of, with_output
from suite.execution.process_template import (
    ForkedProcess,
    ProcessEnd,
    ProcessTemplate,
    python_command,
)
from suite.execution.subprocess_main import EVENT, REQUEST, TrialRequest
from suite.provenance import COMMIT, commit, provenance
from suite.schema import Resources, Result, Status, Trial
from suite.timeouts import SECONDS_OF_GRACE, timeout_reason

_Process = subprocess.Popen[bytes] | ForkedProcess
_BYTES_PER_READ = 65_536
_POLL_SECONDS = 0.2
_SECONDS_TO_END = 5.0  # after its last output


def run_in_subprocess(
    trial: Trial,
    resources: Resources,
    trial_seconds: float | None = None,
    checkpoints: Checkpoints | None = None,
    template: ProcessTemplate | None = None,
    *,
    code: PlannedCode | None = None,
    is_stopped: threading.Event | None = None,
) -> Iterator[Event]:
    """Run one trial in a process of its own; however the process ends, a result comes last.

    If a GPU cannot capture the trial's steps, it begins again in a second process, which runs them
    eagerly and has as long.

    The process and all that it has started are killed when this ends or is closed, and
    `SECONDS_OF_GRACE` after `trial_seconds` if the trial has not ended itself. With a template it
    is forked and not started: no timing is, since its memory would lie as another's did. With
    `code` it imports the user's modules from there. Soon after `is_stopped` is set, by another
    thread, this ends without a result. A training saves first.
    """
    asked: dict[str, Any] = {
        "trial_seconds": trial_seconds,
        "checkpoints": checkpoints,
        "code": code if runs_own_code(trial) else None,
    }
    request = TrialRequest(trial=trial, resources=resources, **asked)
    is_stopped = is_stopped or threading.Event()
    with closing(_run_once(request, template, is_stopped)) as events:
        for event in events:
            if isinstance(event, RunAgainEagerly):
                break
            yield event
        else:
            return
    yield eagerly_remark(event)
    yield from _run_once(replace(request, why_eager=event.why), template, is_stopped)


def _run_once(
    request: TrialRequest, template: ProcessTemplate | None, is_stopped: threading.Event
) -> Generator[Event]:
    """Run the trial in one process; its result comes last, or `RunAgainEagerly`."""
    trial, resources, trial_seconds = request.trial, request.resources, request.trial_seconds
    with (
        _output_file() as errors,
        _process(resources, errors, template) as process,
        _killed_after(trial_seconds, process) as is_late,
    ):
        _ask(process, request)
        try:
            for line in _lines(process, is_stopped):
                try:
                    event = EVENT.validate_json(line)
                except ValidationError:  # such as a line that was cut short
                    break
                yield with_output(event, errors.fileno())
                if isinstance(event, Finished | RunAgainEagerly):
                    return
        except BaseException:  # Ctrl-C, the time limit of the sweep, or this is closed
            _let_it_save(process, trial, request.checkpoints)
            raise
        if is_stopped.is_set():
            return _let_it_save(process, trial, request.checkpoints)
        reason = timeout_reason(trial_seconds) if trial_seconds and is_late.is_set() else ""
        status = Status.TIMEOUT if reason else Status.CRASHED
        reason, said = reason or _how_it_ended(process), end_of(errors.fileno())
        yield Finished(
            Result(
                trial_id=trial.trial_id,
                status=status,
                reason=reason,
                output=said,
                provenance=provenance(resources),
                seconds=0.0,
            )
        )


def _let_it_save(process: _Process, trial: Trial, checkpoints: Checkpoints | None) -> None:
    """Ask a training that ends before its result for a checkpoint, and wait some seconds for it."""
    if checkpoints is None:  # of a timing
        return
    assert process.stdout is not None, "it is a pipe"
    stopping.ask(checkpoints.folder)
    running = [trial.trial_id]
    for _ in stopping.moments_to_wait(
        checkpoints.folder, lambda: [] if _end_of(process) else running
    ):
        if not select.select([process.stdout], [], [], _POLL_SECONDS)[0]:
            continue
        if not os.read(process.stdout.fileno(), _BYTES_PER_READ):  # its end follows
            time.sleep(0.01)


def _ask(process: _Process, request: TrialRequest) -> None:
    assert process.stdin is not None, "it is a pipe"
    with suppress(BrokenPipeError):  # it died at once; the reason is found later
        process.stdin.write(REQUEST.dump_json(request) + b"\n")
        process.stdin.flush()


@contextmanager
def _output_file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        appended_only(file.fileno())
        yield file


def _lines(process: _Process, is_stopped: threading.Event) -> Iterator[bytes]:
    """What the process writes, until it ends: a process that it forked may hold the pipe open."""
    assert process.stdout is not None, "it is a pipe"
    rest = b""
    for output in _chunks(process, process.stdout.fileno(), is_stopped):
        *lines, rest = (rest + output).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _chunks(process: _Process, pipe: int, is_stopped: threading.Event) -> Iterator[bytes]:
    """What is in the pipe, until it is closed, or is empty although the process had ended."""
    has_ended = False
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not is_stopped.is_set():
            if selector.select(_POLL_SECONDS):
                output = os.read(pipe, _BYTES_PER_READ)
                if not output:
                    return
                yield output
            elif has_ended:
                return
            has_ended = _end_of(process) is not None


@contextmanager
def _process(
    resources: Resources, errors: IO[bytes], template: ProcessTemplate | None
) -> Iterator[_Process]:
    """Started here and killed with the block; in a session of its own, which Ctrl-C spares."""
    process = _started(resources, errors, template)
    try:
        yield process
    finally:
        _kill_group(process)  # safe: its number is its own until it is waited for
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None, "both are pipes"
                pipe.close()


def _started(resources: Resources, errors: IO[bytes], template: ProcessTemplate | None) -> _Process:
    if template is not None:
        with suppress(OSError):  # it has gone
            return template.fork(errors)
    return subprocess.Popen(
        python_command("subprocess_main.main()"),
        env=environment_of(resources),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )


def _kill_group(process: _Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _killed_after(trial_seconds: float | None, process: _Process) -> Iterator[threading.Event]:
    """Watch the time from a thread, since the consumer of the events may be busy for long.

    The event is set once the process was killed for being late.
    """
    is_late, is_over = threading.Event(), threading.Event()
    if trial_seconds is None:
        yield is_late
        return

    def watch() -> None:
        if not is_over.wait(trial_seconds + SECONDS_OF_GRACE):
            if _end_of(process) is None:
                is_late.set()
            _kill_group(process)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield is_late
    finally:
        is_over.set()
        watcher.join()  # before the process's number may become another's


def environment_of(resources: Resources) -> dict[str, str]:
    """Threads must be set before torch is imported; a GPU is visible only where one is asked."""
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
    while not (end := _end_of(process)):
        if time.monotonic() > until:
            return "its process says nothing more that can be understood"
        time.sleep(0.01)
    if end.si_code == os.CLD_EXITED:
        return f"its process ended with exit code {end.si_status} before it left a result"
    name = signal.strsignal(end.si_status)
    return f"its process was ended by signal {end.si_status} ({name})"


def _end_of(process: _Process) -> os.waitid_result | ProcessEnd | None:
    """How it ended; None while it runs. It stays a zombie, so that its number is not reused."""
    if isinstance(process, ForkedProcess):
        return process.end()
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
