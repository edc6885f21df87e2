"""Make sweeps as large as the shipped ones from the committed rows, with an `About` from them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from bakeoff.reports.results.frame import RESULT_COLUMNS, curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import FLOORS, About, MetricSpec, Provenance
from tests.reports import conftest as synthetic

FOLDER = Path(__file__).parents[2] / "docs/results"
BY_SIZE = tuple(
    path.parent.name
    for path in sorted(FOLDER.glob("*/results.csv"), key=lambda path: -path.stat().st_size)
)
_NUMBERS = ("value", "spread_low", "spread_high")
_Rows = list[dict[str, Any]]


def sweep(name: str) -> Sweep:
    """Return the rows of `docs/results/NAME`, without a claim."""
    with (FOLDER / name / "results.csv").open(newline="") as file:
        rows = [_typed(row) for row in csv.DictReader(file)]
    return Sweep(_about(name, rows), results_frame(rows), curves_frame([]))


def _typed(row: dict[str, str]) -> dict[str, Any]:
    numbers = {key: float(row[key]) if row[key] else None for key in _NUMBERS}
    return {key: row[key] for key in RESULT_COLUMNS} | numbers | {"seed": int(row["seed"])}


def _about(name: str, rows: _Rows) -> About:
    of_floors = [row for row in rows if row["probe"] == FLOORS]
    variants = _each("variant", [row for row in rows if row["probe"] != FLOORS])
    metrics: dict[str, dict[str, dict[str, MetricSpec]]] = {}
    for row in rows:
        spec = MetricSpec(name=row["metric"], unit=row["unit"], better=row["better"])
        metrics.setdefault(row["task"], {}).setdefault(row["probe"], {})[spec.name] = spec
    return synthetic.about(
        ablation=name,
        scale=rows[0]["scale"],
        variants=variants,
        baseline=variants[0],
        claim=None,
        tasks=_each("task", rows),
        probes=_each("probe", rows),
        data_sets={},
        num_seeds=1 + max(row["seed"] for row in rows if row["probe"] == "quality")
        if any(row["probe"] == "quality" for row in rows)
        else 1,
        metrics={
            task: {probe: tuple(specs.values()) for probe, specs in of_task.items()}
            for task, of_task in metrics.items()
        },
        floors={
            task: _each("variant", [row for row in of_floors if row["task"] == task])
            for task in _each("task", of_floors)
        },
        provenances={
            row["environment_id"]: Provenance(
                commit=row["commit"],
                device=row["device"],
                num_threads=1,
                num_cpus=1,
                num_gpus=0,
                versions={},
            )
            for row in rows
            if row["environment_id"]
        },
    )


def _each(key: str, rows: _Rows) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[key] for row in rows))
