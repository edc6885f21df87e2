"""Scenario: MLflow is away for a while, or until the end.

A real server is stopped in both ways there are: SIGSTOP, where requests hang, and SIGKILL, where
they are refused. Then it comes back, and all that was acknowledged meanwhile must be in it.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from suite.errors import FAILED, UNAVAILABLE
from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from tools.chaos.books import (
    Watcher,
    acknowledged_in,
    kept_in,
    num_amiss,
    num_committed_twice,
    num_contradictions,
    num_doubled_in_store,
)
from tools.chaos.command import start
from tools.chaos.figures import Figures
from tools.chaos.mlflow_server import Server, server
from tools.chaos.scale import Scale

SWEEPS = Path(__file__).parent / "sweeps"
_PATIENCE_SECONDS = 180.0
_SECONDS_BETWEEN_LOOKS = 3.0  # to list all runs is the server's hardest work, and delays the writer
_SECONDS_TO_RECOVER = 60.0  # after an outage, with what starting takes beside other scenarios
_MANY_SEEDS = 150  # a trial takes half a second: more than there is time for
_FEWEST_TO_COMPARE = 20


@dataclass(frozen=True)
class Sweep:
    """A file of `sweeps/`, and its number of trials for each seed."""

    name: str
    num_trials_per_seed: int

    @property
    def file(self) -> Path:
        """The ablation."""
        return SWEEPS / f"{self.name}.py"


MANY = Sweep("many", 10)


@dataclass(frozen=True)
class Outage:
    """How the server is stopped, and for how long; None is to the end of the sweep."""

    signal: signal.Signals
    seconds: float | None


_SHORT = (Outage(signal.SIGKILL, 5.0),)
_FULL = (Outage(signal.SIGSTOP, 30.0), Outage(signal.SIGKILL, 120.0))
_LONG = (*_FULL, Outage(signal.SIGKILL, 30.0), Outage(signal.SIGSTOP, 120.0))
_TO_THE_END = (
    (Outage(signal.SIGKILL, None), Sweep("resumable", 2)),
    (Outage(signal.SIGSTOP, None), Sweep("one", 1)),
)


def prove(scale: Scale, folder: Path) -> Figures:
    """One sweep with outages in it, and one for each way of staying away."""
    calm_seconds = scale.pick(4.0, 10.0)
    with server(folder / "server") as store:
        outages = scale.pick(_SHORT, _FULL, _LONG)
        figures = _with_outages(outages, calm_seconds, store, folder / "outages")
        for outage, sweep in scale.pick(_TO_THE_END[:1], _TO_THE_END):
            figures += _to_the_end(outage, sweep, store, folder / f"end-{sweep.name}")
    return figures


@dataclass
class _Spans:
    """When the store was away, in seconds since 1970; and how long each coming back took."""

    away: list[tuple[float, float]] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)


def _with_outages(
    outages: Sequence[Outage], calm_seconds: float, store: Server, folder: Path
) -> Figures:
    """A sweep with calm before, between and after the outages, which ends by a time limit."""
    out = folder / "out"
    seconds = sum(
        calm_seconds + (outage.seconds or 0.0) + _SECONDS_TO_RECOVER for outage in outages
    )
    run = _run(MANY, out, store, _MANY_SEEDS, folder / "run.log", "--time-limit", str(seconds))
    spans = _Spans()
    with Watcher(out) as watcher:
        while not kept_in(out) and run.poll() is None:
            time.sleep(0.1)
        for outage in outages:
            time.sleep(calm_seconds)
            _outage(outage, store, out, spans)
        code = run.wait()
    verified = _verify(out, store, folder / "verify.log")
    counted = _counted(MANY, out, store, len(kept_in(out)), verified)
    troubles = [] if code == FAILED else [f"at its time limit: exit code {code}, not {FAILED}"]
    return counted + Figures(
        faults=Counter(f"MLflow away for {outage.seconds:g} s" for outage in outages),
        num_lost=watcher.num_changed,
        recovery_seconds=tuple(spans.recoveries),
        troubles=tuple(troubles),
        notes=(_slowdown(out, spans.away),),
    )


def _outage(outage: Outage, store: Server, out: Path, spans: _Spans) -> None:
    """From the first moment to the last; then how long until the store has all of it."""
    began = time.time()
    store.stop(outage.signal)
    time.sleep(outage.seconds or 0.0)
    spans.away.append((began, time.time()))
    acknowledged = {trial_id for trial_id, _ in acknowledged_in(out)}
    store.bring_back()
    start_ = time.monotonic()
    while not acknowledged <= _shown(MANY, store):
        if time.monotonic() - start_ > _PATIENCE_SECONDS:
            raise TimeoutError("the store never caught up")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    spans.recoveries.append(time.monotonic() - start_)


def _to_the_end(outage: Outage, sweep: Sweep, store: Server, folder: Path) -> Figures:
    """The sweep ends without its store; `verify --repair` brings it home."""
    out = folder / "out"
    run = _run(sweep, out, store, 1, folder / "run.log")
    while not kept_in(out) and run.poll() is None:
        time.sleep(0.1)
    store.stop(outage.signal)
    code = run.wait()
    acknowledged = {key: kept.sha256 for key, kept in kept_in(out).items()}
    said = (folder / "run.log").read_text()
    store.bring_back()
    start_ = time.monotonic()
    repaired = _verify(out, store, folder / "repair.log", "--repair")
    seconds = time.monotonic() - start_
    verified = _verify(out, store, folder / "verify.log")
    troubles = []
    if code != UNAVAILABLE or "Traceback" in said:
        troubles.append(f"without its store: exit code {code}, not {UNAVAILABLE}: {said[-200:]}")
    if repaired:
        troubles.append(f"verify --repair: exit code {repaired}")
    counted = _counted(sweep, out, store, sweep.num_trials_per_seed, verified)
    now = {key: kept.sha256 for key, kept in kept_in(out).items()}
    return counted + Figures(
        faults=Counter({"MLflow away to the end": 1}),
        num_lost=sum(now.get(key) != sha256 for key, sha256 in acknowledged.items()),
        recovery_seconds=(seconds,),
        troubles=tuple(troubles),
    )


def _counted(sweep: Sweep, out: Path, store: Server, num_submitted: int, verified: int) -> Figures:
    """What journal and store hold in the end, and the exit code of `verify`."""
    kept = kept_in(out)
    missing = {trial_id for trial_id, _ in kept} - _shown(sweep, store)
    troubles = [f"{sweep.name}: verify: exit code {verified}"] if verified else []
    return Figures(
        num_submitted=num_submitted,
        num_acknowledged=len(kept),
        num_lost=num_amiss(num_submitted, kept) + len(missing),
        num_doubled=num_committed_twice(out) + num_doubled_in_store(store.uri, sweep.name),
        num_alarms=num_contradictions(out),
        troubles=tuple(troubles),
    )


def _run(
    sweep: Sweep, out: Path, store: Server, seeds: int, log: Path, *options: str
) -> subprocess.Popen[bytes]:
    return start(
        "run", str(sweep.file), "--executor", "inline", "--seeds", str(seeds), "--out", str(out),
        "--tracking-uri", store.uri, *options, log=log,
    )  # fmt: skip


def _verify(out: Path, store: Server, log: Path, *options: str) -> int:
    arguments = ("verify", "--out", str(out), "--tracking-uri", store.uri, *options)
    return start(*arguments, log=log).wait()


def _shown(sweep: Sweep, store: Server) -> set[str]:
    """Trials whose result the store shows; none while it does not answer."""
    from suite.tracking.client import StoreUnavailable
    from suite.tracking.read_runs import StoreReader

    with suppress(StoreUnavailable):
        found = StoreReader(store.uri).sweep((sweep.name, "quick")).trials
        return {child.trial_id for child in found if child.is_complete}
    return set()


def _ends(out: Path) -> list[float]:
    with Journal(journal_in(out), read_only=True) as journal:
        return sorted(end.ended_seconds for end in journal.ends() if end.ended_seconds)


def _cadence(ends: Sequence[float]) -> list[float]:
    """Seconds from each end to the next: a trial, with all that the driver does for it."""
    return [later - earlier for earlier, later in pairwise(ends)]


def _slowdown(out: Path, away: Sequence[tuple[float, float]]) -> str:
    """What a trial took while the store was away, against what it took while it was there."""
    ends = _ends(out)
    during: list[float] = []
    besides: list[float] = []
    for end, seconds in zip(ends[1:], _cadence(ends), strict=True):
        is_during = any(start_ <= end - seconds and end <= stop for start_, stop in away)
        (during if is_during else besides).append(seconds)
    if min(len(during), len(besides)) < _FEWEST_TO_COMPARE:
        return "Too few trials ran while the store was away to compare their times."
    share = statistics.median(during) / statistics.median(besides) - 1
    return (
        f"While MLflow was away a trial took {share:+.1%} time (medians of "
        f"{len(during)} and {len(besides)} trials: {1000 * statistics.median(during):.0f} ms and "
        f"{1000 * statistics.median(besides):.0f} ms)."
    )
