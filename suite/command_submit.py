"""`bakeoff submit`: what it says, and the exit code that it ends with."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suite.catalogue import find_all
from suite.cluster import submit as jobs_api
from suite.cluster.address import check_url, url_of
from suite.cluster.capacity import why_never
from suite.cluster.submit import SUCCEEDED, HandedOver
from suite.errors import DONE, INTERRUPTED, UNAVAILABLE
from suite.events import Unavailable
from suite.journal.status_message import is_status_line
from suite.parcel import Parcel, packed
from suite.schema import Plan
from suite.submission import Submission, submission_of


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """How a sweep is to be submitted: as `bakeoff run` would be called there, and how we go on.

    Attributes:
        options: Of `bakeoff run`, as typed there: ``("--fail-fast",)``.
        follow: Stay, and show the driver's log until its end.
        again: Submit anew what has succeeded.
        dry_run: Show what would be sent, and send nothing.
    """

    scale: str
    seeds: int | None
    out: Path
    tracking_uri: str | None
    options: tuple[str, ...] = ()
    follow: bool = False
    again: bool = False
    dry_run: bool = False


def submit(names: Sequence[str], address: str, wishes: Wishes) -> int:
    """Plan here, hand the sweep over, and say how to go on; returns the exit code."""
    url = url_of(address) if wishes.dry_run else check_url(address)
    plans = _planned(names, wishes)
    with tempfile.TemporaryDirectory(prefix="bakeoff") as folder:
        parcel = packed(plans, Path(folder))
        submission = replace(
            submission_of(plans, parcel, wishes.seeds, wishes.out, wishes.tracking_uri),
            options=wishes.options,
        )
        if wishes.dry_run:
            return _shown(submission, parcel)
        _refuse_what_never_runs(plans, url)
        handed = jobs_api.hand_over(url, submission, parcel, once_more=wishes.again)
    _tell(handed, url, len(submission.trial_ids))
    return _follow(url, handed.job.submission_id) if wishes.follow else DONE


def _planned(names: Sequence[str], wishes: Wishes) -> list[Plan]:
    """Heavy, so it comes after the address was found good."""
    from suite.planning.plan import plan

    return [plan(entry, scale=wishes.scale, seeds=wishes.seeds) for entry in find_all(names)]


def _shown(submission: Submission, parcel: Parcel) -> int:
    print(f"submission: {submission.first_id}")
    print(f"command:    {submission.command}")
    print(f"trials:     {len(submission.trial_ids)}")
    print(f"results:    {submission.place} on the head")
    for package in parcel.packages:
        print(f"package:    {package}")
    for file, num_bytes in parcel.sizes().items():
        print(f"file:       {file} ({num_bytes} bytes)")
    print("nobody was asked whether the cluster can hold it; other files stay at home")
    return DONE


def _refuse_what_never_runs(plans: Sequence[Plan], url: str) -> None:
    nodes = jobs_api.node_shapes(url)
    if not nodes:  # an autoscaler knows more than we do: its driver asks it
        return
    asked = {(plan.resources, trial.num_workers) for plan in plans for trial in plan.trials}
    for resources, num_workers in asked:
        if reason := why_never(resources, num_workers, nodes):
            raise Unavailable(f"--address {url}: {reason}")


def _tell(handed: HandedOver, url: str, num_trials: int) -> None:
    job = handed.job
    where = f"--address {url}"
    if handed.is_new:
        print(f"submitted {job.submission_id}: {num_trials} trials, results in {job.out} there")
    elif job.status == SUCCEEDED:
        print(f"{job.submission_id} has done this sweep already; --again submits it anew")
    else:
        print(f"{job.submission_id} works on this sweep already ({job.status.lower()})")
    print(f"look:   bakeoff status {where}")
    print(f"cancel: bakeoff cancel {job.submission_id} {where}")
    print(f"follow: the same command with --follow; in {job.out} are journal.db and reports/")


def _follow(url: str, submission_id: str) -> int:
    """The driver's log until its end, without the lines for programs; the driver's exit code."""
    try:
        _print_lines(url, submission_id)
    except KeyboardInterrupt:
        print(f"no longer following; {submission_id} goes on", file=sys.stderr)
        return INTERRUPTED
    job = jobs_api.job_of(url, submission_id)
    if job.exit_code is not None:
        return job.exit_code
    print(f"{submission_id}: {job.message}", file=sys.stderr)
    return INTERRUPTED if job.status == "STOPPED" else UNAVAILABLE


def _print_lines(url: str, submission_id: str) -> None:
    rest = ""
    for piece in jobs_api.follow(url, submission_id):
        *lines, rest = (rest + piece).split("\n")
        for line in lines:
            if not is_status_line(line):
                print(line, flush=True)
    if rest and not is_status_line(rest):
        print(rest, flush=True)
