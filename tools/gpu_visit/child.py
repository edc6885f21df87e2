"""Measures the items of one part in a process of its own, and reports each result to the runner.

A CUDA error may make a process useless, and a kernel may never end: the runner kills this process
at its bound, or starts another one, and the other parts are not affected.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bakeoff.suite.errors import CaptureFailed
from tools.gpu_visit.results import Finding, Visit

FRESH = 17  # exit code: the process may be damaged, and items are left


def main() -> None:
    """Measure what is not done yet; the command line is the part, the visit and the done items."""
    part, text = sys.argv[1:]
    given = json.loads(text)
    done = frozenset(given.pop("done"))
    visit = Visit(**{**given, "out": Path(given["out"]), "ablations": tuple(given["ablations"])})
    to_runner = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print

    def say(**message: Any) -> None:
        print(json.dumps(message), file=to_runner, flush=True)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `finally` blocks run
    items = list(importlib.import_module(part).items(visit))
    num_items = len(items)  # in each message, since an interruption may lose the first
    say(num_items=num_items)
    for name, measure in items:
        if name in done:
            continue
        say(num_items=num_items, begins=name)
        try:
            found = measure()
        except (Exception, CaptureFailed) as error:
            traceback.print_exc()
            text = f"{type(error).__name__}: {str(error) or 'no message'}"
            found = Finding(text=text, status="error", needs_fresh=True)
        say(num_items=num_items, name=name, found=asdict(found))
        if found.needs_fresh and not visit.is_dry:
            sys.stdout.flush()
            os._exit(FRESH)  # without the clean-up of a CUDA context that may hang


if __name__ == "__main__":
    main()
