"""Compute means, medians and paired differences with confidence intervals, and format numbers.

Intervals are Student's t, not a percentile bootstrap: at 3 seeds a nominal 95 % bootstrap interval
covers the truth three times in four, the t interval nineteen times in twenty (normal data).

A number is written with as many digits as its interval supports, and with a suitable SI prefix.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.special import expit, logit, stdtr, stdtrit
from scipy.stats import binomtest

CONFIDENCE = 0.95
_SURE_DIGITS = 12


def rounded(value: float, digits: int = _SURE_DIGITS) -> float:
    """Return the number rounded to some significant digits; infinities and NaN are unchanged.

    The last digits of logarithms, sums and products depend on the processor's vector instructions
    and on the number of threads. Fits, which amplify such differences, need fewer than 12 digits.
    """
    return float(f"{value:.{digits}g}")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its interval, in the unit of the values.

    Attributes:
        n: The number of values that it is computed from.
        point: The number, or None if there are no values.
        low: Lower end of the interval, or None if there is no interval.
        high: Upper end of the interval, or None if there is no interval.
    """

    n: int
    point: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval, or None if there is no interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def sure(self) -> Estimate:
        """The estimate rounded to the digits that are the same on all processors.

        They are 12 digits of the largest number, since an end near zero is a difference of larger
        numbers; whole numbers are unchanged.
        """
        known = [abs(x) for x in (self.point, self.low, self.high) if x is not None]
        largest = max(known, default=0.0)
        if not 0 < largest < math.inf:
            return self
        decimals = _SURE_DIGITS - 1 - math.floor(math.log10(largest))
        point, low, high = (
            x if x is None or not math.isfinite(x) or x == round(x) else round(x, decimals)
            for x in (self.point, self.low, self.high)
        )
        return Estimate(n=self.n, point=point, low=low, high=high)

    @property
    def is_symmetric(self) -> bool:
        """True if both ends are equally far from the point, or if there is no interval."""
        if self.point is None or self.low is None or self.high is None:
            return True
        return math.isclose(self.point - self.low, self.high - self.point, rel_tol=1e-6)

    def within(self, least: float, most: float) -> Estimate:
        """Return the estimate with its interval clipped to known bounds of the true value."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(self.low, least), high=min(self.high, most))

    @property
    def excludes_zero(self) -> bool:
        """True if the whole interval lies on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean and its two-sided Student's t interval, n - 1 degrees of freedom.

    Normality is assumed. A single value has no interval, and an empty sequence has no mean.
    """
    n = len(values)
    if n == 0:
        return Estimate(n=0)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(n=1, point=mean)
    half = float(stdtrit(n - 1, 0.5 + confidence / 2)) * standard_deviation(values) / math.sqrt(n)
    return Estimate(n=n, point=mean, low=mean - half, high=mean + half)


def share_interval(
    values: Sequence[float], confidence: float = CONFIDENCE, num_examples: int | None = None
) -> Estimate:
    """Return mean and interval of numbers between 0 and 1; the interval stays between them, too.

    If Student's t interval leaves these bounds, it is computed for the log-odds of the mean, with
    their error by the delta method, and transformed back, as is usual for shares in surveys.

    Args:
        values: The numbers, one for each seed.
        confidence: The confidence of the interval.
        num_examples: The number of examples that each is a share of. Equal numbers have no spread,
            so their interval is Wilson's for a share of so many examples; if it is None, their
            interval has no width.
    """
    plain = mean_interval(values, confidence)
    half, mean = plain.half_width, plain.point
    if num_examples and len(values) > 1 and len(set(values)) == 1 and 0 <= values[0] <= 1:
        test = binomtest(round(values[0] * num_examples), num_examples)
        wilson = test.proportion_ci(confidence, method="wilson")
        return replace(plain, point=values[0], low=float(wilson.low), high=float(wilson.high))
    if not half or mean is None or not 0 < mean < 1 or not all(0 <= x <= 1 for x in values):
        return plain
    if mean - half >= 0 and mean + half <= 1:
        return plain
    middle, reach = float(logit(mean)), half / (mean * (1 - mean))
    return replace(plain, low=float(expit(middle - reach)), high=float(expit(middle + reach)))


def standard_deviation(values: Sequence[float]) -> float:
    """Return the standard deviation, with n - 1 below; NaN for fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))


def smallest_level(values: Sequence[float], truth: float = 0.0) -> float:
    """Return the smallest level alpha at which the (1 - alpha) interval excludes `truth`.

    It is the two-sided p of the t test of the mean, and 1 for fewer than two values.
    """
    n = len(values)
    if n < 2:
        return 1.0
    gap = abs(math.fsum(values) / n - truth)
    error = standard_deviation(values) / math.sqrt(n)
    if error == 0:
        return 0.0 if gap else 1.0
    return 2 * float(stdtr(n - 1, -gap / error))


def median_range(values: Sequence[float]) -> Estimate:
    """Return the median with the smallest and largest value.

    It suits times, whose errors are one-sided.
    """
    if not values:
        return Estimate(n=0)
    point = statistics.median(values)
    if len(values) == 1:
        return Estimate(n=1, point=point)
    return Estimate(n=len(values), point=point, low=min(values), high=max(values))


def paired_differences(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[float, ...]:
    """Return the differences a - b, one for each seed that both have, in the order of the seeds."""
    return tuple(a[seed] - b[seed] for seed in sorted(a.keys() & b.keys()))


def paired_ratio(a: Mapping[int, float], b: Mapping[int, float]) -> float | None:
    """Return the median of a / b over the seeds that both have, or None if there are none."""
    ratios = [a[seed] / b[seed] for seed in sorted(a.keys() & b.keys()) if b[seed] != 0]
    return statistics.median(ratios) if ratios else None


_MINUS = "−"
_DECIMAL = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_PREFIXED = frozenset({"FLOP", "FLOP/s", "B/s", "tokens/s", "tokens_per_second"})
_SPELLED = {"k": "thousand", "M": "million", "G": "billion", "T": "trillion"}
_LARGE_COUNT = 10_000.0
_ROUNDING = 1e-9  # relative width; narrower intervals are rounding errors of equal numbers


@dataclass(frozen=True, kw_only=True)
class Notation:
    """The notation of the numbers of one column.

    Attributes:
        factor: The value of one displayed unit, in the unit of the values.
        unit: The displayed unit: ``ms``, ``MFLOP``; empty for a pure number.
        decimals: Digits after the point, or None for four significant digits each. If it is
            negative, so many digits before the point are zeros, as in ``6,300``.
    """

    factor: float = 1.0
    unit: str = ""
    decimals: int | None = None

    def write(self, value: float) -> str:
        """Return the number as text, without its unit."""
        scaled = rounded(value / self.factor)
        if self.decimals is None:
            return _proper(_significant(scaled))
        if self.decimals < 0:
            return _proper(f"{round(scaled, self.decimals):,.0f}")
        return _proper(f"{scaled:.{self.decimals}f}")

    def write_signed(self, value: float) -> str:
        """Return the number as text with its sign, also if it is positive."""
        text = self.write(value)
        is_zero = not text.strip(f"0.{_MINUS}")
        return text if text.startswith(_MINUS) or is_zero else f"+{text}"

    def with_unit(self, text: str) -> str:
        """Return a written number with its unit."""
        return f"{text} {self.unit}" if self.unit else text


def for_scores(unit: str, half_widths: Sequence[float], values: Sequence[float]) -> Notation:
    """Return a notation with two significant digits of the median interval.

    Without intervals it has four significant digits of the largest value.
    """
    largest = max((abs(value) for value in values), default=0.0)
    least = max(largest * _ROUNDING, math.ulp(0.0))
    widths = [width for width in half_widths if least <= width < math.inf]
    shown = "" if unit == "1" else unit
    if widths:
        return Notation(unit=shown, decimals=_decimals(statistics.median_low(widths), digits=2))
    return Notation(unit=shown, decimals=_decimals(largest, digits=4) if largest else 0)


def for_estimates(unit: str, estimates: Iterable[Estimate]) -> Notation:
    """Return the notation of `for_scores`, from the intervals and points of estimates."""
    known = [estimate for estimate in estimates if estimate.point is not None]
    widths = [width for one in known if (width := one.half_width) is not None]
    return for_scores(unit, widths, [one.point for one in known if one.point is not None])


def with_digits(notation: Notation, estimate: Estimate) -> Notation:
    """Return the notation, with more digits if it writes a significant difference as zero."""
    decimals, point = notation.decimals, estimate.point
    if decimals is None or not point or not estimate.excludes_zero:
        return notation
    if round(point / notation.factor, decimals):
        return notation
    return for_estimates(notation.unit or "1", [estimate])


def for_quantities(unit: str, values: Sequence[float]) -> Notation:
    """Return a notation whose prefix suits the median: for seconds, bytes, FLOPs, large counts."""
    typical = statistics.median_low([abs(value) for value in values]) if values else 0.0
    if unit == "s":
        return _prefixed(_SMALL, typical, "s")
    if unit in ("B", "bytes"):
        factor, prefix = next(((f, p) for f, p in _BINARY if typical >= f), (1.0, ""))
        return Notation(factor=factor, unit=f"{prefix}B" if prefix else unit)
    if unit in _PREFIXED:
        return _prefixed(_DECIMAL, typical, unit.replace("tokens_per_second", "tokens/s"))
    if unit == "1" and typical >= _LARGE_COUNT:
        factor, prefix = next((f, p) for f, p in _DECIMAL if typical >= f)
        return Notation(factor=factor, unit=_SPELLED.get(prefix, f"1e{round(math.log10(factor))}"))
    return Notation(unit="" if unit == "1" else unit)


def as_times(log_ratio: float) -> str:
    """Return the ratio with this logarithm as text, also where it is beyond the largest float."""
    return as_ratio(math.exp(max(-700.0, min(log_ratio, 700.0))))


def as_ratio(value: float) -> str:
    """Return a ratio with about three significant digits: ``0.45``, ``1.00``, ``16.4``, ``103``."""
    if value < 0.1:
        return f"{value:.2g}"
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"


def as_percent(share: float) -> str:
    """Return a share as a percentage with one decimal: ``1.5 %``."""
    return f"{100 * share:.1f} %"


def as_quantity(unit: str, value: float) -> str:
    """Return a quantity with three digits and a prefix: ``1.25 ms``, ``118 GFLOP/s``."""
    notation = for_quantities(unit, [value])
    return notation.with_unit(f"{value / notation.factor:.3g}")


def as_interval(estimate: Estimate, write: Callable[[float], str]) -> str:
    """Return an interval as ``[2.40, 2.43]``; empty if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{write(estimate.low)}, {write(estimate.high)}]"


def _prefixed(prefixes: Sequence[tuple[float, str]], typical: float, unit: str) -> Notation:
    factor, prefix = next(((f, p) for f, p in prefixes if typical >= f), (1.0, ""))
    return Notation(factor=factor, unit=f"{prefix}{unit}")


def _decimals(size: float, digits: int) -> int:
    return min(8, max(0, digits - 1 - math.floor(math.log10(size))))


def _significant(value: float) -> str:
    """Return four significant digits, without an exponent below 1e6; counts stay whole."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-6:
        return f"{value:.3e}"
    text = f"{value:.{_decimals(value if value > 0 else -value, 4)}f}"
    is_whole = math.isclose(value, round(value), rel_tol=1e-12)
    return text.rstrip("0").rstrip(".") if "." in text and is_whole else text


def _proper(text: str) -> str:
    """Return the text with a true minus sign, and without one before a zero."""
    if text.startswith("-"):
        return _MINUS + text[1:] if text.strip("-0.") else text[1:]
    return text
