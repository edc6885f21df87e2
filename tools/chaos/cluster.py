"""Scenario: workers, nodes and the driver of a sweep on several nodes are killed again and again.

The cluster is one of `ray.cluster_utils`, the driver a `bakeoff run --address` of its own. Faults
follow the sweep's progress, so that they are spread over all of it on any machine; every second
driver is killed at a drawn time after its start instead, so that its start is hit too. The worker
of a trial is killed once at most, since a third death would make it a poison trial.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tools.chaos.arena import TIMED_OUT, ablation, reference_findings, start, verify
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import (
    duplicated_in_store,
    num_starts,
    read,
    recorded,
    running_in,
    watching,
)

NAME, TRIALS_PER_SEED = "many", 10
_WORKERS, _NODES, _DRIVERS = FAULTS = ("workers killed", "nodes removed", "driver killed")
_NUM_NODES = 3  # not counting the head
_SEED = 7
_START_UP_SECONDS = 12.0  # a driver is killed at a drawn time within these
_LAST_DRIVER_SECONDS = 300.0
_OBJECT_STORE_BYTES = 100_000_000


def prove(scale: Scale, folder: Path) -> Figures:
    """Run one sweep, inject all faults, and let it end."""
    num_seeds, *numbers = scale.pick((2, 2, 1, 1), (20, 40, 8, 20), (100, 200, 40, 100))
    wanted = Counter(dict(zip(FAULTS, numbers, strict=True)))
    file, out = ablation(folder, NAME), folder / "out"
    reference = reference_findings(file, num_seeds)  # it forks, so before Ray is imported
    with _cluster(folder / "home") as cluster, watching(out) as watcher:
        chaos = _Chaos(cluster, file, out, num_seeds, wanted)
        code = chaos.run(folder)
    problems = [f"the last driver ended with exit code {code}"] if code else []
    problems += verify(out, log=folder / "verify.log")
    return chaos.figures(reference) + Figures(
        num_lost=watcher.num_changed, problems=tuple(problems)
    )


@contextmanager
def _cluster(home: Path) -> Iterator[Any]:
    """Start a head that runs no trials, and nodes with a CPU each."""
    home.mkdir(parents=True)
    os.environ |= {"HOME": str(home), "RAY_BACKEND_LOG_LEVEL": "error"}
    from bakeoff.suite.cluster.address import authenticate

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
    """Add a node with one CPU whose code is in a folder of its own, as on a host of its own.

    Nodes of one host share that folder by default, and a new one would remove it under the workers
    of the others while it unpacks the sweep's code (ray/_private/runtime_env/packaging.py, 2.60).
    """
    cluster.add_node(
        num_cpus=1,
        object_store_memory=_OBJECT_STORE_BYTES,
        wait=wait,
        runtime_env_dir_name=f"runtime_resources_{uuid.uuid4().hex[:8]}",
    )


@dataclass
class _Chaos:
    """The faults of one sweep.

    Attributes:
        wanted: The number of faults of each kind that are to be injected.
        done: The number that were.
        kills: The trial of each killed worker (the empty string for a driver), and the time.
    """

    cluster: Any
    file: Path
    out: Path
    num_seeds: int
    wanted: Counter[str]
    done: Counter[str] = field(default_factory=Counter)
    kills: list[tuple[str, float]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(_SEED))

    def run(self, folder: Path) -> int:
        """Run drivers until one ends by itself; return its exit code."""
        while True:
            number = self.done[_DRIVERS]
            driver = start(
                f"run {self.file} --seeds {self.num_seeds} --address {self.cluster.address}"
                f" --out {self.out}",
                log=folder / f"driver-{number}.log",
            )
            # Every second driver is killed at a drawn time; the others by progress.
            dies_after = self.chance.uniform(0.5, _START_UP_SECONDS) if number % 2 else 1e9
            began = time.monotonic()
            while driver.poll() is None:
                progress, seconds = self._progress(), time.monotonic() - began
                self._disturb(progress)
                is_time = seconds > dies_after or self._is_due(_DRIVERS, progress)
                if is_time and number < self.wanted[_DRIVERS]:
                    self._kill(driver)
                    self.done[_DRIVERS] += 1
                    break
                if seconds > _LAST_DRIVER_SECONDS:
                    self._kill(driver)
                    return TIMED_OUT
                time.sleep(0.2)
            else:
                return driver.returncode

    def figures(self, reference: Mapping[str, str]) -> Figures:
        """Return the figures of journal and store."""
        num_trials = self.num_seeds * TRIALS_PER_SEED
        statuses = Counter(end.status for end in read(self.out, lambda journal: journal.ends()))
        problems = [
            f"{kind}: {self.done[kind]}, not {number}"
            for kind, number in self.wanted.items()
            if self.done[kind] < number
        ]
        if statuses.keys() - {"ok"}:
            problems.append(f"attempts of trials without a fault ended as {dict(statuses)}")
        found = recorded(self.out, num_trials, reference=reference)
        found += duplicated_in_store(NAME, self.out)
        return found + Figures(
            faults=self.done,
            recovery_seconds=tuple(self._recoveries()),
            problems=tuple(problems),
            notes=(f"{num_starts(self.out)} attempts for {num_trials} trials.",),
        )

    def _progress(self) -> float:
        """Return the share of the trials that have a result."""
        ended = read(self.out, lambda journal: {one.trial_id for one in journal.entries()}, set())
        return len(ended) / (self.num_seeds * TRIALS_PER_SEED)

    def _is_due(self, kind: str, progress: float) -> bool:
        """Return True if the next fault of a kind is due; faults are spread over the trials."""
        so_far, wanted = self.done[kind], self.wanted[kind]
        return so_far < wanted and progress >= (so_far + 0.5) / (wanted + 1)

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        self.kills.append(("", time.time()))
        driver.kill()
        driver.wait()

    def _disturb(self, progress: float) -> None:
        """Kill a worker or a node if one is due."""
        if self._is_due(_WORKERS, progress):
            self._kill_a_worker()
        if self._is_due(_NODES, progress):
            nodes = [node for node in self.cluster.list_all_nodes() if not node.head]
            self.cluster.remove_node(self.chance.choice(nodes), allow_graceful=False)
            add_node(self.cluster, wait=False)
            self.done[_NODES] += 1

    def _kill_a_worker(self) -> None:
        """Kill the worker of a trial of this driver, whose workers were not killed before."""
        since = read(self.out, lambda journal: journal.driver_started(), 0.0)
        spared = {trial_id for trial_id, _ in self.kills}
        victims = [one for one in running_in(self.out, since).items() if one[0] not in spared]
        if not victims:
            return
        trial_id, pid = self.chance.choice(victims)
        with suppress(psutil.Error):
            worker = psutil.Process(pid)
            if "ray::" in "".join(worker.cmdline()):  # the number may belong to another by now
                worker.kill()
                self.kills.append((trial_id, time.time()))
                self.done[_WORKERS] += 1

    def _recoveries(self) -> Iterator[float]:
        """Yield the time from each kill to the next start: of the same trial, or of any."""
        starts = read(self.out, lambda journal: journal.starts())
        for trial_id, when in self.kills:
            of_trial = [one for one in starts if not trial_id or one.trial_id == trial_id]
            later = [one.started_seconds - when for one in of_trial if one.started_seconds > when]
            yield from sorted(later)[:1]
