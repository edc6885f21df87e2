"""How is code of the user's run, so that it comes back and leaves this process as it was?

An ablation file and the module of a mixer are programs, executed here. What is guarded against is
a mistake, not malice: a program can do what its user can.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout

from suite.spec import SpecError
from suite.timeouts import import_time_limit


class LeftThread(SpecError):
    """Code of the user's has left a thread behind, for which this process would wait at its end."""


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Import code of the user's in the block, for a few seconds at most.

    What it prints goes to stderr, since programs read our output; a folder that it changes to is
    left again, since `--out` is meant from where the command was called.

    Args:
        what: Its name in a sentence, as ``the file``.

    Raises:
        SpecError: if it does not come back in time.
        LeftThread: if it leaves a thread that keeps a program alive.
    """
    before = threading.enumerate()
    with chdir("."), redirect_stdout(sys.stderr), import_time_limit(what):
        yield
    left = [each.name for each in threading.enumerate() if each not in before and not each.daemon]
    if left:
        raise LeftThread(
            f"{what} leaves the thread {left[0]!r} running, so that no command could end; start "
            "none, or a daemon."
        )
