"""Measure Table 1 of "Attention Is All You Need" (arXiv:1706.03762), and explain its gaps.

Time is that of the forward and backward pass, FLOPs are those of the forward pass by formula, and
memory is the peak of the forward and backward pass, for which theory has no formula. Table 1 leaves
out projections, fixed costs, and machine utilisation. The cause of a gap can be computed: the FLOPs
are split into theory's operations and n d^2, and the exponent of the time is that of the FLOPs
minus that of the utilisation.

The utilisation is the number of FLOPs by formula, three times the forward ones since the backward
pass costs twice as much, over the measured time of both, over the peak rate that the same
instrument measured with a large matrix product. Elementwise work does not count, so memory-bound
operations have a low utilisation.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bakeoff.reports.analysis.exponent import Exponent, exponent, growth_means, slope_over
from bakeoff.reports.results.length_sweep import (
    AXIS_SYMBOLS,
    Axis,
    Growth,
    find,
    measured_in,
    place_label,
)
from bakeoff.reports.stats.intervals import as_interval
from bakeoff.reports.stats.log_means import leading_term
from bakeoff.suite.schema import About, MixerFacts

FLOPS, TIME = "forward_flops", "forward_backward_seconds"
MATRIX_PEAK, COPY_PEAK = "matrix_peak_flops_per_second", "copy_peak_bytes_per_second"
_FORWARD_AND_BACKWARD = 3
MEMORY = "forward_backward_peak_bytes"
STEPS, PATH = "sequential_operations", "maximum_path_length"
_PEAK = "forward_peak_bytes"
_FORMULAS: Mapping[str, str] = {
    TIME: "theory_operations",
    FLOPS: "theory_operations",
    STEPS: "theory_sequential_operations",
    PATH: "theory_maximum_path_length",
    _PEAK: "forward_formula_bytes",
}
_PROJECTIONS: Mapping[Axis, int] = {"length": 1, "dim": 2}  # powers of n d^2
_EXACT = 0.01  # largest relative error of a split that explains the FLOPs
_LEAST_FIXED = 0.1  # smallest share of a fixed cost that is reported
_MEMORY_MARGIN = 0.05
_LEAST_FACTOR = 0.8  # a path length within this factor of theory's is not reported

_Pairs = Mapping[int, tuple[float, float]]  # place -> (measured, by formula)


@dataclass(frozen=True, kw_only=True)
class TableOneRow:
    """The measurements of one variant.

    Attributes:
        variant: The label of the variant.
        theory: Its row of Table 1, as formulas.
        growths: The measurements of one environment, and the counts.
        exponents: (metric, axis) -> the measured exponent, with that of theory.
    """

    variant: str
    theory: MixerFacts
    growths: Sequence[Growth]
    exponents: Mapping[tuple[str, Axis], Exponent]

    def numbers(self, metric: str, axis: Axis = "length") -> dict[int, float]:
        """Return place, ascending -> the variant's median, for places that have one."""
        growth = find(self.growths, metric, axis)
        points = {p: growth.point(self.variant, p) for p in growth.places} if growth else {}
        return {place: point for place, point in points.items() if point is not None}


def table_one(
    about: About, growths: Sequence[Growth], environment_id: str
) -> tuple[TableOneRow, ...]:
    """Return one row per variant, in the order of the ablation.

    Args:
        about: The description of the sweep, with variants, mixers and formulas.
        growths: The result of `bakeoff.reports.results.length_sweep.growths`.
        environment_id: The environment from which times and memory are taken.
    """
    here = measured_in(growths, environment_id)
    seen = {variant for growth in growths for variant in growth.variants}
    return tuple(_row(about, here, variant) for variant in about.variants if variant in seen)


def theory_gaps(row: TableOneRow) -> Iterator[str]:
    """Yield disagreements of measurement and theory as clauses with their causes in parentheses."""
    for axis in AXIS_SYMBOLS:
        of_flops = row.exponents[FLOPS, axis]
        if of_flops.disagrees:
            yield f"FLOPs grow with {_beside_theory(of_flops, axis)} ({_why_flops(row, axis)})"
        yield from _about_time(row, axis)
    yield from _about_memory(row)
    yield from _about_steps(row, STEPS, "sequential operations grow")
    yield from _about_steps(row, PATH, "the maximum path length grows")
    yield from _about_path(row)


def _row(about: About, here: Sequence[Growth], variant: str) -> TableOneRow:
    exponents = {
        (metric, axis): exponent(
            find(here, metric, axis), variant, find(here, _FORMULAS.get(metric, ""), axis)
        )
        for metric in (TIME, FLOPS, MEMORY, STEPS, PATH)
        for axis in AXIS_SYMBOLS
    }
    return TableOneRow(
        variant=variant,
        theory=about.subjects.get(variant, MixerFacts(mixer="")),
        growths=here,
        exponents=exponents,
    )


def _why_flops(row: TableOneRow, axis: Axis) -> str:
    """Return the share of projections if they explain the FLOPs; else FLOPs per operation."""
    pairs = _pairs(row, FLOPS, axis)
    places = np.array(list(pairs), dtype=np.float64)
    flops, theory = np.array(list(pairs.values())).T
    parts = np.stack([theory, places ** _PROJECTIONS[axis]], axis=1) / flops[:, None]
    scale = parts.max(axis=0)
    shares = parts / scale * np.linalg.lstsq(parts / scale, np.ones(len(places)), rcond=None)[0]
    first, last = (place_label(axis, place) for place in (min(pairs), max(pairs)))
    is_split = np.abs(shares.sum(axis=1) - 1).max() < _EXACT and (shares >= 0).all()
    if is_split and len(places) > shares.shape[1]:
        most, where = max((shares[0, 1], first), (shares[-1, 1], last))
        return f"projections, which Table 1 omits, are {_percent(most)} of them at {where}"
    a, b = flops[0] / theory[0], flops[-1] / theory[-1]
    return f"{a:.3g} to an operation of the formula at {first}, {b:.3g} at {last}"


def _about_time(row: TableOneRow, axis: Axis) -> Iterator[str]:
    time = row.exponents[TIME, axis]
    of_flops = slope_over(find(row.growths, FLOPS, axis), row.variant, time.places)
    follows_flops = of_flops is None or not time.excludes(of_flops)
    if follows_flops and not time.disagrees:
        return
    reasons = [_why_flops_differ(row, axis)]
    if not follows_flops:
        reasons += [_why_use(row, axis), _why_fixed(row, axis)]
    grown = _beside_theory(time, axis)
    if not time.disagrees and of_flops is not None:
        reasons = [f"FLOPs grow with {_power(of_flops, axis)}", *reasons[1:]]
    because = ", ".join(filter(None, reasons))
    yield f"time grows with {grown} ({because or 'no FLOP formula is available to explain this'})"


def _why_flops_differ(row: TableOneRow, axis: Axis) -> str:
    theory, flops = row.exponents[TIME, axis].theory, row.exponents[FLOPS, axis]
    if theory is None or flops.estimate.point is None or not flops.excludes(theory):
        return ""
    return f"FLOPs grow with {_power(flops.estimate.point, axis)}"


def _why_use(row: TableOneRow, axis: Axis) -> str:
    """Return how the utilisation of the machine changes over the places of the exponent."""
    start, *_, end = row.exponents[TIME, axis].places
    first, last = (flops_per_second(row.growths, row.variant, p, axis) for p in (start, end))
    if first is None or last is None:
        return ""
    peak = machine_peak(row.growths, MATRIX_PEAK)
    verb = "rises" if last > first else "falls"
    if peak is None:
        low, high = _distinct(first / 1e9, last / 1e9)
        return f"the rate of work {verb} from {low} to {high} GFLOP/s"
    low, high = _distinct(100 * first / peak, 100 * last / peak)
    return f"utilisation of the matrix peak {verb} from {low} % to {high} %"


def _why_fixed(row: TableOneRow, axis: Axis) -> str:
    """Return the share of the fixed cost, if the fit of a mixture of powers finds one."""
    growth, place = find(row.growths, TIME, axis), row.exponents[TIME, axis].places[0]
    found = leading_term(growth_means(growth, row.variant)) if growth else None
    seconds = growth.point(row.variant, place) if growth else None
    share = float(found.coefficients[0]) / seconds if found and seconds else 0.0
    if share < _LEAST_FIXED:
        return ""
    symbol, where = AXIS_SYMBOLS[axis], place_label(axis, place)
    return f"the part that does not grow with {symbol} is {_percent(share)} of it at {where}"


def _about_memory(row: TableOneRow) -> Iterator[str]:
    pairs = _pairs(row, _PEAK)
    if not pairs:
        return
    last, (measured, formula) = max(pairs.items())
    if abs(measured / formula - 1) > _MEMORY_MARGIN:
        yield f"forward memory is {measured / formula:.2f} times its formula at {last:,} tokens"


def _about_steps(row: TableOneRow, metric: str, head: str) -> Iterator[str]:
    found, pairs = row.exponents[metric, "length"], _pairs(row, metric)
    if not found.disagrees or _is_rounding(pairs):
        return
    (start, (a, b)), *_, (end, (c, d)) = pairs.items()
    yield (
        f"{head} with {_beside_theory(found, 'length')} ({a:,.4g} at {start:,} tokens and "
        f"{c:,.4g} at {end:,} tokens, by formula {b:,.4g} and {d:,.4g})"
    )


def _about_path(row: TableOneRow) -> Iterator[str]:
    """Yield a clause on the path length if it differs from theory's by a constant factor.

    A path is counted in layers, so a constant factor is meaningful, unlike for sequential
    operations.
    """
    pairs = _pairs(row, PATH)
    if row.exponents[PATH, "length"].disagrees or not pairs:
        return
    measured, formula = pairs[max(pairs)]
    if not _LEAST_FACTOR < measured / formula < 1 / _LEAST_FACTOR:
        yield (
            f"the maximum path length is {measured / formula:.2g} times the formula’s, because "
            "Table 1 omits constant factors"
        )


def _is_rounding(pairs: _Pairs) -> bool:
    """Return True if the formula times one constant is within 1 of every count.

    Counts are whole numbers, so such a difference may be rounding.
    """
    least = max((count - 1) / formula for count, formula in pairs.values())
    most = min((count + 1) / formula for count, formula in pairs.values())
    return least <= most


def _pairs(row: TableOneRow, metric: str, axis: Axis = "length") -> _Pairs:
    """Return place, ascending -> (measured, by formula), where neither is missing or zero."""
    formula = row.numbers(_FORMULAS[metric], axis)
    pairs = {p: (number, formula.get(p, 0.0)) for p, number in row.numbers(metric, axis).items()}
    return {place: pair for place, pair in pairs.items() if all(pair)}


def _power(exponent: float, axis: Axis) -> str:
    return f"{AXIS_SYMBOLS[axis]}^{exponent:.2f}"


def _beside_theory(found: Exponent, axis: Axis) -> str:
    """Return text as ``n^1.94 [1.92, 1.96], not n^2.00``, with theory's only if it disagrees."""
    estimate = found.estimate
    assert estimate.point is not None, "only what was measured disagrees"
    text = f"{_power(estimate.point, axis)} {as_interval(estimate, '{:.2f}'.format)}".rstrip()
    if found.theory is None or not found.disagrees:
        return text
    return f"{text}, not {_power(found.theory, axis)}"


def _distinct(*numbers: float) -> list[str]:
    """Write numbers with two significant digits, or as many as make them differ, at most five."""
    for digits in range(2, 6):
        texts = [f"{x:,.{max(0, digits - 1 - math.floor(math.log10(x)))}f}" for x in numbers]
        if len(set(texts)) == len(texts):
            break
    return texts


def _percent(share: float) -> str:
    size = 100 * share
    return f"{size:.0f} %" if size >= 10 else f"{size:.2g} %"


def flops_per_second(
    here: Iterable[Growth], variant: str, place: int, axis: Axis = "length"
) -> float | None:
    """Return the rate of the forward and backward pass, or None if FLOPs or time are missing.

    Args:
        here: The growths of one environment.
        variant: The label of the variant.
        place: The number of tokens, or the width.
        axis: The axis of `place`.
    """
    counts, times = (find(here, metric, axis) for metric in (FLOPS, TIME))
    if counts is None or times is None:
        return None
    num_flops, seconds = counts.point(variant, place), times.point(variant, place)
    return _FORWARD_AND_BACKWARD * num_flops / seconds if num_flops and seconds else None


def machine_peak(here: Iterable[Growth], metric: str) -> float | None:
    """Return a peak rate of the machine, the median over all processes, or None without one."""
    found = [
        value
        for growth in here
        if growth.metric == metric and growth.axis in AXIS_SYMBOLS
        for variant in growth.variants
        for place in growth.places
        for value in growth.values(variant, place).values()
    ]
    return statistics.median(found) if found else None
