"""Counts, in journal and store of a sweep, what is missing, duplicated or changed."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import JournalError, journal_in
from suite.schema import FAILURES, Result
from tools.chaos.figures import Figures

Key = tuple[str, str]  # trial_id, environment_id
_Found = TypeVar("_Found")
_PROCESS = re.compile(r"process (\d+)")
_RESUMED = re.compile(r"(?:goes on|resumes) from step ([\d,]+)")
_DAMAGED = re.compile(r"checkpoint \d+ (is left aside|.*is skipped)", re.IGNORECASE)


def read(out: Path, query: Callable[[Journal], _Found], default: _Found | None = None) -> _Found:
    """The answer of the folder's journal.

    Args:
        out: The output folder.
        query: Asks the open journal.
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
    """Every result of the journal; empty where there is no journal yet."""

    def query(journal: Journal) -> list[Result]:
        return list(journal.results(sorted({entry.trial_id for entry in journal.entries()})))

    return read(out, query, [])


def findings_in(out: Path) -> dict[str, str]:
    """trial_id -> hash of the finding."""
    return {result.trial_id: result.finding_sha256 for result in results_in(out)}


def acknowledged_in(out: Path) -> dict[Key, str]:
    """The hashes of results that are no failures: nothing may replace these.

    They are those that the rows name; the results themselves are not read.
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
    """trial_id -> process id, of trials that have begun after `since` and have no result."""

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
    """How many attempts have begun."""
    return read(out, lambda journal: len(journal.starts()))


def steps_resumed(output: str) -> list[int]:
    """The step that each resumed trial went on from, by what the command printed."""
    return [int(step.replace(",", "")) for step in _RESUMED.findall(output)]


def names_a_damaged_checkpoint(output: str) -> bool:
    """Whether the command said of a checkpoint, by its number, that it is not used."""
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
    """The figures of what a sweep has left in its output folder.

    Args:
        out: The folder.
        num_submitted: How many results there must be.
        results: All results; by default those of the journal.
        before: Hashes that were acknowledged earlier, and must be there unchanged.
        reference: By trial_id, the hash of an undisturbed run's finding; None where there is none.
        output: What the command said, which names the trials that it resumed.
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
    """Results that the store shows more than once, or for a trial that runs no more."""
    from suite.tracking.read import StoreReader

    found = StoreReader(uri or f"sqlite:///{out / 'mlflow.db'}").sweep((ablation, "quick")).trials
    shown = Counter((child.trial_id, child.environment_id) for child in found)
    return Figures(num_doubled=shown.total() - len(shown))


def num_committed_twice(out: Path) -> int:
    """How many results were taken in the place of one that was no failure."""
    failures = {status.value for status in FAILURES}
    taken = Counter(
        (end.trial_id, end.environment_id)
        for end in read(out, lambda journal: list(journal.ends()))
        if end.is_kept and end.status not in failures
    )
    return taken.total() - len(taken)


@dataclass
class Watcher:
    """Remembers what was acknowledged, and counts what is gone or changed later.

    Only the hashes that the rows name are read.
    """

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
    """A watcher that looks several times a second until the block ends."""
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
