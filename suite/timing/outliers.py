"""How many samples stand apart from the rest? Counted and shown, never dropped.

Tukey's fences (1977, "Exploratory Data Analysis", section 2D): beyond 1.5 interquartile ranges from
the quartiles an outlier is mild, beyond 3 it is severe.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_MILD, _SEVERE = 1.5, 3.0


@dataclass(frozen=True)
class Outliers:
    """How many there are; none is both."""

    mild: int
    severe: int


def outliers(samples: Sequence[float]) -> Outliers:
    """Of at least two samples; of fewer, none."""
    if len(samples) < 2:
        return Outliers(0, 0)
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")

    def num_beyond(fence: float) -> int:
        margin = fence * (third - first)
        return sum(not first - margin <= sample <= third + margin for sample in samples)

    severe = num_beyond(_SEVERE)
    return Outliers(mild=num_beyond(_MILD) - severe, severe=severe)
