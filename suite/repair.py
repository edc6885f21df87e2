"""`bakeoff verify --repair`: bring the store and the reports to what the journal says.

What the store has and the journal has not is taken over first, where it can be had, and never
deleted. All the rest is the writer's work: what is wrong in the store is taken away, and the
writer finds it lacking.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from suite.conclusion import conclude
from suite.journal.journal import Journal, journal_in
from suite.mlflow_store import StoreUnavailable
from suite.new_store import recorder_of
from suite.outbox import Outbox
from suite.outcome import counted
from suite.projection import Key
from suite.rebuilding import DamagedStore, rebuild
from suite.schema import Plan
from suite.shown_store import ShownStore
from suite.store import Store, store_of
from suite.sweep.folder_lock import held
from suite.verify import Comparison, Difference, comparison, found_in, refuse_empty


def repaired(out: Path, tracking_uri: str | None) -> Comparison:
    """Mend every difference that can be mended; a no-op where there is none.

    Killed at any moment it can be done again.

    Returns:
        What differs still, and what did before.

    Raises:
        SpecError: if nothing was run in the folder yet.
        FolderUnavailable: if a driver works on it.
        JournalError: if the journal cannot be read or written.
        StoreUnavailable: if the store cannot be reached.
    """
    store = store_of(out, tracking_uri)
    refuse_empty(out, store)
    with held(out):
        found = before = found_in(out, store)
        if any(each.lacks for each in found):
            _take_over(found, store, out)
            found = found_in(out, store)
        if found:
            _mend(found, store, out)
            found = found_in(out, store)
        left = {each.sentence for each in found}
        mended = tuple(each.sentence for each in before if each.sentence not in left)
        return comparison(out, store, found, mended)


def _take_over(found: Sequence[Difference], store: Store, out: Path) -> None:
    """What the journal lacks, sweep by sweep; what of it is damaged in the store stays a lack."""
    lacking = [each.key for each in found if each.lacks and each.key is not None]
    keys: list[Key] = list(dict.fromkeys(lacking)) or ShownStore(store.uri).sweeps()
    with Journal(journal_in(out)) as journal:
        for key in keys:
            with suppress(DamagedStore):
                rebuild(journal, store, [key])


def _mend(found: Sequence[Difference], store: Store, out: Path) -> None:
    with Journal(journal_in(out)) as journal:
        plans = journal.plans()
        if not plans or journal.damaged():  # of a row that is wrong nothing may be made
            return
        _take_away(found, plans, store)
        outbox = Outbox(lambda: recorder_of(store), plans, journal.path)
        outbox.start()
        recorder, trouble = outbox.close()
        outcome = counted(plans, journal, 0)
        if not trouble:
            trouble = conclude(outcome, plans, journal, recorder, out, store).trouble
    if trouble:
        raise StoreUnavailable(trouble)


def _take_away(found: Sequence[Difference], plans: Sequence[Plan], store: Store) -> None:
    """Children and artifacts that are wrong; the journal holds all that they are made of."""
    recorder = recorder_of(store)
    for plan in plans:
        recorder.open_sweep(plan.about)
        of_plan = [each for each in found if each.key == plan.key]
        trials = [run_id for each in of_plan for run_id in each.wrong_trials]
        files = [name for each in of_plan for name in each.wrong_files]
        if trials:
            recorder.delete_trials(plan.key, trials)
        if files:
            recorder.unpublish(plan.key, files)
