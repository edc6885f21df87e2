"""What does a process do that was started for one trial? It runs it, and says so in JSON.

The trial comes on standard input, as one line; its events leave on standard output, a line each.
What the trial itself prints goes to standard error. The input stays open as long as whoever
started the process lives: when it ends, so does the process, whatever it is doing.
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
class Order:
    """What is to be run, and with what; and how long it may take."""

    trial: Trial
    resources: Resources
    trial_seconds: float | None = None


ORDER = TypeAdapter(Order)
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def main() -> None:
    """Run the one trial, and end."""
    faulthandler.enable()  # where a segmentation fault happened is worth more than that it did
    out = _standard_output_to_ourselves()
    order = ORDER.validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    from suite.trial import run_trial
    from suite.trial_limit import limited

    events = run_trial(order.trial, order.resources, f"process {os.getpid()}")
    for event in limited(events, order.trial_seconds):
        out.write(EVENT.dump_json(event) + b"\n")
        out.flush()
    sys.stderr.flush()
    os._exit(0)  # at once: threads of the user's, or a library's last words, may take for ever


def _standard_output_to_ourselves() -> BinaryIO:
    """Where events go; whatever else is printed, by C code too, joins the errors."""
    ours = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return ours


def _end_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
