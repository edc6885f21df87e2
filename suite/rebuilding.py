"""How is a journal made again from what the store holds?

The parent of a sweep holds, beside the two frames, `journal.jsonl.gz`: the plan, the statements of
its claim and every result with its attempt, as the journal has them. So what comes back has the
hash that it had.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from suite.journal.journal import Journal
from suite.journal_lines import JOURNAL_FILE, LinesError, SweepLines, understood
from suite.tracking.client import StoreUnavailable
from suite.tracking.location import Store, is_own, mlflow_is_installed, sqlite_path
from suite.tracking.run_fields import Key

_SECONDS_TO_ANSWER = 8.0  # what the start of a run waits for a store, beside opening it


class DamagedStore(StoreUnavailable):
    """What the store holds of a sweep is not what was published: one sentence."""


def taken_over(journal: Journal, store: Store, keys: Sequence[Key]) -> str:
    """Bring into the journal what the store has of these sweeps, where that may be more.

    That is where the journal holds no result at all; and where the store is not the folder's own,
    since the writer publishes what the journal holds, and nothing of what other folders recorded
    there may be missing in that. For the start of a run: call it inside the lock, with the journal
    open, BEFORE `keep_plan`, so that the claims keep the moment at which they were stated. A store
    that does not answer within seconds, that is not there, or without MLflow: nothing happens. It
    never makes a store.

    Args:
        journal: Of the output folder.
        store: Where to look.
        keys: (ablation, scale) of the plans that are about to run.

    Returns:
        One sentence to show, as "the journal was empty: 12 results were taken over from the
        store"; empty where nothing was.

    Raises:
        DamagedStore: if what the store holds of a sweep is damaged, by its SHA-256: to run on
            would write over it. A StoreUnavailable, so exit 4.
    """
    was_empty = not journal.entries()
    is_complete = not was_empty and is_own(store, journal.path.parent)
    if is_complete or not _may_be_there(store):
        return ""
    try:
        _refuse_silent(store)
        number = rebuild(journal, store, keys)
    except DamagedStore:
        raise
    except StoreUnavailable:
        return ""
    results = "result was" if number == 1 else "results were"
    why = "the journal was empty: " if was_empty else ""
    return f"{why}{number} {results} taken over from the store" * bool(number)


def rebuild(journal: Journal, store: Store, keys: Sequence[Key]) -> int:
    """Write into the journal what the store has of these sweeps and the journal has not.

    What stands in the journal already, and is sound, stays; a row that is not what its hash says
    gives way. All sweeps are read before the first is written down.

    Returns:
        How many results were written down.

    Raises:
        DamagedStore: if a sweep's lines are not what was published.
        StoreUnavailable: if the store cannot be reached.
    """
    found = [lines for key in keys if (lines := lines_in(store, key)) is not None]
    for lines in found:
        journal.restore_plan(lines.plan, lines.statements)
    return sum(journal.restore(kept) for lines in found for kept in lines.results)


def lines_in(store: Store, key: Key) -> SweepLines | None:
    """What the store holds of a sweep; None where that is nothing.

    Raises:
        DamagedStore, StoreUnavailable: as `rebuild`.
    """
    from suite.shown_store import ShownStore

    held = ShownStore(store.uri).sweep(key).artifacts([JOURNAL_FILE])[JOURNAL_FILE]
    if not held.is_published:
        return None
    if held.body is None or not held.is_sound:
        raise DamagedStore(
            f"{JOURNAL_FILE} of {key[0]}, {key[1]}, in the store is not the file that was "
            "published, by its SHA-256; give another --out and --tracking-uri, or put the file "
            "back."
        )
    try:
        return understood(held.body)
    except LinesError as error:
        raise DamagedStore(f"{key[0]}, {key[1]}: {error}") from None


def _may_be_there(store: Store) -> bool:
    """Without asking anybody: nobody makes a store by looking for one."""
    file = sqlite_path(store.uri)
    return mlflow_is_installed() and (file is None or file.is_file())


def _refuse_silent(store: Store) -> None:
    """A server that hangs would hold the start of a run up for as long as its requests last."""
    from suite.tracking.connect import connect

    opened, failed = connect(store.uri), []

    def ask() -> None:
        try:
            with opened.reached():
                opened.client.search_experiments(max_results=1)
        except StoreUnavailable as error:
            failed.append(error)

    asking = threading.Thread(target=ask, name="asks for the store", daemon=True)
    asking.start()
    asking.join(_SECONDS_TO_ANSWER)
    if failed:
        raise failed[0]
    if asking.is_alive():
        raise StoreUnavailable("The MLflow store does not answer.")
