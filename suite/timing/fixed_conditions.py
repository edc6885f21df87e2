"""Control sources of disturbance in this process, and restore them afterwards.

They are the garbage collector, which would run during an arbitrary pass, the CPUs, and the handling
of freed memory. A thread inherits the CPUs of the one that starts it, so in a fresh process torch's
threads stay on them too; threads that torch has started earlier keep their CPUs.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage now, and disable the collector within the block."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# Parameters of mallopt(3): the values while measuring, and the defaults.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 * 2**20}
_DEFAULTS = {_MMAP_MAX: 65_536, _TRIM_THRESHOLD: 128 * 2**10, _TOP_PAD: 128 * 2**10}


@contextmanager
def memory_kept() -> Iterator[None]:
    """Keep freed memory in the process, as jemalloc does.

    By default glibc returns blocks of some sizes to the system at each free, by a threshold that
    moves as a program runs; the pages of the next such block then fault one by one. This made a
    dilated convolution of 4,096 tokens take half as long again in some processes and not in others.
    Nothing happens if the C library has no mallopt.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        yield
        return
    for option, value in _KEPT.items():
        set_option(option, value)
    try:
        yield
    finally:
        for option, value in _DEFAULTS.items():
            set_option(option, value)


@contextmanager
def few_cpus(number: int) -> Iterator[None]:
    """Run on the last `number` of the allowed CPUs, since the first ones serve interrupts.

    Nothing happens if the system cannot bind CPUs; if fewer are allowed, all of them are used.
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
        for thread in _threads() - threads:  # they inherited the reduced set
            with suppress(ProcessLookupError):  # raised if the thread has ended
                os.sched_setaffinity(thread, allowed)


def _threads() -> set[int]:
    """Return the kernel's ids of this process's threads; empty if the system does not list them."""
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}
    except FileNotFoundError:
        return set()
