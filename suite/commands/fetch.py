"""`bakeoff fetch`: bring the reports of submitted sweeps from their cluster to this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.cluster.address import check_url
from suite.cluster.fetch_reports import fetch_reports
from suite.cluster.jobs import Job, list_jobs
from suite.errors import DONE
from suite.journal.sqlite_schema import journal_in
from suite.spec import SpecError


def fetch(names: Sequence[str], address: str, out: Path) -> int:
    """Write their reports to `out`/reports, and print the pages; without a name the newest's.

    Raises:
        SpecError: for a name that was not submitted, or a folder that sweeps of its own are in.
    """
    if journal_in(out).exists():
        raise SpecError(
            f"--out {out}: sweeps were run in this folder, whose reports would be overwritten; "
            "give another."
        )
    url = check_url(address)
    for job in _newest(names, list_jobs(url), url):
        for page in fetch_reports(url, job, out / "reports"):
            print(f"report:    {page}", flush=True)
    return DONE


def _newest(names: Sequence[str], every: Sequence[Job], url: str) -> list[Job]:
    """The newest submission of each name or id; `every` is newest first."""
    if not every:
        raise SpecError(f"--address {url}: nothing was submitted there yet.")
    found: dict[str, Job] = {}
    for name in names or [every[0].submission_id]:
        of_name = [job for job in every if job.is_called(name)]
        if not of_name:
            known = ", ".join(dict.fromkeys(each for job in every for each in job.names.split()))
            raise SpecError(f"{name!r}: no such sweep was submitted to {url}; there is: {known}.")
        found[of_name[0].submission_id] = of_name[0]
    return list(found.values())
