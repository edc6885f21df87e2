"""Runs a real MLflow server that can be stopped, by SIGSTOP or SIGKILL, and brought back."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tools.chaos.command import wait_until

_PATIENCE_SECONDS = 90.0


@dataclass
class Server:
    """An MLflow server: its folder and its port."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
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
                    f"sqlite:///{self.folder}/mlflow.db",
                    "--artifacts-destination",
                    f"{self.folder}/artifacts",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
                env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            )
        wait_until(self._answers, f"the MLflow server at {self.uri}", _PATIENCE_SECONDS)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/health")
            return connection.getresponse().status == http.client.OK
        return False

    def stop(self, number: signal.Signals) -> None:
        """Stop all of its processes."""
        os.killpg(self.process.pid, number)
        if number is signal.SIGKILL:
            self.process.wait()

    def bring_back(self) -> None:
        """Undo `stop`, and wait until it answers."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)
            wait_until(self._answers, f"the MLflow server at {self.uri}", _PATIENCE_SECONDS)
        else:
            self.start()


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """A server for the length of the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Server(folder, port)
    made.start()
    try:
        yield made
    finally:
        made.stop(signal.SIGKILL)
