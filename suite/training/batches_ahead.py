"""Make training batches ahead of the steps that use them, in one thread.

On a GPU the program returns from a step before the GPU has done it, and may make the next batch
meanwhile; but where it reads a number, at each point of the curve, the GPU waits for the next
batch. With batches made ahead it only waits for a copy.

A batch is a function of (seed, step), so that it is the same whichever thread makes it. Tasks need
not be safe for threads: only one thread at a time draws examples, see `BatchesAhead.paused`. The
thread uses no GPU: while a step is captured, another thread must not call CUDA. So batches are
copied to pinned memory by the thread that trains, in some microseconds.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext

from bakeoff.suite.tasks.task import Batch

Make = Callable[[int], Batch]
_NUM_AHEAD = 4  # hides one batch that takes as long as some steps, and holds little memory


class BatchesAhead:
    """Batches of consecutive steps, made by one thread until the object is closed."""

    def __init__(self, make: Make, steps: range) -> None:
        """Begin to make the first batches.

        Args:
            make: Function that returns the batch of a step.
            steps: The steps, in the order in which `next` is called.
        """
        self._make, self._steps = make, iter(steps)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches ahead")
        self._made: deque[Future[Batch]] = deque()
        for _ in range(_NUM_AHEAD):
            self._submit()

    def next(self) -> Batch:
        """Return the batch of the next step; raise what was raised when it was made."""
        found = self._made.popleft()
        self._submit()
        return found.result()

    def paused(self) -> AbstractContextManager[object]:
        """Return a context in which no batch is made, because the block draws examples itself."""
        return self._lock

    def close(self) -> None:
        """Wait for the batch that is being made, and end the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self) -> None:
        for step in self._steps:
            context = contextvars.copy_context()
            self._made.append(self._pool.submit(context.run, self._locked, step))
            return

    def _locked(self, step: int) -> Batch:
        with self._lock:
            return self._make(step)


class BatchesAtOnce:
    """The same without a thread: a batch is made when it is needed."""

    def __init__(self, make: Make, steps: range) -> None:
        self._made = map(make, steps)

    def next(self) -> Batch:
        """Return the batch of the next step."""
        return next(self._made)

    def paused(self) -> AbstractContextManager[object]:
        """Return a context without an effect."""
        return nullcontext()


@contextmanager
def batches_for(device: str, make: Make, steps: range) -> Iterator[BatchesAhead | BatchesAtOnce]:
    """Yield the batches of these steps; they are made ahead if the device is a GPU.

    Args:
        device: The device of the training, named as in torch.
        make: Function that returns the batch of a step.
        steps: The steps.
    """
    if device == "cpu":
        yield BatchesAtOnce(make, steps)
        return
    ahead = BatchesAhead(make, steps)
    try:
        yield ahead
    finally:
        ahead.close()
