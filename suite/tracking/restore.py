"""Restores a journal from the file of it that the store holds for each sweep.

The parent run holds the plan, the statements of its claim and every result with its attempt, as the
journal had them (`suite.journal.export`). So a restored result has the hash that it had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from suite.journal.export import JOURNAL_FILE, ExportError, SweepExport, parsed
from suite.journal.journal import Journal
from suite.text import redact
from suite.tracking.client import StoreUnavailable, UnusableStore
from suite.tracking.experiments import OutputFolder, TrashedExperiment, folder_of
from suite.tracking.location import Store, is_own, mlflow_is_installed
from suite.tracking.read import StoreReader
from suite.tracking.run_fields import Key

_SECONDS_TO_ANSWER = 8.0  # for which the start of a run waits for a store, beside opening it


class DamagedStore(StoreUnavailable):
    """What the store holds of a sweep is not what was published: one sentence."""


def taken_over(
    journal: Journal,
    store: Store,
    keys: Sequence[Key],
    hashes: Iterable[str] = (),
) -> str:
    """Bring into the journal what the store has of these sweeps, where that may be more.

    That is where the journal holds no result at all; and where the store is not the folder's own,
    since the writer publishes what the journal holds, and nothing of what other folders recorded
    there may be missing in that. For the start of a run: call it inside the lock, with the journal
    open, BEFORE `keep_plan`, so that the claims keep the moment at which they were stated. Without
    MLflow, without a store, or where it does not answer within seconds, nothing is taken. It never
    makes a store.

    Args:
        journal: Of the output folder.
        store: With that folder.
        keys: Of the sweeps.
        hashes: Of the user's files that each of them is made from; by default nothing is known.

    Returns:
        What to show, as "the journal was empty: 12 results were taken over from the store", that
        another's experiment has the name, or that the store does not answer; else empty.

    Raises:
        DamagedStore: if what the store holds of a sweep is damaged, by its SHA-256: to run on
            would write over it. A StoreUnavailable, so exit 4.
        TrashedExperiment: if the experiment was deleted in the dashboard; exit 4, too.
        UnusableStore: if the store can never be used; exit 4, too.
    """
    was_empty = not journal.entries()
    is_complete = not was_empty and is_own(store, journal.path.parent)
    if not mlflow_is_installed() or not store.may_exist:
        return ""
    folder = folder_of(store, zip(keys, hashes, strict=False))
    try:
        _check_that_it_answers(store)
        renamed = list(_renamed(StoreReader(store.uri, folder), keys))
        number = 0 if is_complete else rebuild(journal, store, keys, folder)
    except (DamagedStore, TrashedExperiment, UnusableStore):
        raise
    except StoreUnavailable as error:
        return f"The run goes on without a store; the journal keeps the results. {error}"
    results = "result was" if number == 1 else "results were"
    why = "the journal was empty: " if was_empty else ""
    taken = f"{why}{number} {results} taken over from the store" if number else ""
    return "; ".join(filter(None, (*renamed, taken)))


def _renamed(reader: StoreReader, keys: Sequence[Key]) -> Iterator[str]:
    """Say where a new experiment gets another name than its ablation, which is taken."""
    for ablation in dict.fromkeys(name for name, _ in keys):
        if (name := reader.new_name(ablation)) not in ("", ablation):
            yield (
                f"the store has another experiment named {ablation!r}, which is not of this file: "
                f"this one is recorded as {name!r}"
            )


def rebuild(
    journal: Journal, store: Store, keys: Sequence[Key], folder: OutputFolder | None = None
) -> int:
    """Write into the journal what the store has of these sweeps and the journal has not.

    What is in the journal already, and is sound, stays; a row that is not what its hash says is
    replaced. All sweeps are read before the first is written. `folder` is by default that of the
    store.

    Returns:
        How many results were written.

    Raises:
        DamagedStore: if a sweep's file is not what was published.
        StoreUnavailable: if the store cannot be reached.
    """
    reader = StoreReader(store.uri, folder or folder_of(store))
    found = [sweep for key in keys if (sweep := exported_sweep(reader, key)) is not None]
    for sweep in found:
        journal.restore_plan(sweep.plan, sweep.statements, sweep.editions, sweep.sources)
    return sum(journal.restore(kept) for sweep in found for kept in sweep.results)


def exported_sweep(reader: StoreReader, key: Key) -> SweepExport | None:
    """What the store has of a sweep's journal; None where it has nothing.

    Raises:
        DamagedStore: if it is not what was published.
    """
    held = reader.sweep(key).file(JOURNAL_FILE)
    if not held.is_published:
        return None
    if held.body is None or not held.is_sound:
        raise DamagedStore(
            f"{JOURNAL_FILE} of {key[0]}, {key[1]}, in the store is not the file that was "
            "published, by its SHA-256; give another --out and --tracking-uri, or put the file "
            "back."
        )
    try:
        return parsed(held.body)
    except ExportError as error:
        raise DamagedStore(f"{key[0]}, {key[1]}: {error}") from None


def _check_that_it_answers(store: Store) -> None:
    """Raise soon where a server hangs: a request to it lasts longer than a start may wait."""
    reader, failed = StoreReader(store.uri), []

    def ask() -> None:
        try:
            reader.ping()
        except StoreUnavailable as error:
            failed.append(error)

    asking = threading.Thread(target=ask, name="asks for the store", daemon=True)
    asking.start()
    asking.join(_SECONDS_TO_ANSWER)
    if failed:
        raise failed[0]
    if asking.is_alive():
        raise StoreUnavailable(f"The MLflow store {redact(store.uri)} does not answer.")
