"""Make sweeps whose claim is about a speedup that is known, directly as `About` and `Series`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.reports.results.series import Series
from bakeoff.suite.schema import About, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports.simulated import reading

TASK = "t"
BITS = MetricSpec(name="bits", unit="bit", better="lower")
STEPS = (500, 1_000, 2_000, 4_000)
LAW = (1.2, 5.0, 0.3)  # the loss is L0 + A S^-a after S steps of the baseline
MIXER = "mixer=mamba2"
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def loss(steps: float) -> float:
    """Return the loss of the baseline, or of a budget that is worth so many of its steps."""
    floor, scale, power = LAW
    return floor + scale * steps**-power


STEP = loss(1_000) - loss(2_000)  # the difference between two budgets


def normal(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return rng.normal(size=size)


def heavy(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Draw from Student's t with 4 degrees of freedom, scaled to a standard deviation of 1."""
    return rng.standard_t(4, size) / math.sqrt(2)


def curve(num_budgets: int = 3) -> tuple[str, ...]:
    return tuple(f"steps={steps}" for steps in STEPS[:num_budgets])


def about(num_seeds: int, num_budgets: int = 3, by: float = 1.2, **changes: Any) -> About:
    budgets = curve(num_budgets)
    claim = ClaimSpec(
        statement="Mamba-2 needs fewer FLOPs",
        metric=BITS.name,
        a=MIXER,
        b="steps=1000",
        by=by,
        source="",
        task=TASK,
        counted_by=changes.pop("counted_by", "flops"),
        curve=budgets,
    )
    values: dict[str, dict[str, Any]] = {
        label: {"mixer": "attention", "steps": steps}
        for label, steps in zip(budgets, STEPS, strict=False)
    }
    values[MIXER] = {"mixer": "mamba2", "steps": 1_000}
    fields: dict[str, Any] = {
        "variants": tuple(values),
        "baseline": "steps=1000",
        "tasks": (TASK,),
        "probes": ("quality", "flops", "step_time"),
        "metrics": {
            TASK: {
                "quality": (BITS,),
                "flops": (synthetic.FLOPS,),
                "step_time": (synthetic.SECONDS,),
            }
        },
        "data_sets": {},
        "num_seeds": num_seeds,
        "settings": {"steps": 1_000, "batch": 32, "length": 64},
        "claim": claim,
        "is_indicative": False,
        "axis_values": values,
        "named_axes": {label: ("mixer",) if label == MIXER else ("steps",) for label in values},
    }
    return synthetic.about(**(fields | changes))


def measured(
    rng: np.random.Generator,
    num_seeds: int,
    *,
    speedup: float = 1.0,
    cost: float = 1.0,
    noise: float = 0.1,
    num_budgets: int = 3,
    draw: Draw = normal,
    time_noise: float = 0.0,
) -> tuple[Series, ...]:
    """Return scores, FLOPs and step times.

    Args:
        rng: The random generator.
        num_seeds: The number of seeds, and of the processes that time a step.
        speedup: The true speedup.
        cost: FLOPs and seconds of the variant's step over those of the baseline's.
        noise: The standard deviation of a training, half of its variance shared between the
            trainings of a seed, in differences between two budgets.
        num_budgets: The number of budgets of the baseline.
        draw: The distribution of the noise.
        time_noise: The standard deviation of the logarithm of a step time.
    """
    spread = noise * STEP / math.sqrt(2)
    shared = spread * draw(rng, num_seeds)
    worth = dict(zip(curve(num_budgets), STEPS, strict=False)) | {MIXER: 1_000 * cost * speedup}
    scores = {
        label: loss(steps) + shared + spread * draw(rng, num_seeds)
        for label, steps in worth.items()
    }
    each = {label: cost if label == MIXER else 1.0 for label in worth}
    times = {
        label: 0.01 * one * np.exp(time_noise * rng.normal(size=num_seeds))
        for label, one in each.items()
    }
    return (
        series(scores),
        series({label: [1e9 * one] for label, one in each.items()}, spec=synthetic.FLOPS),
        series(times, spec=synthetic.SECONDS),
    )


_PROBES = {"forward_flops": "flops", "training_step_seconds": "step_time"}


def series(values: Mapping[str, Sequence[float]], spec: MetricSpec = BITS, **more: Any) -> Series:
    fields: dict[str, Any] = {
        "task": TASK,
        "probe": _PROBES.get(spec.name, "quality"),
        "metric": spec.name,
        "unit": spec.unit,
        "better": spec.better,
        "environment_id": synthetic.PLACE.environment_id if spec.unit == "s" else "",
        "readings": {
            label: tuple(reading(float(value), seed) for seed, value in enumerate(some))
            for label, some in values.items()
        },
    }
    return Series(**(fields | more))
