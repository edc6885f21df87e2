"""How far may the mean logarithm at each place be off? What slopes, fits and crossovers rest on.

Growth is a matter of ratios, so everything is done on logarithms. Each (place, process) is a
process of its own, so the errors of two places are independent; that their sizes are alike is
supposed, which lets all places of a variant share one standard deviation, and so gives even three
processes at seven places fourteen degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from reports.stats.intervals import CONFIDENCE, Estimate

Array = npt.NDArray[np.float64]
NUM_DRAWS = 2000
_SEED = 20130620  # of every redraw: the same numbers give the same bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class LogMeans:
    """Logarithms of one quantity at several places.

    Attributes:
        places: Ascending.
        samples: At each place, the natural logarithm of each process's number.
    """

    places: tuple[int, ...]
    samples: tuple[tuple[float, ...], ...]

    @cached_property
    def means(self) -> Array:
        """`[place]`, over processes."""
        return np.array([math.fsum(some) / len(some) for some in self.samples], dtype=np.float64)

    @cached_property
    def counts(self) -> Array:
        """`[place]`, processes."""
        return np.array([len(some) for some in self.samples], dtype=np.float64)

    @cached_property
    def freedom(self) -> int:
        """Degrees of freedom of `spread`; 0 where every number stands alone, as counts do."""
        return int(np.sum(self.counts - 1)) if self.places else 0

    @cached_property
    def spread(self) -> float:
        """Standard deviation of one process, pooled over all places; 0 for what is exact."""
        if not self.freedom:
            return 0.0
        deviations = (
            (x - mean) ** 2
            for some, mean in zip(self.samples, self.means, strict=True)
            for x in some
        )
        return math.sqrt(math.fsum(deviations) / self.freedom)

    @property
    def quantile(self) -> float:
        """Of Student's t."""
        return float(stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))

    def contrast(self, weights: Sequence[float] | Array) -> Estimate:
        """Weighted sum of the means with its 95 % interval; without one for what is exact.

        Args:
            weights: One a place.
        """
        by = np.asarray(weights, dtype=np.float64)
        point = float(by @ self.means)
        n = int(self.counts[by != 0].sum())
        if not self.freedom:
            return Estimate(n=n, point=point)
        half = self.quantile * self.error(by)
        return Estimate(n=n, point=point, low=point - half, high=point + half)

    def error(self, weights: Array) -> float:
        """Standard error of a weighted sum of the means."""
        return self.spread * math.sqrt(float(np.sum(weights**2 / self.counts)))

    def redraws(self) -> Array:
        """`[draw, place]`: means as they might have come out, by a residual bootstrap.

        Residuals around each place's mean, scaled by sqrt(P / (P - 1)) and pooled over places, are
        drawn with replacement. A percentile interval of such draws is that of a normal
        distribution with a known spread; since it is not known, deviations are stretched by
        Student's t over the normal quantile.
        """
        rng = np.random.default_rng(_SEED)
        draws = np.tile(self.means, (NUM_DRAWS, 1))
        if not self.freedom:
            return draws
        stretch = self.quantile / float(ndtri(0.5 + CONFIDENCE / 2))
        for index, count in enumerate(self.counts.astype(int)):
            drawn = rng.choice(self._residuals, size=(NUM_DRAWS, count))
            draws[:, index] += stretch * drawn.mean(axis=1)
        return draws

    @cached_property
    def _residuals(self) -> Array:
        """Of all places with several processes, scaled to the spread of one process."""
        found = [
            (x - mean) * math.sqrt(len(some) / (len(some) - 1))
            for some, mean in zip(self.samples, self.means, strict=True)
            if len(some) > 1
            for x in some
        ]
        return np.array(found, dtype=np.float64)


def log_means(values: Mapping[int, Sequence[float]]) -> LogMeans:
    """The logarithms of positive numbers, by place; a place without one is left out."""
    logs = {
        place: tuple(math.log(value) for value in some if value > 0)
        for place, some in sorted(values.items())
    }
    kept = {place: some for place, some in logs.items() if some}
    return LogMeans(places=tuple(kept), samples=tuple(kept.values()))
