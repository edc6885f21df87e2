"""200 trials on a cluster of several nodes; workers, nodes and the driver are killed all the while.

The cluster is one of `ray.cluster_utils`, the driver a `bakeoff run --address` of its own. Faults
follow the sweep's progress, so that they are spread over all of it however fast the machine is;
half of the driver's deaths come at a drawn time after its start instead, so that starting up is hit
too. No trial is killed more than once by choice, since a third death would make it a poison trial.
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

from tools.chaos.command import SWEEPS, TIMED_OUT, start, verify
from tools.chaos.figures import Figures
from tools.chaos.recorded import (
    duplicated_in_store,
    num_starts,
    read,
    recorded,
    running_in,
    watching,
)
from tools.chaos.reference import reference_findings
from tools.chaos.scenario import Scale

SWEEP = SWEEPS / "many.py"
TRIALS_PER_SEED = 10
_WORKERS, _NODES, _DRIVERS = FAULTS = ("workers killed", "nodes removed", "driver killed")
_NUM_NODES = 3  # besides the head
_SEED = 7
_START_UP_SECONDS = 12.0  # of a driver; deaths at a drawn time come within it
_LAST_DRIVER_SECONDS = 300.0
_OBJECT_STORE_BYTES = 100_000_000


def prove(scale: Scale, folder: Path) -> Figures:
    """One sweep, disturbed until all faults are spent; then it is left to end."""
    num_seeds, *numbers = scale.pick((2, 3, 1, 2), (20, 40, 8, 20), (100, 200, 40, 100))
    wanted = Counter(dict(zip(FAULTS, numbers, strict=True)))
    reference = reference_findings(SWEEP, num_seeds)  # forks, so before Ray is imported
    out = folder / "out"
    with _cluster(folder / "home") as cluster, watching(out) as watcher:
        chaos = _Chaos(cluster, out, num_seeds, wanted)
        code = chaos.run(folder)
    problems = [f"the last driver ended with exit code {code}"] if code else []
    problems += verify(out, log=folder / "verify.log")
    return chaos.figures(reference) + Figures(
        num_lost=watcher.num_changed, problems=tuple(problems)
    )


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
        num_cpus=1,
        object_store_memory=_OBJECT_STORE_BYTES,
        wait=wait,
        runtime_env_dir_name=f"runtime_resources_{uuid.uuid4().hex[:8]}",
    )


@dataclass
class _Chaos:
    """What is done to one sweep, and what was seen.

    Attributes:
        wanted: How many faults of each kind there shall be.
        done: How many there were.
        kills: The trial of each killed worker (the empty string for a driver), and when.
    """

    cluster: Any
    out: Path
    num_seeds: int
    wanted: Counter[str]
    done: Counter[str] = field(default_factory=Counter)
    kills: list[tuple[str, float]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(_SEED))

    def run(self, folder: Path) -> int:
        """Drivers, one after the other, until one ends by itself; returns its exit code."""
        while True:
            number = self.done[_DRIVERS]
            driver = start(
                "run",
                str(SWEEP),
                "--seeds",
                str(self.num_seeds),
                "--address",
                self.cluster.address,
                "--out",
                str(self.out),
                log=folder / f"driver-{number}.log",
            )
            # Every second driver dies at a drawn time; the others by progress.
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
        """What journal and store say in the end."""
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
        found += duplicated_in_store(SWEEP.stem, self.out)
        return found + Figures(
            faults=self.done,
            recovery_seconds=tuple(self._recoveries()),
            problems=tuple(problems),
            notes=(f"{num_starts(self.out)} attempts for {num_trials} trials.",),
        )

    def _progress(self) -> float:
        """The share of the trials that have a result."""
        ended = read(self.out, lambda journal: {one.trial_id for one in journal.entries()}, set())
        return len(ended) / (self.num_seeds * TRIALS_PER_SEED)

    def _is_due(self, kind: str, progress: float) -> bool:
        """Whether the next fault of a kind, spread evenly over the trials, should have come."""
        so_far, wanted = self.done[kind], self.wanted[kind]
        return so_far < wanted and progress >= (so_far + 0.5) / (wanted + 1)

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        self.kills.append(("", time.time()))
        driver.kill()
        driver.wait()

    def _disturb(self, progress: float) -> None:
        """Kill a worker or a node, where the sweep's progress says that it is time."""
        if self._is_due(_WORKERS, progress):
            self._kill_a_worker()
        if self._is_due(_NODES, progress):
            nodes = [node for node in self.cluster.list_all_nodes() if not node.head]
            self.cluster.remove_node(self.chance.choice(nodes), allow_graceful=False)
            add_node(self.cluster, wait=False)
            self.done[_NODES] += 1

    def _kill_a_worker(self) -> None:
        """Of a trial that this driver has begun, and none of whose workers was killed before."""
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
        """From each death to the next start: of the same trial, or, of a driver's, of any."""
        starts = read(self.out, lambda journal: journal.starts())
        for trial_id, when in self.kills:
            of_trial = [one for one in starts if not trial_id or one.trial_id == trial_id]
            later = [one.started_seconds - when for one in of_trial if one.started_seconds > when]
            yield from sorted(later)[:1]
