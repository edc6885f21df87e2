"""A Ray that does not start is a sentence; what trials in this process start ends with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from suite.events import Checkpoints, ExecutorSettings, Unavailable
from suite.execution.inline import InlineExecutor
from suite.sweep.executors import executing
from tests.suite.execution.test_process_cleanup import left_behind


def test_what_a_trial_in_this_process_leaves_behind_ends_with_the_sweep(tmp_path: Path) -> None:
    with executing(
        "inline", None, ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path))
    ) as executor:
        assert isinstance(executor, InlineExecutor)
        left = left_behind()
    psutil.wait_procs([left], timeout=10)
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("kind", [Exception, RuntimeError])
def test_a_ray_that_does_not_start_is_one_sentence(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**asked: Any) -> None:
        raise kind("The current node timed out during startup. This could happen because of much.")

    monkeypatch.setattr(ray, "init", fails)
    luggage = ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path))
    told = "^Ray cannot be started here: The current node timed out during startup.$"
    with pytest.raises(Unavailable, match=told), executing("ray", None, luggage):
        pass


@pytest.mark.parametrize("text", ["", "\n"])
def test_a_ray_that_does_not_say_why_it_does_not_start_is_one_sentence_too(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**asked: Any) -> None:
        raise TimeoutError(text)

    monkeypatch.setattr(ray, "init", fails)
    luggage = ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path))
    told = "^Ray cannot be started here: TimeoutError.$"
    with pytest.raises(Unavailable, match=told), executing("ray", None, luggage):
        pass
