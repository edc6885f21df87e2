"""Serve the MLflow dashboard of one output folder, on this machine only."""

from __future__ import annotations

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import command
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.connect import connect
from bakeoff.suite.tracking.experiments import ANY_FOLDER, folder_of, readable_experiments
from bakeoff.suite.tracking.location import check_tracking_uri, sqlite_path, store_of
from bakeoff.suite.tracking.shared_views import TRAINING_RUNS, VIEW_TAG, page_of

SERVED_STORE = "BAKEOFF_SERVED_STORE"  # environment variable of the server: address of its store
_HOST = "127.0.0.1"  # the dashboard has no password
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",  # the log explains why a server does not start
    # There is no job queue, since the server only serves pages.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 5.0


class Dashboard(NamedTuple):
    """A running server, with its children in its process group, and the page to open."""

    url: str
    process: subprocess.Popen[bytes]


def dashboard_command(out: Path, tracking_uri: str, port: int = 5000) -> list[str]:
    """Return the command that serves the store of this output folder.

    Raises:
        BadUri, RefusedUri: In the cases of `check_tracking_uri`.
        SpecError: If there is no store yet, or if it has a server of its own.
    """
    uri = check_tracking_uri(tracking_uri)
    database = sqlite_path(uri)
    if database is None:
        raise SpecError("The store has its own server; open its address in a browser instead.")
    if not _has_tables(database):
        run = command("run", "NAME", out=out)
        raise SpecError(f"There is nothing to show in {out} yet; start with `{run}`.")
    return [
        sys.executable,
        "-m",
        "bakeoff.suite.tracking.mlflow_server",
        "server",
        "--backend-store-uri",
        uri,
        "--artifacts-destination",
        str(out.resolve() / "artifacts"),
        "--host",
        _HOST,
        "--port",
        str(port),
        "--workers",
        "1",
    ]


def serve(
    out: Path,
    tracking_uri: str,
    port: int = 5000,
    *,
    ablation: str = "",
    say: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl-C or SIGTERM, and `say` the address.

    It opens at the comparison of the ablation; by default at that of the newest sweep. A sweep
    without a report opens at its trials.

    Raises:
        SpecError: If nothing is recorded for the ablation; and in the cases of `dashboard_command`.
        StoreUnavailable: If the port is taken, or if the server does not start or ends by itself.
    """
    say("Starting the dashboard (about 10 seconds) ...")
    try:
        with ExitStack() as stack:
            for number in (signal.SIGTERM, signal.SIGHUP):  # end on these as on Ctrl-C
                before = signal.signal(number, signal.default_int_handler)
                stack.callback(signal.signal, number, before)
            dashboard = stack.enter_context(running_dashboard(out, tracking_uri, port, ablation))
            say(f"The dashboard is at {dashboard.url}   (Ctrl-C ends it)")
            dashboard.process.wait()
    except KeyboardInterrupt:
        say("The dashboard has ended.")
        return
    raise StoreUnavailable("The dashboard's server ended by itself.")


@contextmanager
def running_dashboard(
    out: Path, tracking_uri: str, port: int = 5000, ablation: str = ""
) -> Iterator[Dashboard]:
    """Start a dashboard, and end it with all its processes; raise the errors of `serve`."""
    command = dashboard_command(out, tracking_uri, port)
    _refuse_taken(port)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT | {SERVED_STORE: tracking_uri},
            start_new_session=True,  # one process group to end; Ctrl-C reaches only this process
        )
        try:
            base = f"http://{_HOST}:{port}"
            page = landing_page(tracking_uri, ablation, out)  # while the server starts
            _wait(base, process, log)
            yield Dashboard(f"{base}/{page}", process)
        finally:
            _end(process)


def landing_page(tracking_uri: str, ablation: str, out: Path | None = None) -> str:
    """Return the comparison page of the newest sweep; all experiments if there is none.

    If several users have an ablation of that name, it is the one of the folder `out`.

    Raises:
        SpecError: If nothing is recorded for the ablation.
        StoreUnavailable: If the store cannot be read, or if the experiment is in its trash.
    """
    store = connect(tracking_uri)
    with store.reached():
        if ablation:
            folder = folder_of(store_of(out, tracking_uri)) if out else ANY_FOLDER
            found = readable_experiments(store, folder, [ablation])
            shown = [found[ablation]] if ablation in found else []
        else:
            shown = [each for each in store.ablations() if each.lifecycle_stage == "active"]
        experiments = {each.experiment_id: each for each in shown}
        sweeps = store.parents(list(experiments))
    if ablation and not experiments:
        raise SpecError(
            f"nothing is recorded for {ablation!r} yet; `{command('run', ablation)}` does that."
        )
    # A running sweep has no end, and comes first.
    for run in sorted(sweeps, key=lambda run: run.info.end_time or float("inf"), reverse=True):
        experiment_id, scale = run.info.experiment_id, run.data.tags["bakeoff.scale"]
        if VIEW_TAG + scale in experiments[experiment_id].tags:  # older versions wrote no view
            return page_of(experiment_id, run.data.tags)
    experiment = f"/{max(experiments, key=int)}/runs" if experiments else ""
    return f"#/experiments{experiment}?{TRAINING_RUNS}"


def _has_tables(database: Path) -> bool:
    """Return True if the file has mlflow's tables; create nothing."""
    if not database.is_file():
        return False
    query = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('experiments', 'runs')"
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as store:
            return bool(store.execute(query).fetchone()[0] == 2)
    except sqlite3.Error:
        return False


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        # A port whose last connections are still closing is free, as for the server itself.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise StoreUnavailable(
                f"Port {port} of {_HOST} cannot be used ({error}); choose another with --port."
            ) from None


def _wait(base: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        if process.poll() is not None:
            raise StoreUnavailable(f"The dashboard did not start: {_reason(log)}")
        try:
            with direct.open(f"{base}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise StoreUnavailable(f"The dashboard did not answer within {_SECONDS_TO_START:.0f} s.")


def _reason(log: IO[bytes]) -> str:
    """Return the log's last line that names an error, or else the last line."""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or ["no reason given."])[-1][:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group, by force if it takes too long."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_SECONDS_TO_END)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
