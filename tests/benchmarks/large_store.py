"""Make an output folder with 10,000 finished trials: a journal, and the parents of an MLflow store.

`.venv/bin/python -m tests.benchmarks.large_store DIR [wide|deep|many]` makes one, to measure
`bakeoff report` and `bakeoff status` over it. Child runs are left out, since neither reads them.

wide: 500 variants on two tasks with 10 seeds; deep: 10 variants on one task with 1,000 seeds;
many: 10 ablations of 1,000 trials each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.frames import by_trial, sweep_files
from bakeoff.suite.schema import (
    ClaimSpec,
    Measurement,
    Plan,
    Point,
    Provenance,
    Result,
    Status,
    Trial,
)
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.tracking.location import store_of
from bakeoff.suite.tracking.write import RunWriter

NUM_POINTS = 8
TASKS = ("shakespeare_characters", "fashion_mnist_patches")
PLACE = Provenance(
    commit="0123456789ab",
    device="Test CPU",
    num_threads=1,
    num_cpus=1.0,
    num_gpus=0.0,
    versions={"torch": "2.13.0", "python": "3.11.7"},
    conditions={"smt": "off"},
)


def ablation(
    num_values: int, tasks: Sequence[str] = TASKS, offset: int = 0, **fields: Any
) -> Ablation:
    """Build an ablation over learning rates on small tasks; another offset gives other trials."""
    return Ablation(
        question="How fast?",
        baseline=Model(mixer="attention", heads=4),
        axes=[vary("learning_rate", [1e-3 * (k + offset) for k in range(1, num_values + 1)])],
        tasks=list(tasks),
        probes=["quality"],
        scales={"quick": Scale(dim=64, depth=2, length=49, steps=80, batch=16, **fields)},
    )


def plans(shape: str) -> list[Plan]:
    """Return plans of 10,000 trials in all, with a claim for each ablation."""
    match shape:
        case "wide":
            made = [plan(ablation(500), seeds=10)]
        case "deep":
            made = [plan(ablation(10, TASKS[:1]), seeds=1_000)]
        case "many":
            made = [plan(ablation(50, offset=50 * k), seeds=10) for k in range(10)]
        case _:
            raise SystemExit(f"shape {shape!r}: wide, deep or many")
    return [_claiming(each, f"own{number}") for number, each in enumerate(made)]


def _claiming(planned: Plan, name: str) -> Plan:
    a, b = planned.about.variants[1], planned.about.variants[0]
    claim = ClaimSpec(
        statement="the second beats the first",
        metric=planned.cells[0].metrics[0].name,
        a=a,
        b=b,
        by=0.01,
        source="A paper",
        task=planned.cells[0].task,
    )
    return replace(planned, about=replace(planned.about, ablation=name, claim=claim))


def result_of(planned: Plan) -> Callable[[Trial], Result]:
    """Return a function that makes a plausible result from a trial's seed and learning rate."""
    metric = {cell.trial_id: cell.metrics[0] for cell in planned.cells}

    def result(trial: Trial) -> Result:
        spec = metric[trial.trial_id]
        noise = int(trial.trial_id[:8], 16) / 2**32
        value = 0.5 + 0.01 * noise + trial.training.learning_rate
        measurement = Measurement(metric=spec.name, value=value, unit=spec.unit, better=spec.better)
        drawn = points(spec.name, spec.unit, value)
        return Result(
            trial_id=trial.trial_id,
            status=Status.OK,
            provenance=PLACE,
            seconds=1.0,
            measurements=(measurement,),
            points=tuple(replace(point, better=spec.better) for point in drawn),
        )

    return result


def points(metric: str, unit: str, value: float) -> tuple[Point, ...]:
    """Return the points of a learning curve."""
    return tuple(
        Point(
            metric=f"validation_{metric}",
            step=10 * (index + 1),
            flops=1e6 * (index + 1),
            value=value + 1 / (index + 1),
            unit=unit,
            better="lower",
        )
        for index in range(NUM_POINTS)
    )


def fill_journal(out: Path, made: Sequence[Plan]) -> list[Plan]:
    """Journal each trial once and every hundredth twice; return the plans as they were kept."""
    out.mkdir(parents=True, exist_ok=True)
    with Journal(journal_in(out)) as journal:
        journal._db.execute("PRAGMA synchronous = OFF")  # these results need no durability
        kept = [journal.keep_plan(each) for each in made]
        for each in kept:
            result = result_of(each)
            for number, trial in enumerate(each.trials):
                if number % 100 == 0:
                    failed = replace(result(trial), status=Status.ERROR, reason="it raised")
                    journal.commit(failed, journal.begin(trial.trial_id, "process 1"))
                journal.commit(result(trial), journal.begin(trial.trial_id, "process 1"))
    return kept


def fill_store(out: Path, kept: Sequence[Plan]) -> None:
    """Write a parent run for each plan, with the files that reports are made of."""
    recorder = RunWriter(store_of(out, None))
    for each in kept:
        recorder.open_sweep(each.about)
        results = by_trial(map(result_of(each), each.trials))
        recorder.publish(each.key, sweep_files(each, results))
        recorder.close_sweep(each.key, {}, finished=True)


def main(arguments: Sequence[str]) -> None:
    """Make one output folder."""
    out, shape = Path(arguments[0]), arguments[1] if len(arguments) > 1 else "wide"
    fill_store(out, fill_journal(out, plans(shape)))


if __name__ == "__main__":
    main(sys.argv[1:])
