"""Hand a sweep to a cluster as a Ray job; ask for such jobs, follow and stop them.

The only code that speaks the Jobs API. Ray's client uploads and submits, since the packages are
its affair; it has no time limit and lets RAY_ADDRESS override what it is told, both of which are
mended here. The rest goes over `head_http`, which needs no ray.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from suite.cluster.authentication import authenticate
from suite.cluster.capacity import NodeShape
from suite.cluster.head_http import Head, NotThere
from suite.cluster.peer import is_loopback
from suite.cluster.runtime_env import runtime_env
from suite.events import Unavailable
from suite.parcel import Parcel
from suite.submission import (
    PREFIX,
    STARTER,
    STARTER_SCRIPT,
    Submission,
    attempt_of,
    base_of,
    id_of_attempt,
)

PENDING, RUNNING, SUCCEEDED = "PENDING", "RUNNING", "SUCCEEDED"
_LIVE = (PENDING, RUNNING)
_SECONDS_OF_A_REQUEST = 120.0  # an upload of 100 MiB
_SECONDS_TO_STOP = 150.0  # the supervisor waits 120, then kills
_SECONDS_BETWEEN_LOOKS = 0.5
_BYTES_PER_SECOND = 200_000  # of a log that is followed: the whole of it comes at every look
_OVERRIDES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A submission as the cluster knows it.

    Attributes:
        status: Ray's: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
        message: Why it is in that state, in one line.
        exit_code: Of the driver; None where it has not ended by itself.
    """

    submission_id: str
    status: str
    message: str
    names: str
    scale: str
    out: str
    start_seconds: float
    exit_code: int | None

    @property
    def is_alive(self) -> bool:
        """Whether it may still start or work."""
        return self.status in _LIVE


@dataclass(frozen=True)
class HandedOver:
    """A job that does the sweep; `is_new` unless it was there before."""

    job: Job
    is_new: bool


def jobs(url: str) -> list[Job]:
    """Every submission of ours on the cluster, newest first.

    Raises:
        Unavailable: if the cluster does not answer.
    """
    ours = [_job(found) for found in Head(url).get("/api/jobs/") if _is_ours(found)]
    return sorted(ours, key=lambda job: -job.start_seconds)


def job_of(url: str, submission_id: str) -> Job:
    """That submission.

    Raises:
        Unavailable: if there is none, or the cluster does not answer.
    """
    return _job(Head(url).get(f"/api/jobs/{submission_id}"))


def log_of(url: str, submission_id: str) -> str:
    """All that the driver has said so far; empty where it has not begun, or its node is gone."""
    try:
        return str(Head(url).get(f"/api/jobs/{submission_id}/logs")["logs"])
    except NotThere:
        return ""


def hand_over(
    url: str, submission: Submission, parcel: Parcel, *, once_more: bool = False
) -> HandedOver:
    """Submit the sweep, unless its newest attempt works on it or has succeeded.

    Args:
        url: Of the dashboard, checked.
        submission: What to run.
        parcel: What travels.
        once_more: Submit a sweep anew that has succeeded.

    Raises:
        Unavailable: if the cluster does not answer, or refuses.
    """
    newest = newest_attempt(url, submission)
    if newest and (newest.is_alive or (newest.status == SUCCEEDED and not once_more)):
        return HandedOver(newest, is_new=False)
    attempt = attempt_of(newest.submission_id) + 1 if newest else 1
    submission_id = id_of_attempt(submission.first_id, attempt)
    is_new = _submitted(url, submission_id, submission, parcel)
    return HandedOver(job_of(url, submission_id), is_new=is_new)


def newest_attempt(url: str, submission: Submission) -> Job | None:
    """The last job that was submitted for this sweep; None where there was none."""
    attempts = [job for job in jobs(url) if base_of(job.submission_id) == submission.first_id]
    return max(attempts, key=lambda job: attempt_of(job.submission_id), default=None)


def follow(url: str, submission_id: str) -> Iterator[str]:
    """The driver's log as it grows, in pieces; ends when the job has ended.

    Raises:
        Unavailable: if the cluster does not answer.
    """
    told = 0
    while True:
        has_ended = not job_of(url, submission_id).is_alive
        log = log_of(url, submission_id)
        yield log[told:]
        told = len(log)
        if has_ended:
            return
        time.sleep(max(_SECONDS_BETWEEN_LOOKS, len(log) / _BYTES_PER_SECOND))


def stop(url: str, submission_id: str) -> Job:
    """Ask the driver to close its books and end, and wait for that.

    Raises:
        Unavailable: if the cluster does not answer, or the job does not end.
    """
    Head(url).post(f"/api/jobs/{submission_id}/stop")
    until = time.monotonic() + _SECONDS_TO_STOP
    while (job := job_of(url, submission_id)).is_alive:
        if time.monotonic() > until:
            raise Unavailable(
                f"--address {url}: {submission_id} was told to stop, and still has not after "
                f"{_SECONDS_TO_STOP:g} seconds; `bakeoff status` shows when it has."
            )
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return job


def node_shapes(url: str) -> list[NodeShape]:
    """The nodes that stand; none where an autoscaler may start others, of which only it knows.

    Raises:
        Unavailable: if the cluster does not answer.
    """
    if _may_grow(Head(url).get("/api/cluster_status")):
        return []
    found = Head(url).get("/api/v0/nodes?detail=1&limit=10000")["data"]["result"]["result"]
    return [
        NodeShape(node["node_id"], node["resources_total"])
        for node in found
        if node["state"] == "ALIVE"
    ]


def _may_grow(status: Any) -> bool:
    """Whether nodes may still be started, or that cannot be told.

    Where there is no autoscaler, Ray calls the type of each node after the node itself.
    """
    try:
        types = status["data"]["clusterStatus"]["autoscalerReport"]["nodeTypeMapping"]
        return not all(name == f"node_{node}" for node, name in types.items())
    except (KeyError, TypeError, AttributeError):
        return True


def _is_ours(found: dict[str, Any]) -> bool:
    submission_id = found.get("submission_id") or ""
    return submission_id.startswith(PREFIX) and "bakeoff" in (found.get("metadata") or {})


def _job(found: dict[str, Any]) -> Job:
    metadata = found.get("metadata") or {}
    return Job(
        submission_id=found["submission_id"], status=found["status"],
        message=(found.get("message") or "").partition("\n")[0], names=metadata.get("names", ""),
        scale=metadata.get("scale", ""), out=metadata.get("out", ""),
        start_seconds=(found.get("start_time") or 0) / 1000,
        exit_code=found.get("driver_exit_code"),
    )  # fmt: skip


def _submitted(url: str, submission_id: str, submission: Submission, parcel: Parcel) -> bool:
    """Upload and submit; False if somebody else was quicker."""
    (parcel.files / STARTER).write_text(STARTER_SCRIPT)
    try:
        with _own_address(url):
            _client(url).submit_job(
                entrypoint=submission.command, submission_id=submission_id,
                runtime_env=runtime_env(parcel), metadata=submission.metadata,
            )  # fmt: skip
    except (RuntimeError, OSError, ValueError) as error:
        if "already exists" in str(error):
            return False
        raise Unavailable(f"--address {url}: the sweep was not taken ({_why(error)}).") from error
    return True


def _client(url: str) -> Any:
    """Ray's, with a time limit on every request; how we authenticate is settled first."""
    authenticate(url)
    from ray.job_submission import JobSubmissionClient

    class Client(JobSubmissionClient):  # type: ignore[misc]
        def _do_request(self, *arguments: Any, **named: Any) -> Any:
            return super()._do_request(*arguments, timeout=_SECONDS_OF_A_REQUEST, **named)

    for name in ("ray.dashboard.modules.dashboard_sdk", "ray._private.runtime_env.packaging"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return Client(url)


@contextmanager
def _own_address(url: str) -> Iterator[None]:
    """Neither another address nor, to this machine, a proxy: Ray's client would heed both."""
    before = dict(os.environ)
    for name in _OVERRIDES:
        os.environ.pop(name, None)
    host = urlsplit(url).hostname or ""
    if is_loopback(host):
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = host
    try:
        yield
    finally:
        for name in (*_OVERRIDES, "NO_PROXY", "no_proxy"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


def _why(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
