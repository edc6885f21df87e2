"""Convert a sweep to benchmark records, the JSON that PyTorch's dashboard of benchmarks reads.

A record holds one metric of one variant, with a value for each seed or timing process. The fields
are those of version 3 of the schema; the values of `extra_info` are texts. There are no target
values, because the sweep compares its variants with each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bakeoff.reports.results.axis_values import all_values_of, as_text
from bakeoff.reports.results.series import Series
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, Provenance

Record = dict[str, Any]

_INFERENCE = ("forward_seconds", "forward_launched", "forward_peak", "forward_flops", "decode_")
_REPOSITORIES = {"torch": "pytorch/pytorch"}


def records(sweep: Sweep) -> Iterator[Record]:
    """Yield a record for each variant, task, metric, coordinate and environment with a number."""
    about = sweep.in_order.about
    for series in sweep.in_order.measured:
        for variant in about.labels:
            by_place: dict[str, list[float]] = {}
            for reading in series.of(variant):
                if reading.is_usable:
                    by_place.setdefault(reading.environment_id, []).append(reading.value)
            for environment_id, values in by_place.items():
                yield _record(about, series, variant, environment_id, values)


def _record(
    about: About, series: Series, variant: str, environment_id: str, values: list[float]
) -> Record:
    axes = {name: as_text(value) for name, value in all_values_of(about, variant).items()}
    facts = about.subjects.get(variant)
    made = about.provenances.get(environment_id)
    return {
        "benchmark": {
            "name": f"bakeoff {about.ablation}",
            "mode": "inference" if series.metric.startswith(_INFERENCE) else "training",
            "dtype": str(about.settings.get("precision", "float32")),
            "extra_info": {
                "question": about.question,
                "scale": about.scale,
                "task": series.task,
                "at": series.at,
                "command": about.regenerate,
            },
        },
        "model": {
            "name": variant,
            "type": ""
            if variant not in about.variants
            else str(about.model.get("architecture") or ""),
            "backend": str(about.model.get("kernel") or ""),
            "extra_info": {"mixer": facts.mixer if facts else "", **axes},
        },
        "metric": {
            "name": series.metric,
            "unit": series.unit,
            "benchmark_values": values,
            "extra_info": {
                "better": series.better,
                "is_baseline": as_text(variant == about.baseline),
            },
        },
        "runners": [_runner(made, environment_id)] if made else [],
        "dependencies": _dependencies(made) if made else {},
    }


def _runner(made: Provenance, environment_id: str) -> Mapping[str, Any]:
    has_gpu = made.num_gpus > 0
    return {
        "name": made.device,
        "type": "gpu" if has_gpu else "cpu",
        "cpu_info": "" if has_gpu else made.device,
        "cpu_count": max(1, round(made.num_cpus)),
        "gpu_info": made.device if has_gpu else "",
        "gpu_count": max(1, round(made.num_gpus)) if has_gpu else 0,
        "extra_info": {"environment_id": environment_id, "num_threads": str(made.num_threads)},
    }


def _dependencies(made: Provenance) -> Mapping[str, Any]:
    own = {"bakeoff": {"sha": made.commit}}
    return own | {
        name: {"repo": _REPOSITORIES.get(name, ""), "version": version}
        for name, version in made.versions.items()
    }
