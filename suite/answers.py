"""Reports from what the store holds, or, where there is no store, from the journal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reports.frame import Sweep, read_sweep
from reports.render import render, render_overview
from suite.frames import CURVES_FILE, RESULTS_FILE, sweep_of
from suite.journal.journal import Journal
from suite.rows import by_trial
from suite.schema import Plan
from suite.spec import SpecError
from suite.tracking.connect import load_artifacts
from suite.tracking.location import Store


def reports_from_store(
    names: Iterable[str], store: Store, folder: Path, scale: str | None = None
) -> tuple[Path, ...]:
    """The report of each ablation, and the overview of all, from the parents' artifacts alone.

    Returns:
        The pages asked for.

    Raises:
        SpecError: for an ablation, or a scale, of which the store holds nothing.
        StoreUnavailable: if the store cannot be reached.
    """
    return reports_of(names, all_sweeps_in(store), folder, scale)


def reports_from_journal(
    names: Iterable[str], journal: Journal, folder: Path, scale: str | None = None
) -> tuple[Path, ...]:
    """The same from the journal, for machines without a store."""
    sweeps: dict[str, list[Sweep]] = {}
    for plan in journal.plans():
        sweeps.setdefault(plan.about.ablation, []).append(sweep_from(journal, plan))
    return reports_of(names, sweeps, folder, scale)


def sweep_from(journal: Journal, plan: Plan) -> Sweep:
    """What the journal holds of a plan, as frames."""
    return sweep_of(plan, by_trial(journal.results(trial.trial_id for trial in plan.trials)))


def sweeps_in(store: Store, ablation: str) -> list[Sweep]:
    """What the store holds of an ablation, one a scale."""
    with tempfile.TemporaryDirectory() as folder:
        return _read(load_artifacts(store.uri, Path(folder), [ablation]).get(ablation, []))


def all_sweeps_in(store: Store) -> dict[str, list[Sweep]]:
    """What the store holds of every ablation, by name."""
    with tempfile.TemporaryDirectory() as folder:
        held = load_artifacts(store.uri, Path(folder))
        return {ablation: _read(found) for ablation, found in held.items()}


def _read(found: Iterable[tuple[str, Path]]) -> list[Sweep]:
    return [read_sweep(path / RESULTS_FILE, path / CURVES_FILE) for _, path in found]


def reports_of(
    names: Iterable[str],
    sweeps: Mapping[str, Sequence[Sweep]],
    folder: Path,
    scale: str | None = None,
) -> tuple[Path, ...]:
    """The report of each ablation, and the overview of all that have sweeps.

    Raises:
        SpecError: for an ablation, or a scale, of which there is no sweep.
    """
    held = {name: found for name, found in sweeps.items() if found}
    pages = []
    for name in names:
        _refuse_missing(name, held.get(name, ()), scale)
        pages.append(render(name, held[name], folder, scale))
    if held:
        render_overview(held, folder)
    return tuple(pages)


def _refuse_missing(name: str, sweeps: Sequence[Sweep], scale: str | None) -> None:
    scales = [sweep.about.scale for sweep in sweeps]
    if not sweeps:
        raise SpecError(f"nothing is recorded of {name!r} yet; `bakeoff run {name}` does that.")
    if scale is not None and scale not in scales:
        raise SpecError(
            f"nothing is recorded of {name!r} at scale {scale!r}; there is {', '.join(scales)}."
        )
