"""Turn the signals that end a program into one interruption that tells where a sweep continues.

This module also creates and removes the folder of its checkpoints.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from bakeoff.suite import stopping
from bakeoff.suite.errors import INTERRUPTED
from bakeoff.suite.events import Checkpoints
from bakeoff.suite.journal.plans import labels_of
from bakeoff.suite.schema import Plan
from bakeoff.suite.stopping import SECONDS_TO_SAVE, at_next_step
from bakeoff.suite.sweep.folder_lock import FolderUnavailable
from bakeoff.suite.text import some_of
from bakeoff.suite.timeouts import alarm
from bakeoff.suite.training.checkpoint import remove, saved_step

# Sent by a person or a batch system; by a closed terminal; by a batch system before its limit.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_REPEATED = (signal.SIGINT, signal.SIGTERM)  # the others may be sent twice automatically
_SECONDS_BETWEEN_LOOKS = 0.1
_MOST_NAMED = 3


class Interrupted(KeyboardInterrupt):
    """Raised after a sweep was interrupted and has closed its resources; one sentence."""


@contextmanager
def signals_interrupt(
    on_first: Callable[[], object] = lambda: None, on_second: Callable[[], object] | None = None
) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 raise one KeyboardInterrupt in the block.

    A training of this process first finishes its step and saves its state, within some seconds. A
    second Ctrl-C or SIGTERM does not wait for that. A signal that is ignored when the block begins,
    as under nohup, or that has a user's handler, is not changed. Outside the main thread no signal
    arrives.

    Args:
        on_first: Called at the first signal; may write to the terminal.
        on_second: Called at the second one, after which the program ends; its child processes end
            by themselves. Without it KeyboardInterrupt is raised, for a caller that continues.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    taken = [number for number in _SIGNALS if before[number] in defaults]
    with ExitStack() as ending:
        handler = _Handler(on_first, on_second, ending)
        for number in taken:
            signal.signal(number, handler.interrupt)
        try:
            yield
        # This is raised by Ray's handler of SIGTERM (ray/_private/worker.py, 2.60).
        except SystemExit as end:
            if end.code != signal.SIGTERM:
                raise
            raise KeyboardInterrupt from None
        finally:
            for number in taken:
                signal.signal(number, before[number])


@dataclass
class _Handler:
    """The handler of all signals, which raises once."""

    on_first: Callable[[], object]
    on_second: Callable[[], object] | None
    ending: ExitStack
    num_repeated: int = 0
    until: float = 0.0
    has_raised: bool = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Begin to stop; at the second Ctrl-C or SIGTERM end at once."""
        self.num_repeated += number in _REPEATED
        if self.num_repeated > 1:
            if self.on_second is None:
                self._stop()
            with suppress(OSError):
                self.on_second()
            os._exit(INTERRUPTED)
        if self.until:
            return
        self.until = time.monotonic() + SECONDS_TO_SAVE
        with suppress(OSError):  # the terminal may be closed
            self.on_first()
        seconds = _SECONDS_BETWEEN_LOOKS
        self.ending.enter_context(alarm(seconds, self._look, seconds))
        self._look(frame)

    def _look(self, frame: FrameType | None) -> None:
        """Stop the program, unless a training can still respond, which may have ended by now."""
        is_late = time.monotonic() > self.until
        if not self.has_raised and (is_late or not at_next_step(self._stop)):
            self._stop()

    def _stop(self) -> NoReturn:
        self.has_raised = True
        raise KeyboardInterrupt


def where_it_continues(
    plans: Sequence[Plan], running: Iterable[str], checkpoints: Checkpoints
) -> str:
    """Return a clause: from which step the trials continue that were running at the end."""
    labels = {key: label for plan in plans for key, label in labels_of(plan).items()}
    named = []
    for trial_id in running:
        step = saved_step(checkpoints, trial_id)
        where = f"from step {step:,}" if step else "from its start"
        named.append(f"{labels.get(trial_id, trial_id)} {where}")
    said = "the same command continues from here"
    return f"{said}: {some_of(named, _MOST_NAMED)}" if named else said


@contextmanager
def checkpoint_folder(checkpoints: Checkpoints, done: Collection[str]) -> Iterator[None]:
    """Create the folder of checkpoints for the block; remove it after the block if empty.

    A driver that was killed may have left checkpoints of trials that are done; they are removed.

    Raises:
        FolderUnavailable: If it can be neither created nor read.
    """
    folder = checkpoints.folder
    try:
        folder.mkdir(exist_ok=True)
        stopping.withdraw(folder)
        names = [left.name for left in folder.iterdir()]
    except OSError as error:
        why = (
            "a file with this name exists" if isinstance(error, FileExistsError) else error.strerror
        )
        raise FolderUnavailable(f"{folder}: no checkpoints can be kept here: {why}.") from error
    for name in names:
        if name in done:
            remove(checkpoints, name)
    try:
        yield
    finally:
        stopping.withdraw(folder)
        with suppress(OSError):
            folder.rmdir()
