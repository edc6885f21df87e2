"""The MLflow dashboard over one output folder: started, waited for, ended with all its processes.

On this machine only. mlflow runs as a program of its own here, and is not imported.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from suite.tracking.chart_view import TRAINING_RUNS, VIEW_TAG, comparison_page
from suite.tracking.uri import check_tracking_uri, sqlite_path

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",  # why it does not start stands there
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # no queue: it serves pages, nothing else
}
_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 5.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
_VIEW = f"?{TRAINING_RUNS}"
_EXPERIMENTS = {"max_results": 1000}
_SWEEPS = {"max_results": 1000, "filter": "tags.`bakeoff.role` = 'sweep'"}


class NothingToShow(ValueError):
    """There is no store in the output folder yet: exit 2."""


class RefusedAddress(ValueError):
    """The dashboard has no password, so it is shown to this machine only: exit 3."""


class DashboardUnavailable(RuntimeError):
    """The server could not be started: one sentence; exit 4."""


@dataclass(frozen=True)
class Dashboard:
    """A server that answers.

    Attributes:
        url: The page to open: the trials of the newest sweep side by side, else all experiments.
        process: The server; its children are in its process group.
    """

    url: str
    process: subprocess.Popen[bytes]


def dashboard_command(
    out: Path, tracking_uri: str, host: str = "127.0.0.1", port: int = 5000
) -> list[str]:
    """The command that serves the store of this output folder.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
        RefusedAddress: if the host is not this machine alone.
        NothingToShow: if the store is a file, and there is none yet.
    """
    uri = check_tracking_uri(tracking_uri)
    if not _is_loopback(host):
        raise RefusedAddress(
            f"--host {host}: the dashboard has no password, so it is shown on 127.0.0.1 only; "
            "from elsewhere, use `ssh -L`."
        )
    database = sqlite_path(uri)
    if database is None:
        raise NothingToShow(
            "The store has a server of its own: open its address in a browser instead."
        )
    if not _is_store(database):
        raise NothingToShow(f"There is nothing to show in {out} yet: start with `bakeoff run`.")
    options = {
        "--backend-store-uri": uri,
        "--artifacts-destination": str(out.resolve() / "artifacts"),
        "--host": host,
        "--port": str(port),
        "--workers": "1",
    }
    return [sys.executable, "-m", "mlflow", "server", *(p for o in options.items() for p in o)]


def serve(
    out: Path,
    tracking_uri: str,
    host: str = "127.0.0.1",
    port: int = 5000,
    *,
    ablation: str = "",
    say: Callable[[str], None] = print,
    open_browser: bool = False,
) -> None:
    """Serve until Ctrl-C or SIGTERM; `say` is told how it goes and where to look.

    It opens at the comparison of the ablation; where none is named, at that of the newest sweep.

    Raises:
        NothingToShow: if nothing is recorded of the ablation.
        DashboardUnavailable: if the port is taken, or the server does not start or ends by
            itself; and as `dashboard_command`.
    """
    say("Starting the dashboard (about 10 seconds) ...")
    try:
        with (
            _stopped_by_signals(),
            running_dashboard(out, tracking_uri, host, port, ablation) as dashboard,
        ):
            say(f"The dashboard is at {dashboard.url}   (Ctrl-C ends it)")
            if open_browser:
                webbrowser.open(dashboard.url)
            dashboard.process.wait()
    except KeyboardInterrupt:
        say("The dashboard has ended.")
        return
    raise DashboardUnavailable("The dashboard's server ended by itself.")


@contextmanager
def running_dashboard(
    out: Path, tracking_uri: str, host: str = "127.0.0.1", port: int = 5000, ablation: str = ""
) -> Iterator[Dashboard]:
    """A dashboard that answers, ended with all its processes. Raises as `serve`."""
    command = dashboard_command(out, tracking_uri, host, port)
    _refuse_taken(host, port)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,  # one group to end; and Ctrl-C reaches only us
        )
        try:
            base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            _wait(base, process, log)
            yield Dashboard(_landing_page(base, ablation), process)
        finally:
            _end(process)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_store(database: Path) -> bool:
    """Whether the file has mlflow's tables; looked up without creating anything."""
    if not database.is_file():
        return False
    query = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('experiments', 'runs')"
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as store:
            return bool(store.execute(query).fetchone()[0] == 2)
    except sqlite3.Error:
        return False


def _refuse_taken(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # A port whose last connections are still closing is free, as for the server itself.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise DashboardUnavailable(
                f"Port {port} of {host} cannot be used ({error}); choose another with --port."
            ) from None


def _wait(base: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        if process.poll() is not None:
            raise DashboardUnavailable(f"The dashboard did not start: {_reason(log)}")
        try:
            with _DIRECT.open(f"{base}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise DashboardUnavailable(f"The dashboard did not answer within {_SECONDS_TO_START:.0f} s.")


def _reason(log: IO[bytes]) -> str:
    """The last line that tells of an error; else the last line."""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or ["no reason given."])[-1][:300]


def _landing_page(base: str, ablation: str) -> str:
    """The comparison of the sweep that was worked on last; all experiments where there is none."""
    experiments = {
        found["experiment_id"]: _tags(found)
        for found in _asked(base, "experiments/search", _EXPERIMENTS).get("experiments", [])
        if _is_shown(_tags(found).get("bakeoff.ablation", ""), ablation)
    }
    if ablation and not experiments:
        raise NothingToShow(
            f"nothing is recorded of {ablation!r} yet; `bakeoff run {ablation}` does that."
        )
    if not experiments:
        return f"{base}/#/experiments{_VIEW}"
    sweeps = _asked(base, "runs/search", {**_SWEEPS, "experiment_ids": list(experiments)})
    for sweep in sorted(sweeps.get("runs", []), key=_last_moment, reverse=True):
        experiment_id, scale = sweep["info"]["experiment_id"], _tags(sweep["data"])["bakeoff.scale"]
        if VIEW_TAG + scale in experiments[experiment_id]:  # a sweep of an older version has none
            return f"{base}/{comparison_page(experiment_id, scale)}"
    return f"{base}/#/experiments/{max(experiments, key=int)}/runs{_VIEW}"


def _is_shown(ablation: str, wanted: str) -> bool:
    return ablation == wanted if wanted else bool(ablation)


def _last_moment(run: dict[str, Any]) -> float:
    """When the run ended, in milliseconds since 1970; what still runs comes after all others."""
    return float(run["info"].get("end_time") or "inf")


def _tags(found: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in found.get("tags", [])}


def _asked(base: str, what: str, question: dict[str, Any]) -> dict[str, Any]:
    """MLflow's answer over its REST interface."""
    request = urllib.request.Request(
        f"{base}/api/2.0/mlflow/{what}",
        data=json.dumps(question).encode(),
        headers={"Content-Type": "application/json"},
    )
    with _DIRECT.open(request, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_SECONDS_TO_END)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal do what Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
