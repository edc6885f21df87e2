"""Tests with a real MLflow server that is stopped, frozen or killed during a sweep."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.verify import differences, repaired
from tests.workplace import Workplace

pytestmark = pytest.mark.slow


class Server:
    """`mlflow server` in its own process group, which can be frozen or killed as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--workers",
            "1",
            "--backend-store-uri",
            f"sqlite:///{self.folder / 'server.db'}",
            "--artifacts-destination",
            str(self.folder / "server"),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the server does not start")

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.kill()


@contextmanager
def after(seconds: float, *calls: object) -> Iterator[None]:
    """Make the calls in a thread beside the block, with a delay of `seconds` before each."""

    def act() -> None:
        for call in calls:
            time.sleep(seconds)
            assert callable(call)
            call()

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("fault", ["frozen", "killed"])
def test_a_server_that_comes_back_has_everything_at_the_end(
    tmp_path: Path, server: Server, fault: str
) -> None:
    torch.set_num_threads(1)
    work = Workplace(tmp_path)
    ablation = work.ablation(values=[1e-3, 2e-3, 3e-3, 4e-3, 5e-3], probes=["quality"])
    away, back = (
        (lambda: server.send(signal.SIGSTOP), lambda: server.send(signal.SIGCONT))
        if fault == "frozen"
        else (server.kill, server.start)
    )
    options = Options(out=work.out, executor="inline", tracking_uri=server.uri)
    with after(0.7, away, back):
        outcome = run(ablation, options=options)
    assert outcome.num_missing == 0
    if outcome.error:  # the server came back after the last report of an error
        assert "\n" not in outcome.error
    assert repaired(work.out, server.uri).differences == ()
    assert differences(work.out, server.uri).differences == ()


def test_a_server_that_is_frozen_to_the_end_costs_the_end_seconds_and_loses_nothing(
    tmp_path: Path, server: Server
) -> None:
    torch.set_num_threads(1)
    work = Workplace(tmp_path)
    options = Options(out=work.out, executor="inline", tracking_uri=server.uri)
    server.send(signal.SIGSTOP)
    start = time.monotonic()
    outcome = run(work.ablation(probes=["quality"]), options=options)
    spent = time.monotonic() - start
    server.send(signal.SIGCONT)
    assert outcome.num_missing == 0
    assert outcome.error
    assert spent < 60
    made = repaired(work.out, server.uri)
    assert made.differences == ()
    assert made.mended
    assert repaired(work.out, server.uri).mended == ()
