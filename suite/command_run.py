"""`bakeoff run` and `bakeoff record`: what they say, and the exit code that they end with."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from suite.catalogue import find_all
from suite.exit_codes import DONE, FAILED, INTERRUPTED, UNAVAILABLE
from suite.outcome import Outcome
from suite.planning import plan
from suite.spec import SpecError
from suite.sweep import Options, record_journal, run_plans
from suite.tracking_uri import redact


def run(names: Sequence[str], *, scale: str, seeds: int | None, options: Options) -> int:
    """Run what is missing of these ablations; returns the exit code."""
    console = Console(stderr=True)
    _check(options)
    plans = [plan(entry, scale=scale, seeds=seeds) for entry in find_all(names)]
    try:
        outcome = run_plans(plans, options, console)
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on from here", highlight=False)
        return INTERRUPTED
    return _told(outcome, options, console)


def record(file: Path, options: Options) -> int:
    """Bring another folder's journal into this one and its store; returns the exit code."""
    if not os.path.isfile(file):
        raise SpecError(f"{file}: no such file; give the journal.db of an output folder.")
    console = Console(stderr=True)
    return _told(record_journal(file, options), options, console)


def _check(options: Options) -> None:
    """Refuse addresses that cannot be meant before anything is made."""
    _ = options.store
    if options.address is not None:
        from suite.cluster.address import check_address

        if options.executor == "inline":
            raise SpecError("--address goes with --executor ray; inline runs in this process.")
        check_address(options.address)


def _told(outcome: Outcome, options: Options, console: Console) -> int:
    """Print how it ended: counts to the log, pages and the dashboard's command to the output."""
    console.print(f"{outcome.num_run} trials run; {outcome.in_words()}", highlight=False)
    for sentence in filter(None, (outcome.note, outcome.trouble)):
        console.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)
    for page in outcome.reports:
        print(f"report:    {page}")
    if outcome.reports and not outcome.note:
        print(f"dashboard: {_dashboard_command(options)}")
    if outcome.trouble:
        return UNAVAILABLE
    return FAILED if outcome.num_failed or outcome.num_missing else DONE


def _own_command() -> str:
    """How this program was called, where its name alone would not be found."""
    return "bakeoff" if shutil.which("bakeoff") else os.path.relpath(sys.argv[0])


def _dashboard_command(options: Options) -> str:
    uri = f" --tracking-uri {redact(options.tracking_uri)}" if options.tracking_uri else ""
    out = "" if options.out == Path("out") else f" --out {options.out}"
    return f"{_own_command()} ui{out}{uri}"
