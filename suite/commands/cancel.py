"""`bakeoff cancel`: stop submitted sweeps, so that their drivers finish their writes."""

from __future__ import annotations

from collections.abc import Sequence

from bakeoff.suite.cluster import jobs
from bakeoff.suite.cluster.address import check_url
from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.errors import DONE
from bakeoff.suite.spec import SpecError

_MOST_LISTED = 10


def cancel(names: Sequence[str], address: str) -> int:
    """Stop the live sweeps of those names or ids; without any, the only live one."""
    url = check_url(address)
    every = jobs.list_jobs(url)
    alive = [job for job in every if job.is_alive]
    for job in _select(names, alive, every, url):
        print(f"stopping {job.submission_id} ...", flush=True)
        ended = jobs.stop_job(url, job.submission_id)
        print(
            f"{ended.submission_id}: {ended.status.lower()}; the same `bakeoff submit` resumes it, "
            f"`bakeoff fetch {ended.submission_id} --address {url}` downloads the finished results"
        )
    return DONE


def _select(
    names: Sequence[str], alive: Sequence[Job], every: Sequence[Job], url: str
) -> list[Job]:
    """Return the jobs that the names select.

    Raises:
        SpecError: If there is none, or if the choice is ambiguous; the message lists the jobs.
    """
    for name in names:
        if not any(job.is_called(name) for job in every):
            there = ", ".join(_describe(job) for job in every[:_MOST_LISTED]) or "nothing"
            raise SpecError(
                f"{name!r}: no sweep of this name was submitted to {url}; submitted sweeps: "
                f"{there}."
            )
    if not alive:
        ended = f"; the newest is {_describe(every[0])}" if every else ""
        raise SpecError(f"--address {url}: no submitted sweep is running there{ended}.")
    listed = ", ".join(map(_describe, alive))
    if not names and len(alive) > 1:
        raise SpecError(f"--address {url}: several sweeps are running; name one of them: {listed}.")
    found = [job for job in alive if not names or any(job.is_called(name) for name in names)]
    for name in names:
        of_name = [job for job in found if job.is_called(name)]
        if not of_name:
            raise SpecError(f"{name!r}: no sweep of this name is running there; running: {listed}.")
        if len(of_name) > 1 and name not in {job.submission_id for job in of_name}:
            several = ", ".join(map(_describe, of_name))
            raise SpecError(
                f"{name!r}: several sweeps of this name are running; give an id: {several}."
            )
    return found


def _describe(job: Job) -> str:
    return f"{job.submission_id} ({'; '.join(filter(None, (job.status.lower(), job.submitted)))})"
