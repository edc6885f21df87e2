"""What trials in this process start ends with them."""

from __future__ import annotations

from pathlib import Path

import psutil

from suite.checkpoints import Checkpoints
from suite.executor import Luggage
from suite.inline import InlineExecutor
from suite.sweep.executors import executing
from tests.suite.test_leftovers import left_behind


def test_what_a_trial_in_this_process_leaves_behind_ends_with_the_sweep(tmp_path: Path) -> None:
    with executing("inline", None, Luggage(checkpoints=Checkpoints(folder=tmp_path))) as executor:
        assert isinstance(executor, InlineExecutor)
        left = left_behind()
    psutil.wait_procs([left], timeout=10)
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
