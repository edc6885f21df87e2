"""Make growths and readings with known true values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bakeoff.reports.results.length_sweep import Axis, Growth
from bakeoff.reports.results.reading import Reading
from bakeoff.suite.schema import Status

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
HERE = "aaaaaaaaaaaa"


def reading(
    value: float, seed: int = 0, *, place: str = HERE, status: Status = Status.OK, reason: str = ""
) -> Reading:
    return Reading(
        seed=seed,
        at="",
        environment_id=place,
        value=value,
        spread_low=math.nan,
        spread_high=math.nan,
        status=status,
        reason=reason,
    )


def readings(values: Iterable[float], **more: str) -> tuple[Reading, ...]:
    """Return one reading per process."""
    return tuple(reading(value, seed, **more) for seed, value in enumerate(values))


def growth(
    values: Mapping[str, Mapping[int, Sequence[float]]],
    *,
    metric: str = "forward_seconds",
    axis: Axis = "length",
    noisy: Iterable[tuple[str, int]] = (),
) -> Growth:
    """Return a growth from {variant: {place: one number per process}}."""
    is_noisy = frozenset(noisy)
    kept = {
        variant: {
            place: tuple(
                reading(x, seed, status=Status.NOISY if (variant, place) in is_noisy else Status.OK)
                for seed, x in enumerate(some)
            )
            for place, some in at.items()
        }
        for variant, at in values.items()
    }
    places = tuple(sorted({place for at in kept.values() for place in at}))
    return Growth(
        metric=metric, unit="s", axis=axis, environment_id=HERE, readings=kept, places=places
    )


def timed(
    law: Callable[[float], float],
    rng: np.random.Generator,
    *,
    noise: float = 0.02,
    num_processes: int = 3,
    places: Sequence[int] = LENGTHS,
) -> dict[int, list[float]]:
    """Return values of a law with relative noise, as measured by `num_processes` processes."""
    return {
        place: [law(place) * math.exp(noise * x) for x in rng.normal(size=num_processes)]
        for place in places
    }


def counted(
    law: Callable[[float], float], places: Sequence[int] = LENGTHS
) -> dict[int, list[float]]:
    """Return one value of a law per place without noise, as a formula gives it."""
    return {place: [law(place)] for place in places}
