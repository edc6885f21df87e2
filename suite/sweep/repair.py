"""Repairs what `bakeoff verify` finds: the journal from the store, then the rest from the journal.

What the store has and the journal lacks is taken over first, where it can be had, and never
deleted. Then what is wrong in the store is deleted, and the writer sends again what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from suite.schema import Plan
from suite.sweep.finish import conclude, counted
from suite.sweep.folder_lock import lock_folder
from suite.sweep.mlflow_sync import MlflowSync
from suite.sweep.store_check import Difference
from suite.sweep.verify import Verification, found_in, refuse_empty, verification
from suite.tracking.client import StoreUnavailable
from suite.tracking.experiments import folder_of
from suite.tracking.location import Store, store_of, try_rebase
from suite.tracking.read_runs import StoreReader
from suite.tracking.restore import DamagedStore, rebuild
from suite.tracking.run_writer import RunWriter


def repaired(out: Path, tracking_uri: str | None) -> Verification:
    """Repair every difference that can be; nothing is written where there is none.

    If it is killed at any moment, the next call completes it.

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
    with lock_folder(out):
        moved = try_rebase(store)
        found = before = found_in(out, store)
        if any(each.is_lost for each in found):
            _restore(found, store, out)
            found = found_in(out, store)
        if found:
            _send_again(found, store, out)
            found = found_in(out, store)
        left = {each.sentence for each in found}
        mended = [moved, *(each.sentence for each in before if each.sentence not in left)]
        return verification(out, found, tuple(filter(None, mended)))


def _restore(found: Sequence[Difference], store: Store, out: Path) -> None:
    """What the journal lost, sweep by sweep; where the store is damaged too, it stays lost."""
    lost = dict.fromkeys(each.key for each in found if each.is_lost and each.key is not None)
    with Journal(journal_in(out)) as journal:
        for key in list(lost) or StoreReader(store.uri, folder_of(store)).sweeps():
            with suppress(DamagedStore):
                rebuild(journal, store, [key])


def _send_again(found: Sequence[Difference], store: Store, out: Path) -> None:
    with Journal(journal_in(out)) as journal:
        plans = journal.plans()
        if not plans or journal.damaged():  # nothing may be made from a damaged row
            return
        _delete_wrong(found, plans, store)
        sync = MlflowSync(lambda: RunWriter(store), plans, journal.path)
        sync.start()
        writer, error = sync.close()
        if not error:
            outcome = counted(plans, journal, 0)
            error = conclude(outcome, plans, journal, writer, out, store).error
    if error:
        raise StoreUnavailable(error)


def _delete_wrong(found: Sequence[Difference], plans: Sequence[Plan], store: Store) -> None:
    writer = RunWriter(store)
    for plan in plans:
        writer.open_sweep(plan.about)
        of_plan = [each for each in found if each.key == plan.key]
        if run_ids := [run_id for each in of_plan for run_id in each.run_ids]:
            writer.delete_trials(plan.key, run_ids)
        if files := [name for each in of_plan for name in each.files]:
            writer.unpublish(plan.key, files)
