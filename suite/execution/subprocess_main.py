"""Run one trial in the process that was started for it, and write its events as JSON.

The trial is read from standard input, as one line; its events are written to standard output, one
line each. The trial's own output goes to standard error. The input stays open as long as the parent
process lives: when it closes, this process exits at once. `serve` is the main loop of a fork
server.
"""

from __future__ import annotations

import faulthandler
import io
import os
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from pydantic import TypeAdapter

from bakeoff.suite.events import Checkpoints, Event, PlannedCode
from bakeoff.suite.execution.fork_server import NUMBER, exit_code
from bakeoff.suite.execution.output import cut_when_long
from bakeoff.suite.schema import Resources, Trial
from bakeoff.suite.stopping import TrainingStopped


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """A trial to run, and the settings of its run.

    Attributes:
        trial: The trial.
        resources: The resources that it may use.
        trial_seconds: Its time limit, or None for no limit.
        checkpoints: The place where it saves its state, or None if it saves none.
        code: The user's code that it runs.
        why_eager: The reason to run eagerly, see `bakeoff.suite.execution.trial.run_trial`;
            usually empty.
    """

    trial: Trial
    resources: Resources
    trial_seconds: float | None = None
    checkpoints: Checkpoints | None = None
    code: PlannedCode | None = None
    why_eager: str = ""


REQUEST = TypeAdapter(TrialRequest)
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def main() -> None:
    """Run the one trial, and exit."""
    faulthandler.enable()  # prints the stack of a segmentation fault
    out = _take_standard_output()
    request = REQUEST.validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_the_input, daemon=True).start()
    threading.Thread(target=cut_when_long, args=(2, threading.Event()), daemon=True).start()
    # Imported late, so that the end of the parent during these slow imports also ends this process.
    from bakeoff.suite.execution.planned_code import import_only
    from bakeoff.suite.execution.trial import run_trial
    from bakeoff.suite.timeouts import limited
    from bakeoff.suite.training.checkpoint import checkpointer_for

    import_only(request.code)
    where = request.checkpoints
    kept = checkpointer_for(request.trial, where) if where else None
    place = f"process {os.getpid()}"
    events = run_trial(request.trial, request.resources, place, kept, why_eager=request.why_eager)
    with suppress(TrainingStopped):  # its state is saved; the parent process waits for the end
        for event in limited(events, request.trial_seconds):
            out.write(EVENT.dump_json(event) + b"\n")
            out.flush()
    sys.stderr.flush()
    os._exit(0)  # at once: a user's threads, or a library's exit handlers, may never end


def serve(connection_number: int) -> None:
    """Fork a process for each request; end with the connection."""
    import torch._dynamo  # noqa: F401 - imported once, here, since it takes long

    import bakeoff.suite.execution.trial
    import bakeoff.suite.probes.quality  # noqa: F401

    connection = socket.socket(fileno=connection_number)
    while files := socket.recv_fds(connection, 1, 3)[1]:
        pid = os.fork()
        if not pid:
            connection.close()
            os.setsid()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            main()
        for file in files:
            os.close(file)
        connection.sendall(NUMBER.pack(pid))
        connection.sendall(NUMBER.pack(exit_code(pid)))
        connection.recv(1)  # until then it stays a zombie, so that its process id is not reused
        os.waitpid(pid, 0)
    os._exit(0)


def _take_standard_output() -> BinaryIO:
    """Return the stream for events, and redirect other output to standard error."""
    ours = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # keeps the last lines of a process that dies
    return ours


def _exit_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
