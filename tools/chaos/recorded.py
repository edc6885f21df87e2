"""Counts results that are missing, duplicated or changed in journal and store of a sweep."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError, journal_in
from bakeoff.suite.schema import FAILURES, Result
from tools.chaos.figures import Figures

Key = tuple[str, str]  # trial_id, environment_id
_Found = TypeVar("_Found")
_PROCESS = re.compile(r"process (\d+)")
_RESUMED = re.compile(r"(?:goes on|resumes) from step ([\d,]+)")
_DAMAGED = re.compile(r"checkpoint \d+ (is left aside|.*is skipped)", re.IGNORECASE)


def read(out: Path, query: Callable[[Journal], _Found], default: _Found | None = None) -> _Found:
    """Query the folder's journal.

    Args:
        out: The output folder.
        query: A function of the open journal.
        default: The answer while there is no journal yet; without it that is a `JournalError`.
    """
    try:
        with Journal(journal_in(out), read_only=True) as journal:
            return query(journal)
    except JournalError:
        if default is None:
            raise
        return default


def results_in(out: Path) -> list[Result]:
    """Return every result of the journal; empty if there is no journal yet."""

    def query(journal: Journal) -> list[Result]:
        return list(journal.results(sorted({entry.trial_id for entry in journal.entries()})))

    return read(out, query, [])


def findings_in(out: Path) -> dict[str, str]:
    """Return the hash of each finding by trial id."""
    return {result.trial_id: result.finding_sha256 for result in results_in(out)}


def acknowledged_in(out: Path) -> dict[Key, str]:
    """Return the hashes of results that are not failures: nothing may replace these.

    They are read from the rows, not computed from the results.
    """

    def query(journal: Journal) -> dict[Key, str]:
        done = journal.done()
        return {
            (entry.trial_id, entry.environment_id): entry.sha256
            for entry in journal.entries()
            if entry.environment_id in done.get(entry.trial_id, ())
        }

    return read(out, query, {})


def running_in(out: Path, since: float = 0.0) -> dict[str, int]:
    """Return the process ids of trials that began after `since` and have no result."""

    def query(journal: Journal) -> dict[str, int]:
        ended = {entry.trial_id for entry in journal.entries()}
        return {
            one.trial_id: int(found[1])
            for one in journal.attempts()
            if one.trial_id not in ended and one.started_seconds > since
            if (found := _PROCESS.search(one.place))
        }

    return read(out, query, {})


def num_starts(out: Path) -> int:
    """Count the attempts that have begun."""
    return read(out, lambda journal: len(journal.starts()))


def steps_resumed(output: str) -> list[int]:
    """Return the step from which each trial was resumed, as the command printed it."""
    return [int(step.replace(",", "")) for step in _RESUMED.findall(output)]


def names_a_damaged_checkpoint(output: str) -> bool:
    """Return True if the command printed the number of a checkpoint that it did not use."""
    return bool(_DAMAGED.search(output))


def recorded(
    out: Path,
    num_submitted: int,
    *,
    results: Collection[Result] | None = None,
    before: Mapping[Key, str] | None = None,
    reference: Mapping[str, str] | None = None,
    output: str = "",
) -> Figures:
    """Return the figures of an output folder.

    Args:
        out: The folder.
        num_submitted: The number of results that there must be.
        results: All results; by default those of the journal.
        before: Hashes that were acknowledged earlier, and must be there unchanged.
        reference: The hash of each finding of an undisturbed run by trial id, if there is one.
        output: The output of the command, which names resumed trials.
    """
    results = results_in(out) if results is None else results
    now = {(one.trial_id, one.provenance.environment_id): one.sha256 for one in results}
    num_lost = sum(now.get(key) != sha256 for key, sha256 in (before or {}).items())
    num_lost += abs(num_submitted - len(results))
    compared = results if reference is not None else []
    num_differing = sum((reference or {}).get(r.trial_id) != r.finding_sha256 for r in compared)
    num_resumed = len(steps_resumed(output))
    return Figures(
        num_submitted=num_submitted,
        num_acknowledged=len(results),
        num_lost=num_lost,
        num_doubled=num_committed_twice(out),
        num_resumed=num_resumed,
        num_resumed_equal=0 if num_differing or num_lost else num_resumed,
        num_repeated=len(compared),
        num_alarms=num_differing + read(out, lambda journal: len(journal.contradictions())),
    )


def duplicated_in_store(ablation: str, out: Path, uri: str = "") -> Figures:
    """Count results that the store shows more than once."""
    from bakeoff.suite.tracking.read import StoreReader

    found = StoreReader(uri or f"sqlite:///{out / 'mlflow.db'}").sweep((ablation, "quick")).trials
    shown = Counter((child.trial_id, child.environment_id) for child in found)
    return Figures(num_doubled=shown.total() - len(shown))


def num_committed_twice(out: Path) -> int:
    """Count results that replaced one that was not a failure."""
    failures = {status.value for status in FAILURES}
    taken = Counter(
        (end.trial_id, end.environment_id)
        for end in read(out, lambda journal: list(journal.ends()))
        if end.is_kept and end.status not in failures
    )
    return taken.total() - len(taken)


@dataclass
class Watcher:
    """Remembers acknowledged results, and counts those that are later missing or changed."""

    out: Path
    seen: dict[Key, str] = field(default_factory=dict)
    num_changed: int = 0

    def look(self) -> None:
        """Read the journal once."""
        now = acknowledged_in(self.out)
        for key, sha256 in list(self.seen.items()):
            if now.get(key) != sha256:
                self.num_changed += 1
                del self.seen[key]  # counted once
        self.seen.update(now)


@contextmanager
def watching(out: Path) -> Iterator[Watcher]:
    """Yield a watcher that reads the journal several times a second until the block ends."""
    watcher, is_over = Watcher(out), threading.Event()

    def watch() -> None:
        while not is_over.wait(0.3):
            watcher.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        is_over.set()
        thread.join()
        watcher.look()
