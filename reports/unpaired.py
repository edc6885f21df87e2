"""How much longer did it take on another machine, or in other processes? Welch's interval."""

from __future__ import annotations

import math
from collections.abc import Collection

from scipy.special import stdtrit

from reports.stats.intervals import CONFIDENCE, Estimate


def unpaired_ratio(a: Collection[float], b: Collection[float]) -> Estimate:
    """Geometric mean of `b` over that of `a`, with the interval between processes.

    Welch's t on the logarithms (Welch, Biometrika 34, 1947): the two may differ in their spread
    and in their number. Nothing is paired.

    Args:
        a: One positive number a process.
        b: Likewise.

    Returns:
        `n` counts the processes of both. No interval where one side has a single process; no
        ratio where one has none.
    """
    logs = [[math.log(value) for value in side if value > 0] for side in (a, b)]
    n = sum(map(len, logs))
    if not all(logs):
        return Estimate(n=n)
    means = [math.fsum(side) / len(side) for side in logs]
    centre = means[1] - means[0]
    if min(map(len, logs)) < 2:
        return Estimate(n=n, point=math.exp(centre))
    squares = [
        math.fsum((x - mean) ** 2 for x in side) / (len(side) - 1) / len(side)
        for side, mean in zip(logs, means, strict=True)
    ]
    half = _quantile(squares, [len(side) - 1 for side in logs]) * math.sqrt(sum(squares))
    ends = (centre, centre - half, centre + half)
    point, low, high = (math.exp(min(end, 700.0)) for end in ends)
    return Estimate(n=n, point=point, low=low, high=high)


def _quantile(squares: list[float], degrees: list[int]) -> float:
    """Student's t at the degrees of freedom of Welch and Satterthwaite."""
    if not sum(squares):
        return 0.0  # no spread at all, so no interval but the point
    freedom = sum(squares) ** 2 / sum(s**2 / d for s, d in zip(squares, degrees, strict=True))
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))
