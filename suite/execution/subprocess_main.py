"""Runs one trial in the process that was started for it, and writes its events as JSON.

The trial comes on standard input, as one line; its events leave on standard output, a line each.
What the trial itself prints goes to standard error. The input stays open as long as the parent
process lives: when it closes, this process exits, whatever it is doing.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from dataclasses import dataclass
from typing import BinaryIO

from pydantic import TypeAdapter

from suite.events import Event
from suite.schema import Resources, Trial


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """What to run, with what, and how long it may take."""

    trial: Trial
    resources: Resources
    trial_seconds: float | None = None


REQUEST = TypeAdapter(TrialRequest)
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def main() -> None:
    """Run the one trial, and exit."""
    faulthandler.enable()  # prints where a segmentation fault happened
    out = _take_standard_output()
    request = REQUEST.validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_the_input, daemon=True).start()
    # Only now, so that a parent that dies during these slow imports ends this process too.
    from suite.execution.trial import run_trial
    from suite.timeouts import limited

    events = run_trial(request.trial, request.resources, f"process {os.getpid()}")
    for event in limited(events, request.trial_seconds):
        out.write(EVENT.dump_json(event) + b"\n")
        out.flush()
    sys.stderr.flush()
    os._exit(0)  # at once: a user's threads, or a library's exit handlers, may never end


def _take_standard_output() -> BinaryIO:
    """Where events go; whatever else is printed, by C code too, joins the errors."""
    ours = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return ours


def _exit_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
