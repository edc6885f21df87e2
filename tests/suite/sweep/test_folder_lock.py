"""Tests that an output folder has one driver, for as long as that is alive."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bakeoff.suite.sweep.folder_lock import FolderUnavailable, is_held, lock_folder

HOLD = """
import sys, time
from pathlib import Path
from bakeoff.suite.sweep.folder_lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

FORK = """
import os, sys, time
from pathlib import Path
from bakeoff.suite.sweep.folder_lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    if not os.fork():
        print(os.getpid(), flush=True)
        time.sleep(60)
    sys.stdin.readline()
"""
LEAVE = """
import os, sys
from pathlib import Path
from bakeoff.suite.sweep.folder_lock import lock_folder, is_held
out = Path(sys.argv[1])
parent = os.getpid()
try:
    with lock_folder(out):
        child = os.fork()
        if not child:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert is_held(out)
        assert (out / "driver.lock").read_text() == str(parent)
finally:
    assert os.getpid() != parent or not is_held(out)
"""


def test_a_second_driver_is_refused_with_the_firsts_pid_until_it_dies(tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE)
    with driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        assert is_held(out)
        with (
            pytest.raises(FolderUnavailable, match=f"locked by pid {driver.pid}"),
            lock_folder(out),
        ):
            pass
        driver.kill()
    assert not is_held(out)
    with lock_folder(out):
        assert is_held(out)


def test_it_is_let_go_of_however_the_block_ends(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        raise ZeroDivisionError
    assert not is_held(tmp_path)


def test_a_patient_driver_waits_for_the_end_of_the_first(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    with driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        threading.Timer(1.0, driver.kill).start()
        with lock_folder(tmp_path, is_patient=True):
            assert driver.wait(timeout=10) != 0
            assert is_held(tmp_path)


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["/proc/bakeoff/out", "a" * 300])
def test_what_cannot_be_written_is_told(out: str) -> None:
    with (
        pytest.raises(FolderUnavailable, match=f"--out {out}: cannot be made"),
        lock_folder(Path(out)),
    ):
        pass


def test_a_lock_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "driver.lock").mkdir()
    with (
        pytest.raises(FolderUnavailable, match=r"driver\.lock: cannot be written"),
        lock_folder(tmp_path),
    ):
        pass


@pytest.mark.parametrize("end", ["killed", "normal"])
def test_a_child_that_was_forked_does_not_keep_the_lock_of_a_driver_that_ended(
    tmp_path: Path, end: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        child = int(driver.stdout.readline())
        try:
            assert is_held(tmp_path)
            if end == "killed":
                driver.kill()
            driver.stdin.close()
            driver.wait(timeout=30)
            assert not is_held(tmp_path)
            os.kill(child, 0)  # it is still alive
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_leaves_the_block_lets_go_of_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVE, str(tmp_path)], capture_output=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr.decode()
