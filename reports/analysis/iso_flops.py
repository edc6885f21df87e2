"""Finds the best size for a budget of FLOPs, from a fitted law, and the losses measured beside it.

Hoffmann et al. 2022 (arXiv:2203.15556), approach 2, train many sizes to the same FLOPs. Here the
measured losses of a size are read off between its own trainings, straight on logarithmic axes; each
of these was cooled down at its own end. FLOPs of a token come from the models' formulas, not from 6
N: embeddings and attention count for much in a small model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reports.analysis.scaling_data import LawGroup, LawVariant
from reports.analysis.scaling_law import FittedLaw, fitted_number
from reports.stats.intervals import CONFIDENCE, Estimate, rounded
from reports.stats.log_means import Array

NUM_BUDGETS = 4
_LEAST_SIZES = 3  # with a measured loss at a budget
_BEYOND = 30.0  # times the sizes that were trained, in which a best size is looked for
_NUM_SIZES = 241


@dataclass(frozen=True, kw_only=True)
class FlopsBudget:
    """One amount of training FLOPs.

    Attributes:
        measured: Parameters -> loss, read off between trainings of that size.
        curve: Parameters -> loss by the law, ascending.
        best_size: Parameters of the lowest loss by the law; without an interval where some draws
            have none in the range that is looked at, and without a point where the fit has none.
        best_loss: There.
    """

    flops: float
    measured: dict[float, float]
    curve: dict[float, float]
    best_size: Estimate
    best_loss: float


def flops_budgets(group: LawGroup) -> tuple[FlopsBudget, ...]:
    """Evenly spaced where at least three sizes were trained; none without a law or FLOPs."""
    law, per_token = group.law, group.flops_per_token()
    lines = _lines(group.seen)
    amounts = _amounts(list(lines.values()))
    if law is None or per_token is None or not amounts:
        return ()
    known = sorted(lines)
    sizes = np.geomspace(known[0] / _BEYOND, known[-1] * _BEYOND, _NUM_SIZES)
    costs = np.array([per_token(size) for size in sizes])
    return tuple(_budget(law, flops, lines, sizes, costs) for flops in amounts)


def frontier(group: LawGroup, amounts: Sequence[float]) -> dict[float, float]:
    """FLOPs -> the lowest loss that the law has for them; empty without a law.

    Of all sizes between the smallest and the largest that was trained.
    """
    law, per_token = group.law, group.flops_per_token()
    if law is None or per_token is None:
        return {}
    known = [one.point.num_parameters for one in (*group.seen, *group.held_out)]
    sizes = np.geomspace(min(known), max(known), _NUM_SIZES)
    costs = np.array([per_token(size) for size in sizes])
    every = np.array(amounts)[:, None]
    found = law.best.log_losses(np.tile(sizes, len(amounts)), (every / costs).ravel())
    lowest = found.reshape(len(amounts), len(sizes)).min(axis=1)
    return {flops: fitted_number(math.exp(y)) for flops, y in zip(amounts, lowest, strict=True)}


def _budget(
    law: FittedLaw,
    flops: float,
    lines: dict[float, dict[float, float]],
    sizes: Array,
    costs: Array,
) -> FlopsBudget:
    fitted = law.best.log_losses(sizes, flops / costs)[0]
    drawn = law.draws.log_losses(sizes, flops / costs)
    measured = {size: _between(line, flops) for size, line in sorted(lines.items())}
    least, most = min(lines) / 2, max(lines) * 2
    return FlopsBudget(
        flops=flops,
        measured={size: loss for size, loss in measured.items() if loss is not None},
        curve={
            float(n): fitted_number(math.exp(y))
            for n, y in zip(sizes, fitted, strict=True)
            if least <= n <= most
        },
        best_size=_best_size(law, sizes, fitted, drawn),
        best_loss=fitted_number(math.exp(fitted.min())),
    )


def _best_size(law: FittedLaw, sizes: Array, fitted: Array, drawn: Array) -> Estimate:
    best, lowest, last = int(np.argmin(fitted)), drawn.argmin(axis=1), len(sizes) - 1
    n = len(law.points)
    if best in (0, last):
        return Estimate(n=n)
    point = math.log(sizes[best])
    if np.isin(lowest, (0, last)).mean() > (1 - CONFIDENCE) / 2:
        return Estimate(n=n, point=_three_digits(math.exp(point)))
    tail = (1 - CONFIDENCE) / 2
    ends = np.quantile(np.log(sizes[lowest]) - point, [tail, 1 - tail])
    found = (math.exp(point + law.stretch * move) for move in (0.0, *map(float, ends)))
    point, low, high = map(_three_digits, found)
    return Estimate(n=n, point=point, low=low, high=high)


def _three_digits(value: float) -> float:
    """The sizes that are looked at lie 3 % apart."""
    return rounded(value, 3)


def _lines(seen: Sequence[LawVariant]) -> dict[float, dict[float, float]]:
    """Parameters -> FLOPs -> mean loss, ascending; of sizes with at least two trainings."""
    found: dict[float, dict[float, float]] = {}
    for one in sorted(seen, key=lambda one: (one.point.num_parameters, one.point.num_tokens)):
        if one.flops:
            found.setdefault(one.point.num_parameters, {})[one.flops] = one.mean
    return {size: line for size, line in found.items() if len(line) > 1}


def _amounts(lines: Sequence[dict[float, float]]) -> list[float]:
    """Of FLOPs, between the least and the most that at least three sizes were trained with."""
    spans = [(min(line), max(line)) for line in lines]
    ends = {end for span in spans for end in span}
    shared = [end for end in ends if sum(low <= end <= high for low, high in spans) >= _LEAST_SIZES]
    if not shared or min(shared) == max(shared):
        return []
    found = np.geomspace(min(shared), max(shared), NUM_BUDGETS)
    return [min(shared), *map(_three_digits, found[1:-1]), max(shared)]


def _between(line: dict[float, float], flops: float) -> float | None:
    """The loss of a size; None beyond its own trainings."""
    for (c0, y0), (c1, y1) in pairwise(line.items()):
        if c0 <= flops <= c1:
            share = math.log(flops / c0) / math.log(c1 / c0)
            return math.exp((1 - share) * math.log(y0) + share * math.log(y1))
    return None
