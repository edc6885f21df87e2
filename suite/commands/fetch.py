"""`bakeoff fetch`: copy the reports of submitted sweeps from their cluster to this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bakeoff.suite.cluster.address import check_url
from bakeoff.suite.cluster.fetch_reports import fetch_journal, fetch_reports
from bakeoff.suite.cluster.jobs import Job, list_jobs
from bakeoff.suite.errors import DONE
from bakeoff.suite.events import Unavailable
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import number_of, recorded_name


def fetch(names: Sequence[str], address: str, out: Path) -> int:
    """Write the reports to `out`/reports, and print the pages; by default of the newest sweep.

    The reports of a sweep that was cancelled, or is still running, are made here from its journal.

    Raises:
        SpecError: For a name that was not submitted, or a folder in which sweeps were run.
    """
    if journal_in(out).exists():
        raise SpecError(
            f"--out {out}: this folder contains sweeps whose reports would be overwritten; choose "
            "another folder."
        )
    url = check_url(address)
    for job in _newest(names, list_jobs(url), url):
        bring = fetch_reports if job.has_reports else _reports_made_here
        for page in bring(url, job, out / "reports"):
            print(f"report:    {page}", flush=True)
    return DONE


def _reports_made_here(url: str, job: Job, folder: Path) -> Sequence[Path]:
    """Make the reports of the trials that are done, from the journal on the head.

    Raises:
        Unavailable: If there is no result yet.
    """
    from bakeoff.suite.reporting.build import reports_of, sweeps_to_report

    names = [recorded_name(name) for name in job.names.split()]
    with (
        tempfile.TemporaryDirectory() as temporary,
        Journal(fetch_journal(url, job, Path(temporary)), read_only=True) as journal,
    ):
        number = len(journal.done())
        if not number:
            raise Unavailable(
                f"{job.submission_id} ({job.status.lower()}): no trial has finished yet."
            )
        state = f"{job.submission_id} ({job.status.lower()})"
        print(f"{state}: {number_of(number, 'trial')} done so far in {job.out}", flush=True)
        return reports_of(names, sweeps_to_report(journal, folder, None), folder)


def _newest(names: Sequence[str], every: Sequence[Job], url: str) -> list[Job]:
    """Return the newest submission of each name or id; `every` is newest first."""
    if not every:
        raise SpecError(f"--address {url}: no sweep has been submitted there yet.")
    found: dict[str, Job] = {}
    for name in names or [every[0].submission_id]:
        of_name = [job for job in every if job.is_called(name)]
        if not of_name:
            known = ", ".join(dict.fromkeys(each for job in every for each in job.names.split()))
            raise SpecError(
                f"{name!r}: no sweep of this name was submitted to {url}; submitted sweeps: "
                f"{known}."
            )
        found[of_name[0].submission_id] = of_name[0]
    return list(found.values())
