"""Start Ray on this machine, or join a running cluster; both end with the block."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import ray
from ray.exceptions import RayError

from bakeoff.suite.cluster import ray_private
from bakeoff.suite.cluster.code_bundle import bundle_code
from bakeoff.suite.cluster.execute import RayExecutor
from bakeoff.suite.events import ExecutorSettings, Unavailable
from bakeoff.suite.execution.process_cleanup import process_cleanup
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import Plan

_JOIN_ERRORS = (RayError, RuntimeError, ValueError, OSError)
_OBJECT_STORE_BYTES = 150_000_000  # only specifications and results are transferred
_SECONDS_TO_JOIN = 6
_SECONDS_TO_START = 60
_MOST_STARTS = 2
_MOST_BYTES_OF_A_SOCKET = 107  # length limit of its name
_SOCKET = "/ray/session_2026-01-31_23-59-59_999999_{pid}/sockets/plasma_store"  # Ray's name for it
_HEAD_WAIT = "RAY_gcs_server_port_wait_time_s"


@contextmanager
def started(settings: ExecutorSettings) -> Iterator[RayExecutor]:
    """Start Ray on this machine for the block, and yield an executor on it.

    `bakeoff.suite.sweep.driver.executing` first sets the variables that Ray reads on import.

    Raises:
        Unavailable: If two starts fail, or if the names of its sockets would be too long.
    """
    _refuse_long_folder()
    for num_starts_left in reversed(range(_MOST_STARTS)):
        with process_cleanup():  # leftovers of a failed start would slow down the next one
            if not _has_started(num_starts_left):
                continue
            try:
                yield RayExecutor(settings)
            finally:
                ray.shutdown()
            return


def _refuse_long_folder() -> None:
    """Raise if Ray's sockets in the folder of temporary files would have too long a name."""
    variable = "RAY_TMPDIR" if os.environ.get("RAY_TMPDIR") else "TMPDIR"
    folder = os.environ.get(variable) or tempfile.gettempdir()
    most = _MOST_BYTES_OF_A_SOCKET - len(_SOCKET.format(pid=os.getpid()))
    if (length := len(os.fsencode(folder))) > most:
        raise Unavailable(
            f"{variable}={folder} has {length} bytes, and Ray can use at most {most}, since the "
            f"names of its sockets are limited: set a shorter one, as {variable}=/tmp, or use "
            "`--executor inline`, which needs no Ray."
        )


def _has_started(num_starts_left: int) -> bool:
    """Try to start Ray; raise Unavailable if that fails and no start is left."""
    # Its workers lead process groups, so that children of a trial end with its worker.
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "true")
    try:
        with _connecting(_SECONDS_TO_START), ray_private.waiting_longer_for_a_node():
            ray.init(
                address="local",
                num_cpus=num_cpus(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                object_store_memory=_OBJECT_STORE_BYTES,
                _node_ip_address="127.0.0.1",
                job_config=ray_private.InstalledFirst(),
            )
    except Exception as error:  # a plain Exception if its node is slow to start
        ray.shutdown()
        if num_starts_left:
            return False
        raise Unavailable(
            f"Ray cannot be started here: {_first_sentence(error)}. The machine may be too busy: "
            "run again later, or with `--executor inline`, which needs no Ray."
        ) from error
    return True


@contextmanager
def joined(
    address: str, settings: ExecutorSettings, plans: Sequence[Plan]
) -> Iterator[RayExecutor]:
    """Connect to a running cluster for the block, and yield an executor on it.

    Args:
        address: ``HOST:PORT`` of a head, ``auto`` for the cluster that this process is part of.
        settings: The settings of the executor.
        plans: The plans, which determine the code that is sent; a job's code is there already.

    Raises:
        Unavailable: If there is no cluster at that address.
    """
    with tempfile.TemporaryDirectory(prefix="bakeoff") as folder:
        is_job = ray_private.is_job()
        code = None if is_job else bundle_code(plans, Path(folder)).runtime_env()
        try:
            with _connecting(_SECONDS_TO_JOIN):
                ray.init(
                    address=address, log_to_driver=False, logging_level="error", runtime_env=code
                )
        except _JOIN_ERRORS as error:
            raise Unavailable(
                f"--address {address}: no Ray cluster there accepts the connection "
                f"({_first_sentence(error)}). Is it a head of the same version "
                f"({ray.__version__}), and is its token in RAY_AUTH_TOKEN_PATH?"
            ) from error
    try:
        # The bundle is the planned code, in another folder on each host.
        yield RayExecutor(replace(settings, code=None), is_own=False)
    finally:
        ray.shutdown()


@contextmanager
def _connecting(seconds: int) -> Iterator[None]:
    """Set how long Ray waits for a head to start or to accept us; the default is 30 and 20 seconds.

    Our handler of SIGTERM is restored, because Ray's ends this process three seconds later. Ray's
    output is suppressed.
    """
    handler, wait = signal.getsignal(signal.SIGTERM), os.environ.get(_HEAD_WAIT)
    ray_private.print_nothing()
    os.environ[_HEAD_WAIT] = wait or str(seconds)
    try:
        yield
    finally:
        os.environ.pop(_HEAD_WAIT)
        if wait is not None:
            os.environ[_HEAD_WAIT] = wait
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _first_sentence(error: Exception) -> str:
    """Return the first sentence of an error's text, or the name of its class."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].rstrip(".")
