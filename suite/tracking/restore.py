"""Restore a journal from the copy that the store holds for each sweep.

The parent run holds the plan, the statements of its claim and every result with its attempt, as in
the journal (`bakeoff.suite.journal.export`). So a restored result has its original hash.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from bakeoff.suite.journal.export import JOURNAL_FILE, ExportError, SweepExport, parsed
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.text import redact
from bakeoff.suite.tracking.client import StoreUnavailable, UnusableStore
from bakeoff.suite.tracking.experiments import OutputFolder, TrashedExperiment, folder_of
from bakeoff.suite.tracking.location import Store, is_own, mlflow_is_installed
from bakeoff.suite.tracking.read import StoreReader
from bakeoff.suite.tracking.run_fields import Key

_SECONDS_TO_ANSWER = 8.0  # the time that the start of a run waits for a store, besides opening it


class DamagedStore(StoreUnavailable):
    """Raised if a sweep in the store is not what was published; one sentence."""


def taken_over(
    journal: Journal,
    store: Store,
    keys: Sequence[Key],
    hashes: Iterable[str] = (),
) -> str:
    """Merge the store's results of these sweeps into the journal, if the store may have more.

    The store may have more if the journal has no results; or if the store is not the folder's own:
    the writer publishes the content of the journal, which must then include what other folders
    recorded. Call it at the start of a run, inside the lock, with the journal open, BEFORE
    `keep_plan`, so that the claims keep the time when they were stated. Without MLflow or a store,
    or if the store does not answer within seconds, nothing is merged. It never creates a store.

    Args:
        journal: The journal of the output folder.
        store: The store, with that folder.
        keys: The sweeps.
        hashes: The hash of the user's files for each sweep; unknown by default.

    Returns:
        A message, for example "the journal was empty: 12 results were restored from the store",
        that another experiment has the name, or that the store does not answer; otherwise empty.

    Raises:
        DamagedStore: If the stored sweep is damaged, by its SHA-256: the run would overwrite it. A
            StoreUnavailable, so exit 4.
        TrashedExperiment: If the experiment was deleted in the dashboard; also exit 4.
        UnusableStore: If the store can never be used; also exit 4.
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
        return f"The run continues without a store; the results are in the journal. {error}"
    results = "result was" if number == 1 else "results were"
    why = "the journal was empty: " if was_empty else ""
    taken = f"{why}{number} {results} restored from the store" if number else ""
    return "; ".join(filter(None, (*renamed, taken)))


def _renamed(reader: StoreReader, keys: Sequence[Key]) -> Iterator[str]:
    """Yield a message for each new experiment that cannot have the name of its ablation."""
    for ablation in dict.fromkeys(name for name, _ in keys):
        if (name := reader.new_name(ablation)) not in ("", ablation):
            yield (
                f"the store has an experiment named {ablation!r} from another file, so this one is "
                f"recorded as {name!r}"
            )


def rebuild(
    journal: Journal, store: Store, keys: Sequence[Key], folder: OutputFolder | None = None
) -> int:
    """Write the store's results of these sweeps into the journal, if it lacks them.

    Valid rows of the journal are kept; a row that does not match its hash is replaced. All sweeps
    are read before the first one is written. The default `folder` is that of the store.

    Returns:
        The number of results that were written.

    Raises:
        DamagedStore: If a sweep's file is not what was published.
        StoreUnavailable: If the store cannot be reached.
    """
    reader = StoreReader(store.uri, folder or folder_of(store))
    found = [sweep for key in keys if (sweep := exported_sweep(reader, key)) is not None]
    for sweep in found:
        journal.restore_plan(sweep.plan, sweep.statements, sweep.editions, sweep.sources)
    return sum(journal.restore(kept) for sweep in found for kept in sweep.results)


def exported_sweep(reader: StoreReader, key: Key) -> SweepExport | None:
    """Return the store's copy of a sweep's journal, or None if it has none.

    Raises:
        DamagedStore: If it is not what was published.
    """
    held = reader.sweep(key).file(JOURNAL_FILE)
    if not held.is_published:
        return None
    if held.body is None or not held.is_sound:
        raise DamagedStore(
            f"{JOURNAL_FILE} of {key[0]}, {key[1]}, in the store differs from the published file: "
            "its SHA-256 differs. Give another --out and --tracking-uri, or restore the file."
        )
    try:
        return parsed(held.body)
    except ExportError as error:
        raise DamagedStore(f"{key[0]}, {key[1]}: {error}") from None


def _check_that_it_answers(store: Store) -> None:
    """Raise early if a server hangs: its requests take longer than the start of a run may wait."""
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
