"""`bakeoff status`: show the progress of sweeps, where they run, what waits or failed, the cost.

It only reads columns of the journal: no result and no plan is parsed, and torch is not imported, so
that it answers at once while a driver is running.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from bakeoff.suite.commands.sweep_history import History, resource_usage
from bakeoff.suite.errors import DONE, INTERRUPTED, one_line
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import Listed
from bakeoff.suite.journal.sqlite_schema import Attempt, End, journal_in
from bakeoff.suite.journal.status_message import SweepStatus
from bakeoff.suite.schema import FAILURES, Plan, Price
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.folder_lock import is_held
from bakeoff.suite.text import (
    command,
    energy_in_words,
    in_money,
    in_words,
    price_in,
    short,
    some_of,
)

_DIGITS = 6  # decimals of hours and rates, for programs
_MOST_PLACES = 8  # listed by trial; if there are more, by node
_MOST_GROUPS = 10  # groups of failures
_MOST_NAMES = 3  # names in one group
HOW_TO_LOOK = "`{logs}` prints the traceback and the output of a failed trial"
_SECONDS_BETWEEN_LOOKS = (15.0, 2.0)  # elsewhere, and on a terminal
OUT = Path("out")  # the default output folder, which the first run creates
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def show_status(out: Path, *, as_json: bool, price: str | None = None) -> None:
    """Print the status of all sweeps of the folder, with its cost at a price per hour.

    Raises:
        SpecError: If there is no such folder, unless it is the default one; or for an invalid
            price.
    """
    _refuse_missing(out)
    found = with_money(status_of(out), price_in(price))
    if as_json:
        print(json.dumps(asdict(found), indent=1))
        return
    print_status(found, Console())


def _refuse_missing(out: Path) -> None:
    if not out.is_dir() and out != OUT:
        raise SpecError(f"--out {out}: no such folder.")


def _lines(found: SweepStatus) -> list[Text]:
    if not found.counts:
        return [Text(one_line(f"nothing has been run in {found.out} yet"))]
    logs = [(HOW_TO_LOOK.format(logs=command("logs", "TRIAL")), "red")] if found.failed else []
    lines = (*progress_lines(found), *logs, *_costs(found))
    return [Text(one_line(line), style=style) for line, style in lines]


def follow_status(out: Path, price: str | None = None) -> int:
    """Show the status until no driver is running in the folder, and return the exit code.

    Raises:
        SpecError: In the same cases as `show_status`.
    """
    _refuse_missing(out)
    stated = price_in(price)

    def look() -> tuple[Sequence[Text], bool]:
        goes_on = is_held(out)  # checked first, so that the last status shown is the final one
        return _lines(with_money(status_of(out), stated)), goes_on

    return follow(look)


def follow(look: Callable[[], tuple[Sequence[Text], bool]]) -> int:
    """Show the lines of `look` until it reports the end, and return the exit code.

    A terminal is redrawn; elsewhere the lines are printed again when they have changed.
    """
    console = Console(highlight=False, soft_wrap=True)
    live = Live(console=console, auto_refresh=False)
    seen: Sequence[Text] = ()
    try:
        with live if console.is_terminal else nullcontext():
            while True:
                lines, goes_on = look()
                if console.is_terminal:
                    live.update(Group(*lines), refresh=True)
                elif lines != seen:
                    console.print(*lines, "", sep="\n")
                if not goes_on:
                    return DONE
                seen = lines
                time.sleep(_SECONDS_BETWEEN_LOOKS[console.is_terminal])
    except KeyboardInterrupt:
        return INTERRUPTED


def status_of(out: Path) -> SweepStatus:
    """Return the status of all sweeps of the folder, with or without a running driver."""
    if not os.path.isfile(journal_in(out)):
        return SweepStatus(out=str(out.resolve()))
    return _status(out, None, is_driven=is_held(out))


def with_money(status: SweepStatus, price: Price | None) -> SweepStatus:
    """Return the status with the cost of GPU-hours or, if no GPU is used, of CPU-hours."""
    if price is None:
        return status
    kind = "gpu" if status.gpu_hours_spent or status.gpu_hours_left else "cpu"
    hours = (getattr(status, f"{kind}_hours_{what}") for what in ("spent", "left"))
    spent, left = (h if h is None else round(price.amount * h, _DIGITS) for h in hours)
    return replace(status, money_spent=spent, money_left=left, currency=price.currency)


def status_of_plans(plans: Sequence[Plan], out: Path) -> SweepStatus:
    """Return the status of these sweeps when no driver is running."""
    found = _status(out, {plan.key for plan in plans}, is_driven=False)
    with Journal(journal_in(out), read_only=True) as journal:
        numbers = {plan.about.ablation: journal.edition_number(plan) for plan in plans}
    return replace(found, editions={k: number for k, number in numbers.items() if number})


def _status(out: Path, keys: Collection[tuple[str, str]] | None, *, is_driven: bool) -> SweepStatus:
    with Journal(journal_in(out), read_only=True) as journal:
        listed = [t for t in journal.trials() if keys is None or (t.ablation, t.scale) in keys]
        history, statuses = _history(journal, listed, is_driven=is_driven)
        num_reported, reason = journal.waiting() if is_driven else (0, "")
    states = {
        key: "running" if key in history.running else statuses.get(key, "missing")
        for key in history.trials
    }
    counts = _count(history.trials, states)
    # Waiting trials are part of the missing ones, some of which may have started since the count.
    num_waiting = min(num_reported, counts.get("missing", 0))
    failed = _failed(history.ends, states)
    places = {start.trial_id: start.place for start in history.starts}  # the newest is the last
    costs: dict[str, Any] = {
        name: round(x, _DIGITS) if isinstance(x, float) else x
        for name, x in resource_usage(history).items()
    }
    return SweepStatus(
        counts=counts,
        running={key: places[key] for key in history.running},
        waiting={"num_trials": num_waiting, "reason": reason} if num_waiting else None,
        failed=failed,
        labels={key: history.trials[key].label for key in (*history.running, *failed)},
        out=str(out.resolve()),
        by_ablation=_by_ablation(listed, states),
        **costs,
    )


def _history(
    journal: Journal, listed: Sequence[Listed], *, is_driven: bool
) -> tuple[History, Mapping[str, str]]:
    """Return the history and the status of each trial; a shared trial counts once."""
    trials = {trial.trial_id: trial for trial in listed}
    statuses = {key: status for key, status in journal.statuses().items() if key in trials}
    starts = [start for start in journal.starts() if start.trial_id in trials]
    ends = [end for end in journal.ends() if end.trial_id in trials]
    driver_started = journal.driver_started() if is_driven else None
    running = {} if driver_started is None else _running(starts, ends, statuses, driver_started)
    history = History(
        trials=trials,
        done=statuses.keys(),
        running=running,
        starts=starts,
        ends=ends,
        now=time.time(),
        driver_started=driver_started,
    )
    return history, statuses


def _running(
    starts: Sequence[Attempt], ends: Sequence[End], statuses: Collection[str], driver_started: float
) -> dict[str, float]:
    """Return trial_id -> start time, for trials that this driver has started and not ended.

    Attempts that an older driver left are only recognized by their time.
    """
    ended = {(end.trial_id, end.attempt) for end in ends}
    newest = {start.trial_id: start for start in starts}
    return {
        key: start.started_seconds
        for key, start in newest.items()
        if (key, start.attempt) not in ended
        and start.started_seconds >= driver_started
        and (driver_started or key not in statuses)  # old journals lack the time
    }


def _count(keys: Iterable[str], states: Mapping[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(states[key] for key in keys).items()))


def _by_ablation(
    listed: Sequence[Listed], states: Mapping[str, str]
) -> dict[str, Mapping[str, int]]:
    keys: dict[str, list[str]] = {}
    for trial in listed:
        keys.setdefault(f"{trial.ablation}, {trial.scale}", []).append(trial.trial_id)
    return {name: _count(of_sweep, states) for name, of_sweep in keys.items()}


def _failed(ends: Sequence[End], states: Mapping[str, str]) -> dict[str, str]:
    """Return trial_id -> status and reason of the newest failure."""
    reasons = {
        (end.trial_id, end.status): end.reason for end in sorted(ends, key=lambda end: end.attempt)
    }
    return {
        key: f"{state}: {reasons.get((key, state), '')}"
        for key, state in states.items()
        if state in FAILURES
    }


def print_status(status: SweepStatus, console: Console) -> None:
    """Print a status; names and reasons are printed without markup or control codes."""
    for line in _lines(status):
        console.print(line, soft_wrap=not console.is_terminal, highlight=False)


def progress_lines(status: SweepStatus) -> Iterator[tuple[str, str]]:
    """Yield all lines except time and costs, each with its style on a terminal."""
    yield _counts_in_words(status.counts), "bold"
    if len(status.by_ablation) > 1:
        yield from ((line, "") for line in _table(status.by_ablation))
    yield from ((line, "") for line in _places(status))
    if status.waiting:
        number = status.waiting["num_trials"]
        verb = "waits" if number == 1 else "wait"
        yield f"{number} of the missing {verb} for a place: {status.waiting['reason']}", "yellow"
    yield from ((line, "red") for line in _failures(status))


def _counts_in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in counts.items())


def _table(by_ablation: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a line for each sweep: finished and total, running and failed."""
    width = max(len(name) for name in by_ablation)
    for name, counts in by_ablation.items():
        total = sum(counts.values())
        others = {state: n for state, n in counts.items() if state in (*FAILURES, "running")}
        done = total - counts.get("missing", 0) - sum(others.values())
        rest = f"; {_counts_in_words(others)}" if others else ""
        yield f"  {name:<{width}}  {done:>6} of {total} done{rest}"


def _places(status: SweepStatus) -> Iterator[str]:
    """Yield where trials run: by trial, or by node if there are many."""
    name = dict(status.labels)
    if len(status.running) <= _MOST_PLACES:
        for key, place in status.running.items():
            yield f"running {name.get(key, key)} on {place}"
        return
    by_node: dict[str, list[str]] = {}
    for key, place in status.running.items():
        node = place.rpartition(", process")[0] or "this machine"
        by_node.setdefault(node, []).append(name.get(key, key))
    for node, names in sorted(by_node.items()):
        yield f"running {len(names)} on {node}: {some_of(names, _MOST_NAMES)}"


def _failures(status: SweepStatus) -> Iterator[str]:
    """Yield failures by reason, the most frequent first; numbers in reasons are ignored."""
    groups: dict[str, list[str]] = {}
    for key, reason in status.failed.items():
        groups.setdefault(_NUMBER.sub("#", reason), []).append(key)
    ordered = sorted(groups.values(), key=len, reverse=True)
    for keys in ordered[:_MOST_GROUPS]:
        names = [status.labels.get(key, key) for key in keys]
        trial = f"trial {short(keys[0])}"
        yield (
            f"failed {len(keys)}: {status.failed[keys[0]]} ({some_of(names, _MOST_NAMES)}; {trial})"
        )
    rest = ordered[_MOST_GROUPS:]
    if rest:
        yield f"failed {sum(map(len, rest))}: for {len(rest)} other reasons; --json lists them all"


def _costs(status: SweepStatus) -> Iterator[tuple[str, str]]:
    """Yield rate, time left and hours, as far as they are known."""
    speed = status.throughput_per_minute
    is_open = bool(status.running or status.counts.get("missing"))
    when = "lately" if status.running else "at its last run"
    parts = []
    if speed is not None:
        rate = f"{speed:.3g}" if speed < 100 else f"{speed:,.0f}"
        parts.append(f"{rate} trials a minute {when}")
    parts += [f"{in_words(status.eta_seconds)} left"] if is_open else []
    if parts:
        yield "; ".join(parts), "dim"
    for unit in ("CPU", "GPU"):
        hours = [f"{unit.lower()}_hours_{what}" for what in ("spent", "wasted", "left")]
        spent, wasted, left = (getattr(status, name) for name in hours)
        if spent or (left and unit == "CPU"):
            to_come = f"; {_hours(left)} remaining" if is_open and left is not None else ""
            waste = f", {_hours(wasted)} of them on failures and retries" if wasted else ""
            yield f"{_hours(spent)} {unit}-hours spent{waste}{to_come}", "dim"
    if status.joules_spent is not None:
        yield f"{energy_in_words(status.joules_spent)} used by GPUs", "dim"
    if status.money_spent is not None:
        left = status.money_left
        to_come = f"; {in_money(left, status.currency)} remaining" if is_open and left else ""
        yield f"{in_money(status.money_spent, status.currency)} spent{to_come}", "dim"
    if status.num_lost:
        at_most, number = status.lost_cpu_hours_at_most, status.num_lost
        bound = "" if at_most is None else f", at most {_hours(at_most)} CPU-hours"
        noun = "attempt was" if number == 1 else "attempts were"
        yield (
            f"{number} {noun} interrupted, or lost with a driver or node, and not counted{bound}",
            "dim",
        )


def _hours(hours: float) -> str:
    """Format hours, for example ``12.3``; never 0 for a positive number."""
    if 0 < hours < 0.01:
        return "less than 0.01"
    return f"{hours:.2f}" if hours < 10 else f"{hours:,.1f}"
