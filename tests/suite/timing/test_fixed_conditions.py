"""Check that settings that are fixed while measuring are always restored afterwards."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading

import pytest

from bakeoff.suite.timing.fixed_conditions import few_cpus, memory_kept, no_garbage_collection

pytestmark = pytest.mark.whole

linux = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system fixes no CPUs")


def test_the_garbage_collector_rests_and_comes_back() -> None:
    assert gc.isenabled()
    with no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), no_garbage_collection():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@linux
def test_a_thread_keeps_as_many_cpus_as_told_and_gets_the_others_back() -> None:
    before = os.sched_getaffinity(0)
    with few_cpus(1):
        assert os.sched_getaffinity(0) == {max(before)}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ZeroDivisionError), few_cpus(1):
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == before


@linux
def test_more_cpus_than_there_are_is_all_of_them() -> None:
    before = os.sched_getaffinity(0)
    with few_cpus(len(before) + 5):
        assert os.sched_getaffinity(0) == before


@linux
def test_threads_that_inherited_few_cpus_get_all_of_them_back() -> None:
    before, go_on = os.sched_getaffinity(0), threading.Event()
    seen: list[set[int]] = []

    def work() -> None:
        seen.append(os.sched_getaffinity(0))
        go_on.wait(10)
        seen.append(os.sched_getaffinity(0))

    with few_cpus(1):
        thread = threading.Thread(target=work)
        thread.start()
        while not seen:
            pass
    go_on.set()
    thread.join()
    assert seen == [{max(before)}, before]


FAULTS = """
import resource, torch
from contextlib import nullcontext
from bakeoff.suite.timing.fixed_conditions import memory_kept

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for context in (nullcontext(), memory_kept()):
    with context:
        for _ in range(20):
            torch.ones(16 * 2**20)
        before = faults()
        for _ in range(5):
            torch.ones(16 * 2**20)
        print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_freed_memory_stays_so_that_no_page_faults_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True
    )
    usual, kept = map(int, done.stdout.split())
    assert kept < 100 < 1000 < usual


def test_memory_is_let_go_again_afterwards() -> None:
    with pytest.raises(ZeroDivisionError), memory_kept():
        _ = 1 / 0
