"""The process at the other end: it speaks JSON, whatever its trial prints, and dies with its input.

See test_fresh_process.py for both ends together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from suite.events import Started
from suite.execution.subprocess_main import EVENT, REQUEST, TrialRequest
from suite.planning.plan import plan
from suite.schema import Resources, Trial
from tests.workplace import Workplace


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, str]:
    """A trial of five minutes, and the folder of its mixer."""
    work = Workplace(tmp_path_factory.mktemp("slow"))
    mixers = work.mixers("slow_one_trial", pause=60.0)
    file = work.ablation(mixer=f"{mixers}:Slow", probes=["quality"], seeds=1)
    return plan(file).trials[0], str(work.path)


def test_a_trial_is_the_same_on_the_other_side(slow: tuple[Trial, str]) -> None:
    order = TrialRequest(
        trial=slow[0], resources=Resources(num_cpus=2, memory_bytes=7, gpu_model="L4")
    )
    read = REQUEST.validate_json(REQUEST.dump_json(order))
    assert read == order
    assert read.trial.trial_id == slow[0].trial_id


def test_it_dies_with_its_input_in_the_middle_of_its_work(slow: tuple[Trial, str]) -> None:
    """The pipe closes by itself when whoever holds it is killed."""
    trial, folder = slow
    paths = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-m", "suite.execution.subprocess_main"],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            REQUEST.dump_json(TrialRequest(trial=trial, resources=Resources())) + b"\n"
        )
        process.stdin.flush()
        begun = EVENT.validate_json(process.stdout.readline())
        assert begun == Started(trial.trial_id, f"process {process.pid}")
        process.stdin.close()
        closed = time.monotonic()
        assert process.wait(10) == 1
        assert time.monotonic() - closed < 2.0
        assert process.stdout.read() == b""
