"""What does the instrument say where the truth is known? Contestants beside the first subject.

The baseline built a second time, which takes as long as the first; and that one slowed by exactly
a twentieth. `suite.timing.kernels` and `suite.timing.peaks` hold the other controls.
"""

from __future__ import annotations

from collections.abc import Mapping

from suite.schema import BASELINE_AGAIN, BASELINE_SLOWED, INJECTED
from suite.timing.clock import Clock
from suite.timing.passes import Missing, Pass

RATIOS = (BASELINE_AGAIN, BASELINE_SLOWED)


def beside(again: Pass | Missing, clock: Clock) -> Mapping[str, Pass | Missing]:
    """The two controls, by metric.

    Args:
        again: The main operation of the first subject, built a second time.
        clock: Knows how to slow it.
    """
    return {BASELINE_AGAIN: again, BASELINE_SLOWED: _slowed(again, clock)}


def _slowed(again: Pass | Missing, clock: Clock) -> Pass | Missing:
    if isinstance(again, Missing):
        return again
    return Pass(clock.slowed(again.run, INJECTED), prepare=again.prepare, clear=again.clear)
