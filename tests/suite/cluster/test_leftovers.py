"""What has left its parent, its group and its session is ended all the same."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from suite.cluster.leftovers import ended_with_the_block

# It starts a process in a session of its own, says its number, and is gone.
PARENT = """
import subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid)
"""


def left_behind() -> psutil.Process:
    said = subprocess.check_output([sys.executable, "-c", PARENT], text=True)
    return psutil.Process(int(said))


def test_whatever_was_started_in_the_block_ends_with_it_and_nothing_else() -> None:
    earlier = left_behind()
    with ended_with_the_block():
        child = left_behind()
        assert child.is_running()
    assert "BAKEOFF_RAY" not in os.environ
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert earlier.is_running()
    earlier.kill()
