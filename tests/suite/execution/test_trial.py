"""Tests for one trial in this process: reproducible to the bit, and a result for every end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bakeoff.suite.errors import Diverged, classified
from bakeoff.suite.events import Finished, Progressed, Started
from bakeoff.suite.execution import trial as trial_module
from bakeoff.suite.execution.trial import run_measuring, run_trial
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import Probe
from bakeoff.suite.schema import (
    Measurement,
    MetricSpec,
    Parallel,
    Point,
    Resources,
    Result,
    Status,
    Trial,
)
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.timeouts import TimeIsUp
from tests.suite.timing.nvml import Library, with_library
from tests.workplace import Workplace

ONE = Resources()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def quality(tmp_path: Path) -> Trial:
    return next(t for t in plan(Workplace(tmp_path).ablation()).trials if t.probe == "quality")


def result_of(trial: Trial) -> Result:
    *_, last = run_trial(trial, ONE, "here")
    assert isinstance(last, Finished)
    return last.result


def numbers(result: Result) -> tuple[object, ...]:
    return result.measurements, result.points


def test_the_same_trial_twice_gives_the_same_bits(quality: Trial) -> None:
    first = result_of(quality)
    torch.rand(1000)  # earlier draws of this process do not matter
    again = result_of(quality)
    assert first.status is Status.OK
    assert len(first.points) == 7
    assert numbers(first) == numbers(again)
    other = result_of(replace(quality, seed=1))
    assert numbers(other) != numbers(first)


def test_it_begins_with_its_place_and_ends_with_its_result(quality: Trial) -> None:
    first, *between, last = run_trial(quality, ONE, "a place")
    assert first == Started(quality.trial_id, "a place")
    assert all(isinstance(event, Progressed) for event in between)
    assert isinstance(last, Finished)
    assert last.result.trial_id == quality.trial_id
    assert last.result.provenance.num_threads == 1
    assert last.result.seconds > 0


@pytest.mark.parametrize("num_threads", [1, 2])
def test_it_takes_the_threads_that_it_may_use(
    quality: Trial, num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_module, "probe", lambda name: _Scripted())
    list(run_trial(quality, Resources(num_cpus=num_threads, num_threads=num_threads), "here"))
    assert torch.get_num_threads() == num_threads


class _Scripted(Probe):
    """A probe that yields the given points and measurements, and raises the given exceptions."""

    name = "scripted"
    version = 1
    grain = "seed"

    def __init__(self, *script: Point | Measurement | BaseException) -> None:
        self.script = script

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        return ()

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        for line in self.script:
            if isinstance(line, BaseException):
                raise line
            yield line


def point(step: int) -> Point:
    return Point(metric="loss", step=step, flops=None, value=1.0, unit="nat", better="lower")


NUMBER = Measurement(metric="accuracy", value=0.5, unit="1", better="higher")


class PanicException(BaseException):
    """An exception such as those of extensions in Rust."""


ENDS = {
    "diverged": (Diverged("the loss is nan"), Status.DIVERGED, "the loss is nan"),
    "memory": (MemoryError("no more"), Status.OUT_OF_MEMORY, "MemoryError: no more"),
    "allocation": (
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
        Status.OUT_OF_MEMORY,
        "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried",
    ),
    "device": (
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
        Status.OUT_OF_MEMORY,
        "OutOfMemoryError: CUDA out of memory. Tried to allocate",
    ),
    "other": (
        ValueError("first line\nsecond line"),
        Status.ERROR,
        "ValueError: first line",
    ),
    "empty": (KeyError(), Status.ERROR, "KeyError"),
    "exit": (SystemExit("gone"), Status.ERROR, "SystemExit: gone"),
    "panic": (PanicException("unwrap on None"), Status.ERROR, "PanicException: unwrap on None"),
}


@pytest.mark.parametrize(
    ("changes", "num_gpus", "joules"),
    [
        ({}, 1.0, 60.0),
        ({}, 0.25, 15.0),  # the counter includes the energy of other trials on the card
        ({"probe": "step_time"}, 0.25, 60.0),  # a timing never shares a card
        ({"parallel": Parallel(workers=2, zero=0, precision="float32", accumulation=1)}, 1.0, None),
        ({}, 0.0, None),
    ],
)
def test_a_trial_is_given_its_share_of_the_cards_joules(
    changes: dict[str, Any],
    num_gpus: float,
    joules: float | None,
    quality: Trial,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = with_library(monkeypatch, Library())

    def measure() -> Iterator[Measurement]:
        library.millijoules += 60_000
        yield NUMBER

    asked = Resources(num_gpus=num_gpus)
    *_, last = run_measuring(replace(quality, **changes), asked, "here", measure)
    assert isinstance(last, Finished)
    assert last.result.status is Status.OK
    assert last.result.joules == (None if joules is None else pytest.approx(joules))


@pytest.mark.parametrize("case", ENDS)
def test_every_exception_is_a_result(
    case: str, quality: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, status, reason = ENDS[case]
    probe = _Scripted(point(1), NUMBER, error)
    monkeypatch.setattr(trial_module, "probe", lambda name: probe)
    result = result_of(quality)
    assert (result.status, result.reason) == (status, reason)
    assert type(error).__name__ in result.traceback
    assert "in measure" in result.traceback
    assert result.points == (point(1),)  # the curve up to the failure is kept
    assert result.measurements == ()  # measurements of a failed trial are not kept
    assert classified(error) == (status, reason)


@pytest.mark.parametrize(
    "said", [replace(NUMBER, value=float("nan")), replace(point(7), value=float("inf"))]
)
def test_a_number_that_is_none_is_no_result(
    said: Measurement | Point, quality: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check NaN and infinity, which are not allowed in a hashed result."""
    monkeypatch.setattr(trial_module, "probe", lambda name: _Scripted(point(1), said))
    result = result_of(quality)
    assert (result.status, result.points) == (Status.DIVERGED, (point(1),))
    assert result.reason == f"{said.metric} is {said.value}"
    assert result.sha256


class _OfTheSuite(BaseException):
    __module__ = "bakeoff.suite.cluster.worker"  # this module is imported only if Ray is installed


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), GeneratorExit(), TimeIsUp(), _OfTheSuite("another has gone")]
)
def test_an_end_that_is_the_users_or_the_suites_is_not_the_trials(
    error: BaseException, quality: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_module, "probe", lambda name: _Scripted(error))
    with pytest.raises(type(error)):
        list(run_trial(quality, ONE, "here"))


def test_points_are_passed_on_now_and_then_and_each_once(
    quality: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 0.2)  # seconds; the clock is read once per point
    monkeypatch.setattr("bakeoff.suite.execution.trial.time.monotonic", lambda: next(clock))
    script = [point(step) for step in range(12)]
    monkeypatch.setattr(trial_module, "probe", lambda name: _Scripted(*script, NUMBER))
    *events, last = run_trial(quality, ONE, "here")
    told = [event.points for event in events if isinstance(event, Progressed)]
    assert 2 <= len(told) <= 6
    assert [p for points in told for p in points] == script[: sum(map(len, told))]
    assert isinstance(last, Finished)
    assert last.result.points == tuple(script)
    assert last.result.measurements == (NUMBER,)
