"""Fit how a loss falls with parameters and training tokens, and predict trainings not yet seen.

    L(N, D) = E + A / N^alpha + B / D^beta

Hoffmann et al. 2022 (arXiv:2203.15556), approach 3, equation 2: a Huber loss on the logarithms of
the losses, with the logarithm of the sum as a log-sum-exp. They fix the width of the Huber loss at
1e-3 and minimise it by L-BFGS; Besiroglu et al. 2024 (arXiv:2404.10102) found that this had stopped
too early, and that the intervals are implausibly narrow. Here the width is 1.345 robust standard
deviations of the residuals, whatever the noise is, and the optimiser is Levenberg-Marquardt, from
25 starts, run until convergence.

Intervals are those of a residual bootstrap over points, where a point is the mean over the seeds of
one size and one amount of data. So they cover both the noise of seeds and the misfit of the law.
Five numbers are fitted to a few points, so residuals are scaled by sqrt(n / (n - 5)), and the
interval is stretched by Student's t over the normal quantile. docs/statistics.md gives the
coverage. No interval covers a law that changes beyond the points: a held-out training tests that.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.special import ndtri, stdtrit

from bakeoff.reports.stats.intervals import CONFIDENCE, Estimate, rounded
from bakeoff.reports.stats.log_means import Array

NUM_FITTED = 5  # E, A, alpha, B, beta
MIN_POINTS = NUM_FITTED + 3
MIN_SIZES = 3  # distinct numbers of parameters, and of tokens
_NUM_DRAWS = 500
_SEED = 20220329
_WIDTH = 1.345  # Huber width in standard deviations; 95 % efficient for normal errors
_MAD = 1.4826  # standard deviation over median absolute deviation, for normal errors
_FINEST = 1e-9
_STARTS = (0.1, 0.25, 0.5, 1.0, 1.5)  # starting values of both exponents
_LEAST_EXPONENT, _MOST_EXPONENT = 0.01, 4.0
_LEAST_TERM = math.log(1e-6)  # lower limit of a term relative to the mean loss
_MOST_STEPS = 200  # limit for each fit; most converge after ten
_SMALLEST_GAIN, _MOST_DAMPING = 1e-9, 1e8
_MOST_TO_SETTLE = 0.01  # a fit is refined if its first step is shorter
_DIGITS = 6  # significant digits of a law; fits on two processors differ in the 13th


@dataclass(frozen=True, kw_only=True, order=True)
class ScalingPoint:
    """The trainings of one size on one amount of data.

    Attributes:
        num_parameters: Parameters of the whole model.
        num_tokens: Tokens trained on, repeated ones counted again.
        losses: Losses, one per seed, positive.
    """

    num_parameters: float
    num_tokens: float
    losses: tuple[float, ...]

    @property
    def log_loss(self) -> float:
        """The mean of the logarithms over seeds; independent of their order."""
        return math.fsum(map(math.log, self.losses)) / len(self.losses)


class TooFewPoints(ValueError):
    """Raised if a law cannot be fitted; the message is a phrase with the reason."""


@dataclass(frozen=True, eq=False)
class LawNumbers:
    """The parameters of several laws, one per draw.

    Attributes:
        theta: `[draw, 5]`: the logarithms of E, of A and alpha, and of B and beta; A and B are
            taken at the centre.
        centre: The logarithms of the parameters and tokens at which A and B are taken.
    """

    theta: Array
    centre: tuple[float, float]

    def log_loss(self, num_parameters: float, num_tokens: float) -> Array:
        """Return the log loss at one size and one amount of data, `[draw]`."""
        return self.log_losses(np.array([num_parameters]), np.array([num_tokens]))[:, 0]

    def log_losses(self, num_parameters: Array, num_tokens: Array) -> Array:
        """Return the log losses at sizes and amounts of data, `[place]` each: `[draw, place]`."""
        x, z = np.log(num_parameters) - self.centre[0], np.log(num_tokens) - self.centre[1]
        return _terms(self.theta, x, z)[0]

    @property
    def irreducible(self) -> Array:
        """The irreducible loss E, `[draw]`."""
        return np.exp(self.theta[:, 0])

    @property
    def parameter_exponent(self) -> Array:
        """The power of the parameters, alpha, `[draw]`."""
        return np.exp(self.theta[:, 2])

    @property
    def token_exponent(self) -> Array:
        """The power of the tokens, beta, `[draw]`."""
        return np.exp(self.theta[:, 4])

    @property
    def parameter_scale(self) -> Array:
        """The coefficient A, `[draw]`."""
        return np.exp(self.theta[:, 1] + self.parameter_exponent * self.centre[0])

    @property
    def token_scale(self) -> Array:
        """The coefficient B, `[draw]`."""
        return np.exp(self.theta[:, 3] + self.token_exponent * self.centre[1])

    @property
    def size_exponent(self) -> Array:
        """The power of FLOPs with which the best size grows, for FLOPs proportional to N D."""
        return self.token_exponent / (self.parameter_exponent + self.token_exponent)


Quantity = Callable[[LawNumbers], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLaw:
    """A fitted law with its bootstrap draws.

    Attributes:
        points: The points that it was fitted to, by size, then by amount of data.
        best: The fit, as a single draw.
        draws: The fits of the bootstrap.
        residuals: The logarithm of measured over fitted loss, `[point]`.
        noise: The residual of a new point in each draw, `[draw]`.
    """

    points: tuple[ScalingPoint, ...]
    best: LawNumbers
    draws: LawNumbers
    residuals: Array
    noise: Array

    @cached_property
    def stretch(self) -> float:
        """The ratio of Student's t quantile to the normal one."""
        return _stretch(len(self.points) - NUM_FITTED)

    @property
    def typical_miss(self) -> float:
        """The root mean squared residual with n - 5 degrees of freedom, as a share of the loss."""
        square = float(np.sum(self.residuals**2)) / (len(self.points) - NUM_FITTED)
        return fitted_number(math.sqrt(square))

    def loss(self, num_parameters: float, num_tokens: float) -> float:
        """Return the fitted loss at one size and one amount of data."""
        return fitted_number(math.exp(self.best.log_loss(num_parameters, num_tokens)[0]))

    def positive(self, quantity: Quantity) -> Estimate:
        """Return a positive quantity of the law; its interval is stretched on a log axis."""
        point, drawn = np.log(quantity(self.best)), np.log(quantity(self.draws))
        return self._estimate(float(point[0]), drawn - point[0], is_log=True)

    def irreducible(self) -> Estimate:
        """Return E, which may be zero: its interval is linear and clipped at zero."""
        point, drawn = self.best.irreducible, self.draws.irreducible
        found = self._estimate(float(point[0]), drawn - point[0], is_log=False)
        assert found.low is not None, "a law has an interval"
        return replace(found, low=max(0.0, found.low))

    def predicted(self, num_parameters: float, num_tokens: float) -> Estimate:
        """Return the mean loss of new trainings; the interval includes the noise of one point."""
        point = float(self.best.log_loss(num_parameters, num_tokens)[0])
        moved = self.draws.log_loss(num_parameters, num_tokens) - point + self.noise
        return self._estimate(point, moved, is_log=True)

    def is_identified(self, quantity: Quantity) -> bool:
        """Return True if the points determine a quantity: its interval is narrower than itself."""
        found = self.positive(quantity)
        assert found.point is not None, "a law has numbers"
        return found.half_width is not None and 2 * found.half_width < found.point

    def _estimate(self, point: float, moved: Array, *, is_log: bool) -> Estimate:
        low, high = (point + self.stretch * end for end in _ends(moved))
        ends = (math.exp(x) if is_log else x for x in (point, low, high))
        found, low, high = map(fitted_number, ends)
        return Estimate(n=len(self.points), point=found, low=low, high=high)


def fitted_law(points: Sequence[ScalingPoint], name: str = "") -> FittedLaw:
    """Return the law fitted to some points; their order does not matter.

    Args:
        points: The points, without those to be predicted.
        name: The name of what was trained; bootstraps of different names draw different numbers.

    Raises:
        TooFewPoints: if there are too few points, sizes or amounts of data.
    """
    held = tuple(sorted(points))
    _refuse_few(held)
    return _fitted(held, name)


@lru_cache(maxsize=64)
def _fitted(held: tuple[ScalingPoint, ...], name: str) -> FittedLaw:
    """Fit a law, once per page: its headline, figures and tables show the same law."""
    x, z, centre = _places(held)
    logs = np.array([[point.log_loss for point in held]])
    theta = _best_fit(x, z, logs)
    fitted = _terms(theta, x, z)[0]
    residuals = (logs - fitted)[0]
    rng = np.random.default_rng([_SEED, zlib.crc32(name.encode())])
    wider = residuals * math.sqrt(len(held) / (len(held) - NUM_FITTED))
    drawn = rng.choice(wider, size=(_NUM_DRAWS, len(held) + 1))
    starts = np.repeat(theta, _NUM_DRAWS, axis=0)
    draws, _ = _descended(starts, x, z, fitted + drawn[:, 1:], _width(residuals))
    return FittedLaw(
        points=held,
        best=LawNumbers(theta, centre),
        draws=LawNumbers(draws, centre),
        residuals=residuals,
        noise=drawn[:, 0],
    )


def exponent_difference(a: FittedLaw, b: FittedLaw, quantity: Quantity) -> Estimate:
    """Return the difference of a quantity between two laws with separate points."""
    point = float(quantity(a.best)[0] - quantity(b.best)[0])
    moved = quantity(a.draws) - quantity(b.draws) - point
    stretch = max(a.stretch, b.stretch)
    low, high = (point + stretch * end for end in _ends(moved))
    found = tuple(map(fitted_number, (point, low, high)))
    return Estimate(n=len(a.points) + len(b.points), point=found[0], low=found[1], high=found[2])


def _refuse_few(points: Sequence[ScalingPoint]) -> None:
    sizes = {point.num_parameters for point in points}
    amounts = {point.num_tokens for point in points}
    for count, least, what in (
        (len(sizes), MIN_SIZES, "different sizes"),
        (len(amounts), MIN_SIZES, "different numbers of tokens"),
        (len(points), MIN_POINTS, "points (pairs of size and amount of data)"),
    ):
        if count < least:
            raise TooFewPoints(f"{count} {what}, and a law needs at least {least}")


def _places(points: Sequence[ScalingPoint]) -> tuple[Array, Array, tuple[float, float]]:
    """Return the centred logarithms of parameters and tokens, `[point]` each, and their means."""
    x = np.array([math.log(point.num_parameters) for point in points])
    z = np.array([math.log(point.num_tokens) for point in points])
    return x - x.mean(), z - z.mean(), (float(x.mean()), float(z.mean()))


def _best_fit(x: Array, z: Array, logs: Array) -> Array:
    """Return the parameters with the lowest loss over all starts, `[1, 5]`.

    The first descents minimise least squares; their residuals set the width of the Huber loss.
    """
    starts = np.stack([_start(x, z, logs[0], a, b) for a in _STARTS for b in _STARTS])
    every = np.repeat(logs, len(starts), axis=0)
    theta, losses = _descended(starts, x, z, every, math.inf)
    first = theta[[int(np.argmin(losses))]]
    width = _width((logs - _terms(first, x, z)[0])[0])
    theta, losses = _descended(theta, x, z, every, width)
    return theta[[int(np.argmin(losses))]]


def _start(x: Array, z: Array, logs: Array, alpha: float, beta: float) -> Array:
    """Return starting values, `[5]`: given exponents, the rest by non-negative least squares."""
    losses = np.exp(logs)
    columns = np.stack([np.ones_like(x), np.exp(-alpha * x), np.exp(-beta * z)], axis=1)
    solved, _ = nnls(columns / losses[:, None], np.ones_like(x))
    least = math.exp(_LEAST_TERM) * float(losses.mean())
    e, a, b = np.log(np.maximum(solved, 100 * least))
    return np.array([e, a, math.log(alpha), b, math.log(beta)])


def _width(residuals: Array) -> float:
    """Return the width of the Huber loss."""
    freedom = len(residuals) / (len(residuals) - NUM_FITTED)
    spread = _MAD * float(np.median(np.abs(residuals))) * math.sqrt(freedom)
    return max(_WIDTH * spread, _FINEST)


def _terms(theta: Array, x: Array, z: Array) -> tuple[Array, Array]:
    """Return the log loss, `[draw, point]`, and the shares of its terms, `[draw, point, 3]`."""
    alpha, beta = np.exp(theta[:, 2, None]), np.exp(theta[:, 4, None])
    parts = np.stack(
        [
            np.broadcast_to(theta[:, 0, None], (len(theta), len(x))),
            theta[:, 1, None] - alpha * x,
            theta[:, 3, None] - beta * z,
        ],
        axis=2,
    )
    most = parts.max(axis=2, keepdims=True)
    shares = np.exp(parts - most)
    total = shares.sum(axis=2, keepdims=True)
    return (most + np.log(total))[..., 0], shares / total


def _descended(theta: Array, x: Array, z: Array, logs: Array, width: float) -> tuple[Array, Array]:
    """Fit many laws at once by Levenberg-Marquardt: parameters `[fit, 5]` and losses `[fit]`.

    A fit takes a step if that lowers its loss; otherwise it tries a shorter one. It stops when no
    step lowers the loss by more than rounding does.
    """
    theta, top = theta.copy(), logs.mean(axis=1)
    damping = np.full(len(theta), 1e-2)
    losses = _huber(_linear(theta, x, z, logs)[0], width)
    moving = np.arange(len(theta))
    for _ in range(_MOST_STEPS):
        before, pulled = losses[moving], logs[moving]
        residuals, slopes = _linear(theta[moving], x, z, pulled)
        weights = np.minimum(1.0, width / np.maximum(np.abs(residuals), _FINEST))
        step = _step(slopes, weights, residuals, damping[moving])
        tried = _boxed(theta[moving] + step, top[moving])
        found = _huber(_linear(tried, x, z, pulled)[0], width)
        is_lower = found < before
        theta[moving[is_lower]] = tried[is_lower]
        losses[moving[is_lower]] = found[is_lower]
        damping[moving] *= np.where(is_lower, 0.2, 4.0)
        rests = np.abs(before - found) <= _SMALLEST_GAIN * before
        moving = moving[~rests & (damping[moving] < _MOST_DAMPING)]
        if not len(moving):
            break
    return _settled(theta, x, z, logs, width), losses


def _settled(theta: Array, x: Array, z: Array, logs: Array, width: float) -> Array:
    """Refine fits by Gauss-Newton steps as long as steps get shorter: `[fit, 5]`.

    Near its minimum a loss is flat: half of the digits of `theta` change it only by rounding. The
    gradient determines nearly all of them, so that fits agree on all processors.
    """
    theta, top = theta.copy(), logs.mean(axis=1)
    shortest = np.full(len(theta), _MOST_TO_SETTLE)
    moving = np.arange(len(theta))
    for _ in range(_MOST_STEPS):
        residuals, slopes = _linear(theta[moving], x, z, logs[moving])
        weights = np.minimum(1.0, width / np.maximum(np.abs(residuals), _FINEST))
        is_free = _is_free(theta[moving], slopes, weights * residuals, top[moving])
        step = _step(slopes * is_free[:, None], weights, residuals, np.zeros(len(moving)))
        tried = _boxed(theta[moving] + step, top[moving])
        length = np.abs(tried - theta[moving]).max(axis=1)
        is_shorter = length < shortest[moving]
        moving = moving[is_shorter]
        if not len(moving):
            break
        theta[moving], shortest[moving] = tried[is_shorter], length[is_shorter]
    return theta


def _is_free(theta: Array, slopes: Array, pulls: Array, top: Array) -> npt.NDArray[np.bool_]:
    """Return False for parameters at a limit beyond which the loss would be lower: `[fit, 5]`."""
    ahead = np.sign(np.einsum("fpi,fp->fi", slopes, pulls))
    is_inside = _boxed(theta + _FINEST * ahead, top) != theta
    found: npt.NDArray[np.bool_] = is_inside | (ahead == 0)
    return found


def _linear(theta: Array, x: Array, z: Array, logs: Array) -> tuple[Array, Array]:
    """Return residuals `[fit, point]` and the Jacobian of the fitted logs `[fit, point, 5]`."""
    total, shares = _terms(theta, x, z)
    alpha, beta = np.exp(theta[:, 2, None]), np.exp(theta[:, 4, None])
    e, a, b = np.moveaxis(shares, 2, 0)
    return logs - total, np.stack([e, a, -a * alpha * x, b, -b * beta * z], axis=2)


def _step(slopes: Array, weights: Array, residuals: Array, damping: Array) -> Array:
    weighted = slopes * weights[..., None]
    normal = np.einsum("fpi,fpj->fij", weighted, slopes)
    pull = np.einsum("fpi,fp->fi", weighted, residuals)
    diagonal = np.einsum("fii->fi", normal)
    ridge = damping[:, None] * diagonal + 1e-14
    return np.linalg.solve(normal + ridge[:, :, None] * np.eye(NUM_FITTED), pull[..., None])[..., 0]


def _boxed(theta: Array, top: Array) -> Array:
    """Clip each term to between 1e-6 and 2 times the mean loss, and each exponent to its limits."""
    found = theta.copy()
    for index in (0, 1, 3):
        found[:, index] = np.clip(theta[:, index], top + _LEAST_TERM, top + math.log(2))
    for index in (2, 4):
        ends = math.log(_LEAST_EXPONENT), math.log(_MOST_EXPONENT)
        found[:, index] = np.clip(theta[:, index], *ends)
    return found


def _huber(residuals: Array, width: float) -> Array:
    size = np.abs(residuals)
    inside = np.minimum(size, width)  # with an infinite width, the loss is least squares
    found: Array = (inside * (size - inside / 2)).sum(axis=1)
    return found


def _ends(moved: Array) -> tuple[float, float]:
    """Return the ends of the middle 95 % of some draws."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(moved, [tail, 1 - tail])
    return float(low), float(high)


def _stretch(freedom: int) -> float:
    middle = 0.5 + CONFIDENCE / 2
    return float(stdtrit(freedom, middle) / ndtri(middle))


def fitted_number(value: float) -> float:
    """Return a fitted number rounded to the digits that are the same on all processors."""
    return rounded(value, _DIGITS)
