"""`bakeoff run` and `bakeoff record`: run or record, print the outcome, return the exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bakeoff.suite.commands.progress import display_for, has_status_lines
from bakeoff.suite.commands.status import HOW_TO_LOOK, status_of_plans
from bakeoff.suite.errors import DONE, FAILED, INTERRUPTED, UNAVAILABLE
from bakeoff.suite.events import Unavailable
from bakeoff.suite.journal.status_message import SweepStatus, line_of
from bakeoff.suite.planning.loader import ALL
from bakeoff.suite.planning.plan import plans_of
from bakeoff.suite.reporting.literature import refuse_broken_literature
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.driver import Options, record_journal, refuse_what_cannot_run, run_plans
from bakeoff.suite.sweep.finish import SweepOutcome
from bakeoff.suite.sweep.folder_lock import is_held
from bakeoff.suite.sweep.interruption import signals_interrupt
from bakeoff.suite.sweep.pending import distinct_work
from bakeoff.suite.terminal import print_line
from bakeoff.suite.text import command, in_words, number_of
from bakeoff.suite.tracking.location import sqlite_path

CROSSOVER_FIGURES = "figures/*-ratio-by-length.svg"  # exist if times were measured along lengths


def run(
    names: Sequence[str],
    *,
    scale: str,
    seeds: int | None,
    options: Options,
    settings: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Run the missing trials of these ablations and return the exit code.

    With `as_json`, the standard output is one object: counts of trials, verdicts, paths.
    """
    console = Console(stderr=True)
    _check(options)
    plans = plans_of(names, scale=scale, seeds=seeds, options=settings)
    if list(names) == [ALL]:
        plans = _possible(plans, options, console)
    if options.is_patient and is_held(options.out):
        _report_waiting(plans, options, console, has_lines=has_status_lines() and not as_json)
    try:
        with signals_interrupt(partial(_say_that_it_stops, console), console.show_cursor):
            outcome = run_plans(plans, options, console, display_for)
    except KeyboardInterrupt as error:
        said = str(error) or "the same command continues from here"
        _say(console, f"interrupted; {said}")
        return INTERRUPTED
    if has_status_lines() and not as_json:
        print(line_of(status_of_plans(plans, options.out)), flush=True)
    return _report_outcome(outcome, options, console, as_json=as_json)


def _say_that_it_stops(console: Console) -> None:
    if console.is_terminal:
        os.write(2, b"\nstops and saves its results; once more to stop at once\n")


def _possible(plans: Sequence[Plan], options: Options, console: Console) -> list[Plan]:
    """Return the plans that can run here, and print for each other one why it cannot.

    Raises:
        Unavailable: If none of them can run.
    """
    reasons: dict[str, Unavailable] = {}
    for plan in plans:
        try:
            refuse_what_cannot_run([plan], options)
        except Unavailable as error:
            reasons[plan.about.ablation] = error
    if len(reasons) == len(plans):
        raise next(iter(reasons.values()))
    for name, reason in reasons.items():
        _say(console, f"leaves out {name}: {reason}")
    return [plan for plan in plans if plan.about.ablation not in reasons]


def _say(console: Console, sentence: str, style: str = "") -> None:
    """Print a sentence that contains the user's names; off a terminal it stays on one line."""
    console.print(
        sentence, style=style, markup=False, highlight=False, soft_wrap=not console.is_terminal
    )


def _report_waiting(
    plans: Sequence[Plan], options: Options, console: Console, *, has_lines: bool
) -> None:
    reason = f"another run uses {options.out}"
    _say(console, f"{reason}; waiting for it to end")
    if has_lines:
        num_trials = len(distinct_work(plans))
        waiting = {"num_trials": num_trials, "reason": reason}
        print(line_of(SweepStatus(counts={"missing": num_trials}, waiting=waiting)), flush=True)


def record(file: Path, options: Options) -> int:
    """Merge another folder's journal into this one and its store; return the exit code."""
    if not os.path.isfile(file):
        raise SpecError(
            f"{file}: no such file; give the path of the journal.db of an output folder."
        )
    console = Console(stderr=True)
    return _report_outcome(record_journal(file, options), options, console)


def _check(options: Options) -> None:
    """Raise for contradictory options, and for files that a report could not read."""
    _ = options.store
    refuse_broken_literature()
    if options.address is not None and options.executor == "inline":
        raise SpecError("--address requires --executor ray; inline runs in this process.")


def _report_outcome(
    outcome: SweepOutcome, options: Options, console: Console, *, as_json: bool = False
) -> int:
    """Print how the run ended: counts to the log, results and paths to the output."""
    console.print(
        f"{number_of(outcome.num_run, 'trial')} run; {outcome.in_words()}", highlight=False
    )
    for sentence in _notes(outcome, options):
        _say(console, sentence, style="yellow")
    if as_json:
        print(json.dumps(_as_json(outcome), indent=1))
    else:
        _print_outcome(outcome, options)
    if outcome.error:
        return UNAVAILABLE
    has_succeeded = not (outcome.num_failed or outcome.num_failed_beside)
    return DONE if has_succeeded and not (outcome.num_missing or outcome.num_left) else FAILED


def _print_outcome(outcome: SweepOutcome, options: Options) -> None:
    for line in outcome.summary:
        print_line(line)
    for page in outcome.reports:
        print(f"report:    {page}")
        for figure in sorted(page.parent.glob(CROSSOVER_FIGURES))[:1]:
            print(f"figure:    {figure}")
    for where in _comparisons(outcome, options):
        print(f"compare:   {where}")


def _as_json(outcome: SweepOutcome) -> dict[str, Any]:
    """Return the outcome as values of JSON; `bakeoff report --json` has the same keys."""
    verdicts: list[dict[str, Any]] = []
    if any(map(len, outcome.sweeps.values())):
        from bakeoff.suite.reporting.tidy import as_records, verdicts_of

        verdicts = as_records(verdicts_of(outcome.sweeps))
    return {
        "counts": outcome.counts,
        "verdicts": verdicts,
        "reports": [str(page) for page in outcome.reports],
        "note": outcome.note,
        "error": outcome.error,
    }


def _notes(outcome: SweepOutcome, options: Options) -> Iterator[str]:
    """Yield sentences about what the counts do not show."""
    if outcome.num_left and options.deadline is not None:
        trials = "trial is" if outcome.num_left == 1 else "trials are"
        limit = in_words(options.deadline.seconds)
        yield (
            f"the time limit of {limit} was reached: {outcome.num_left} {trials} left, and "
            f"{outcome.continues}"
        )
    if outcome.num_failed or outcome.num_failed_beside:
        yield HOW_TO_LOOK.format(logs=command("logs", "TRIAL", out=options.out))
    if number := outcome.num_failed_beside:  # each trial counts once, by its finding
        trials = "trial" if number == 1 else "trials"
        yield f"{number} {trials} failed here; their results from another environment are kept"
    yield from filter(None, (outcome.note, outcome.error))


def _comparisons(outcome: SweepOutcome, options: Options) -> list[str]:
    """Return where to compare the trials of each sweep: an address, or a command."""
    if outcome.comparisons or sqlite_path(options.store.uri) is None:
        return list(outcome.comparisons)
    if outcome.note or outcome.error:  # not recorded
        return []
    names = [page.parent.name for page in outcome.reports]
    where: dict[str, Any] = {"out": options.out, "tracking_uri": options.tracking_uri or ""}
    return [command("ui", name, **where) for name in names]
