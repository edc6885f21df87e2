"""Builds reports and the overview from what the MLflow store or the journal holds.

It also sums up a sweep for the store: a verdict, its sentence, and a mean for each variant.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from models.errors import did_you_mean
from reports.analysis.verdict import verdict
from reports.render import render, render_overview
from reports.results.frame import Sweep, read_sweep
from reports.results.series import Series, all_series
from suite.journal.journal import Journal
from suite.reporting.editions import with_history
from suite.reporting.frames import CURVES_FILE, RESULTS_FILE, by_trial, sweep_of
from suite.schema import About
from suite.spec import SpecError
from suite.tracking.client import entity_key
from suite.tracking.connect import load_artifacts
from suite.tracking.location import Store
from suite.tracking.run_fields import Findings, Key, judged_metric

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
    metric = judged_metric(about)
    means: dict[str, float] = {}
    for series in measured:
        if series.is_whole_score and metric is not None and series.metric == metric.name:
            means |= _means(series, about)
    return Findings(
        verdict=str(judged.outcome) if judged else "",
        sentence=judged.sentence if judged else "",
        means=means,
    )


def _means(series: Series, about: About) -> dict[str, float]:
    """By the metric's name on the parent, which holds the task where there are several."""
    task = [series.task] if len(about.tasks) > 1 else []
    found: dict[str, float] = {}
    for variant in about.variants:
        values = [value for value in series.values(variant).values() if math.isfinite(value)]
        if values:
            key = entity_key("/".join([series.metric, *task, variant]))
            found[key] = statistics.fmean(values)
    return found
