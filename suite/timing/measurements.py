"""Turn the samples of a contest into measurements: medians, counts, controls, and their status."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from suite.schema import BASELINE_AGAIN, BASELINE_SLOWED, INJECTED, Better, Measurement, Status
from suite.timing.clock import Clock
from suite.timing.intervals import median_of
from suite.timing.passes import Key, Missing, Pass
from suite.timing.rounds import Timings

RATIOS = (BASELINE_AGAIN, BASELINE_SLOWED)


def beside(again: Pass | Missing, clock: Clock) -> Mapping[str, Pass | Missing]:
    """Two controls whose truth is known: the baseline built again, and that slowed by a twentieth.

    `suite.timing.kernels` and `suite.timing.peaks` hold the other controls.

    Args:
        again: The main operation of the first subject, built a second time.
        clock: Knows how to slow it.
    """
    return {BASELINE_AGAIN: again, BASELINE_SLOWED: _slowed(again, clock)}


def _slowed(again: Pass | Missing, clock: Clock) -> Pass | Missing:
    if isinstance(again, Missing):
        return again
    return Pass(clock.slowed(again.run, INJECTED), prepare=again.prepare, clear=again.clear)


_UNKNOWN_LOAD = Missing(Status.SKIPPED, "this system does not say how much CPU time others take")


def measurements(
    timings: Timings, *, main: str, compared: frozenset[str], at: str
) -> Iterator[Measurement]:
    """Of every contestant its time; of every subject what its samples were like.

    Args:
        timings: Of a contest; subject 0 is the baseline.
        main: The operation that ratios and counts are of.
        compared: The metrics of which less is better; the others are controls.
        at: The coordinate of the compared ones; controls stand there too.
    """
    for key in (*timings.samples, *timings.missing):
        if key.metric in RATIOS:
            yield _ratio(timings, key, Key(main, key.subject), at)
        else:
            yield _time(timings, key, "lower" if key.metric in compared else "none", at)
    for key in (*timings.samples, *timings.missing):
        if key.metric == main:
            yield from _of_the_samples(timings, key, at)
    yield from _of_the_machine(timings, at)


def _time(timings: Timings, key: Key, better: Better, at: str) -> Measurement:
    """The median, with its interval."""
    if key in timings.missing:
        return _missing(timings.missing[key], key, "s", at, better)
    found = median_of(timings.samples[key])
    return Measurement(
        metric=key.metric, value=found.value, unit="s", better=better, subject=key.subject, at=at,
        spread_low=found.low if found.is_bounded else None,
        spread_high=found.high if found.is_bounded else None,
        status=Status.NOISY if timings.noise[key] else Status.OK, reason=timings.noise[key],
    )  # fmt: skip


def _ratio(timings: Timings, key: Key, baseline: Key, at: str) -> Measurement:
    """Of two medians; as trustworthy as the lesser of them."""
    for one in (key, baseline):
        if one in timings.missing:
            return _missing(timings.missing[one], key, "1", at)
    control, truth = (median_of(timings.samples[one]).value for one in (key, baseline))
    noise = timings.noise[key] or timings.noise[baseline]
    return Measurement(
        metric=key.metric, value=control / truth, unit="1", better="none", subject=key.subject,
        at=at, status=Status.NOISY if noise else Status.OK, reason=noise,
    )  # fmt: skip


def _of_the_samples(timings: Timings, key: Key, at: str) -> Iterator[Measurement]:
    """How many there are, how many stand apart, and how long the first call took."""
    if key in timings.missing:
        missing, subject = timings.missing[key], key.subject
        for metric in ("num_samples", "mild_outliers", "severe_outliers"):
            yield _missing(missing, Key(metric, subject), "1", at)
        yield _missing(missing, Key("first_call_seconds", subject), "s", at)
        return
    samples = timings.samples[key]
    apart = outliers(samples)
    yield _said("num_samples", len(samples), key.subject, at)
    yield _said("mild_outliers", apart.mild, key.subject, at)
    yield _said("severe_outliers", apart.severe, key.subject, at)
    yield _said("first_call_seconds", timings.first_calls[key], key.subject, at, unit="s")


def _of_the_machine(timings: Timings, at: str) -> Iterator[Measurement]:
    """What others did to all of them."""
    if timings.other_load is None:
        yield _missing(_UNKNOWN_LOAD, Key("other_load", 0), "1", at)
    else:
        yield _said("other_load", timings.other_load, 0, at)
    yield _said("num_disturbed", timings.num_disturbed, 0, at)


def _said(metric: str, value: float, subject: int, at: str, unit: str = "1") -> Measurement:
    return Measurement(
        metric=metric, value=float(value), unit=unit, better="none", subject=subject, at=at
    )


def _missing(
    missing: Missing, key: Key, unit: str, at: str, better: Better = "none"
) -> Measurement:
    return Measurement(
        metric=key.metric, value=None, unit=unit, better=better, subject=key.subject, at=at,
        status=missing.status, reason=missing.reason,
    )  # fmt: skip


_MILD, _SEVERE = 1.5, 3.0


@dataclass(frozen=True)
class Outliers:
    """How many there are; none is both."""

    mild: int
    severe: int


def outliers(samples: Sequence[float]) -> Outliers:
    """Count samples beyond Tukey's fences (1977, "Exploratory Data Analysis", section 2D).

    Beyond 1.5 interquartile ranges from the quartiles a sample is mild, beyond 3 severe. They are
    shown, never dropped. Fewer than two samples have no outliers.
    """
    if len(samples) < 2:
        return Outliers(0, 0)
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")

    def num_beyond(fence: float) -> int:
        margin = fence * (third - first)
        return sum(not first - margin <= sample <= third + margin for sample in samples)

    severe = num_beyond(_SEVERE)
    return Outliers(mild=num_beyond(_MILD) - severe, severe=severe)
