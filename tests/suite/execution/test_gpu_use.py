"""Tests for the limit on a trial's GPU memory, and for the peak usage in its result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from bakeoff.suite.events import Finished
from bakeoff.suite.execution.trial import run_measuring
from bakeoff.suite.probes.probe import Said
from bakeoff.suite.schema import Resources, Result, Status
from tests.suite.heads_sweep import HeadsSweep

GIB = 2**30
TRIAL = HeadsSweep().trial()


class Properties:
    total_memory = 80 * GIB


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list of the memory fractions that are set, on a fake GPU of 80 GiB."""
    found: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Card 9000")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties())
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", found.append)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 3 * GIB)
    return found


def result_with(resources: Resources, error: Exception | None = None) -> Result:
    def measure() -> Iterator[Said]:
        if error is not None:
            raise error
        yield from ()

    *_, last = run_measuring(TRIAL, resources, "here", measure)
    assert isinstance(last, Finished)
    return last.result


def test_a_share_leaves_room_for_the_context_and_a_whole_gpu_is_no_share(
    limits: list[float],
) -> None:
    assert result_with(Resources(num_gpus=0.125)).gpu_bytes == 3 * GIB
    assert result_with(Resources(num_gpus=1.0)).status is Status.OK
    assert limits == [0.125 - 1 / 80, 1.0]


def test_what_wanted_more_than_its_share_is_told_how_to_get_it(limits: list[float]) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")
    shared, whole = (result_with(Resources(num_gpus=each), error) for each in (0.125, 1.0))
    assert {shared.status, whole.status} == {Status.OUT_OF_MEMORY}
    assert shared.reason.endswith("It had 0.125 of a GPU; --set gpus=0.25 gives it more.")
    assert whole.reason.endswith("Tried to allocate 9 GiB.")


def test_without_a_gpu_nothing_is_limited_or_said() -> None:
    result = result_with(Resources())
    assert result.status is Status.OK
    assert result.gpu_bytes is None
