"""How does a person read where sweeps stand? A few lines, the same on a terminal and in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from suite.errors import one_line
from suite.journal.status_message import Standing
from suite.schema import FAILURES
from suite.text import in_words

_MOST_PLACES = 8  # told trial by trial; beyond, by node
_MOST_GROUPS = 10  # of failures
_MOST_NAMES = 3  # in one group
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def print_standing(standing: Standing, console: Console) -> None:
    """Print it; nothing that a stranger wrote is taken for markup or for control codes."""
    for line, style in _lines(standing):
        console.print(Text(one_line(line), style=style), soft_wrap=True, highlight=False)


def _lines(standing: Standing) -> Iterator[tuple[str, str]]:
    """Each with the style that a terminal gives it."""
    yield _in_words(standing.counts), "bold"
    if len(standing.by_ablation) > 1:
        yield from ((line, "") for line in _table(standing.by_ablation))
    yield from ((line, "") for line in _places(standing))
    if standing.waiting:
        number = standing.waiting["num_trials"]
        verb = "waits" if number == 1 else "wait"
        yield f"{number} of the missing {verb} for a place: {standing.waiting['reason']}", "yellow"
    yield from ((line, "red") for line in _failures(standing))
    yield from ((line, "dim") for line in _costs(standing))


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in counts.items())


def _table(by_ablation: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """One line a sweep: done of all, and what else there is to say."""
    width = max(len(name) for name in by_ablation)
    for name, counts in by_ablation.items():
        total = sum(counts.values())
        open_ = {state: n for state, n in counts.items() if state in (*FAILURES, "running")}
        done = total - counts.get("missing", 0) - sum(open_.values())
        rest = f"; {_in_words(open_)}" if open_ else ""
        yield f"  {name:<{width}}  {done:>6} of {total} done{rest}"


def _places(standing: Standing) -> Iterator[str]:
    """Where trials run: each, or by node where there are many."""
    name = dict(standing.labels)
    if len(standing.running) <= _MOST_PLACES:
        for key, place in standing.running.items():
            yield f"running {name.get(key, key)} on {place}"
        return
    by_node: dict[str, list[str]] = {}
    for key, place in standing.running.items():
        node = place.rpartition(", process")[0] or "this machine"
        by_node.setdefault(node, []).append(name.get(key, key))
    for node, names in sorted(by_node.items()):
        yield f"running {len(names)} on {node}: {_some(names)}"


def _failures(standing: Standing) -> Iterator[str]:
    """By reason, the commonest first; reasons that differ in numbers alone are one."""
    groups: dict[str, list[str]] = {}
    for key, reason in standing.failed.items():
        groups.setdefault(_NUMBER.sub("#", reason), []).append(key)
    ordered = sorted(groups.values(), key=len, reverse=True)
    for keys in ordered[:_MOST_GROUPS]:
        names = [standing.labels.get(key, key) for key in keys]
        yield f"failed {len(keys)}: {standing.failed[keys[0]]} ({_some(names)})"
    rest = ordered[_MOST_GROUPS:]
    if rest:
        yield f"failed {sum(map(len, rest))}: for {len(rest)} other reasons; --json tells them all"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return "; ".join(names[:_MOST_NAMES]) + (f"; and {more} more" if more > 0 else "")


def _costs(standing: Standing) -> Iterator[str]:
    """Speed, time left, hours; what is not known is left out."""
    speed = standing.throughput_per_minute
    is_open = bool(standing.running or standing.counts.get("missing"))
    when = "lately" if standing.running else "when it last ran"
    parts = [f"{_rate(speed)} trials a minute {when}"] if speed is not None else []
    parts += [f"{in_words(standing.eta_seconds)} left"] if is_open else []
    if parts:
        yield "; ".join(parts)
    for unit in ("CPU", "GPU"):
        hours = [f"{unit.lower()}_hours_{what}" for what in ("spent", "wasted", "left")]
        spent, wasted, left = (getattr(standing, name) for name in hours)
        if spent or (left and unit == "CPU"):
            to_come = f"; {_hours(left)} still to come" if is_open and left is not None else ""
            waste = f", {_hours(wasted)} of them on failures and retries" if wasted else ""
            yield f"{_hours(spent)} {unit}-hours spent{waste}{to_come}"
    if standing.num_lost:
        yield _lost(standing)


def _lost(standing: Standing) -> str:
    at_most = standing.lost_cpu_hours_at_most
    bound = "" if at_most is None else f", at most {_hours(at_most)} CPU-hours"
    noun = "attempt was" if standing.num_lost == 1 else "attempts were"
    return (
        f"{standing.num_lost} {noun} lost with a driver or node before the end: not counted{bound}"
    )


def _hours(hours: float) -> str:
    """As ``12.3``; never nothing where there is something."""
    if 0 < hours < 0.01:
        return "less than 0.01"
    return f"{hours:.2f}" if hours < 10 else f"{hours:,.1f}"


def _rate(rate: float) -> str:
    return f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"
