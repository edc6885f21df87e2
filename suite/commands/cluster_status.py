"""`bakeoff status --address`: show the submissions on a cluster.

There are two sources: the cluster's list of jobs, and the last status line in a job's log, which
its driver wrote. No file of the cluster is read, and no further program has to run there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from bakeoff.suite.cluster.address import check_url
from bakeoff.suite.cluster.job_spec import split_id
from bakeoff.suite.cluster.jobs import PENDING, Job, job_log, list_jobs
from bakeoff.suite.commands.status import follow, progress_lines
from bakeoff.suite.errors import one_line
from bakeoff.suite.journal.status_message import SweepStatus, is_status_line, last_status
from bakeoff.suite.text import in_words, redact

_MOST_LOGS_READ = 20  # logs of ended jobs; those of live jobs are always read


@dataclass(frozen=True)
class JobProgress:
    """A job with its driver's last status message.

    Attributes:
        job: The job.
        status: The driver's last status message.
        last_line: Last line of its log, for a driver that failed before its first message.
    """

    job: Job
    status: SweepStatus
    last_line: str = ""


def show_cluster_status(address: str, *, as_json: bool) -> None:
    """Print the submissions on a cluster, the live ones first."""
    url = check_url(address)
    found = submissions_on(url)
    if as_json:
        print(json.dumps(as_objects(found), indent=1))
        return
    console = Console(highlight=False, markup=False)
    for line in _lines(found, url):
        console.print(line, soft_wrap=not console.is_terminal)


def follow_cluster_status(address: str) -> int:
    """Show the submissions until none is alive, and return the exit code."""
    url = check_url(address)

    def look() -> tuple[list[Text], bool]:
        found = submissions_on(url)
        return _lines(found, url), any(each.job.is_alive for each in found)

    return follow(look)


def _lines(found: Sequence[JobProgress], url: str) -> list[Text]:
    newest: dict[str, JobProgress] = {}  # the progress of an older attempt is outdated
    for each in found:
        newest.setdefault(split_id(each.job.submission_id)[0], each)
    lines = [line for each in newest.values() for line in lines_of(each)]
    return [Text(line) for line in lines or [f"no sweep has been submitted to {url} yet"]]


def submissions_on(url: str) -> list[JobProgress]:
    """Return the submissions, the live ones first, then the newest.

    Raises:
        Unavailable: If the cluster does not answer.
    """
    # The sort keeps the order, newest first.
    found = sorted(list_jobs(url), key=lambda job: not job.is_alive)
    num_read = sum(job.is_alive for job in found) + _MOST_LOGS_READ
    return [_progress_of(url, job) for job in found[:num_read]]


def _progress_of(url: str, job: Job) -> JobProgress:
    log = "" if job.status == PENDING else job_log(url, job.submission_id)
    status = last_status(log) or SweepStatus()
    lines = [line for line in log.splitlines() if line.strip() and not is_status_line(line)]
    if not job.is_alive:  # trials that its driver was running are missing now
        counts = dict(status.counts)
        missing = counts.pop("missing", 0) + counts.pop("running", 0)
        counts |= {"missing": missing} if missing else {}
        status = SweepStatus(
            counts=counts,
            failed=status.failed,
            labels=status.labels,
            out=status.out,
            editions=status.editions,
        )
    return JobProgress(job, status, redact(lines[-1]) if lines else "")


def as_objects(found: Sequence[JobProgress]) -> dict[str, Any]:
    """Return the fields of the first submission and a list of all of them, for JSON."""
    every = [_as_object(each) for each in found]
    nothing = {"submission": None, "job_status": None, "message": "", **asdict(SweepStatus())}
    return {**(every[0] if every else nothing), "submissions": every}


def _as_object(each: JobProgress) -> dict[str, Any]:
    job = each.job
    return {
        "submission": job.submission_id,
        "job_status": job.status,
        "message": job.message,
        "names": job.names,
        "scale": job.scale,
        "exit_code": job.exit_code,
        "submitted_seconds": job.start_seconds,
        **asdict(each.status),
        "out": each.status.out or job.out,
    }


def lines_of(each: JobProgress) -> list[str]:
    """Return the lines about a submission."""
    job, status = each.job, each.status
    ended = "" if job.exit_code is None else f", exit code {job.exit_code}"
    names = ", ".join(f"{name} edition {number}" for name, number in status.editions.items())
    what = ", ".join(filter(None, (names or job.names, job.submitted, f"results in {job.out}")))
    lines = [f"{job.submission_id}: {job.status.lower()}{ended} ({what})"]
    if status.counts:
        lines += [f"  {one_line(line)}" for line, _ in progress_lines(status)]
    elif job.is_alive:
        lines.append(f"  {job.message}" if job.status == PENDING else "  the driver is starting")
    elif each.last_line:
        lines.append(f"  {each.last_line}")
    if job.is_alive and status.eta_seconds is not None:
        lines.append(f"  {in_words(status.eta_seconds)} left")
    return lines
