"""Make ablations with known true values, directly as `About` and `Series`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.reports.results.reading import Reading
from bakeoff.reports.results.series import Series
from bakeoff.suite.schema import About, ClaimSpec, Status
from tests.reports import conftest as synthetic

Case = tuple[About, Sequence[Series]]
_SEED_SPREAD = 2.0  # an effect of the seed on both sides, which pairing removes


def reading(value: float | None, seed: int, status: Status = Status.OK) -> Reading:
    number = float("nan") if value is None else float(value)
    return Reading(
        seed=seed,
        at="",
        environment_id="x",
        value=number,
        spread_low=number,
        spread_high=number,
        status=status,
        reason="",
    )


def series(a: Sequence[float | None], b: Sequence[float | None], **changes: Any) -> Series:
    """Return readings by seed; a value of None is a diverged one."""
    sides = {
        name: tuple(
            reading(value, seed, Status.DIVERGED if value is None else Status.OK)
            for seed, value in enumerate(values)
        )
        for name, values in (("a", a), ("b", b))
    }
    fields: dict[str, Any] = {
        "task": "t",
        "probe": "quality",
        "metric": "m",
        "unit": "bit",
        "better": "higher",
        "readings": sides,
    }
    return Series(**(fields | changes))


def about(n: int, by: float, **changes: Any) -> About:
    claim = ClaimSpec(
        statement="A beats B", metric="m", a="a", b="b", by=float(by), source="", task="t"
    )
    fields: dict[str, Any] = {
        "variants": ("a", "b"),
        "baseline": "b",
        "tasks": ("t",),
        "probes": ("quality",),
        "num_seeds": n,
        "claim": claim,
        "is_indicative": False,
    }
    return synthetic.about(**(fields | changes))


def overview(
    abouts: Sequence[About], truths: Sequence[float], draw: Any, rng: np.random.Generator
) -> dict[str, Case]:
    """Return an overview; `truths` are advantages in standard errors of the paired difference.

    The first half of the claims are on one task with one baseline and share its runs.

    Args:
        abouts: The ablation of each claim.
        truths: The true advantage of each claim.
        draw: (rng, shape) -> noise of standard deviation 1.
        rng: The random generator.
    """
    n = abouts[0].num_seeds
    seeds = _SEED_SPREAD * rng.normal(size=n)
    shared = draw(rng, n)
    cases = {}
    for index, (said, truth) in enumerate(zip(abouts, truths, strict=True)):
        b: NDArray[np.float64] = shared if 2 * index < len(abouts) else draw(rng, n)
        a = draw(rng, n) + truth * (2 / n) ** 0.5
        cases[f"ablation {index}"] = (said, [series(seeds + a, seeds + b)])
    return cases
