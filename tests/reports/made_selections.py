"""Make selections of rows with known changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bakeoff.reports.compare import Selection
from bakeoff.reports.results.frame import results_frame
from bakeoff.suite.schema import About, ClaimSpec, Provenance

HERE = Provenance(
    commit="aaaa00000000",
    device="Old CPU",
    num_threads=1,
    num_cpus=1.0,
    num_gpus=0.0,
    versions={"torch": "2.13.0", "python": "3.11.9"},
    conditions={"governor": "performance"},
)
THERE = replace(HERE, device="New GPU", num_gpus=1.0)
ABOUT = About(
    ablation="heads",
    scale="quick",
    question="How many heads?",
    note="",
    baseline="heads=8",
    variants=("heads=1", "heads=8"),
    tasks=("words", "mixer_alone"),
    probes=("quality", "step_time", "parameters", "peak_memory"),
    num_seeds=3,
    settings={"dim": 64, "steps": 300},
    model={"mixer": "attention"},
    claim=ClaimSpec(
        statement="8 heads beat one",
        metric="bits",
        a="heads=8",
        b="heads=1",
        by=0.0,
        source="somewhere",
        task="words",
    ),
    metrics={},
    data_sets={},
    is_indicative=True,
    regenerate="bakeoff run heads",
    provenances={HERE.environment_id: HERE, THERE.environment_id: THERE},
)
KINDS = {
    "bits": ("quality", "bit", "lower"),
    "accuracy": ("quality", "1", "higher"),
    "validation_bits": ("validation", "bit", "lower"),
    "seconds": ("step_time", "s", "lower"),
    "tokens_per_second": ("step_time", "1/s", "higher"),
    "test_accuracy": ("validation", "1", "higher"),
    "steps_to_target": ("validation", "1", "lower"),
    "num_parameters": ("parameters", "1", "none"),
    "peak_bytes": ("peak_memory", "B", "lower"),
    "scaling_efficiency": ("step_time", "1", "higher"),
    "linear_kernel_seconds": ("step_time", "s", "none"),
}


def row(metric: str, value: float | None, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Return one row of results; `made` gives its provenance."""
    made: Provenance = changes.pop("made", HERE)
    probe, unit, better = KINDS[metric]
    fields = {
        "ablation": "heads",
        "scale": "quick",
        "variant": "heads=8",
        "seed": seed,
        "task": "words",
        "probe": probe,
        "metric": metric,
        "at": "",
        "value": value,
        "unit": unit,
        "better": better,
        "spread_low": None,
        "spread_high": None,
        "status": "ok",
        "reason": "",
        "environment_id": made.environment_id,
        "device": made.device,
        "commit": made.commit,
    }
    fields |= changes
    given = (fields[name] for name in ("probe", "task", "variant", "seed", "at"))
    return {"trial_id": "-".join(map(str, given)), **fields}


def rows(metric: str, values: Iterable[float], **changes: Any) -> list[dict[str, Any]]:
    """Return one row per seed."""
    return [row(metric, value, seed, **changes) for seed, value in enumerate(values)]


def selection(
    *given: Sequence[Mapping[str, Any]], name: str = "out", about: About = ABOUT
) -> Selection:
    """Return a selection of these rows."""
    frame = results_frame([row for some in given for row in some])
    return Selection(name=name, title=f"store {name}", about=about, results=frame)
