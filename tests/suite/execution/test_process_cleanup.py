"""Test that a process outside its parent's group and session is ended too."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from bakeoff.suite.execution import process_cleanup as cleanup
from bakeoff.suite.execution.process_cleanup import process_cleanup

# It starts a process in a new session, prints its process id, and exits.
PARENT = """
import subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid)
"""


def left_behind() -> psutil.Process:
    said = subprocess.check_output([sys.executable, "-c", PARENT], text=True)
    return psutil.Process(int(said))


def assert_ended(process: psutil.Process) -> None:
    psutil.wait_procs([process], timeout=10)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_whatever_was_started_in_the_block_ends_with_it_and_nothing_else() -> None:
    earlier = left_behind()
    with process_cleanup():
        child = left_behind()
        assert child.is_running()
    assert "BAKEOFF_DRIVER" not in os.environ
    assert_ended(child)
    assert earlier.is_running()
    earlier.kill()


def test_what_a_killed_driver_has_left_is_ended_by_the_next() -> None:
    program = f"""
import os, signal, sys
from bakeoff.suite.execution.process_cleanup import process_cleanup
with process_cleanup():
    exec({PARENT!r})
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    left = psutil.Process(int(driver.communicate(timeout=60)[0]))
    assert left.is_running()
    with process_cleanup():
        assert_ended(left)


def test_a_live_driver_s_are_not_and_nor_are_those_of_another_namespace() -> None:
    namespace = os.readlink("/proc/self/ns/pid")
    with process_cleanup():
        of_ours = left_behind()
        with process_cleanup():  # a nested block of the same driver does not end the process
            assert of_ours.is_running()
    for driver in ("1-0-another", "nonsense", ""):
        assert cleanup._is_alive(driver)
    # The process with this id has another start time.
    assert not cleanup._is_alive(f"1-x-{namespace}")
