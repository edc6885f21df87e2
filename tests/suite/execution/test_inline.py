"""Tests for the inline executor: trials that never fit, and processes that a trial leaves."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from bakeoff.suite.events import Checkpoints, ExecutorSettings, Unavailable
from bakeoff.suite.execution import fork_server, inline
from bakeoff.suite.execution.inline import InlineExecutor, refuse_infeasible, refuse_too_large
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import Parallel, Resources
from bakeoff.suite.sweep.driver import executing
from tests.suite.execution.test_process_cleanup import assert_ended, left_behind
from tests.suite.heads_sweep import HeadsSweep

CPUS = num_cpus()
TRIAL = HeadsSweep().trial()
SPREAD = replace(
    TRIAL, parallel=Parallel(workers=CPUS + 1, zero=0, precision="float32", accumulation=1)
)


SETTINGS = ExecutorSettings(checkpoints=Checkpoints(folder=Path("nowhere")))


def test_what_a_trial_in_this_process_leaves_behind_ends_with_the_sweep() -> None:
    with executing("inline", None, SETTINGS) as executor:
        assert isinstance(executor, InlineExecutor)
        left = left_behind()
    assert_ended(left)


def test_a_trial_on_a_gpu_gets_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that it runs in a subprocess, because a GPU fault makes a process unusable."""
    given: list[Resources] = []
    monkeypatch.setattr(fork_server, "ForkServer", lambda environment: BytesIO())
    monkeypatch.setattr(
        inline,
        "run_in_subprocess",
        lambda _, resources, *others, **named: given.append(resources) or [],
    )
    resources = Resources(num_gpus=1.0)
    list(InlineExecutor(SETTINGS)._in_turn([(TRIAL, resources)]))
    assert given == [resources]


def test_what_fits_passes() -> None:
    refuse_too_large([(TRIAL, Resources(num_cpus=CPUS, memory_bytes=2**20))])


@pytest.mark.parametrize(
    ("trial", "resources", "sentence"),
    [
        (TRIAL, Resources(num_cpus=CPUS + 1), f"asks for {CPUS + 1} CPU, and this machine has"),
        (TRIAL, Resources(num_gpus=64.0), "asks for 64 GPU, and this machine has"),
        (TRIAL, Resources(memory_bytes=2**50), "GiB of memory, and this machine has"),
        (SPREAD, Resources(), f"asks for {CPUS + 1} CPU, and this machine has {CPUS}"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_there_is(trial, resources, sentence: str) -> None:
    with pytest.raises(Unavailable, match=sentence) as refused:
        refuse_too_large([(TRIAL, Resources()), (trial, resources)])
    assert "\n" not in str(refused.value)


def test_one_process_is_not_several() -> None:
    refuse_infeasible([(TRIAL, Resources())])
    with pytest.raises(Unavailable, match=f"takes {CPUS + 1} workers of DeepSpeed, and --executor"):
        refuse_infeasible([(TRIAL, Resources()), (SPREAD, Resources())])


def test_without_deepspeed_there_are_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bakeoff.suite.execution.inline.find_spec", lambda name: None)
    refuse_too_large([(TRIAL, Resources())])
    one = replace(SPREAD, parallel=replace(SPREAD.parallel, workers=1))
    with pytest.raises(Unavailable, match="need DeepSpeed, which is not installed"):
        refuse_too_large([(one, Resources())])
