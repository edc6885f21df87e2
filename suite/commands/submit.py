"""`bakeoff submit`: plan here, submit the sweep to a cluster, and optionally follow it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bakeoff.suite.cluster import jobs
from bakeoff.suite.cluster.address import check_url, url_of
from bakeoff.suite.cluster.capacity import infeasible_reason
from bakeoff.suite.cluster.code_bundle import CodeBundle, bundle_code
from bakeoff.suite.cluster.job_spec import JobSpec, folder_on_head, public_uri, split_id
from bakeoff.suite.cluster.jobs import SUCCEEDED, Job
from bakeoff.suite.errors import DONE, INTERRUPTED, UNAVAILABLE
from bakeoff.suite.events import Unavailable
from bakeoff.suite.journal.status_message import SweepStatus, is_status_line, last_status
from bakeoff.suite.schema import FAILURES, Plan
from bakeoff.suite.sweep.pending import distinct_work
from bakeoff.suite.text import number_of


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """Options of a submission: those of `bakeoff run` there, and those of this command.

    Attributes:
        scale: The name of the scale.
        seeds: Number of seeds, instead of the scale's.
        out: The output folder on the head.
        tracking_uri: The MLflow store; by default an SQLite file in the output folder.
        settings: The values of `--set`, as typed: ``("steps=200",)``.
        options: Further options of `bakeoff run`, as typed there: ``("--fail-fast",)``.
        included: Further files and folders that travel with the sweep.
        follow: Show the driver's log until its end.
        again: Submit the sweep again even if it has succeeded.
        dry_run: Show what would be sent, and send nothing.
    """

    scale: str
    seeds: int | None
    out: Path
    tracking_uri: str | None
    settings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    follow: bool = False
    again: bool = False
    dry_run: bool = False


def submit(names: Sequence[str], address: str, options: SubmitOptions) -> int:
    """Plan here, submit, and print the commands that follow; return the exit code."""
    folder_on_head(options.out)  # raises for an invalid folder
    url = url_of(address) if options.dry_run else check_url(address)
    from bakeoff.suite.planning.plan import (
        plans_of,  # slow, so it comes after the check of the address
    )

    plans = plans_of(names, scale=options.scale, seeds=options.seeds, options=options.settings)
    with tempfile.TemporaryDirectory(prefix="bakeoff") as folder:
        bundle = bundle_code(plans, Path(folder), options.included)
        spec = _job_spec(plans, bundle, options)
        if options.dry_run:
            return _show(spec, bundle)
        _refuse_infeasible(plans, url)
        job, is_new = jobs.submit_job(url, spec, bundle, again=options.again)
    _report(job, url, _to_run(url, job, len(spec.trial_ids)) if is_new else "")
    return _follow(url, job.submission_id) if options.follow else DONE


def _job_spec(plans: Sequence[Plan], bundle: CodeBundle, options: SubmitOptions) -> JobSpec:
    uri = options.tracking_uri
    return JobSpec(
        names=bundle.names,
        scale=options.scale,
        seeds=options.seeds,
        out=folder_on_head(options.out),
        tracking_uri=None if uri is None else public_uri(uri),
        trial_ids=tuple(sorted({t.trial_id for plan in plans for t in plan.trials})),
        code=bundle.digest(),
        options=(*(f"--set={setting}" for setting in options.settings), *options.options),
    )


def _show(spec: JobSpec, bundle: CodeBundle) -> int:
    print(f"submission: {spec.first_id}")
    print(f"command:    {spec.command}")
    print(f"trials:     {len(spec.trial_ids)}")
    print(f"results:    {spec.place} on the head")
    print(f"package:    {bundle.package}")
    for file, num_bytes in bundle.sizes().items():
        print(f"file:       {file} ({number_of(num_bytes, 'byte')})")
    print("whether the cluster can run the trials was not checked; no other files are sent")
    return DONE


def _refuse_infeasible(plans: Sequence[Plan], url: str) -> None:
    nodes = jobs.node_shapes(url)
    if not nodes:  # an autoscaler may start others: the driver asks it
        return
    asked = {(resources, trial.num_workers) for trial, resources in distinct_work(plans)}
    for resources, num_workers in asked:
        if reason := infeasible_reason(resources, num_workers, nodes):
            raise Unavailable(f"--address {url}: {reason}")


def _to_run(url: str, job: Job, num_trials: int) -> str:
    """Return how many trials will run, as far as earlier jobs into the folder show."""
    others = [
        each
        for each in jobs.list_jobs(url)
        if each.out == job.out and each.submission_id != job.submission_id
    ]
    first_id = split_id(job.submission_id)[0]
    attempts = [each for each in others if split_id(each.submission_id)[0] == first_id]
    found = (last_status(jobs.job_log(url, each.submission_id)) for each in attempts)
    status = next(filter(None, found), SweepStatus())  # newest first
    to_run = ("missing", "running", *FAILURES)
    num_done = sum(number for state, number in status.counts.items() if state not in to_run)
    if num_done:
        return f"{max(0, num_trials - num_done)} trials to run, {num_done} already done"
    if others:  # jobs of another edition, perhaps with some of the same trials
        return (
            f"at most {number_of(num_trials, 'trial')} to run, fewer if {job.out} already contains "
            "some"
        )
    return number_of(num_trials, "trial")


def _report(job: Job, url: str, to_run: str) -> None:
    """Print the job and the next commands; `to_run` is empty if the sweep was submitted before."""
    where = f"--address {url}"
    if to_run:
        print(f"submitted {job.submission_id}: {to_run}, results in {job.out} there")
    elif job.status == SUCCEEDED:
        print(f"{job.submission_id} has already completed this sweep; --again submits it again")
    else:
        print(f"{job.submission_id} is already running this sweep ({job.status.lower()})")
    print(f"look:   bakeoff status {where}")
    print(f"cancel: bakeoff cancel {job.submission_id} {where}")
    print(f"fetch:  bakeoff fetch {job.submission_id} {where}, once it has ended or was cancelled")
    print(f"follow: the same command with --follow; in {job.out} are journal.db and reports/")


def _follow(url: str, submission_id: str) -> int:
    """Print the driver's log until its end, and return the driver's exit code."""
    try:
        _print_lines(url, submission_id)
    except KeyboardInterrupt:
        print(f"no longer following; {submission_id} continues", file=sys.stderr)
        return INTERRUPTED
    job = jobs.get_job(url, submission_id)
    if job.exit_code is not None:
        return job.exit_code
    print(f"{submission_id}: {job.message}", file=sys.stderr)
    return INTERRUPTED if job.status == "STOPPED" else UNAVAILABLE


def _print_lines(url: str, submission_id: str) -> None:
    rest = ""
    for piece in jobs.follow(url, submission_id):
        *lines, rest = (rest + piece).split("\n")
        for line in lines:
            if not is_status_line(line):
                print(line, flush=True)
    if rest and not is_status_line(rest):
        print(rest, flush=True)
