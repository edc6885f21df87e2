"""Make a synthetic sweep with several variants, two tasks, failures and several scales."""

from __future__ import annotations

import math
import random
from typing import Any, TypeVar

import numpy as np
import pytest
from scipy import stats

from bakeoff.reports.document import Entry, ReportTable
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.series import Series, all_series
from bakeoff.reports.stats.intervals import Estimate
from bakeoff.reports.tables.comparison import primary
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, ClaimSpec, DataSet, MetricSpec, Provenance

PLACE = Provenance(
    commit="0123456789abcdef0123456789abcdef01234567",
    device="AMD EPYC 7B13",
    num_threads=1,
    num_cpus=1.0,
    num_gpus=0.0,
    versions={"torch": "2.13.0", "python": "3.11.9", "numpy": "2.4.6"},
)
HEADS = {1: 0.055, 2: 0.021, 4: 0.006, 8: 0.0, 16: 0.012}
VARIANTS = tuple(f"heads={number}" for number in HEADS)
BITS = MetricSpec(name="bits_per_character", unit="bit", better="lower")
ACCURACY = MetricSpec(name="accuracy", unit="1", better="higher")
PARAMETERS = MetricSpec(name="num_parameters", unit="1", better="none")
FLOPS = MetricSpec(name="forward_flops", unit="FLOP", better="lower", at="length=128")
SECONDS = MetricSpec(name="training_step_seconds", unit="s", better="lower", at="length=128")
TASKS = {"shakespeare_characters": BITS, "majority": ACCURACY}
_T = TypeVar("_T")


def about(scale: str = "quick", **changes: Any) -> About:
    fields: dict[str, Any] = {
        "ablation": "heads",
        "scale": scale,
        "question": "How many attention heads at a fixed width?",
        "note": "Vaswani et al. 2017 (arXiv:1706.03762), Table 3 rows A: one head loses 0.9 BLEU "
        "against eight, too many lose again.",
        "baseline": "heads=8",
        "variants": VARIANTS,
        "tasks": tuple(TASKS),
        "probes": ("quality", "parameters", "flops", "step_time"),
        "num_seeds": 3,
        "settings": {
            "dim": 64,
            "depth": 2,
            "length": 128,
            "steps": 300,
            "batch": 32,
            "learning_rate": 0.001,
            "warmup_steps": 50,
        },
        "model": {
            "architecture": "language_model",
            "mixer": "attention",
            "position": "sinusoidal",
            "heads": 8,
            "is_causal": True,
        },
        "claim": ClaimSpec(
            statement="8 heads beat one",
            metric="bits_per_character",
            a="heads=8",
            b="heads=1",
            by=0.02,
            source="arXiv:1706.03762, Table 3 (A)",
            task="shakespeare_characters",
        ),
        "metrics": {
            task: {
                "quality": (score,),
                "parameters": (PARAMETERS,),
                "flops": (FLOPS,),
                "step_time": (SECONDS,),
            }
            for task, score in TASKS.items()
        },
        "data_sets": {
            "shakespeare_characters": DataSet(
                title="Tiny Shakespeare",
                licence="public domain",
                origin="github.com/karpathy/char-rnn",
                sha256="86c4e6aa" * 8,
            ),
            "majority": DataSet(
                title="Majority of a bit string",
                licence="none needed",
                origin="generated",
                sha256="0" * 64,
            ),
        },
        "is_indicative": scale in ("smoke", "quick"),
        "regenerate": "bakeoff run heads --scale " + scale,
        "provenances": {PLACE.environment_id: PLACE},
    }
    return About(**(fields | changes))


def row(about: About, variant: str, task: str, probe: str, spec: MetricSpec, **more: Any) -> dict:
    """Return one row of results; its status is ok unless given."""
    seed = more.pop("seed", 0)
    fields = {
        "ablation": about.ablation,
        "scale": about.scale,
        "variant": variant,
        "seed": seed,
        "task": task,
        "probe": probe,
        "metric": spec.name,
        "at": spec.at,
        "value": None,
        "unit": spec.unit,
        "better": spec.better,
        "spread_low": None,
        "spread_high": None,
        "status": "ok",
        "reason": "",
        "trial_id": f"{probe}-{task}-{variant}-{seed}",
        "environment_id": PLACE.environment_id,
        "device": PLACE.device,
        "commit": PLACE.commit,
    }
    return fields | more


def sweep(scale: str = "quick", *, is_troubled: bool = True, random_seed: int = 7) -> Sweep:
    """Return the sweep; `is_troubled` adds a diverged seed and a skipped variant on one task."""
    said = about(scale)
    rng = random.Random(random_seed)
    rows: list[dict] = []
    points: list[dict] = []
    for task, score in TASKS.items():
        for heads, loss in HEADS.items():
            variant = f"heads={heads}"
            rows += _costs(said, variant, task, heads, rng)
            for seed in range(said.num_seeds):
                mishap = _mishap(variant, task, seed) if is_troubled else {}
                value = _score(score, loss, seed, rng)
                rows.append(
                    row(said, variant, task, "quality", score, seed=seed, value=value) | mishap
                )
                if mishap.get("status") != "skipped":
                    points += _curve(said, variant, task, seed, value, bool(mishap))
    return Sweep(about=said, results=results_frame(rows), curves=curves_frame(points))


def many() -> Sweep:
    """Return a cross of two axes with 300 variants, of which the last is the best."""
    labels = tuple(
        f"heads={heads}, dim={dim}" for heads in range(1, 16) for dim in range(20, 0, -1)
    )
    said = about(
        ablation="many", variants=labels, baseline=labels[0], probes=("quality",), claim=None
    )
    rows = [
        row(said, label, task, "quality", score, seed=seed, value=value)
        for task, score in TASKS.items()
        for place, label in enumerate(labels)
        for seed in range(3)
        for value in [0.3 + (place if score.better == "higher" else 300 - place) / 1e3 + seed / 1e5]
    ]
    return Sweep(about=said, results=results_frame(rows), curves=curves_frame([]))


def _mishap(variant: str, task: str, seed: int) -> dict[str, Any]:
    if (variant, task, seed) == ("heads=16", "shakespeare_characters", 1):
        return {
            "value": None,
            "status": "diverged",
            "reason": "the training loss is nan at step 112",
        }
    if (variant, task) == ("heads=16", "majority"):
        return {"value": None, "status": "skipped", "reason": "heads=16 does not divide dim=24"}
    return {}


def _score(score: MetricSpec, loss: float, seed: int, rng: random.Random) -> float:
    if score is BITS:
        return 2.41 + loss + 0.012 * seed + rng.gauss(0, 0.004)
    return min(1.0, 0.94 - 2 * loss - 0.004 * seed + rng.gauss(0, 0.004))


def _costs(said: About, variant: str, task: str, heads: int, rng: random.Random) -> list[dict]:
    seconds = 0.021 + 0.0011 * heads + rng.gauss(0, 0.0002)
    timing = {
        "value": seconds,
        "spread_low": seconds * 0.97,
        "spread_high": seconds * 1.05,
        "trial_id": f"step_time-{task}",
    }
    return [
        row(said, variant, task, "parameters", PARAMETERS, value=107_264.0),
        row(said, variant, task, "flops", FLOPS, value=29_360_128.0),
        row(said, variant, task, "step_time", SECONDS, **timing),
    ]


def _curve(
    said: About, variant: str, task: str, seed: int, end: float, ends_early: bool
) -> list[dict]:
    score = TASKS[task]
    start = 5.9 if score is BITS else 0.5
    steps = range(38, 301, 37)
    points = []
    for step in [*steps][: 3 if ends_early else None]:
        value = end + (start - end) * math.exp(-step / 60) + 0.01 * math.sin(step + seed)
        points.append(
            {
                "ablation": said.ablation,
                "scale": said.scale,
                "variant": variant,
                "seed": seed,
                "task": task,
                "metric": f"validation_{score.name}",
                "step": step,
                "flops": step * 3 * 32 * 29_360_128.0,
                "value": value,
                "unit": score.unit,
                "better": score.better,
                "trial_id": f"quality-{task}-{variant}-{seed}",
                "environment_id": PLACE.environment_id,
            }
        )
    return points


def series_of(sweep: Sweep) -> tuple[Series, ...]:
    return all_series(sweep.about, sweep.results)


def known(value: _T | None) -> _T:
    """Return the value; raise if it is None."""
    assert value is not None
    return value


def ends(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    """Return the point and the interval of an estimate."""
    return estimate.point, estimate.low, estimate.high


def t_interval(values: np.ndarray) -> Any:
    """Return the mean and Student's 95 % interval by scipy, approximately, for `ends`."""
    middle = values.mean()
    low, high = stats.t.interval(0.95, len(values) - 1, loc=middle, scale=stats.sem(values))
    return pytest.approx((middle, low, high), rel=1e-9)


def judged(sweep: Sweep, task: str = "majority") -> Series:
    """Return the series of a task's score."""
    return known(primary(series_of(sweep), task))


def entry(table: ReportTable, row_name: str, key: str) -> Entry:
    """Return the cell of the named row in the column with the key."""
    (row,) = (row for row in table.rows if row.name == row_name)
    return row.entries[[column.key for column in table.columns].index(key)]
