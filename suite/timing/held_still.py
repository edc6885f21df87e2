"""What of this process is fixed while it measures, and put back afterwards?

The garbage collector, which would run in whichever pass is unlucky; and the CPUs. A thread
inherits the CPUs of the one that starts it, so in a fresh process torch's threads stay on them
too; threads that torch has started earlier keep those that they had.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """What is there now is collected first."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def few_cpus(number: int) -> Iterator[None]:
    """The last so many of those allowed, since the first ones serve interrupts.

    Where the system fixes no CPUs, or there are not so many, nothing happens.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed, threads = os.sched_getaffinity(0), _threads()
    os.sched_setaffinity(0, sorted(allowed)[-number:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for thread in _threads() - threads:  # they inherited the few
            _give(thread, allowed)


def _threads() -> set[int]:
    """Of this process, by the kernel's numbers; none where the system does not list them."""
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}
    except FileNotFoundError:
        return set()


def _give(thread: int, cpus: set[int]) -> None:
    try:
        os.sched_setaffinity(thread, cpus)
    except ProcessLookupError:  # it has ended
        return
