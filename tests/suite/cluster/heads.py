"""Helpers that start a Ray head or an embedded Ray for a test, and end it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from bakeoff.suite.events import Checkpoints, ExecutorSettings, TrialExecutor
from bakeoff.suite.sweep.driver import executing
from tests.workplace import code_in

AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@contextmanager
def embedded(home: Path, sources: Path | None = None, **fields: float) -> Iterator[TrialExecutor]:
    """Yield an executor on an embedded Ray with its own home; `sources` holds the user's mixers."""
    checkpoints = Checkpoints(folder=home / "checkpoints", **fields)
    settings = ExecutorSettings(code=code_in(sources) if sources else None, checkpoints=checkpoints)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        with executing("ray", None, settings) as opened:
            yield opened


def wait_until(is_so: Callable[[], object], seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.1)


def is_gone(process: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    return True


@contextmanager
def head(environment: dict[str, str]) -> Iterator[str]:
    """Yield the address of a Ray head with one CPU, started in its own session."""
    port, client_port = free_ports(2)
    options = {
        "port": port,
        "num-cpus": 1,
        "include-dashboard": "false",
        "ray-client-server-port": client_port,
    }
    with _started(options, environment):
        yield f"127.0.0.1:{port}"


@dataclass(frozen=True)
class Cluster:
    """A Ray head with a dashboard that accepts one token.

    Attributes:
        address: The address of the head, as host:port.
        url: The URL of the dashboard.
        token: The accepted token.
        folder: The temporary folder of Ray, with its logs and uploaded files.
    """

    address: str
    url: str
    token: str
    folder: Path

    def get(self, path: str) -> Any:
        """Return the dashboard's JSON answer to a GET request of `path`."""
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def answers(self) -> bool:
        with suppress(OSError):
            return bool(self.get("/api/version"))
        return False


@contextmanager
def cluster(token_file: Path, environment: dict[str, str], num_cpus: int = 2) -> Iterator[Cluster]:
    """Yield a head with dashboard and token on loopback, started without its Python on the PATH."""
    port, client, dashboard, agent, agent_grpc, metrics = free_ports(6)
    options = {
        "port": port,
        "num-cpus": num_cpus,
        "dashboard-host": "127.0.0.1",
        "dashboard-port": dashboard,
        "dashboard-agent-listen-port": agent,
        "dashboard-agent-grpc-port": agent_grpc,
        "metrics-export-port": metrics,
        "ray-client-server-port": client,
    }
    of_token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_file)}
    path = {"PATH": "/usr/bin:/bin"}
    with _started(options, {**path, **environment, **of_token}) as folder:
        found = Cluster(
            f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}", token_file.read_text(), folder
        )
        wait_until(found.answers, 30)
        yield found


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)
        ]
        return [server.getsockname()[1] for server in servers]


@contextmanager
def _started(options: dict[str, object], environment: dict[str, str]) -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the names of sockets must be short
    all_options = {**options, "temp-dir": folder, "object-store-memory": 100_000_000}
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"]
    process = subprocess.Popen(
        [*command, *(f"--{name}={value}" for name, value in all_options.items())],
        env={**plain(), "RAY_USAGE_STATS_ENABLED": "0", **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = []
        while "Ray runtime started" not in (line := process.stdout.readline()):
            said.append(line)
            assert line, "".join(said)
        yield Path(folder)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        _end_drivers(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _end_drivers(folder: str) -> None:
    """Kill the processes of submitted jobs, which have their own sessions."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{folder}/".encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def plain() -> dict[str, str]:
    """Return this environment without Ray's authentication, its address and the Python paths."""
    others = ("RAY_ADDRESS", "PYTHONPATH", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if k not in (*AUTHENTICATION, *others)}
