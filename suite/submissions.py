"""`bakeoff status --address`: every submission on a cluster, from wherever one asks.

Two sources: the cluster's list of jobs, and the last status line in a job's log, which its driver
wrote. No file of the cluster is read, and nothing of ours needs to run there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from suite.cluster.address import check_url
from suite.cluster.submit import PENDING, Job, jobs, log_of
from suite.journal.status_message import Standing, is_status_line, last_standing
from suite.submission import base_of
from suite.text import in_words, redact

_MOST_LOGS_READ = 20  # of what has ended; what is alive is always read


@dataclass(frozen=True)
class Seen:
    """A submission: what the cluster says of it, how far its driver said it was, and its last line.

    The last line is for a driver that failed before it could say how far it was.
    """

    job: Job
    standing: Standing
    last_line: str = ""


def show(address: str, *, as_json: bool) -> None:
    """Print them, the one that matters most first."""
    url = check_url(address)
    found = seen_on(url)
    if as_json:
        print(json.dumps(as_objects(found), indent=1))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for seen in _newest_of_each(found):
        for line in lines_of(seen):
            console.print(line)
    if not found:
        console.print(f"nothing was submitted to {url} yet")


def seen_on(url: str) -> list[Seen]:
    """Those that are alive first, then the newest.

    Raises:
        Unavailable: if the cluster does not answer.
    """
    found = sorted(jobs(url), key=lambda job: not job.is_alive)  # stable: newest first otherwise
    num_read = sum(job.is_alive for job in found) + _MOST_LOGS_READ
    return [_seen(url, job) for job in found[:num_read]]


def _newest_of_each(found: Sequence[Seen]) -> list[Seen]:
    """Of several attempts at one sweep only the newest says how far it is."""
    newest: dict[str, Seen] = {}
    for seen in found:
        newest.setdefault(base_of(seen.job.submission_id), seen)
    return list(newest.values())


def _seen(url: str, job: Job) -> Seen:
    log = "" if job.status == PENDING else log_of(url, job.submission_id)
    standing = last_standing(log) or Standing()
    lines = [line for line in log.splitlines() if line.strip() and not is_status_line(line)]
    return Seen(
        job, standing if job.is_alive else _at_rest(standing), redact(lines[-1]) if lines else ""
    )  # fmt: skip


def _at_rest(standing: Standing) -> Standing:
    """What a driver that was killed had left running does not run any more."""
    counts = dict(standing.counts)
    missing = counts.pop("missing", 0) + counts.pop("running", 0)
    if missing:
        counts["missing"] = missing
    return Standing(
        counts=counts, failed=standing.failed, labels=standing.labels, out=standing.out
    )  # fmt: skip


def as_objects(found: Sequence[Seen]) -> dict[str, Any]:
    """For programs: the first submission's own fields at the top, and all of them below."""
    every = [_as_object(seen) for seen in found]
    nothing = {"submission": None, "job_status": None, "message": "", **asdict(Standing())}
    return {**(every[0] if every else nothing), "submissions": every}


def _as_object(seen: Seen) -> dict[str, Any]:
    job = seen.job
    return {
        "submission": job.submission_id, "job_status": job.status, "message": job.message,
        "names": job.names, "scale": job.scale, "exit_code": job.exit_code,
        **asdict(seen.standing), "out": seen.standing.out or job.out,
    }  # fmt: skip


def lines_of(seen: Seen) -> list[str]:
    """For people."""
    job, standing = seen.job, seen.standing
    ended = "" if job.exit_code is None else f", exit code {job.exit_code}"
    lines = [
        f"{job.submission_id}: {job.status.lower()}{ended} ({job.names}, results in {job.out})"
    ]
    counts = ", ".join(f"{number} {state}" for state, number in standing.counts.items())
    if counts:
        lines.append(f"  {counts.replace('_', ' ')}")
    elif job.is_alive:
        lines.append(f"  {job.message}" if job.status == PENDING else "  the driver is starting")
    elif seen.last_line:
        lines.append(f"  {seen.last_line}")
    name = {key: key for key in (*standing.running, *standing.failed)} | dict(standing.labels)
    lines += [f"  running {name[key]} on {place}" for key, place in standing.running.items()]
    if standing.waiting:
        waiting = standing.waiting
        lines.append(f"  {waiting['num_trials']} of the missing wait: {waiting['reason']}")
    lines += [f"  failed  {name[key]}: {reason}" for key, reason in standing.failed.items()]
    if job.is_alive and standing.eta_seconds is not None:
        lines.append(f"  {in_words(standing.eta_seconds)} left")
    return lines
