"""Reports from what the store holds, or, where there is no store, from the journal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reports.frame import Sweep, read_sweep
from reports.render import render, render_overview
from suite.frames import CURVES_FILE, RESULTS_FILE, sweep_of
from suite.journal import Journal
from suite.record import ablations_in, load_artifacts
from suite.rows import by_trial
from suite.schema import Plan
from suite.spec import SpecError
from suite.store import Store


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
    recorded = {name: sweeps_in(store, name) for name in ablations_in(store.uri)}
    return _rendered(names, recorded, folder, scale)


def reports_from_journal(
    names: Iterable[str], journal: Journal, folder: Path, scale: str | None = None
) -> tuple[Path, ...]:
    """The same from the journal, for machines without a store."""
    sweeps: dict[str, list[Sweep]] = {}
    for plan in journal.plans():
        sweeps.setdefault(plan.about.ablation, []).append(sweep_from(journal, plan))
    return _rendered(names, sweeps, folder, scale)


def sweep_from(journal: Journal, plan: Plan) -> Sweep:
    """What the journal holds of a plan, as frames."""
    return sweep_of(plan, by_trial(journal.results(trial.trial_id for trial in plan.trials)))


def sweeps_in(store: Store, ablation: str) -> list[Sweep]:
    """What the store holds of an ablation, one a scale."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            read_sweep(path / RESULTS_FILE, path / CURVES_FILE)
            for _, path in load_artifacts(store.uri, ablation, Path(folder))
        ]


def _rendered(
    names: Iterable[str],
    sweeps: Mapping[str, Sequence[Sweep]],
    folder: Path,
    scale: str | None,
) -> tuple[Path, ...]:
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
