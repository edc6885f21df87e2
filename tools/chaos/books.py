"""Reads journal and store of an output folder and counts what is missing, doubled or changed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import JournalError, journal_in
from suite.schema import FAILURES, Result

Key = tuple[str, str]  # trial_id, environment_id


@dataclass(frozen=True)
class Kept:
    """One result as the journal keeps it."""

    sha256: str
    finding_sha256: str
    status: str


def results_in(out: Path) -> dict[Key, Result]:
    """Every result of the folder's journal; empty where there is no journal yet."""
    try:
        with Journal(journal_in(out), read_only=True) as journal:
            trial_ids = sorted({entry.trial_id for entry in journal.entries()})
            return {
                (result.trial_id, result.provenance.environment_id): result
                for result in journal.results(trial_ids)
            }
    except JournalError:
        return {}


def kept_in(out: Path) -> dict[Key, Kept]:
    """The same, short of the results themselves."""
    return {
        key: Kept(result.sha256, result.finding_sha256, result.status.value)
        for key, result in results_in(out).items()
    }


def findings_in(out: Path) -> dict[Key, str]:
    """The hash of what was found, by trial and environment."""
    return {key: kept.finding_sha256 for key, kept in kept_in(out).items()}


def statuses_in(out: Path) -> Counter[str]:
    """How many results there are of each status."""
    return Counter(kept.status for kept in kept_in(out).values())


def acknowledged_in(out: Path) -> dict[Key, str]:
    """The hashes of results that nothing may take the place of, as the rows name them; cheap."""
    try:
        with Journal(journal_in(out), read_only=True) as journal:
            entries, done = journal.entries(), journal.done()
    except JournalError:
        return {}
    return {
        (entry.trial_id, entry.environment_id): entry.sha256
        for entry in entries
        if entry.environment_id in done.get(entry.trial_id, ())
    }


def without_failures(kept: Mapping[Key, Kept]) -> dict[Key, str]:
    """The hashes of results that nothing may take the place of; a failure may give way."""
    failures = {status.value for status in FAILURES}
    return {key: one.sha256 for key, one in kept.items() if one.status not in failures}


def num_lost(acknowledged: Mapping[Key, str], now: Mapping[Key, str]) -> int:
    """How many of the hashes that were seen once are gone or different."""
    return sum(now.get(key) != sha256 for key, sha256 in acknowledged.items())


def num_amiss(num_submitted: int, found: Collection[object]) -> int:
    """How many results a sweep that has ended lacks, or has too many."""
    return abs(num_submitted - len(found))


def num_differing(reference: Mapping[Key, str], found: Mapping[Key, str]) -> int:
    """Of what was found in both, how many findings differ: each is an alarm."""
    return sum(found[key] != finding for key, finding in reference.items() if key in found)


def num_contradictions(out: Path) -> int:
    """Trials of which two attempts, of one folder, have found different things."""
    with Journal(journal_in(out), read_only=True) as journal:
        return len(journal.contradictions())


def num_doubled_in_store(uri: str, ablation: str, scale: str = "quick") -> int:
    """How many results the store shows more than once, or for a trial that runs no more."""
    from suite.tracking.read_runs import StoreReader

    found = StoreReader(uri).sweep((ablation, scale)).trials
    shown = Counter((child.trial_id, child.environment_id) for child in found)
    return sum(number - 1 for number in shown.values())


def num_committed_twice(out: Path) -> int:
    """How many results were taken in the place of one that was no failure."""
    failures = {status.value for status in FAILURES}
    with Journal(journal_in(out), read_only=True) as journal:
        ends = journal.ends()
    taken = Counter(
        (end.trial_id, end.environment_id)
        for end in ends
        if end.is_kept and end.status not in failures
    )
    return sum(number - 1 for number in taken.values())


@dataclass
class Watcher:
    """Reads a journal again and again, and remembers what it has seen acknowledged.

    A failure may give way to a later attempt; what is no failure may not change. Whether rows are
    what their hashes say is looked at in the end.
    """

    out: Path
    seen: dict[Key, str] = field(default_factory=dict)
    num_changed: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def look(self) -> None:
        """Once."""
        now = acknowledged_in(self.out)
        for key, sha256 in list(self.seen.items()):
            if now.get(key) != sha256:
                self.num_changed += 1
                del self.seen[key]  # counted once
        self.seen.update(now)

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        assert self._thread is not None, "it was started"
        self._thread.join()
        self.look()

    def _watch(self) -> None:
        while not self._is_over.wait(0.3):
            self.look()
