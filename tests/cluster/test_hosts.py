"""Test a sweep on several hosts, one of which is cut off meanwhile; `make cluster-test` runs it.

Five hosts: a head that runs no trials, two workers, one with an MLflow server, and a laptop that
submits. Every one has a separate address, home and token file.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from bakeoff.suite.errors import DONE, REFUSED, UNAVAILABLE
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import Status
from tests.cluster.hosts import Host, hosts, missing
from tests.workplace import Workplace

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
TOKEN = "0123456789abcdef" * 4
NUM_TRIALS = 8


@dataclass(frozen=True)
class Cluster:
    """The hosts and their services; only addresses connect one host to another."""

    head: Host
    lost: Host
    kept: Host
    store: Host
    laptop: Host

    @property
    def dashboard(self) -> str:
        return f"http://{self.head.address}:8265"

    @property
    def tracking_uri(self) -> str:
        return f"http://{self.store.address}:5000"

    @property
    def out(self) -> Path:
        """The output folder at its path on the head."""
        return self.head.folder / "out"

    def bakeoff(self, host: Host, *arguments: str, **changes: str) -> CompletedProcess[str]:
        """Run `bakeoff` on the host with `changes` to its environment."""
        return host.run([str(BIN / "bakeoff"), *arguments], {**environment(host), **changes})

    def status(self) -> dict[str, Any]:
        """Return the status of the sweep as shown on the laptop."""
        said = self.bakeoff(self.laptop, "status", "--address", self.dashboard, "--json")
        assert said.returncode == DONE, said.stderr
        found: dict[str, Any] = json.loads(said.stdout)
        return found


def environment(host: Host) -> dict[str, str]:
    """Return the settings of `deploy/ray.env`, a home on the host's own disk, and little else."""
    lines = (ROOT / "deploy" / "ray.env").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {
        "HOME": str(host.folder),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        **settings,
    }


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with hosts(5) as made:
        for host in made:
            give_token(host)
        running = Cluster(*made)
        start_store(running.store)
        start_head(running.head)
        for worker in (running.lost, running.kept):
            start_worker(worker, running.head)
        yield running


def give_token(host: Host) -> None:
    file = host.disk / ".ray" / "auth_token"
    file.parent.mkdir(mode=0o700)
    file.touch(mode=0o600)
    file.write_text(TOKEN)


def start_store(host: Host) -> None:
    start(
        host,
        "mlflow",
        "mlflow",
        "server",
        "--host",
        host.address,
        "--port",
        "5000",
        "--workers",
        "1",
        "--allowed-hosts",
        f"{host.address}:5000",
        "--backend-store-uri",
        f"sqlite:///{host.folder}/mlflow.db",
        "--artifacts-destination",
        f"{host.folder}/artifacts",
    )
    wait_until(lambda: answers(f"http://{host.address}:5000/health"), 90, log_of(host, "mlflow"))


def start_head(host: Host) -> None:
    start(
        host,
        "head",
        "ray",
        "start",
        "--head",
        "--block",
        "--port=6379",
        "--num-cpus=0",
        f"--node-ip-address={host.address}",
        f"--dashboard-host={host.address}",
        f"--temp-dir={host.folder}",
        "--object-store-memory=100000000",
    )
    wait_until(lambda: is_up(host, "head"), 60, log_of(host, "head"))


def start_worker(host: Host, head: Host) -> None:
    start(
        host,
        "worker",
        "ray",
        "start",
        "--block",
        f"--address={head.address}:6379",
        f"--node-ip-address={host.address}",
        "--num-cpus=1",
        '--resources={"timing": 1}',
        "--object-store-memory=100000000",
    )
    wait_until(lambda: is_up(host, "worker"), 60, log_of(host, "worker"))


def start(host: Host, name: str, program: str, *arguments: str) -> None:
    host.start([str(BIN / program), *arguments], environment(host), log_of(host, name))


def log_of(host: Host, name: str) -> Path:
    return host.disk / f"{name}.log"


def is_up(host: Host, name: str) -> bool:
    return "Ray runtime started" in log_of(host, name).read_text()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def wait_until(holds: Callable[[], bool], seconds: float, log: Path | None = None) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, log.read_text() if log else "it never came to hold"
        time.sleep(0.5)


def test_hosts_reach_each_other_by_address_and_not_by_loopback() -> None:
    serve = [sys.executable, "-m", "http.server", "8000", "--bind"]
    with hosts(2) as (one, other):
        one.start([*serve, one.address], os.environ, log_of(one, "web"))
        other.start([*serve, "127.0.0.1"], os.environ, log_of(other, "web"))
        wait_until(lambda: reaches(other, one.address), 20)
        assert not reaches(one, other.address)
        one.cut_off()
        assert not reaches(other, one.address)
        assert one.pids()
        one.reconnect()
        wait_until(lambda: reaches(other, one.address), 20)
        mine = one.disk / "file"
        mine.write_text("of one")
        assert one.run(["cat", f"{one.folder}/file"], os.environ).stdout == "of one"
        assert other.run(["cat", f"{other.folder}/file"], os.environ).returncode == 1
    assert not one.disk.exists()
    assert not one.folder.exists()


def reaches(host: Host, address: str) -> bool:
    code = f"import socket; socket.create_connection(('{address}', 8000), timeout=1)"
    return host.run([sys.executable, "-c", code], os.environ).returncode == 0


def test_nothing_is_left_of_hosts_whose_block_fails() -> None:
    made: list[Host] = []

    def fail() -> None:
        with hosts(1) as (host,):
            made.append(host)
            host.start(["sleep", "600"], os.environ, log_of(host, "sleep"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    (host,) = made
    assert not Path("/run/netns", host.name).exists()
    assert not Path("/sys/class/net", host.cable).exists()
    assert not host.disk.exists()


@pytest.mark.parametrize(
    ("token", "code"),
    [({"RAY_AUTH_MODE": "disabled"}, REFUSED), ({"RAY_AUTH_TOKEN": "f" * 64}, UNAVAILABLE)],
    ids=["none", "wrong"],
)
def test_a_laptop_without_the_token_is_sent_away(
    cluster: Cluster, token: dict[str, str], code: int
) -> None:
    file = own_file(cluster)
    before = time.monotonic()
    refused = cluster.bakeoff(
        cluster.laptop, "submit", file, "--address", cluster.dashboard, **token
    )
    assert refused.returncode == code, refused.stderr
    assert time.monotonic() - before < 15
    assert len(refused.stderr.splitlines()) == 1
    assert TOKEN not in refused.stdout + refused.stderr
    assert "f" * 64 not in refused.stdout + refused.stderr


def own_file(cluster: Cluster) -> str:
    """Write an ablation on the laptop with slow mixers, so that a host can be lost."""
    work = Workplace(cluster.laptop.disk)
    work.mixers("own_mixers", pause=0.5)
    work.ablation(
        "several_hosts",
        mixer="own_mixers:Slow",
        values=[1e-3, 3e-3, 1e-2, 3e-2],
        probes=["quality"],
        steps=10,
        seeds=2,
    )
    return str(cluster.laptop.folder / "several_hosts.py")


def test_a_sweep_outlives_a_host_that_is_cut_off(cluster: Cluster) -> None:
    sent = cluster.bakeoff(
        cluster.laptop,
        "submit",
        own_file(cluster),
        "--address",
        cluster.dashboard,
        "--tracking-uri",
        cluster.tracking_uri,
        "--out",
        str(cluster.out),
    )
    assert sent.returncode == DONE, sent.stderr
    wait_until(lambda: num_ok(cluster) >= 3, 120)
    wait_until(lambda: is_training(cluster, cluster.lost), 60)
    cluster.lost.cut_off()
    cut = time.monotonic()
    wait_until(lambda: has_ended(cluster), 240)
    print(f"ended {time.monotonic() - cut:.0f} s after one of two workers was cut off")
    assert_complete(cluster)


def has_ended(cluster: Cluster) -> bool:
    return cluster.status()["job_status"] not in ("PENDING", "RUNNING")


def num_ok(cluster: Cluster) -> int:
    """Return the number of completed trials according to the laptop."""
    return int(cluster.status()["counts"].get("ok", 0))


def is_training(cluster: Cluster, host: Host) -> bool:
    """Return True if by the journal a trial on the host has recently begun and not ended.

    The steps alone take five seconds, so that it still runs when the host is cut off.
    """
    with Journal(cluster.head.disk / "out" / "journal.db", read_only=True) as journal:
        ended = {(end.trial_id, end.attempt) for end in journal.ends()}
        return any(
            f" {host.address}," in start.place
            and time.time() - start.started_seconds < 3
            and (start.trial_id, start.attempt) not in ended
            for start in journal.starts()
        )


def assert_complete(cluster: Cluster) -> None:
    """Check that every trial is ok exactly once: in the journal, in MLflow, in the report."""
    assert cluster.status()["job_status"] == "SUCCEEDED"
    assert num_ok(cluster) == NUM_TRIALS
    with Journal(cluster.head.disk / "out" / "journal.db", read_only=True) as journal:
        (plan,) = journal.plans()
        results = list(journal.results(trial.trial_id for trial in plan.trials))
        attempts = [attempt.attempt for attempt in journal.attempts()]
    assert Counter(result.status for result in results) == {Status.OK: NUM_TRIALS}
    assert len(attempts) == NUM_TRIALS
    assert max(attempts) == min(attempts) + 1  # the lost trial began twice
    verified = cluster.bakeoff(
        cluster.head, "verify", "--out", str(cluster.out), "--tracking-uri", cluster.tracking_uri
    )
    assert verified.returncode == DONE, verified.stdout + verified.stderr
    assert f"{NUM_TRIALS} trials" in verified.stdout
