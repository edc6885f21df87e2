"""Submit a sweep to a cluster as a Ray job; list, follow and stop such jobs.

Ray's own client is only used to upload and submit. It has no time limit, and RAY_ADDRESS overrides
the address that it is given; both are corrected here. The other requests use `head_client`, without
ray.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bakeoff.suite.cluster.address import authenticate
from bakeoff.suite.cluster.capacity import NodeShape
from bakeoff.suite.cluster.code_bundle import CodeBundle
from bakeoff.suite.cluster.head_client import HeadClient, NotThere, is_loopback
from bakeoff.suite.cluster.job_spec import PREFIX, STARTER, STARTER_SCRIPT, JobSpec, split_id
from bakeoff.suite.errors import FAILED
from bakeoff.suite.events import Unavailable
from bakeoff.suite.text import recorded_name

PENDING, RUNNING, SUCCEEDED = "PENDING", "RUNNING", "SUCCEEDED"
_LIVE = (PENDING, RUNNING)
_SECONDS_OF_A_REQUEST = 120.0  # an upload of 100 MiB
_SECONDS_TO_STOP = 150.0  # the supervisor waits 120, then kills
_SECONDS_BETWEEN_LOOKS = 0.5
_BYTES_PER_SECOND = 200_000  # limit for a followed log, which is transferred as a whole each time
_OVERRIDES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A submission, as the cluster describes it.

    Attributes:
        submission_id: Its id.
        status: Ray's status: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
        message: The reason for the status, in one line.
        names: The names of the ablations, separated by spaces.
        scale: The name of the scale.
        out: The output folder on the head.
        start_seconds: The time of its start in seconds since 1970; 0 if unknown.
        exit_code: The exit code of the driver, or None if it has not ended by itself.
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
        """True if it may still start or run."""
        return self.status in _LIVE

    @property
    def has_reports(self) -> bool:
        """True if it has come to its end, where it writes the reports."""
        return self.status == SUCCEEDED or self.exit_code == FAILED

    def is_called(self, name: str) -> bool:
        """Return True for its id, that of the first attempt, or an ablation's name or file."""
        names = {n for each in self.names.split() for n in (recorded_name(each), Path(each).stem)}
        ids = (self.submission_id, split_id(self.submission_id)[0])
        return name in ids or recorded_name(name) in names

    @property
    def submitted(self) -> str:
        """The local time, for example ``submitted 2026-05-04 13:07``; empty if unknown."""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.start_seconds))
        return f"submitted {when}" if self.start_seconds else ""


def list_jobs(url: str) -> list[Job]:
    """Return all submissions of bakeoff on the cluster, newest first.

    Raises:
        Unavailable: If the cluster does not answer.
    """
    ours = [
        _parse_job(found)
        for found in HeadClient(url).ask("/api/jobs/")
        if (found.get("submission_id") or "").startswith(PREFIX)
        and "bakeoff" in (found.get("metadata") or {})
    ]
    return sorted(ours, key=lambda job: -job.start_seconds)


def get_job(url: str, submission_id: str) -> Job:
    """Return the submission of that id.

    Raises:
        Unavailable: If there is none, or if the cluster does not answer.
    """
    return _parse_job(HeadClient(url).ask(f"/api/jobs/{submission_id}"))


def job_log(url: str, submission_id: str) -> str:
    """Return the driver's output so far; empty if it has not started, or its node is gone."""
    try:
        return str(HeadClient(url).ask(f"/api/jobs/{submission_id}/logs")["logs"])
    except NotThere:
        return ""


def submit_job(
    url: str, spec: JobSpec, bundle: CodeBundle, *, again: bool = False
) -> tuple[Job, bool]:
    """Submit the sweep, unless its newest attempt is running or has succeeded.

    With `again` a sweep that has succeeded is submitted once more.

    Returns:
        The job that runs the sweep, and whether it is new.

    Raises:
        Unavailable: If the cluster does not answer, or refuses.
    """
    attempts = {}
    for job in list_jobs(url):
        first_id, attempt = split_id(job.submission_id)
        if first_id == spec.first_id:
            attempts[attempt] = job
    num_attempts = max(attempts, default=0)
    newest = attempts.get(num_attempts)
    if newest and (newest.is_alive or (newest.status == SUCCEEDED and not again)):
        return newest, False
    submission_id = f"{spec.first_id}-{num_attempts + 1}" if newest else spec.first_id
    is_new = _is_submitted(url, submission_id, spec, bundle)
    return get_job(url, submission_id), is_new


def follow(url: str, submission_id: str) -> Iterator[str]:
    """Yield the driver's log in pieces as it grows, until the job has ended.

    Raises:
        Unavailable: If the cluster does not answer.
    """
    num_yielded = 0
    while True:
        has_ended = not get_job(url, submission_id).is_alive
        log = job_log(url, submission_id)
        yield log[num_yielded:]
        num_yielded = len(log)
        if has_ended:
            return
        time.sleep(max(_SECONDS_BETWEEN_LOOKS, len(log) / _BYTES_PER_SECOND))


def stop_job(url: str, submission_id: str) -> Job:
    """Ask the driver to finish its writes and end, and wait for that.

    Raises:
        Unavailable: If the cluster does not answer, or the job does not end.
    """
    HeadClient(url).ask(f"/api/jobs/{submission_id}/stop", method="POST")
    until = time.monotonic() + _SECONDS_TO_STOP
    while (job := get_job(url, submission_id)).is_alive:
        if time.monotonic() > until:
            raise Unavailable(
                f"--address {url}: {submission_id} has not stopped within "
                f"{_SECONDS_TO_STOP:g} seconds; `bakeoff status --address {url}` shows when "
                "it has."
            )
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return job


def node_shapes(url: str) -> list[NodeShape]:
    """Return the live nodes; empty if an autoscaler may start others.

    Raises:
        Unavailable: If the cluster does not answer.
    """
    if _may_grow(HeadClient(url).ask("/api/cluster_status")):
        return []
    found = HeadClient(url).ask("/api/v0/nodes?detail=1&limit=10000")["data"]["result"]["result"]
    return [
        NodeShape(node["node_id"], node["resources_total"])
        for node in found
        if node["state"] == "ALIVE"
    ]


def _may_grow(status: Any) -> bool:
    """Return True if nodes may still be started, or if that is unknown.

    Without an autoscaler, Ray names the type of each node after the node itself.
    """
    try:
        types = status["data"]["clusterStatus"]["autoscalerReport"]["nodeTypeMapping"]
        return not all(name == f"node_{node}" for node, name in types.items())
    except (KeyError, TypeError, AttributeError):
        return True


def _parse_job(found: dict[str, Any]) -> Job:
    metadata = found.get("metadata") or {}
    return Job(
        submission_id=found["submission_id"],
        status=found["status"],
        message=(found.get("message") or "").partition("\n")[0],
        names=metadata.get("names", ""),
        scale=metadata.get("scale", ""),
        out=metadata.get("out", ""),
        start_seconds=(found.get("start_time") or 0) / 1000,
        exit_code=found.get("driver_exit_code"),
    )


def _is_submitted(url: str, submission_id: str, spec: JobSpec, bundle: CodeBundle) -> bool:
    """Upload and submit; return False if the job was submitted from elsewhere meanwhile."""
    (bundle.files / STARTER).write_text(STARTER_SCRIPT)
    try:
        with _only_this_address(url):
            _client(url).submit_job(
                entrypoint=spec.command,
                submission_id=submission_id,
                runtime_env=bundle.runtime_env(),
                metadata=spec.metadata,
            )
    except (RuntimeError, OSError, ValueError) as error:
        if "already exists" in str(error):
            return False
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise Unavailable(f"--address {url}: the sweep was not accepted ({reason}).") from error
    return True


def _client(url: str) -> Any:
    """Return Ray's client, with a time limit on every request."""
    authenticate(url)
    from ray.job_submission import JobSubmissionClient

    class Client(JobSubmissionClient):  # type: ignore[misc]
        def _do_request(self, *arguments: Any, **named: Any) -> Any:
            return super()._do_request(*arguments, timeout=_SECONDS_OF_A_REQUEST, **named)

    for name in ("ray.dashboard.modules.dashboard_sdk", "ray._private.runtime_env.packaging"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return Client(url)


@contextmanager
def _only_this_address(url: str) -> Iterator[None]:
    """Hide other addresses, and a proxy for this machine: Ray's client would use both."""
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
