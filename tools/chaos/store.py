"""Scenario: an MLflow server is stopped for a while, or until the end of the sweep.

A real server is stopped by SIGSTOP (requests hang) or by SIGKILL (they are refused). Then it is
brought back, and must get all results that were acknowledged meanwhile.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bakeoff.suite.errors import FAILED, UNAVAILABLE
from tools.chaos.arena import Server, ablation, server, start, verify, wait_until
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import (
    Watcher,
    acknowledged_in,
    duplicated_in_store,
    read,
    recorded,
    results_in,
    watching,
)

_PATIENCE_SECONDS = 180.0
_SECONDS_BETWEEN_LOOKS = 3.0  # to list all runs is the server's hardest work, and delays the writer
_SECONDS_TO_RECOVER = (40.0, 60.0)  # after an outage, beside other scenarios; short, full
_MANY_SEEDS = 150  # a trial takes half a second: more than there is time for
_FEWEST_TO_COMPARE = 20


@dataclass(frozen=True)
class Outage:
    """A signal to the server, and the time until it is brought back: by default the sweep's end."""

    signal: signal.Signals
    seconds: float | None = None


@dataclass(frozen=True)
class Pauses:
    """Seconds before an outage, and those that a sweep has after it."""

    before: float
    after: float


_SHORT = (Outage(signal.SIGKILL, 5.0),)
_FULL = (Outage(signal.SIGSTOP, 30.0), Outage(signal.SIGKILL, 120.0))
_LONG = (*_FULL, Outage(signal.SIGKILL, 30.0), Outage(signal.SIGSTOP, 120.0))
# An outage, the ablation, and its number of trials.
_TO_THE_END = ((Outage(signal.SIGKILL), "resumable", 2), (Outage(signal.SIGSTOP), "one", 1))


def prove(scale: Scale, folder: Path) -> Figures:
    """Run one sweep with outages in it, and one for each outage to the end."""
    with server(folder / "server") as store:
        outages = scale.pick(_SHORT, _FULL, _LONG)
        seconds = Pauses(scale.pick(4.0, 10.0), scale.pick(*_SECONDS_TO_RECOVER))
        figures = _with_outages(outages, seconds, store, folder / "outages")
        for outage, name, num_trials in scale.pick(_TO_THE_END[:1], _TO_THE_END):
            sweep = _Sweep(name, folder / f"end-{name}", store)
            figures += _to_the_end(outage, sweep, num_trials)
    return figures


@dataclass(frozen=True)
class _Sweep:
    """An ablation that runs in a folder with a store."""

    name: str
    folder: Path
    store: Server

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def start(self, options: str) -> subprocess.Popen[bytes]:
        """Start it, and wait until it has a result."""
        file = ablation(self.folder, self.name)
        store = f"--tracking-uri {self.store.uri}"
        command = f"run {file} --executor inline --out {self.out} {store} {options}"
        run = start(command, log=self.folder / "run.log")
        while not acknowledged_in(self.out) and run.poll() is None:
            time.sleep(0.1)
        return run

    def verify(self, option: str = "") -> list[str]:
        """Compare journal and store; return a sentence if that fails."""
        log = self.folder / f"verify{option}.log"
        return verify(self.out, f"--tracking-uri {self.store.uri} {option}", log=log)

    def shown(self) -> set[str]:
        """Return the trials whose result the store shows; none while it does not answer."""
        from bakeoff.suite.tracking.client import StoreUnavailable
        from bakeoff.suite.tracking.read import StoreReader

        with suppress(StoreUnavailable):
            found = StoreReader(self.store.uri).sweep((self.name, "quick")).trials
            return {child.trial_id for child in found if child.is_complete}
        return set()

    def figures(self, num_submitted: int | None = None) -> Figures:
        """Return the figures of journal and store; by default every trial was submitted."""
        trial_ids = {result.trial_id for result in results_in(self.out)}
        num = len(trial_ids) if num_submitted is None else num_submitted
        not_shown = trial_ids - self.shown()
        found = recorded(self.out, num) + Figures(num_lost=len(not_shown))
        return found + duplicated_in_store(self.name, self.out, self.store.uri)


def _with_outages(
    outages: Sequence[Outage], pauses: Pauses, store: Server, folder: Path
) -> Figures:
    """Run a sweep with pauses between the outages; it ends by a time limit."""
    sweep = _Sweep("many", folder, store)
    seconds = sum(pauses.before + (one.seconds or 0.0) + pauses.after for one in outages)
    away: list[tuple[float, float]] = []
    recoveries = []
    with watching(sweep.out) as watcher:
        run = sweep.start(f"--seeds {_MANY_SEEDS} --time-limit {seconds}")
        for outage in outages:
            time.sleep(pauses.before)
            began = time.time()
            store.stop(outage.signal)
            time.sleep(outage.seconds or 0.0)
            away.append((began, time.time()))
            recoveries.append(_seconds_to_catch_up(sweep))
        code = run.wait()
    problems = [] if code == FAILED else [f"at its time limit: exit code {code}, not {FAILED}"]
    return (
        Figures(
            faults=Counter(f"MLflow away for {outage.seconds:g} s" for outage in outages),
            num_lost=watcher.num_changed,
            recovery_seconds=tuple(recoveries),
            problems=(*problems, *sweep.verify()),
            notes=(_slowdown(sweep.out, away),),
        )
        + sweep.figures()
    )


def _seconds_to_catch_up(sweep: _Sweep) -> float:
    """Bring the server back, and wait until it shows all results acknowledged by then."""
    acknowledged = {trial_id for trial_id, _ in acknowledged_in(sweep.out)}
    sweep.store.bring_back()
    return wait_until(
        lambda: acknowledged <= sweep.shown(),
        "all results in the store",
        _PATIENCE_SECONDS,
        _SECONDS_BETWEEN_LOOKS,
    )


def _to_the_end(outage: Outage, sweep: _Sweep, num_trials: int) -> Figures:
    """Stop the store until the sweep's end; then `verify --repair` sends the results to it."""
    run = sweep.start("--seeds 1")
    sweep.store.stop(outage.signal)
    code = run.wait()
    watcher = Watcher(sweep.out)
    watcher.look()
    output = (sweep.folder / "run.log").read_text()
    sweep.store.bring_back()
    began = time.monotonic()
    problems = sweep.verify("--repair")
    seconds = time.monotonic() - began
    problems += sweep.verify()
    if code != UNAVAILABLE or "Traceback" in output:
        problems.append(f"without its store: exit code {code}, not {UNAVAILABLE}: {output[-200:]}")
    watcher.look()
    return sweep.figures(num_trials) + Figures(
        faults=Counter({"MLflow away to the end": 1}),
        num_lost=watcher.num_changed,
        recovery_seconds=(seconds,),
        problems=tuple(problems),
    )


def _slowdown(out: Path, away: Sequence[tuple[float, float]]) -> str:
    """Compare the time of trials while the store was away with that of the others.

    The time is measured from each trial's end to the next, so it includes the driver's work.
    """
    found = read(out, lambda journal: [one.ended_seconds for one in journal.ends()])
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for earlier, later in pairwise(sorted(ended for ended in found if ended)):
        is_during = any(start_ <= earlier and later <= stop for start_, stop in away)
        seconds[is_during].append(later - earlier)
    during, besides = seconds.values()
    if min(len(during), len(besides)) < _FEWEST_TO_COMPARE:
        return "Too few trials ran while the store was away to compare their times."
    share = statistics.median(during) / statistics.median(besides) - 1
    return (
        f"While MLflow was away a trial took {share:+.1%} time (medians of "
        f"{len(during)} and {len(besides)} trials: {1000 * statistics.median(during):.0f} ms and "
        f"{1000 * statistics.median(besides):.0f} ms)."
    )
