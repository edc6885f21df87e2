"""Start a Ray of this machine, or join a running cluster; both end with the block."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray.exceptions import RayError

from suite.cluster.execute import RayExecutor
from suite.cluster.runtime_env import runtime_env
from suite.events import ExecutorSettings, Unavailable
from suite.execution.process_cleanup import process_cleanup
from suite.parcel import packed
from suite.schema import Plan

_TROUBLES = (RayError, RuntimeError, ValueError, OSError)
_OBJECT_STORE_BYTES = 150_000_000  # only specifications and results travel
_SECONDS_TO_JOIN = 6
_PATIENCE = "RAY_gcs_server_port_wait_time_s"


@contextmanager
def started(luggage: ExecutorSettings) -> Iterator[RayExecutor]:
    """An executor on a Ray of this machine, which starts and ends with the block.

    See `suite.sweep.executors.executing`, which settles beforehand what Ray reads on import.

    Raises:
        Unavailable: if it cannot be started.
    """
    with process_cleanup():
        try:
            with _own_end():
                _start()
        except Exception as error:  # a bare one, where its node is slow to start
            raise Unavailable(f"Ray cannot be started here: {_sentence(error)}.") from error
        try:
            yield RayExecutor(luggage)
        finally:
            ray.shutdown()


@contextmanager
def joined(address: str, luggage: ExecutorSettings, plans: Sequence[Plan]) -> Iterator[RayExecutor]:
    """An executor on a cluster that others started.

    Args:
        address: ``HOST:PORT`` of a head, ``auto`` for the cluster that this process is part of.
        luggage: What the trials need besides their specifications.
        plans: What travels there is read off them; the code of a job has travelled already.

    Raises:
        Unavailable: if there is no cluster at that address.
    """
    with tempfile.TemporaryDirectory(prefix="bakeoff") as folder:
        travels = None if _is_job() else runtime_env(packed(plans, Path(folder)))
        try:
            with _own_end():
                _join(address, travels)
        except _TROUBLES as error:
            raise Unavailable(
                f"--address {address}: no Ray cluster lets us in there ({_sentence(error)}). Is it "
                f"a head of the same version ({ray.__version__}), and is its token in "
                "RAY_AUTH_TOKEN_PATH?"
            ) from error
    try:
        yield RayExecutor(replace(luggage, source_paths=()), is_own=False)
    finally:
        ray.shutdown()


@contextmanager
def _own_end() -> Iterator[None]:
    """How SIGTERM ends this process stays as it was; Ray's core aborts it three seconds later.

    And nothing of Ray's own is printed among what we say.
    """
    before = signal.getsignal(signal.SIGTERM)
    ray._private.worker.print_to_stdstream = _say_nothing  # ten lines for each death of a worker
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _say_nothing(*what: object, **how: object) -> None:
    """In place of what Ray prints of its own accord: the executor says it, in a line."""


def _is_job() -> bool:
    """Whether Ray started this process as a job's entrypoint, with what travels in place."""
    return bool(os.environ.get(RAY_JOB_CONFIG_JSON_ENV_VAR))


def _sentence(error: Exception) -> str:
    """The first of its text; the name of its class where it has none."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].rstrip(".")


def _start() -> None:
    """Start a cluster of this machine, which ends with this process.

    Its workers lead process groups: whatever a trial has started ends with its worker.
    """
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "true")
    ray.init(
        address="local", include_dashboard=False, log_to_driver=False, logging_level="error",
        object_store_memory=_OBJECT_STORE_BYTES, _node_ip_address="127.0.0.1",
    )  # fmt: skip


def _join(address: str, runtime_env: dict[str, Any] | None) -> None:
    with _patient_for(_SECONDS_TO_JOIN):
        ray.init(
            address=address, log_to_driver=False, logging_level="error", runtime_env=runtime_env
        )


@contextmanager
def _patient_for(seconds: int) -> Iterator[None]:
    """How long Ray knocks at a head that does not let it in; its own default is 20 seconds."""
    before = os.environ.get(_PATIENCE)
    os.environ[_PATIENCE] = before or str(seconds)
    try:
        yield
    finally:
        os.environ.pop(_PATIENCE)
        if before is not None:
            os.environ[_PATIENCE] = before
