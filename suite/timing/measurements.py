"""Convert the samples of a timing run to measurements: medians, counts, controls and status."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    BASELINE_SLOWED,
    INJECTED,
    Better,
    Measurement,
    Status,
    is_launched,
    launched,
)
from bakeoff.suite.timing.clock import Clock
from bakeoff.suite.timing.passes import Key, Missing, Pass
from bakeoff.suite.timing.rounds import Timings
from bakeoff.suite.timing.stopping import median_of

_RATIOS = (BASELINE_AGAIN, BASELINE_SLOWED)
RATIOS = (*_RATIOS, *map(launched, _RATIOS))


def beside(again: Pass | Missing, clock: Clock) -> Mapping[str, Pass | Missing]:
    """Return two controls: the baseline built again, and the same slowed by the factor `INJECTED`.

    Their true ratios to the baseline are known. `bakeoff.suite.timing.kernels` and the probe
    `mixer_time` hold the other controls. `again` is the main operation of the first subject, built
    a second time.
    """
    slowed = again
    if isinstance(again, Pass):
        slowed = replace(again, run=clock.slowed(again.run, INJECTED))
    return {BASELINE_AGAIN: again, BASELINE_SLOWED: slowed}


_UNKNOWN_LOAD = Missing(Status.SKIPPED, "this system does not say how much CPU time others take")


def measurements(
    timings: Timings, *, main: str, compared: frozenset[str], at: str
) -> Iterator[Measurement]:
    """Yield the time of each candidate, and statistics of the samples of each subject.

    Args:
        timings: The result of a timing run, in which subject 0 is the baseline.
        main: The operation to which ratios and counts refer. The ratio of launched passes refers to
            the launched form of the operation.
        compared: The metrics for which lower is better; the others are controls.
        at: The coordinate of all measurements.
    """
    keys = (*timings.samples, *timings.missing)
    for key in keys:
        if key.metric in RATIOS:
            base = launched(main) if is_launched(key.metric) else main
            yield _ratio(timings, key, Key(base, key.subject), at)
        else:
            yield _time(timings, key, "lower" if key.metric in compared else "none", at)
    for key in keys:
        if key.metric == main:
            yield from _of_the_samples(timings, key, at)
    load = _UNKNOWN_LOAD if timings.other_load is None else timings.other_load
    yield _row("other_load", 0, at, load)
    yield _row("num_disturbed", 0, at, timings.num_disturbed)


def _row(
    metric: str, subject: int, at: str, value: float | Missing, unit: str = "1", **fields: Any
) -> Measurement:
    if isinstance(value, Missing):
        fields |= {"value": None, "status": value.status, "reason": value.reason}
    else:
        fields |= {"value": float(value)}
    return Measurement(
        metric=metric, subject=subject, at=at, unit=unit, **{"better": "none", **fields}
    )


def _time(timings: Timings, key: Key, better: Better, at: str) -> Measurement:
    """Return the median with its interval."""
    if key in timings.missing:
        return _row(*key, at, timings.missing[key], "s", better=better)
    found, noise = median_of(timings.samples[key]), timings.noise[key]
    return _row(
        *key,
        at,
        found.value,
        "s",
        better=better,
        spread_low=found.low if found.is_bounded else None,
        spread_high=found.high if found.is_bounded else None,
        status=Status.NOISY if noise else Status.OK,
        reason=noise,
    )


def _ratio(timings: Timings, key: Key, baseline: Key, at: str) -> Measurement:
    """Return the ratio of two medians, which is noisy if either of them is."""
    for one in (key, baseline):
        if one in timings.missing:
            return _row(*key, at, timings.missing[one])
    control, truth = (median_of(timings.samples[one]).value for one in (key, baseline))
    noise = timings.noise[key] or timings.noise[baseline]
    status = Status.NOISY if noise else Status.OK
    return _row(*key, at, control / truth, status=status, reason=noise)


def _of_the_samples(timings: Timings, key: Key, at: str) -> Iterator[Measurement]:
    """Yield the number of samples and of outliers, and the duration of the first call."""
    samples, missing = timings.samples.get(key, ()), timings.missing.get(key)
    mild, severe = outliers(samples)
    counts = {"num_samples": len(samples), "mild_outliers": mild, "severe_outliers": severe}
    for metric, count in counts.items():
        yield _row(metric, key.subject, at, missing or count)
    first_call = missing or timings.first_calls[key]
    yield _row("first_call_seconds", key.subject, at, first_call, "s")


_MILD, _SEVERE = 1.5, 3.0


def outliers(samples: Sequence[float]) -> tuple[int, int]:
    """Return the number of mild and of severe outliers by Tukey's fences; no sample counts as both.

    A sample is mild beyond 1.5 interquartile ranges from the quartiles, and severe beyond 3 (1977,
    "Exploratory Data Analysis", section 2D). Outliers are reported, never dropped. Fewer than two
    samples have no outliers.
    """
    if len(samples) < 2:
        return 0, 0
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")

    def num_beyond(fence: float) -> int:
        margin = fence * (third - first)
        return sum(not first - margin <= sample <= third + margin for sample in samples)

    severe = num_beyond(_SEVERE)
    return num_beyond(_MILD) - severe, severe
