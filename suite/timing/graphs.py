"""Record passes as CUDA graphs, so that the time of a pass is what the GPU needs.

Eager code launches each kernel from Python, which takes several microseconds. A short pass then
takes as long as its launches, whatever its kernels do, and a comparison is one of Python. A graph
is launched as a whole.

All graphs of a timing run share their memory: no pass uses what another one has left there.

Whatever no graph can hold is found before it is captured, see
`bakeoff.suite.training.engines.capturable`: an operation that waits for a number, a shape that
depends on data, random numbers that are drawn on the CPU. Random numbers of the GPU are drawn anew
in each replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bakeoff.suite.timing.clock import Clock, CudaClock
from bakeoff.suite.timing.passes import Call, NoGraph, Pass, nothing
from bakeoff.suite.timing.spins import spin
from bakeoff.suite.training.engines.recording import on_gpu, why_nothing_recorded

WhyNot = Callable[[Call], str]


class Graphs:
    """The CUDA graphs of a timing run, each recorded at its first call.

    Args:
        clock: The clock of the device.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pool: Any = None

    def of(self, operation: Pass, why_not: WhyNot) -> Pass:
        """Return the pass as a graph.

        Its first call raises `NoGraph` if no graph can hold the pass.

        Args:
            operation: The pass, as eager code runs it.
            why_not: Function that runs a pass once and returns why no graph can hold it, or "".
        """
        return _recorded(operation, lambda: self._graph(operation.run, why_not))

    def slowed(self, operation: Pass, why_not: WhyNot, factor: float) -> Pass:
        """Return the pass as a graph that ends with a spin and takes `factor` times as long.

        The first call measures the pass and the cost of a spin within a graph, see
        `bakeoff.suite.timing.spins`. It raises `NoGraph` also if a further kernel alone adds
        more time than the spin may take.
        """

        def record() -> Call:
            alone = self._graph(operation.run, why_not)
            assert isinstance(self._clock, CudaClock)
            seconds, cost = self._clock.pass_and_spin(alone, self._captured)
            cycles = cost.cycles((factor - 1.0) * seconds)
            if not cycles:
                raise NoGraph(
                    f"a pass of {seconds * 1e6:.3g} µs is too short to be slowed by "
                    f"{factor - 1.0:.0%}: one more kernel takes {cost.kernel_seconds * 1e6:.2g} µs"
                )

            def slow() -> None:
                operation.run()
                spin(cycles)

            return self._captured(slow)

        return _recorded(operation, record)

    def _graph(self, run: Call, why_not: WhyNot) -> Call:
        why = why_nothing_recorded() or why_not(run)
        if why:
            raise NoGraph(f"no CUDA graph can be recorded: {why}")
        return self._captured(run)

    def _captured(self, run: Call) -> Call:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()

        def work() -> Any:
            run()  # its result is not kept, so that other graphs can use the memory

        return on_gpu(work, self._pool)


def _recorded(operation: Pass, record: Callable[[], Call]) -> Pass:
    """Return a pass that records the operation at its first call, and replays it."""
    replay: Call | None = None

    def run() -> None:
        nonlocal replay
        if replay is None:
            operation.prepare()
            try:
                replay = record()
            finally:
                operation.clear()
        replay()

    return replace(operation, run=run, prepare=nothing, clear=nothing)
