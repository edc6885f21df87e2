"""Read every edition of an ablation from the store, and list them side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakeoff.reports.pages.ablation import shown_sweep
from bakeoff.reports.pages.editions import editions_in_lines
from bakeoff.reports.view import Sweep
from bakeoff.suite.journal.editions import Source
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.reporting.build import refuse_missing
from bakeoff.suite.reporting.frames import by_trial, sweep_of, with_history
from bakeoff.suite.schema import About, Edition, Plan
from bakeoff.suite.text import redact
from bakeoff.suite.tracking.experiments import folder_of
from bakeoff.suite.tracking.location import Store
from bakeoff.suite.tracking.read import StoreReader
from bakeoff.suite.tracking.restore import rebuild


@dataclass(frozen=True, eq=False)
class StoredEditions:
    """The editions of an ablation at one scale.

    Attributes:
        about: The facts of the edition that the store shows.
        sweeps: Edition's number -> its sweep.
        sources: Edition's number -> the user's files from which it was made.
    """

    about: About
    sweeps: Mapping[int, Sweep]
    sources: Mapping[int, Source]


def editions_side_by_side(store: Store, name: str, scale: str | None) -> Sequence[str]:
    """Return the editions at that scale as lines of text; see `stored_editions`."""
    found = stored_editions(store, name, scale)
    return list(editions_in_lines(found.about, found.sweeps))


def stored_editions(store: Store, name: str, scale: str | None) -> StoredEditions:
    """Return all stored editions at that scale, or at the largest with results by default.

    Raises:
        SpecError: If nothing is recorded for the ablation, or not at that scale.
        StoreUnavailable: If the store cannot be reached.
    """
    reader = StoreReader(store.uri, folder_of(store))
    keys = [key for key in reader.sweeps([name]) if key[0] == name]
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.db") as journal:
        rebuild(journal, store, keys)
        plans = [journal.keep_plan(plan) for plan in journal.plans()]  # adds missing numbers
        sweeps = [_sweep(with_history(plan, journal), journal) for plan in plans]
        refuse_missing(name, sweeps, scale)
        shown = shown_sweep(sweeps, scale).about
        plan = next(plan for plan in plans if plan.about.scale == shown.scale)
        history = journal.history(plan)
        kept = journal.sources(journal.kept_editions(plan))
        return StoredEditions(
            about=shown,
            sweeps={each.number: _sweep(of, journal) for each, of in history},
            sources={each.number: kept.get(each.source_sha256, {}) for each, _ in history},
        )


def at_edition(
    store: Store, sweeps: Sequence[Sweep], is_wanted: Callable[[Edition, Source], bool]
) -> list[Sweep]:
    """Return each sweep at its newest wanted edition or, without one, as the store shows it.

    People who share a store may have edited the same file independently, and the store shows the
    edition that was recorded last. `is_wanted` is called with an edition and the user's files from
    which it was made.

    Raises:
        StoreUnavailable: If the store cannot be reached.
    """
    return [
        _at_edition(store, sweep, is_wanted) if len(sweep.about.editions) > 1 else sweep
        for sweep in sweeps
    ]


def made_from(file: Path) -> Callable[[Edition, Source], bool]:
    """Return a test of whether an edition was made from the file as it is now."""
    text = redact(file.read_bytes().decode(errors="backslashreplace"))
    return lambda _, source: any(
        Path(place).name == file.name and body == text for place, body in source.items()
    )


def _at_edition(store: Store, sweep: Sweep, is_wanted: Callable[[Edition, Source], bool]) -> Sweep:
    key = (sweep.about.ablation, sweep.about.scale)
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.db") as journal:
        rebuild(journal, store, [key])
        for plan in [plan for plan in journal.plans() if plan.key == key]:
            sources = journal.sources(journal.kept_editions(plan))
            found = [
                (edition, of)
                for edition, of in journal.history(plan)
                if is_wanted(edition, sources.get(edition.source_sha256, {}))
            ]
            if found and not any(edition.is_shown for edition, _ in found):
                wanted = journal.keep_plan(found[0][1])
                return _sweep(with_history(wanted, journal), journal)
    return sweep


def _sweep(plan: Plan, journal: Journal) -> Sweep:
    return sweep_of(plan, by_trial(journal.results(trial.trial_id for trial in plan.trials)))
