"""`bakeoff cancel`: which submitted sweeps are meant, stopped with their books closed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.cluster import submit as jobs_api
from suite.cluster.address import check_url
from suite.cluster.submit import Job
from suite.errors import DONE
from suite.spec import SpecError
from suite.submission import base_of

_MOST_LISTED = 10


def cancel(names: Sequence[str], address: str) -> int:
    """Stop the live sweeps of those names or ids; with none given the only one there is."""
    url = check_url(address)
    every = jobs_api.jobs(url)
    alive = [job for job in every if job.is_alive]
    for job in _chosen(names, alive, every, url):
        print(f"stopping {job.submission_id} ...", flush=True)
        ended = jobs_api.stop(url, job.submission_id)
        print(f"{ended.submission_id}: {ended.status.lower()}; the same `bakeoff submit` goes on.")
    return DONE


def _chosen(
    names: Sequence[str], alive: Sequence[Job], every: Sequence[Job], url: str
) -> list[Job]:
    """Those that are meant.

    Raises:
        SpecError: if none is, or it cannot be told which; with what there is.
    """
    for name in names:
        if not any(_is_meant(name, job) for job in every):
            there = ", ".join(_called(job) for job in every[:_MOST_LISTED]) or "nothing"
            raise SpecError(f"{name!r}: no such sweep was submitted to {url}; there is: {there}.")
    if not alive:
        ended = f"; the newest is {_called(every[0])}" if every else ""
        raise SpecError(f"--address {url}: no submitted sweep is alive there{ended}.")
    listed = ", ".join(map(_called, alive))
    if not names and len(alive) > 1:
        raise SpecError(f"--address {url}: several sweeps are alive, name one of them: {listed}.")
    found = [job for job in alive if not names or any(_is_meant(name, job) for name in names)]
    for name in names:
        if not any(_is_meant(name, job) for job in found):
            raise SpecError(f"{name!r}: no such sweep is alive there; alive: {listed}.")
    return found


def _is_meant(name: str, job: Job) -> bool:
    """By id, by that of the first attempt, or by an ablation's name or file."""
    names = {Path(each).stem for each in job.names.split()}
    return name in (job.submission_id, base_of(job.submission_id)) or Path(name).stem in names


def _called(job: Job) -> str:
    return f"{job.submission_id} ({job.status.lower()})"
