"""Builds reports and the overview from what the MLflow store or the journal holds.

It also sums up a sweep for the store: a verdict, its sentence, and the numbers of each variant.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from models.errors import did_you_mean
from reports.analysis.verdict import verdict
from reports.document import Column
from reports.plots.learning_curves import learning_curves, mean_curve
from reports.render import render, render_overview
from reports.results.frame import Sweep, read_sweep
from reports.results.series import Series, all_series, compared
from reports.results.variant_labels import named_values, value_of_baseline
from reports.stats.intervals import Estimate
from reports.tables.comparison import (
    comparison_table,
    primary,
    variant_coverage,
    without_controls,
)
from suite.journal.journal import Journal
from suite.reporting.editions import with_history
from suite.reporting.frames import CURVES_FILE, RESULTS_FILE, by_trial, sweep_of
from suite.schema import MIXER_ALONE
from suite.spec import SpecError
from suite.tracking.connect import load_artifacts
from suite.tracking.findings import NUM_SEEDS, Findings, VariantNumbers
from suite.tracking.location import Store
from suite.tracking.run_fields import Key, axes_of

Sweeps = Mapping[str, Sequence[Sweep]]  # by ablation, one a scale


def sweeps_in(store: Store, names: Collection[str] | None = None) -> Sweeps:
    """What the store holds of these ablations; by default of all.

    Raises:
        StoreUnavailable: if the store cannot be reached.
    """
    with tempfile.TemporaryDirectory() as folder:
        held = load_artifacts(store.uri, Path(folder), names)
        return {
            ablation: [read_sweep(at / RESULTS_FILE, at / CURVES_FILE) for _, at in found]
            for ablation, found in held.items()
        }


def sweeps_to_report(journal: Journal, folder: Path, store: Store | None) -> Sweeps:
    """The sweeps of the journal, and those that earlier reports in the folder show besides.

    The latter are in the folder after `bakeoff report` with a store that others use too, or after
    the journal was lost. Only then the store is read; None leaves them out.

    Raises:
        StoreUnavailable: if others are to be read, and the store cannot be reached.
    """
    sweeps: dict[str, list[Sweep]] = {}
    for plan in journal.readable_plans():
        results = by_trial(journal.results(trial.trial_id for trial in plan.trials))
        shown = with_history(plan, journal)
        sweeps.setdefault(plan.about.ablation, []).append(sweep_of(shown, results))
    known = {(name, sweep.about.scale) for name, found in sweeps.items() for sweep in found}
    if store is not None and (others := reported(folder) - known):
        for name, found in sweeps_in(store, {ablation for ablation, _ in others}).items():
            wanted = [sweep for sweep in found if (name, sweep.about.scale) in others]
            sweeps[name] = [*sweeps.get(name, []), *wanted]
    return sweeps


def reported(folder: Path) -> set[Key]:
    """The sweeps that the reports in the folder show."""
    return {key for file in folder.glob(f"*/{RESULTS_FILE}") for key in _keys_in(file)}


def _keys_in(file: Path) -> set[Key]:
    try:
        rows = pd.read_parquet(file, columns=["ablation", "scale"]).drop_duplicates()
    except (OSError, ValueError, KeyError):  # damaged, or not ours
        return set()
    return set(zip(rows["ablation"], rows["scale"], strict=True))


def reports_of(
    names: Iterable[str], sweeps: Sweeps, folder: Path, scale: str | None = None
) -> tuple[Path, ...]:
    """Write the report of each ablation, and the overview of all that have sweeps.

    Raises:
        SpecError: for an ablation, or a scale, of which there is no sweep.
    """
    held = {name: found for name, found in sweeps.items() if found}
    pages = []
    for name in names:
        refuse_missing(name, held.get(name, ()), scale, known=held)
        pages.append(render(name, held[name], folder, scale))
    if held:
        render_overview(held, folder)
    return tuple(pages)


def refuse_missing(
    name: str, sweeps: Sequence[Sweep], scale: str | None = None, known: Collection[str] = ()
) -> None:
    """Raise SpecError where an ablation, or a scale of it, has no sweep; `known` have one."""
    scales = [sweep.about.scale for sweep in sweeps]
    if not sweeps:
        hint = did_you_mean(name, known) or "."
        there = f" Recorded are: {', '.join(sorted(known))}." if known else ""
        raise SpecError(
            f"nothing is recorded of {name!r} yet{hint}{there} `bakeoff run {name}` does that."
        )
    if scale is not None and scale not in scales:
        raise SpecError(
            f"nothing is recorded of {name!r} at scale {scale!r}; there is {', '.join(scales)}."
        )


def findings_of(sweep: Sweep) -> Findings:
    """The summary, by the rules of the report."""
    about = sweep.about
    measured = all_series(about, sweep.results)
    judged = verdict(about, measured) if about.claim else None
    return Findings(
        verdict=str(judged.outcome) if judged else "",
        sentence=judged.sentence if judged else "",
        variants=tuple(variants_of(sweep, compared(without_controls(measured)))),
    )


def variants_of(sweep: Sweep, measured: Sequence[Series]) -> Iterator[VariantNumbers]:
    """Each row of the report's tables that is a variant, with the mean of its learning curves."""
    about = sweep.about
    axes = axes_of(about.variants)
    for task in [task for task in about.tasks if task != MIXER_ALONE]:
        judged = primary(measured, task)
        if judged is None or not judged.is_score:
            continue  # what is only timed or counted is compared within a trial
        table = comparison_table(about, measured, task)
        curves = learning_curves(about, sweep.curves, judged)
        for row in [row for row in table.rows if not row.is_floor]:
            values = named_values(row.name)
            seeds = curves.seeds.get(row.name, ()) if curves else ()
            yield VariantNumbers(
                variant=row.name,
                task=task,
                axes={axis: values.get(axis) or value_of_baseline(about, axis) for axis in axes},
                coverage=row.coverage,
                is_complete=variant_coverage(about, judged, row.name).is_complete,
                metrics={
                    **_metrics(table.columns, row.name),
                    NUM_SEEDS: float(len(judged.usable(row.name))),
                },
                curve_metric=curves.metric if curves and seeds else "",
                curve=tuple(
                    (round(x), y)
                    for x, one in mean_curve(seeds).items()
                    if (y := one.point) is not None
                ),
            )


def _metrics(columns: Iterable[Column], variant: str) -> dict[str, float]:
    """Name -> number, unrounded; with the ends of its interval where there is one."""
    found: dict[str, float] = {}
    for column in columns:
        one = column.entries[variant].estimate if variant in column.entries else Estimate(n=0)
        for end, value in (("", one.point), ("_low", one.low), ("_high", one.high)):
            if value is not None and math.isfinite(value):
                found[f"{column.key}{end}"] = value
    return found
