"""What this machine can never run is refused before anything is made."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from suite.events import ExecutorSettings, Unavailable
from suite.execution.inline import InlineExecutor, refuse_too_large
from suite.schema import Parallel, Resources
from tests.suite.heads_sweep import HeadsSweep

CPUS = os.cpu_count() or 1
TRIAL = HeadsSweep().trial()
SPREAD = replace(
    TRIAL, parallel=Parallel(workers=CPUS + 1, zero=0, precision="float32", accumulation=1)
)


def test_what_fits_passes() -> None:
    refuse_too_large([(TRIAL, Resources(num_cpus=CPUS, memory_bytes=2**20))])


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        (Resources(num_cpus=CPUS + 1), f"asks for {CPUS + 1} CPU, and this machine has {CPUS}"),
        (Resources(num_gpus=64.0), "asks for 64 GPU, and this machine has"),
        (Resources(memory_bytes=2**50), "GiB of memory, and this machine has"),
    ],
)
def test_what_does_not_is_refused_with_what_there_is(resources: Resources, sentence: str) -> None:
    with pytest.raises(Unavailable, match=sentence) as refused:
        refuse_too_large([(TRIAL, Resources()), (TRIAL, resources)])
    assert "\n" not in str(refused.value)


def test_workers_count_together() -> None:
    with pytest.raises(Unavailable, match=f"asks for {CPUS + 1} CPU"):
        refuse_too_large([(SPREAD, Resources())])


def test_one_process_is_not_several() -> None:
    with pytest.raises(Unavailable, match=f"takes {CPUS + 1} workers of DeepSpeed, and --executor"):
        InlineExecutor(ExecutorSettings()).refuse_infeasible(
            [(TRIAL, Resources()), (SPREAD, Resources())]
        )


def test_without_deepspeed_there_are_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.execution.inline.find_spec", lambda name: None)
    refuse_too_large([(TRIAL, Resources())])
    one = replace(SPREAD, parallel=replace(SPREAD.parallel, workers=1))
    with pytest.raises(Unavailable, match="need DeepSpeed, which is not installed"):
        refuse_too_large([(one, Resources())])
