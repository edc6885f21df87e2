"""The commands: parse and call, nothing else. Heavy things are imported inside a command only."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from suite.errors import FAILED, be_quiet, exit_code_of, message

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train, time and compare sequence architectures; submit sweeps, view dashboards, "
    "regenerate reports.",
)  # fmt: skip


class ScaleOption(StrEnum):
    """How large."""

    QUICK = "quick"
    STANDARD = "standard"
    PAPER = "paper"


class ExecutorOption(StrEnum):
    """Where trials run."""

    RAY = "ray"
    INLINE = "inline"


class DataAction(StrEnum):
    """What to do with the data sets."""

    LIST = "list"
    VERIFY = "verify"
    FETCH = "fetch"


def _folder(out: Path) -> Path:
    """As it is; refused where no file system takes the name, so that nobody stumbles over it."""
    if len(bytes(out)) >= 4_096 or any(len(os.fsencode(part)) > 255 for part in out.parts):
        raise typer.BadParameter("no file system takes so long a name; give a shorter one.")
    return out


Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="A shipped ablation, or the path of your own file."),
]
Scale = Annotated[ScaleOption, typer.Option(help="quick: minutes on two cores.")]
Seeds = Annotated[int | None, typer.Option(min=1, max=10_000, help="Instead of the scale's own.")]
Out = Annotated[Path, typer.Option(metavar="DIR", callback=_folder, help="The output folder.")]
Uri = Annotated[
    str | None,
    typer.Option(metavar="URI", help="The MLflow store; by default a file in the output folder."),
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
FailFast = Annotated[bool, typer.Option(help="Stop at the first trial that fails.")]
Executor = Annotated[
    ExecutorOption, typer.Option(help="inline: one at a time; needs neither Ray nor MLflow.")
]
Head = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Join a running Ray cluster; `auto`: the one that this machine is part of.",
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Where another run works in the folder, wait for it.")
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="Stop after so many seconds (or 30m, 2h), one seed after the other until then, and "
        "report what there is; the same command goes on.",
    ),
]
TrialLimit = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="End a trial that runs longer (90, 30m, 2h), as a time-out; by default 1h at quick "
        "scale, 24h at standard, 168h at paper.",
    ),
]
CheckpointEvery = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="How often a trial leaves a checkpoint (by default 5m); a shorter one leaves none.",
    ),
]
Url = Annotated[
    str, typer.Option(metavar="URL", help="The cluster's dashboard, as http://127.0.0.1:8265.")
]
OUT = Path("out")


@app.command("list")
def list_(
    mixers: Annotated[bool, typer.Option("--mixers", help="The mixers instead.")] = False,
    tasks: Annotated[bool, typer.Option("--tasks", help="The tasks instead.")] = False,
    json: Json = False,
) -> None:
    """Every ablation: its question, variants, trials and estimated time at each scale."""
    from suite.commands import list as list_command

    kind = "mixers" if mixers else "tasks" if tasks else "ablations"
    list_command.show(kind, as_json=json)


@app.command()
def plan(
    names: Names,
    scale: Scale = ScaleOption.QUICK,
    seeds: Seeds = None,
    out: Out = OUT,
    json: Json = False,
) -> None:
    """What would run, what is done, what cannot run and why; touches nothing."""
    from suite.commands import plan as plan_command

    plan_command.show(names, scale=scale.value, seeds=seeds, out=out, as_json=json)


@app.command()
def run(
    names: Names,
    scale: Scale = ScaleOption.QUICK,
    seeds: Seeds = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    executor: Executor = ExecutorOption.RAY,
    address: Head = None,
    fail_fast: FailFast = False,
    wait: Wait = False,
    time_limit: TimeLimit = None,
    trial_limit: TrialLimit = None,
    checkpoint_every: CheckpointEvery = None,
) -> None:
    """Run what is missing, here or with --address on a cluster; record it; make the reports."""
    from suite.text import seconds_in
    from suite.timeouts import Deadline

    # First: the seconds that torch takes to import are the user's too.
    deadline = Deadline(seconds_in(time_limit, "--time-limit")) if time_limit else None
    if address is not None and executor is ExecutorOption.RAY:
        from suite.cluster.address import check_address

        check_address(address)  # first: what follows takes seconds to import

    from suite.commands import run as run_command
    from suite.sweep.driver import Options

    options = Options(
        out=out, tracking_uri=tracking_uri, executor=executor.value, address=address,
        fail_fast=fail_fast, is_patient=wait, deadline=deadline,
        trial_seconds=seconds_in(trial_limit, "--trial-limit") if trial_limit else None,
        checkpoint_seconds=seconds_in(checkpoint_every or "5m", "--checkpoint-every"),
    )  # fmt: skip
    raise typer.Exit(run_command.run(names, scale=scale.value, seeds=seeds, options=options))


@app.command()
def submit(
    names: Names,
    address: Url,
    scale: Scale = ScaleOption.QUICK,
    seeds: Seeds = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="On the head; a relative one is in its user's home."),
    ] = OUT,
    tracking_uri: Uri = None,
    fail_fast: FailFast = False,
    trial_limit: TrialLimit = None,
    checkpoint_every: CheckpointEvery = None,
    follow: Annotated[bool, typer.Option("--follow", help="Stay, and show how it goes.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Even if it has succeeded.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent.")] = False,
) -> None:
    """Hand a sweep to a cluster and let go of it; the same sweep twice is one."""
    from suite.commands.submit import SubmitOptions
    from suite.commands.submit import submit as submit_sweep
    from suite.text import seconds_in

    limits = {"--trial-limit": trial_limit, "--checkpoint-every": checkpoint_every}
    given = {name: f"{seconds_in(said, name)}s" for name, said in limits.items() if said}
    options = SubmitOptions(
        scale=scale.value, seeds=seeds, out=out, tracking_uri=tracking_uri,
        options=(*["--fail-fast"] * fail_fast, *chain(*given.items())),
        follow=follow, again=again, dry_run=dry_run,
    )  # fmt: skip
    raise typer.Exit(submit_sweep(names, address, options))


@app.command()
def cancel(
    address: Url,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME|ID...]", help="By default the only one that is alive."),
    ] = None,
) -> None:
    """Stop a submitted sweep, its books closed; submitting it again goes on."""
    from suite.commands.cancel import cancel as cancel_jobs

    raise typer.Exit(cancel_jobs(names or [], address))


@app.command()
def status(
    out: Out = OUT,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="What was submitted to the cluster of that dashboard."),
    ] = None,
    json: Json = False,
) -> None:
    """Counts by state, what runs and where, what waits or failed and why, and the time left."""
    if address is not None:
        from suite.commands.cluster_status import show_cluster_status

        show_cluster_status(address, as_json=json)
        return
    from suite.commands.status import show_status

    show_status(out, as_json=json)


@app.command()
def report(
    names: Names,
    scale: Annotated[
        ScaleOption | None, typer.Option(help="By default the largest that has results.")
    ] = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="What moved from A to B: each an output folder or store, a commit, or a device.",
        ),
    ] = None,
) -> None:
    """Regenerate the comparison report from what MLflow holds, or show what moved."""
    from suite.commands import report as report_command

    wishes = report_command.ReportOptions(
        out=out, tracking_uri=tracking_uri, scale=scale.value if scale else None, compare=compare
    )
    raise typer.Exit(report_command.report(names, wishes))


@app.command()
def record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A journal.db made elsewhere.")],
    out: Out = OUT,
    tracking_uri: Uri = None,
) -> None:
    """Bring results made elsewhere (inline, without MLflow) into the store."""
    from suite.commands import run as run_command
    from suite.sweep.driver import Options

    raise typer.Exit(run_command.record(file, Options(out=out, tracking_uri=tracking_uri)))


@app.command()
def ui(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Where to open; by default at the newest sweep."),
    ] = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    port: Annotated[int, typer.Option(min=1, max=65_535)] = 5000,
) -> None:
    """The MLflow dashboard over this output folder, on this machine only."""
    from suite.planning.loader import name_of
    from suite.tracking.dashboard import serve
    from suite.tracking.location import store_of

    uri = store_of(out, tracking_uri).uri
    serve(out, uri, port=port, ablation=name_of(name) if name else "")


@app.command()
def verify(
    out: Out = OUT,
    tracking_uri: Uri = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Bring MLflow and the reports to what the journal says."),
    ] = False,
) -> None:
    """Journal, MLflow and report agree: nothing lost, nothing twice, nothing different."""
    if repair:
        from suite.sweep.repair import repaired as compared
    else:
        from suite.sweep.verify import differences as compared

    found = compared(out, tracking_uri)
    for line in found.mended:
        typer.echo(f"repaired: {line}")
    for line in found.differences:
        typer.echo(line)
    typer.echo(found.summary)
    raise typer.Exit(FAILED if found.differences else 0)


@app.command()
def data(
    action: Annotated[DataAction, typer.Argument(help="What to do.")] = DataAction.LIST,
    name: Annotated[str | None, typer.Argument(help="The public set to fetch.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where to fetch to; by default what $BAKEOFF_DATA names, else ~/.cache/bakeoff. "
            "Tasks look there.",
        ),
    ] = None,
) -> None:
    """The data sets, their licences and digests; bring a public one."""
    from suite.commands import data as data_command

    if action is DataAction.FETCH:
        raise typer.Exit(data_command.fetch_by_name(name, to))
    raise typer.Exit(data_command.verify() if action is DataAction.VERIFY else data_command.show())


@app.command()
def doctor(out: Out = OUT) -> None:
    """What this machine can run, what is missing and how to get it."""
    from suite.commands import doctor as doctor_command

    raise typer.Exit(doctor_command.show(out))


def main() -> None:
    """The console script. A user's mistake is one sentence; a fault of ours a traceback."""
    be_quiet()
    try:
        app()
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        _end(error, code)


def _end(error: Exception, code: int) -> NoReturn:
    typer.echo(f"bakeoff: {message(str(error))}", err=True)
    if type(error).__name__ == "LeftThread":  # else we would wait for its end
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":  # in a job: the console script may not be on the PATH
    main()
