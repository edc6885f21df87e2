"""Compare two unpaired sets of times: the ratio of their geometric means, with Welch's interval."""

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
        `n` counts the processes of both. No interval where one has a single process; no ratio
        where one has none.
    """
    logs = [[math.log(value) for value in values if value > 0] for values in (a, b)]
    n = sum(map(len, logs))
    if not all(logs):
        return Estimate(n=n)
    means = [math.fsum(some) / len(some) for some in logs]
    centre = means[1] - means[0]
    degrees = [len(some) - 1 for some in logs]
    if not all(degrees):
        return Estimate(n=n, point=math.exp(centre))
    squares = [  # of the standard errors
        math.fsum((x - mean) ** 2 for x in some) / degree / len(some)
        for some, mean, degree in zip(logs, means, degrees, strict=True)
    ]
    half = 0.0
    if sum(squares):  # the degrees of freedom are Welch's and Satterthwaite's
        freedom = sum(squares) ** 2 / sum(s**2 / d for s, d in zip(squares, degrees, strict=True))
        half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * math.sqrt(sum(squares))
    ends = (centre, centre - half, centre + half)
    point, low, high = (math.exp(min(end, 700.0)) for end in ends)
    return Estimate(n=n, point=point, low=low, high=high)
