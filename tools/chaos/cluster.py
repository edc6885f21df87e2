"""200 trials on a cluster of several nodes; workers, nodes and the driver are killed all the while.

The cluster is one of `ray.cluster_utils`, the driver a `bakeoff run --address` of its own. Faults
follow the sweep's progress, so that they are spread over all of it however fast the machine is;
half of the driver's deaths come at a drawn time after its start instead, so that starting up is hit
too. No trial is killed more than once by choice, since a third death would make it a poison trial.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.journal.journal import Journal
from suite.journal.rows import Attempt
from suite.journal.sqlite_schema import JournalError, journal_in
from tools.chaos.books import (
    Watcher,
    kept_in,
    num_amiss,
    num_committed_twice,
    num_contradictions,
    num_doubled_in_store,
)
from tools.chaos.command import start
from tools.chaos.figures import Figures
from tools.chaos.reference import reference_findings
from tools.chaos.scale import Scale

SWEEP = Path(__file__).parent / "sweeps" / "many.py"
TRIALS_PER_SEED = 10
_NUM_NODES = 3  # besides the head
_PROCESS = re.compile(r"process (\d+)")
_SEED = 7
_START_UP_SECONDS = 12.0  # of a driver; deaths at a drawn time come within it
_LAST_DRIVER_SECONDS = 300.0
_OBJECT_STORE_BYTES = 100_000_000


@dataclass(frozen=True)
class Faults:
    """How many of each."""

    num_seeds: int
    num_workers: int
    num_nodes: int
    num_drivers: int


_SHORT = Faults(num_seeds=2, num_workers=3, num_nodes=1, num_drivers=2)
_FULL = Faults(num_seeds=20, num_workers=40, num_nodes=8, num_drivers=20)
_LONG = Faults(num_seeds=100, num_workers=200, num_nodes=40, num_drivers=100)


def prove(scale: Scale, folder: Path) -> Figures:
    """One sweep, disturbed until all faults are spent; then it is left to end."""
    wanted = scale.pick(_SHORT, _FULL, _LONG)
    reference = reference_findings(SWEEP, wanted.num_seeds)  # forks, so before Ray is imported
    out = folder / "out"
    with _cluster(folder / "home") as cluster, Watcher(out) as watcher:
        chaos = _Chaos(cluster, out, wanted)
        code = chaos.run(folder)
    verified = start("verify", "--out", str(out), log=folder / "verify.log").wait()
    figures = chaos.figures(reference)
    troubles = [f"the last driver ended with exit code {code}"] if code else []
    if verified:
        troubles.append(
            f"verify: exit code {verified}: {(folder / 'verify.log').read_text()[:300]}"
        )
    return figures + Figures(num_lost=watcher.num_changed, troubles=tuple(troubles))


@contextmanager
def _cluster(home: Path) -> Iterator[Any]:
    """A head that runs nothing, and nodes with a CPU each."""
    home.mkdir(parents=True)
    os.environ |= {"HOME": str(home), "RAY_BACKEND_LOG_LEVEL": "error"}
    from suite.cluster.address import authenticate

    authenticate(None)
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": _OBJECT_STORE_BYTES},
    )
    try:
        for _ in range(_NUM_NODES):
            add_node(made)
        yield made
    finally:
        made.shutdown()


def add_node(cluster: Any, *, wait: bool = True) -> None:
    """A node with one CPU; its code lies in a folder of its own, as on a host of its own.

    Nodes of one host would share that folder, and a new one would take it from under the workers
    of the others while it unpacks the sweep's code (ray/_private/runtime_env/packaging.py, 2.60).
    """
    cluster.add_node(
        num_cpus=1, object_store_memory=_OBJECT_STORE_BYTES, wait=wait,
        runtime_env_dir_name=f"runtime_resources_{uuid.uuid4().hex[:8]}",
    )  # fmt: skip


@dataclass
class _Chaos:
    """What is done to one sweep, and what was seen."""

    cluster: Any
    out: Path
    wanted: Faults
    chance: random.Random = field(default_factory=lambda: random.Random(_SEED))
    num_drivers: int = 0
    worker_kills: list[tuple[str, float]] = field(default_factory=list)  # trial_id, when
    driver_kills: list[float] = field(default_factory=list)
    num_nodes: int = 0

    @property
    def num_trials(self) -> int:
        return self.wanted.num_seeds * TRIALS_PER_SEED

    def run(self, folder: Path) -> int:
        """Drivers, one after the other, until one ends by itself; returns its exit code."""
        while True:
            driver = self._driver(folder / f"driver-{self.num_drivers}.log")
            dies_at = self._time_of_death()
            began = time.monotonic()
            while driver.poll() is None:
                progress = len(self._ended()) / self.num_trials
                self._disturb(progress)
                if self._should_die(began, dies_at, progress):
                    self._kill(driver)
                    break
                if time.monotonic() - began > _LAST_DRIVER_SECONDS:
                    self._kill(driver)
                    return 124
                time.sleep(0.2)
            else:
                return driver.returncode
            self.num_drivers += 1

    def figures(self, reference: Mapping[str, str]) -> Figures:
        """What the books say in the end."""
        kept = kept_in(self.out)
        num_wrong = sum(
            reference[trial_id] != one.finding_sha256 for (trial_id, _), one in kept.items()
        )
        with Journal(journal_in(self.out), read_only=True) as journal:
            statuses = Counter(end.status for end in journal.ends())
        done = {"workers killed": len(self.worker_kills), "nodes removed": self.num_nodes,
                "driver killed": self.num_drivers}  # fmt: skip
        asked = {"workers killed": self.wanted.num_workers, "nodes removed": self.wanted.num_nodes,
                 "driver killed": self.wanted.num_drivers}  # fmt: skip
        short = [
            f"{what}: {done[what]}, not {asked[what]}" for what in asked if done[what] < asked[what]
        ]
        if statuses.keys() - {"ok"}:
            short.append(f"attempts of trials without a fault ended as {dict(statuses)}")
        return Figures(
            faults=Counter(done),
            num_submitted=self.num_trials,
            num_acknowledged=len(kept),
            num_lost=num_amiss(self.num_trials, kept),
            num_doubled=num_committed_twice(self.out)
            + num_doubled_in_store(f"sqlite:///{self.out / 'mlflow.db'}", SWEEP.stem),
            num_repeated=len(kept),
            num_alarms=num_wrong + num_contradictions(self.out),
            recovery_seconds=tuple(self._recoveries()),
            troubles=tuple(short),
            notes=(f"{self._num_starts()} attempts for {self.num_trials} trials.",),
        )

    def _driver(self, log: Path) -> subprocess.Popen[bytes]:
        return start(
            "run", str(SWEEP), "--seeds", str(self.wanted.num_seeds), "--address",
            self.cluster.address, "--out", str(self.out), log=log,
        )  # fmt: skip

    def _time_of_death(self) -> float:
        """Every second driver dies at a drawn time; the others by progress."""
        return self.chance.uniform(0.5, _START_UP_SECONDS) if self.num_drivers % 2 else 1e9

    def _should_die(self, began: float, dies_at: float, progress: float) -> bool:
        if self.num_drivers >= self.wanted.num_drivers:
            return False
        return time.monotonic() - began > dies_at or _is_due(
            self.num_drivers, self.wanted.num_drivers, progress
        )

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        self.driver_kills.append(time.time())
        driver.kill()
        driver.wait()

    def _disturb(self, progress: float) -> None:
        """A worker or a node, where the sweep's progress says that it is time."""
        if _is_due(len(self.worker_kills), self.wanted.num_workers, progress):
            self._kill_a_worker()
        if _is_due(self.num_nodes, self.wanted.num_nodes, progress):
            nodes = [node for node in self.cluster.list_all_nodes() if not node.head]
            self.cluster.remove_node(self.chance.choice(nodes), allow_graceful=False)
            add_node(self.cluster, wait=False)
            self.num_nodes += 1

    def _kill_a_worker(self) -> None:
        spared = {trial_id for trial_id, _ in self.worker_kills}
        victims = [one for one in self._running() if one.trial_id not in spared]
        if not victims:
            return
        victim = self.chance.choice(victims)
        found = _PROCESS.search(victim.place)
        with suppress(ProcessLookupError):
            if found and _is_a_worker(int(found[1])):
                os.kill(int(found[1]), signal.SIGKILL)
                self.worker_kills.append((victim.trial_id, time.time()))

    def _ended(self) -> set[str]:
        try:
            with Journal(journal_in(self.out), read_only=True) as journal:
                return {entry.trial_id for entry in journal.entries()}
        except JournalError:
            return set()

    def _running(self) -> list[Attempt]:
        """Trials that this driver has begun and that have no result."""
        ended = self._ended()
        try:
            with Journal(journal_in(self.out), read_only=True) as journal:
                since = journal.driver_started()
                return [
                    one
                    for one in journal.attempts()
                    if one.trial_id not in ended and one.started_seconds > since
                ]
        except JournalError:
            return []

    def _num_starts(self) -> int:
        with Journal(journal_in(self.out), read_only=True) as journal:
            return len(journal.starts())

    def _recoveries(self) -> Iterator[float]:
        """From each death to the next start: of the same trial, or, of a driver's, of any."""
        with Journal(journal_in(self.out), read_only=True) as journal:
            starts = journal.starts()
        for trial_id, when in self.worker_kills:
            later = [s.started_seconds - when for s in starts if s.trial_id == trial_id]
            yield from sorted(seconds for seconds in later if seconds > 0)[:1]
        for when in self.driver_kills:
            later = [s.started_seconds - when for s in starts]
            yield from sorted(seconds for seconds in later if seconds > 0)[:1]


def _is_due(num_so_far: int, num_wanted: int, progress: float) -> bool:
    """Whether the next of so many, spread evenly over the trials, should have come by now."""
    return num_so_far < num_wanted and progress >= (num_so_far + 0.5) / (num_wanted + 1)


def _is_a_worker(pid: int) -> bool:
    """Whether it is one of Ray's: the number may belong to another process by now."""
    with suppress(OSError):
        return b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
