"""Make a sweep of two mixers whose losses follow known laws, with held-out larger trainings."""

from __future__ import annotations

import math
import random
from typing import Any

from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic

TASK = "shakespeare_characters"
BITS = synthetic.BITS
FLOPS = MetricSpec(name="forward_flops", unit="FLOP", better="lower", at="length=64")
TRUTH = {"attention": (1.5, 0.45, 0.55, 0.8, 0.40), "lstm": (1.6, 0.40, 0.35, 0.6, 0.50)}
DIMS, STEPS = (16, 24, 32, 48, 64), (250, 500, 1000, 2000)
HELD_OUT = {"dim": 96, "steps": 4000}
BATCH, LENGTH, NUM_SEEDS = 32, 64, 3


def num_parameters(dim: int) -> int:
    return 24 * dim * dim + 163 * dim


def true_loss(mixer: str, dim: int, steps: int) -> float:
    """Return E + A + B at a width of 32 and 1,000 steps, scaled to `dim` and `steps`."""
    e, a, alpha, b, beta = TRUTH[mixer]
    size, data = num_parameters(dim) / num_parameters(32), steps / 1000
    return float(e + a * size**-alpha + b * data**-beta)


def sweep(
    noise: float = 0.004,
    off: float = 0.0,
    dims: tuple[int, ...] = DIMS,
    seed: int = 1,
    **changes: Any,
) -> Sweep:
    """Return the sweep; the loss of the larger LSTM is `off` bits above its law."""
    grid = [(m, d, s) for m in TRUTH for d in dims for s in STEPS]
    grid += [(m, HELD_OUT["dim"], HELD_OUT["steps"]) for m in TRUTH]
    labels = {f"mixer={m}, dim={d}, steps={s}": (m, d, s) for m, d, s in grid}
    larger = [label for label in labels if "steps=4000" in label]
    claim = ClaimSpec(
        statement="at the held-out size the LSTM ends better than attention",
        metric=BITS.name,
        a=larger[1],
        b=larger[0],
        by=0.02,
        source="Kaplan et al. 2020",
        task=TASK,
    )
    metrics = {"quality": (BITS,), "parameters": (synthetic.PARAMETERS,), "flops": (FLOPS,)}
    fields: dict[str, Any] = {
        "ablation": "scaling_laws",
        "variants": tuple(labels),
        "tasks": (TASK,),
        "claim": claim,
        "baseline": "mixer=attention, dim=32, steps=1000",
        "probes": tuple(metrics),
        "metrics": {TASK: metrics},
        "num_seeds": NUM_SEEDS,
        "data_sets": {},
        "settings": {"dim": 32, "depth": 2, "length": LENGTH, "steps": 1000, "batch": BATCH},
        "held_out": HELD_OUT,
        "question": "Is a larger run predicted?",
    }
    said = synthetic.about(**(fields | changes))
    rng, rows = random.Random(seed), []
    for label, (mixer, dim, steps) in labels.items():
        count = num_parameters(dim)
        rows += [
            synthetic.row(said, label, TASK, "parameters", synthetic.PARAMETERS, value=count),
            synthetic.row(said, label, TASK, "flops", FLOPS, value=2.0 * LENGTH * count),
        ]
        extra = off if mixer == "lstm" and label in larger else 0.0
        for index in range(NUM_SEEDS):
            value = (true_loss(mixer, dim, steps) + extra) * math.exp(rng.gauss(0, noise))
            rows.append(synthetic.row(said, label, TASK, "quality", BITS, seed=index, value=value))
    return Sweep(said, results_frame(rows), curves_frame([]))
