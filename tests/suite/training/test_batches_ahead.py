"""Test batches that a thread makes ahead: their order, errors, limits, and the thread's end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from contextvars import ContextVar
from typing import Any

import pytest
import torch

from bakeoff.suite.schema import Point
from bakeoff.suite.tasks.task import Batch, Split
from bakeoff.suite.training import batches_ahead
from bakeoff.suite.training.batches_ahead import batches_for
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, TrainingProgress, steps, train_resuming
from tests.suite.toy import FirstToken, Reader, training

STEPS = 40


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


class OnGpu:
    """An engine of this CPU that names a GPU as its device."""

    device = "cuda"

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def numbered(step: int) -> Batch:
    return Batch(inputs={"inputs": torch.tensor([[step]])}, targets=torch.tensor([step]))


def exercise(task: FirstToken, **changes: Any) -> Exercise:
    return Exercise(task=task, training=training(STEPS, **changes), batch=16, seed=0)


def engine() -> Any:
    return OnGpu(LocalEngine(Reader(), training(STEPS), "cpu"))


def test_batches_come_in_order_from_one_other_thread() -> None:
    makers = set()

    def make(step: int) -> Batch:
        makers.add(threading.current_thread())
        return numbered(step)

    with batches_for("cuda", make, range(3, 30)) as batches:
        assert [int(batches.next().targets) for _ in range(3, 30)] == [*range(3, 30)]
    assert len(makers) == 1
    assert threading.current_thread() not in makers


def test_on_a_cpu_a_batch_is_made_when_it_is_needed() -> None:
    made: list[int] = []
    with batches_for("cpu", lambda step: made.append(step) or numbered(step), range(9)) as batches:
        assert made == []
        batches.next()
        assert made == [0]
        with batches.paused():
            batches.next()


def test_only_a_few_are_made_ahead() -> None:
    made: list[int] = []
    with batches_for("cuda", lambda step: made.append(step) or numbered(step), range(99)) as found:
        found.next()
        deadline = time.monotonic() + 5
        while len(made) < 1 + batches_ahead._NUM_AHEAD and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert len(made) == 1 + batches_ahead._NUM_AHEAD


def test_an_error_is_raised_at_the_step_that_it_belongs_to() -> None:
    def make(step: int) -> Batch:
        if step == 2:
            raise ZeroDivisionError("the third batch")
        return numbered(step)

    with batches_for("cuda", make, range(9)) as batches:
        assert [int(batches.next().targets) for _ in range(2)] == [0, 1]
        with pytest.raises(ZeroDivisionError, match="third"):
            batches.next()


def test_the_thread_reads_the_callers_context() -> None:
    folder = ContextVar("folder", default=0)
    folder.set(7)
    with batches_for("cuda", lambda _: numbered(folder.get()), range(2)) as batches:
        assert int(batches.next().targets) == 7


def test_while_paused_nothing_is_made() -> None:
    made: list[int] = []
    with batches_for("cuda", lambda step: made.append(step) or numbered(step), range(99)) as found:
        with found.paused():
            before = len(made)
            time.sleep(0.05)
            assert len(made) == before
        found.next()


class OneAtATime(FirstToken):
    """A task that two threads must not draw from at once."""

    is_busy = False

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        self._enter()
        found = super().training_batch(step, batch, seed)
        time.sleep(0.002)
        self.is_busy = False
        return found

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        self._enter()
        yield from super().held_out(split, batch)
        time.sleep(0.01)
        self.is_busy = False

    def _enter(self) -> None:
        assert not self.is_busy, "two threads draw"
        self.is_busy = True


def test_a_training_with_batches_made_ahead_is_the_same() -> None:
    plain = list(
        train_resuming(LocalEngine(Reader(), training(STEPS), "cpu"), exercise(FirstToken()), None)
    )
    assert list(train_resuming(engine(), exercise(OneAtATime()), None)) == plain
    assert any(isinstance(each, Point) for each in plain)


def test_a_training_that_is_abandoned_leaves_no_thread() -> None:
    said = train_resuming(engine(), exercise(FirstToken()), None)
    next(said)
    said.close()  # type: ignore[attr-defined]


def test_a_training_whose_step_fails_leaves_no_thread() -> None:
    broken = engine()
    broken.step = lambda batch, task: 1 / 0
    with pytest.raises(ZeroDivisionError):
        list(train_resuming(broken, exercise(FirstToken()), None))


def test_a_training_whose_data_fail_ends_at_that_step() -> None:
    class Short(FirstToken):
        def training_batch(self, step: int, batch: int, seed: int) -> Batch:
            if step == 10:
                raise EOFError("no more data")
            return super().training_batch(step, batch, seed)

    progress = TrainingProgress()
    with (
        closing(steps(engine(), exercise(Short()), progress)) as found,
        pytest.raises(EOFError, match="no more data"),
    ):
        list(found)
    assert progress.step == 10
