"""Compute how much of a machine's matrix peak a mixer uses.

FLOPs by formula, three times the forward ones since the backward pass costs twice as much, over
the measured time of both, over the peak that the same instrument measured with a large product of
matrices. Elementwise work counts as nothing, so what is bound by memory has a small share.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from reports.results.length_sweep import Axis, Growth, find

FLOPS, TIME = "forward_flops", "forward_backward_seconds"
MATRIX_PEAK, COPY_PEAK = "matrix_peak_flops_per_second", "copy_peak_bytes_per_second"
_FORWARD_AND_BACKWARD = 3


def flops_per_second(
    here: Iterable[Growth], variant: str, place: int, axis: Axis = "length"
) -> float | None:
    """Of the forward and the backward pass; None where there are no FLOPs or no time.

    Args:
        here: The growths of one environment.
        variant: Its label.
        place: Tokens, or the width.
        axis: Which of the two `place` is.
    """
    counts, times = (find(here, metric, axis) for metric in (FLOPS, TIME))
    if counts is None or times is None:
        return None
    num_flops, seconds = counts.point(variant, place), times.point(variant, place)
    return _FORWARD_AND_BACKWARD * num_flops / seconds if num_flops and seconds else None


def machine_peak(here: Iterable[Growth], metric: str) -> float | None:
    """The peak rate of the machine: the median of all processes at all coordinates."""
    found = [
        value
        for growth in here
        if growth.metric == metric
        for variant in growth.variants
        for place in growth.places
        for value in growth.values(variant, place).values()
    ]
    return statistics.median(found) if found else None
