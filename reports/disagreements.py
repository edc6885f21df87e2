"""Where do measurement and Table 1 disagree, and why? Plain sentences, derived from the numbers.

Table 1 leaves out projections, fixed costs, and how well a machine is used. Which of them it is
can be computed: the FLOPs are split into theory's operations and n d^2; and the power of the time
is that of the FLOPs less that of the use made of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.growth import Axis, Growth, find
from reports.mixtures import growth_means, leading_term
from reports.scaling import MOST_DRIFT, Exponent, slope_over
from reports.stats.intervals import Estimate
from reports.utilisation import FLOPS, TIME, flops_per_second, matrix_peak

_OPERATIONS = "theory_operations"
_PEAK, _FORMULA = "forward_peak_bytes", "forward_formula_bytes"
_PATH = "maximum_path_length"
_LEAST_FACTOR = 0.8  # times theory's length, or the inverse, to be worth a word
_COUNTED = {
    "sequential_operations": "Sequential operations grow",
    _PATH: "The maximum path length grows",
}
_SYMBOLS: Mapping[Axis, str] = {"length": "n", "dim": "d"}
_PROJECTIONS: Mapping[Axis, int] = {"length": 1, "dim": 2}  # powers of n d^2
_EXACT = 0.01  # relative; FLOPs split so well are what they are said to be
_MEMORY_MARGIN = 0.05
_LEAST_SHARE = 0.1  # of what does not grow, to be worth a word


@dataclass(frozen=True, kw_only=True)
class Power:
    """A measured power, and that of theory over the same places.

    Attributes:
        theory: None where theory has no formula.
    """

    measured: Exponent
    theory: float | None

    @property
    def disagrees(self) -> bool:
        """Whether theory lies beyond the interval; for what is exact, more than 0.05 away.

        Never, where a place is noisy.
        """
        return self.theory is not None and excludes(self.measured, self.theory)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One variant in one environment, and all that is known of it.

    Attributes:
        growths: Of that environment, with the counts.
        powers: Metric -> axis -> power.
    """

    growths: Sequence[Growth]
    variant: str
    environment_id: str
    powers: Mapping[str, Mapping[Axis, Power]]


def excludes(measured: Exponent, power: float) -> bool:
    """Whether a power is out of the question for what was measured."""
    found = measured.estimate
    if found.point is None or measured.is_noisy:
        return False
    if found.low is None or found.high is None:
        return abs(found.point - power) > MOST_DRIFT
    return not found.low <= power <= found.high


def disagreements(case: Case) -> Iterator[str]:
    """Every sentence that must stand beside the row."""
    for axis in _SYMBOLS:
        yield from _about_flops(case, axis)
        yield from _about_time(case, axis)
    yield from _about_memory(case)
    for metric in _COUNTED:
        yield from _about_steps(case, metric)


def _about_flops(case: Case, axis: Axis) -> Iterator[str]:
    power = case.powers[FLOPS][axis]
    if power.disagrees and power.theory is not None:
        grown, expected = _written(power.measured.estimate, axis), _of(power.theory, axis)
        yield f"FLOPs grow with {grown} here, not {expected}: {_why_flops(case, axis)}."


def _why_flops(case: Case, axis: Axis) -> str:
    """Which of them Table 1 leaves out."""
    counts, formula = (_numbers(case, metric, axis) for metric in (FLOPS, _OPERATIONS))
    places = sorted(counts.keys() & formula.keys())
    flops = np.array([counts[place] for place in places])
    theory = np.array([formula[place] for place in places])
    rest = np.array(places, dtype=np.float64) ** _PROJECTIONS[axis]
    parts = np.stack([theory, rest], axis=1) / flops[:, None]
    scale = parts.max(axis=0)
    shares = parts / scale * np.linalg.lstsq(parts / scale, np.ones(len(places)), rcond=None)[0]
    first, last = (_at(place, axis) for place in (places[0], places[-1]))
    is_split = np.abs(shares.sum(axis=1) - 1).max() < _EXACT and (shares >= 0).all()
    if is_split and len(places) > shares.shape[1]:
        return (
            "the projections (n d^2), which Table 1 leaves out, make up "
            f"{_percent(shares[0, 1])} of them at {first} and {_percent(shares[-1, 1])} at {last}"
        )
    a, b = flops[0] / theory[0], flops[-1] / theory[-1]
    return f"to each operation of the formula belong {a:.3g} FLOPs at {first} and {b:.3g} at {last}"


def _about_time(case: Case, axis: Axis) -> Iterator[str]:
    power, flops = case.powers[TIME][axis], case.powers[FLOPS][axis].measured
    measured, places = power.measured, power.measured.places
    if measured.estimate.point is None or not places:
        return
    counts = find(case.growths, FLOPS, axis)
    beside = slope_over(counts, case.variant, places).point if counts else None
    is_beside = beside is None or not excludes(measured, beside)
    if is_beside and not power.disagrees:
        return
    reasons = [_why_flops_differ(power, flops, axis)]
    if not is_beside:
        reasons += [_why_use(case, axis, places), _why_fixed(case, axis, places)]
    head = f"Time grows with {_written(measured.estimate, axis)} here"
    if power.disagrees and power.theory is not None:
        head += f", not {_of(power.theory, axis)}"
    elif beside is not None:
        head += f", its FLOPs with {_of(beside, axis)}"
    because = "; ".join(filter(None, reasons))
    yield f"{head}: {because or 'it has no FLOPs by formula that could say why'}."


def _why_flops_differ(power: Power, flops: Exponent, axis: Axis) -> str:
    point = flops.estimate.point
    if power.theory is None or point is None or not excludes(flops, power.theory):
        return ""
    return f"its FLOPs themselves grow with {_of(point, axis)}"


def _why_use(case: Case, axis: Axis, places: Sequence[int]) -> str:
    """How the use made of the machine changes over the places of the exponent."""
    ends = (places[0], places[-1])
    rates = [
        flops_per_second(case.growths, case.variant, place, axis, case.environment_id)
        for place in ends
    ]
    first, last = rates
    if first is None or last is None:
        return ""
    peak = matrix_peak(case.growths, case.environment_id)
    verb = "rises" if last > first else "falls"
    between = f"between {places[0]:,} and {places[-1]:,} tokens"
    if axis == "dim":
        between = f"between the widths {places[0]:,} and {places[-1]:,}"
    if peak is None:
        low, high = _told_apart(first / 1e9, last / 1e9)
        return f"the rate of work {verb} from {low} to {high} GFLOP/s {between}"
    low, high = _told_apart(100 * first / peak, 100 * last / peak)
    return f"the machine's use {verb} from {low} % to {high} % of its matrix peak {between}"


def _why_fixed(case: Case, axis: Axis, places: Sequence[int]) -> str:
    """What does not grow, as far as a mixture of powers finds it."""
    growth = find(case.growths, TIME, axis, case.environment_id)
    found = leading_term(growth_means(growth, case.variant)) if growth else None
    if growth is None or found is None:
        return ""
    seconds = growth.point(case.variant, places[0])
    share = float(found.coefficients[0]) / seconds if seconds else 0.0
    if share < _LEAST_SHARE:
        return ""
    symbol, where = _SYMBOLS[axis], _at(places[0], axis)
    return f"what does not grow with {symbol} is still {_percent(share)} of it at {where}"


def _about_memory(case: Case) -> Iterator[str]:
    peaks, formula = (_numbers(case, metric, "length") for metric in (_PEAK, _FORMULA))
    places = sorted(peaks.keys() & formula.keys())
    if not places:
        return
    last = places[-1]
    ratio = peaks[last] / formula[last]
    if abs(ratio - 1) <= _MEMORY_MARGIN:
        return
    kind = "more" if ratio > 1 else "less"
    rest = abs(peaks[last] - formula[last]) / 2**20
    yield (
        f"The peak memory of the forward pass is {ratio:.2f} times its formula at "
        f"{_at(last, 'length')}: {kind} is held at once than the formula counts, by {rest:.3g} MiB."
    )


def _about_steps(case: Case, metric: str) -> Iterator[str]:
    power = case.powers[metric]["length"]
    counts, formula = (_numbers(case, name, "length") for name in (metric, f"theory_{metric}"))
    places = sorted(counts.keys() & formula.keys())
    if not power.disagrees or power.theory is None:
        yield from _about_constant(metric, counts, formula, places)
        return
    if _is_rounding(counts, formula, places):
        return
    grown, expected = _written(power.measured.estimate, "length"), _of(power.theory, "length")
    ends = (places[0], places[-1])
    found = " and ".join(f"{counts[place]:,.4g} at {_at(place, 'length')}" for place in ends)
    by_theory = " and ".join(f"{formula[place]:,.4g}" for place in ends)
    more = "more" if counts[places[-1]] > formula[places[-1]] else "fewer"
    yield (
        f"{_COUNTED[metric]} with {grown} here, not {expected}: this form of the mixer has "
        f"{more} dependent steps, {found}, where the formula gives {by_theory}."
    )


def _about_constant(
    metric: str, counts: Mapping[int, float], formula: Mapping[int, float], places: Sequence[int]
) -> Iterator[str]:
    """A path is counted in layers, so that its constant means something; a chain's does not."""
    if metric != _PATH or not places:
        return
    last = places[-1]
    ratio = counts[last] / formula[last]
    if _LEAST_FACTOR < ratio < 1 / _LEAST_FACTOR:
        return
    yield (
        f"The maximum path length grows as theory says and is {ratio:.2g} times as long, "
        f"{counts[last]:,.4g} at {_at(last, 'length')} where the formula gives "
        f"{formula[last]:,.4g}: Table 1 leaves constant factors out, as that a centred kernel of "
        "k taps reaches (k - 1) / 2 tokens to a side."
    )


def _is_rounding(
    counts: Mapping[int, float], formula: Mapping[int, float], places: Sequence[int]
) -> bool:
    """Whether one constant times the formula is within a step of every count: they are whole."""
    least = max((counts[place] - 1) / formula[place] for place in places)
    most = min((counts[place] + 1) / formula[place] for place in places)
    return least <= most


def _numbers(case: Case, metric: str, axis: Axis) -> dict[int, float]:
    """Place -> positive number of the variant."""
    growth = find(case.growths, metric, axis)
    if growth is None:
        return {}
    points = {place: growth.point(case.variant, place) for place in growth.places}
    return {place: point for place, point in points.items() if point}


def _of(power: float, axis: Axis) -> str:
    return f"{_SYMBOLS[axis]}^{power:.2f}"


def _written(estimate: Estimate, axis: Axis) -> str:
    assert estimate.point is not None, "only what was measured disagrees"
    if estimate.low is None or estimate.high is None:
        return _of(estimate.point, axis)
    return f"{_of(estimate.point, axis)} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _at(place: int, axis: Axis) -> str:
    return f"{place:,} tokens" if axis == "length" else f"width {place:,}"


def _told_apart(first: float, last: float) -> tuple[str, str]:
    """Both with two significant digits, or as many as show that they differ."""
    for digits in range(2, 6):
        texts = _significant(first, digits), _significant(last, digits)
        if texts[0] != texts[1]:
            break
    return texts


def _significant(value: float, digits: int) -> str:
    decimals = max(0, digits - 1 - math.floor(math.log10(value)))
    return f"{value:,.{decimals}f}"


def _percent(share: float) -> str:
    size = 100 * share
    return f"{size:.0f} %" if size >= 10 else f"{size:.2g} %"
