"""Which share of the machine's matrix peak does a mixer reach?

FLOPs by formula, three times the forward ones since the backward pass costs twice as much, over
the measured time of both, over the peak that the same instrument measured with a large product of
matrices. Elementwise work counts as nothing, so what is bound by memory has a small share.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from reports.results.length_sweep import Axis, Growth, find

FLOPS, TIME = "forward_flops", "forward_backward_seconds"
PEAK = "matrix_peak_flops_per_second"
_FORWARD_AND_BACKWARD = 3


def utilisation(
    growths: Sequence[Growth],
    variant: str,
    place: int,
    axis: Axis = "length",
    environment_id: str = "",
) -> float | None:
    """FLOPs a second over the peak, as 0.41; None where one of them was not measured.

    Args:
        growths: As `reports.results.length_sweep.growths` gives them.
        variant: Its label.
        place: Tokens, or the width.
        axis: Which of the two `place` is.
        environment_id: Where measured; empty takes the first.
    """
    times = find(growths, TIME, axis, environment_id)
    if times is None:
        return None
    rate = flops_per_second(growths, variant, place, axis, times.environment_id)
    peak = matrix_peak(growths, times.environment_id)
    return None if rate is None or peak is None else rate / peak


def flops_per_second(
    growths: Sequence[Growth], variant: str, place: int, axis: Axis, environment_id: str
) -> float | None:
    """Of the forward and the backward pass; None where there are no FLOPs or no time."""
    counts, times = find(growths, FLOPS, axis), find(growths, TIME, axis, environment_id)
    if counts is None or times is None:
        return None
    num_flops, seconds = counts.point(variant, place), times.point(variant, place)
    return _FORWARD_AND_BACKWARD * num_flops / seconds if num_flops and seconds else None


def matrix_peak(growths: Sequence[Growth], environment_id: str) -> float | None:
    """The machine's peak in FLOP/s: the median of all processes at all coordinates."""
    found = [
        value
        for growth in growths
        if growth.metric == PEAK and growth.environment_id == environment_id
        for variant in growth.variants
        for place in growth.places
        for value in growth.values(variant, place).values()
    ]
    return statistics.median(found) if found else None
