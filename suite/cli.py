"""The commands of the console script. Expensive modules are only imported inside a command."""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from bakeoff.suite.errors import FAILED, be_quiet, ensure_home, exit_code_of, message, said_of
from bakeoff.suite.terminal import prepare_output, print_line

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train, time and compare sequence architectures; submit sweeps, view dashboards, "
    "regenerate reports.",
)


def _folder(out: Path) -> Path:
    """Raise for a name that no file system accepts, before anything tries to use it."""
    if len(bytes(out)) >= 4_096 or any(len(os.fsencode(part)) > 255 for part in out.parts):
        raise typer.BadParameter("the name is too long for any file system; give a shorter one.")
    return out


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME",
        help="A shipped ablation, `all` of them, or the path of your own file; FILE.py::NAME is "
        "one of several ablations in a file.",
    ),
]
ScaleName = Literal["smoke", "quick", "standard", "paper"]
Scale = Annotated[
    ScaleName,
    typer.Option(
        help=("smoke only checks that the ablation runs; quick takes minutes on two cores.")
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(min=1, max=10_000, help=("Number of seeds, instead of that of the scale.")),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE[,VALUE...]",
        help=(
            "Change a field of the scale or of the model as if it were set in the file: one value "
            "is set for the baseline, several values form an axis. May be given several times."
        ),
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", callback=_folder, help="The output folder.")]
Uri = Annotated[
    str | None,
    typer.Option(metavar="URI", help="The MLflow store; by default a file in the output folder."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Card = Annotated[
    str | None,
    typer.Option(
        metavar="GPU",
        help=(
            "Estimate times for this kind of GPU, such as a100 or l4; by default for the GPU of "
            "this machine, otherwise for an H100."
        ),
    ),
]
Price = Annotated[
    str | None,
    typer.Option(
        metavar="PRICE",
        help="Price per GPU-hour, or per core-hour if no trial uses a GPU: 2.50 or '2.50 USD'.",
    ),
]
FailFast = Annotated[bool, typer.Option(help="Stop at the first trial that fails.")]
Executor = Annotated[
    Literal["ray", "inline"],
    typer.Option(help="inline: one at a time; needs neither Ray nor MLflow."),
]
Head = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Join a running Ray cluster; `auto`: the cluster of this machine.",
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until no other run uses the output folder.")
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help=(
            "Stop after this many seconds (or 30m, 2h) and report the results so far; trials run "
            "seed by seed. The same command continues the run."
        ),
    ),
]
TrialLimit = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="Time limit of a trial (90, 30m, 2h), after which it counts as a timeout; by default "
        "1h at quick scale, 24h at standard, 168h at paper.",
    ),
]
CheckpointEvery = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help=(
            "Interval between the checkpoints of a trial (by default 5m); a shorter trial saves "
            "none."
        ),
    ),
]
Url = Annotated[
    str, typer.Option(metavar="URL", help="The cluster's dashboard, as http://127.0.0.1:8265.")
]
OUT = Path("out")
_NOT_TOGETHER = (  # options of `report`
    ("--editions", "--compare"),
    ("--editions", "--records"),
    ("--editions", "--json"),
    ("--price", "--compare"),
    ("--records", "--compare"),
)


@app.command("list")
def list_(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show only this one, in full."),
    ] = None,
    mixers: Annotated[bool, typer.Option("--mixers", help="List mixers instead.")] = False,
    architectures: Annotated[
        bool, typer.Option("--architectures", help="List architectures instead.")
    ] = False,
    tasks: Annotated[bool, typer.Option("--tasks", help="List tasks instead.")] = False,
    out: Out = OUT,
    json: Json = False,
) -> None:
    """List the ablations by theme with their verdicts.

    With a name, show that one in full: claim, source, variants, trials and times.
    """
    from bakeoff.suite.commands import list as list_command

    asked = {"mixers": mixers, "architectures": architectures, "tasks": tasks}
    kind = next((k for k in asked if asked[k]), "ablations")
    list_command.show(kind, name=name, out=out, as_json=json)


@app.command()
def new(
    kind: Annotated[
        Literal["ablation", "mixer", "architecture", "task"],
        typer.Argument(help="The kind of file."),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The file is NAME.py.")],
    copied_from: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Copy this shipped ablation."),
    ] = None,
) -> None:
    """Write NAME.py, a file to start from that runs as it is."""
    from bakeoff.suite.commands.new import new as write_new

    raise typer.Exit(write_new(kind, name, copied_from))


@app.command()
def plan(
    names: Names,
    scale: Scale = "quick",
    seeds: Seeds = None,
    settings: Settings = None,
    out: Out = OUT,
    json: Json = False,
    card: Card = None,
    price: Price = None,
) -> None:
    """Show what would run and for how long.

    Show also what is done, and what cannot run and why; change nothing.
    """
    from bakeoff.suite.commands import plan as plan_command

    asked = plan_command.Asked(names, scale, seeds, settings or ())
    plan_command.show(asked, out, as_json=json, card=card, price=price)


@app.command()
def run(
    names: Names,
    scale: Scale = "quick",
    seeds: Seeds = None,
    settings: Settings = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    executor: Executor = "ray",
    address: Head = None,
    fail_fast: FailFast = False,
    wait: Wait = False,
    time_limit: TimeLimit = None,
    trial_limit: TrialLimit = None,
    checkpoint_every: CheckpointEvery = None,
    json: Json = False,
) -> None:
    """Run what is missing and write the reports.

    Trials run on this machine, or with --address on a Ray cluster.
    """
    from bakeoff.suite.text import seconds_in
    from bakeoff.suite.timeouts import Deadline

    # First, because the time limit includes the seconds in which torch is imported.
    deadline = Deadline(seconds_in(time_limit, "--time-limit")) if time_limit else None
    if address is not None and executor == "ray":
        from bakeoff.suite.cluster.address import check_address

        check_address(address)  # first, because the following imports take seconds

    from bakeoff.suite.commands import run as run_command
    from bakeoff.suite.sweep.driver import Options

    options = Options(
        out=out,
        tracking_uri=tracking_uri,
        executor=executor,
        address=address,
        fail_fast=fail_fast,
        is_patient=wait,
        deadline=deadline,
        trial_seconds=seconds_in(trial_limit, "--trial-limit") if trial_limit else None,
        checkpoint_seconds=seconds_in(checkpoint_every or "5m", "--checkpoint-every"),
    )
    raise typer.Exit(
        run_command.run(
            names,
            scale=scale,
            seeds=seeds,
            options=options,
            settings=settings or (),
            as_json=json,
        )
    )


@app.command()
def submit(
    names: Names,
    address: Url,
    scale: Scale = "quick",
    seeds: Seeds = None,
    settings: Settings = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            callback=_folder,
            help="Folder on the head; a relative path starts at the home folder of its user.",
        ),
    ] = OUT,
    tracking_uri: Uri = None,
    fail_fast: FailFast = False,
    trial_limit: TrialLimit = None,
    checkpoint_every: CheckpointEvery = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Send this file or folder too, 100 MiB in all; a path relative to the folder of "
            "the ablation's file. May be given several times.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show the log until the sweep ends.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Submit it even if it has succeeded.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent.")] = False,
) -> None:
    """Submit a sweep to a cluster.

    It runs there without this machine, as one job. `bakeoff fetch` brings the reports back.
    """
    from bakeoff.suite.commands.submit import SubmitOptions
    from bakeoff.suite.commands.submit import submit as submit_sweep
    from bakeoff.suite.text import seconds_in

    limits = {"--trial-limit": trial_limit, "--checkpoint-every": checkpoint_every}
    given = {name: f"{seconds_in(said, name)}s" for name, said in limits.items() if said}
    options = SubmitOptions(
        scale=scale,
        seeds=seeds,
        out=out,
        tracking_uri=tracking_uri,
        options=(*["--fail-fast"] * fail_fast, *chain(*given.items())),
        settings=tuple(settings or ()),
        included=tuple(include or ()),
        follow=follow,
        again=again,
        dry_run=dry_run,
    )
    raise typer.Exit(submit_sweep(names, address, options))


@app.command()
def cancel(
    address: Url,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|ID", help="By default the only one that runs."),
    ] = None,
) -> None:
    """Stop a submitted sweep after it has saved its results.

    Submit it again to continue.
    """
    from bakeoff.suite.commands.cancel import cancel as cancel_jobs

    raise typer.Exit(cancel_jobs(names or [], address))


@app.command()
def fetch(
    address: Url,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME|ID", help="By default the newest.")
    ] = None,
    out: Out = Path("fetched"),
) -> None:
    """Bring the reports of submitted sweeps to this machine."""
    from bakeoff.suite.commands.fetch import fetch as fetch_sweeps

    raise typer.Exit(fetch_sweeps(names or [], address, out))


@app.command()
def status(
    out: Out = OUT,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Show the sweeps submitted to the cluster of this dashboard."
        ),
    ] = None,
    json: Json = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Repeat until no sweep is running.")
    ] = False,
    price: Price = None,
) -> None:
    """Show progress, failures and the time left.

    Count trials by state; show what runs where, and what waits or failed and why.
    """
    if follow and json:
        raise typer.BadParameter("--follow cannot be combined with --json; call --json repeatedly.")
    if address is not None:
        if price:
            raise typer.BadParameter(
                "--price cannot be combined with --address, which shows no hours."
            )
        from bakeoff.suite.commands.cluster_status import follow_cluster_status, show_cluster_status

        if follow:
            raise typer.Exit(follow_cluster_status(address))
        show_cluster_status(address, as_json=json)
        return
    from bakeoff.suite.commands.status import follow_status, show_status

    if follow:
        raise typer.Exit(follow_status(out, price))
    show_status(out, as_json=json, price=price)


@app.command()
def logs(
    trial: Annotated[
        str, typer.Argument(metavar="TRIAL", help="Its id or the first digits of its id.")
    ],
    out: Out = OUT,
) -> None:
    """Print the traceback and the output of a failed trial."""
    from bakeoff.suite.commands.logs import show_logs

    show_logs(trial, out)


@app.command()
def report(
    names: Names,
    scale: Annotated[
        ScaleName | None, typer.Option(help="By default the largest that has results.")
    ] = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare A with B: each an output folder or store, the number of an edition, "
            "a commit, or a device.",
        ),
    ] = None,
    editions: Annotated[
        bool,
        typer.Option("--editions", help="Print every edition (version of the plan) with results."),
    ] = False,
    price: Price = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the numbers as benchmark records of PyTorch's dashboard, in JSON.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Regenerate reports, or compare two sets of results.

    Reports are made from what MLflow holds.
    """
    from bakeoff.suite.commands import report as report_command
    from bakeoff.suite.tracking.location import existing_store_of

    given = {
        "--editions": editions or None,
        "--compare": compare,
        "--price": price,
        "--records": records,
        "--json": json or None,
    }
    for one, other in _NOT_TOGETHER:
        if given[one] is not None and given[other] is not None:
            raise typer.BadParameter(f"{one} and {other} cannot be given together.")
    open_store = partial(existing_store_of, out, tracking_uri)
    folder = out / "reports"
    if editions:
        raise typer.Exit(report_command.print_editions(names, open_store, scale))
    if compare is not None:
        raise typer.Exit(
            report_command.compare(names, compare, open_store, folder, scale=scale, as_json=json)
        )
    raise typer.Exit(
        report_command.report(
            names,
            open_store(),
            folder,
            scale=scale,
            price=price,
            records=records,
            as_json=json,
        )
    )


@app.command()
def record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A journal.db made elsewhere.")],
    out: Out = OUT,
    tracking_uri: Uri = None,
) -> None:
    """Record results made elsewhere in the store.

    They are those of another folder's journal, for example of runs without MLflow.
    """
    from bakeoff.suite.commands import run as run_command
    from bakeoff.suite.sweep.driver import Options

    raise typer.Exit(run_command.record(file, Options(out=out, tracking_uri=tracking_uri)))


@app.command()
def ui(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Ablation to open; by default the newest sweep."),
    ] = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of the server.")] = 5000,
) -> None:
    """Serve the MLflow dashboard of an output folder.

    It is reachable from this machine only.
    """
    from bakeoff.suite.commands.ui import show

    show(name, out, tracking_uri, port=port)


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="By default all ablations.")
    ] = None,
    out: Out = OUT,
    tracking_uri: Uri = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Make MLflow and the reports agree with the journal."),
    ] = False,
) -> None:
    """Check that journal, MLflow and report agree.

    Nothing may be lost, doubled or different.
    """
    from bakeoff.suite.sweep.verify import differences, repaired

    found = (repaired if repair else differences)(out, tracking_uri, names or ())
    for line in found.mended:
        print(f"repaired: {line}")
    for line in found.differences:
        print(line)
    print(found.summary)
    raise typer.Exit(FAILED if found.differences else 0)


@app.command()
def data(
    action: Annotated[
        Literal["list", "verify", "fetch"], typer.Argument(help="Action to take.")
    ] = "list",
    name: Annotated[str | None, typer.Argument(help="The public set to fetch.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to fetch to; by default $BAKEOFF_DATA, else ~/.cache/bakeoff, where "
            "tasks look.",
        ),
    ] = None,
) -> None:
    """List data sets, verify them or fetch one.

    The list has licences and digests; public sets can be fetched.
    """
    from bakeoff.suite.commands import data as data_command

    if action == "fetch":
        raise typer.Exit(data_command.fetch_by_name(name, to))
    raise typer.Exit(data_command.verify() if action == "verify" else data_command.show())


@app.command()
def doctor(out: Out = OUT) -> None:
    """Show what this machine can run, and how to get the rest."""
    from bakeoff.suite.commands import doctor as doctor_command

    raise typer.Exit(doctor_command.show(out))


def main() -> None:
    """Run the console script; a user's mistake prints one sentence, a bug a traceback."""
    prepare_output()
    be_quiet()
    ensure_home()
    try:
        app()
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        print_line(f"bakeoff: {message(said_of(error))}", sys.stderr)
        # Otherwise the process would wait for the end of the thread.
        if type(error).__name__ == "LeftThread":
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        sys.exit(code)


if __name__ == "__main__":  # in a job: the console script may not be on the PATH
    main()
