"""What a person sees while trials run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from suite.estimate import seconds_of
from suite.events import Event, Finished, Progressed, Remarked, Started, Waiting
from suite.journal.status_message import Standing, are_wanted, line_of
from suite.journal.trial_index import labels_of
from suite.schema import CONTROLS, FAILURES, Plan, Point, Result, Status
from suite.sweep.pending import Pending
from suite.text import in_words

_MOST_RUNNING_SHOWN = 8
_SECONDS_BETWEEN_STATUS_LINES = (1.0, 60.0)  # at least, at most


@dataclass
class Tally:
    """What has happened so far, and how long the rest will take."""

    labels: Mapping[str, str]
    seconds: Mapping[str, float]
    num_done_before: int
    steps: Mapping[str, int]
    running: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, Any] | None = None
    failed: dict[str, str] = field(default_factory=dict)
    points: dict[str, Point] = field(default_factory=dict)
    statuses: Counter[Status] = field(default_factory=Counter)
    finished: list[str] = field(default_factory=list)
    start: float = field(default_factory=time.monotonic)

    def take(self, event: Event) -> None:
        """Count an event."""
        match event:
            case Started(trial_id=trial_id, place=place):
                self.running[trial_id] = place
            case Progressed(trial_id=trial_id, points=points) if points:
                self.points[trial_id] = points[-1]
            case Finished(result=result):
                self.running.pop(result.trial_id, None)
                self.statuses[result.status] += 1
                self.finished.append(result.trial_id)
                if result.status in FAILURES:
                    self.failed[result.trial_id] = f"{result.status.value}: {result.reason}"
            case Waiting(num_trials=number, reason=reason):
                self.waiting = {"num_trials": number, "reason": reason} if number else None

    def standing(self) -> Standing:
        """How far it is, for `bakeoff status` elsewhere."""
        left = len(self.seconds) - len(self.finished) - len(self.running)
        counts = {status.value: number for status, number in self.statuses.items()}
        counts |= {"running": len(self.running), "missing": left}
        counts |= {"done_before": self.num_done_before}
        return Standing(
            counts={state: number for state, number in sorted(counts.items()) if number},
            running=self.running, waiting=self.waiting if left else None, failed=self.failed,
            labels=self.labels, eta_seconds=self.eta_seconds(),
        )  # fmt: skip

    @property
    def num_failed(self) -> int:
        """Trials that timed out, crashed or erred."""
        return sum(number for status, number in self.statuses.items() if status in FAILURES)

    def eta_seconds(self) -> float | None:
        """The estimate of what is left, corrected by how long the finished ones took."""
        if not self.finished:
            return None
        done = sum(self.seconds.get(trial_id, 0.0) for trial_id in self.finished)
        left = sum(self.seconds.values()) - done
        return (time.monotonic() - self.start) * left / max(done, 1e-9)

    def label(self, trial_id: str) -> str:
        """As ``heads=4 shakespeare_characters seed 1``."""
        return self.labels[trial_id]


class Display(Protocol):
    """Shows events."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *exception: object) -> None: ...

    def show(self, event: Event) -> None:
        """Take an event and show what it changes."""


def display_for(plans: Sequence[Plan], missing: Pending, console: Console) -> Display:
    """A live display where the output is a terminal, else plain lines; some of them for programs.

    The last are for a driver on a cluster, of which `bakeoff status` knows by its log alone.
    """
    tally = _tally(plans, missing)
    if are_wanted():
        return StatusLines(PlainLines(tally, console))
    return LiveDisplay(tally, console) if console.is_terminal else PlainLines(tally, console)


def _tally(plans: Sequence[Plan], missing: Pending) -> Tally:
    work = (*missing.packed, *missing.alone)
    return Tally(
        labels=labels_of(plans),
        seconds={trial.trial_id: seconds_of(trial, resources) for trial, resources in work},
        steps={t.trial_id: t.training.steps for t, _ in work if t.training is not None},
        num_done_before=missing.num_done,
    )


class PlainLines:
    """One line a finished trial, for logs and pipes."""

    def __init__(self, tally: Tally, console: Console) -> None:
        self.tally, self.console = tally, console

    def __enter__(self) -> PlainLines:
        before = self.tally.num_done_before
        self._print(f"{len(self.tally.seconds)} trials to run, {before} done before")
        return self

    def __exit__(self, *exception: object) -> None:
        return

    def show(self, event: Event) -> None:
        """Print the trial if it has finished, and what is remarked of it."""
        self.tally.take(event)
        if isinstance(event, Remarked):
            self._print(f"{self.tally.label(event.trial_id)}: {event.sentence}")
        if isinstance(event, Finished):
            count = f"[{len(self.tally.finished)}/{len(self.tally.seconds)}]"
            eta = in_words(self.tally.eta_seconds())
            what = f"{self.tally.label(event.result.trial_id)}: {outcome(event.result)}"
            self._print(f"{count} {what} ({event.result.seconds:.1f} s; {eta} left)")

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class StatusLines:
    """Plain lines, and now and then a status message for programs."""

    def __init__(self, lines: PlainLines) -> None:
        self.lines = lines
        self.told = 0.0

    def __enter__(self) -> StatusLines:
        self.lines.__enter__()
        self._tell()
        return self

    def __exit__(self, *exception: object) -> None:
        self.lines.__exit__(*exception)
        self._tell()

    def show(self, event: Event) -> None:
        """Show it, and tell where enough time has passed."""
        self.lines.show(event)
        if time.monotonic() - self.told >= self._pause():
            self._tell()

    def _pause(self) -> float:
        """Longer in long sweeps, whose log would grow by megabytes a day."""
        age = time.monotonic() - self.lines.tally.start
        shortest, longest = _SECONDS_BETWEEN_STATUS_LINES
        return min(longest, max(shortest, age / 60))

    def _tell(self) -> None:
        self.told = time.monotonic()
        print(line_of(self.lines.tally.standing()), flush=True)


class LiveDisplay:
    """What runs, what is done, what failed, how long the rest takes; redrawn in place."""

    def __init__(self, tally: Tally, console: Console) -> None:
        self.tally, self.console = tally, console
        self.live = Live(self._drawn(), console=console, refresh_per_second=4)

    def __enter__(self) -> LiveDisplay:
        self.live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.update(self._drawn())
        self.live.__exit__(None, None, None)

    def show(self, event: Event) -> None:
        """Redraw; a failure or a remark also leaves a line of its own above."""
        self.tally.take(event)
        if isinstance(event, Remarked):
            line = f"{self.tally.label(event.trial_id)}: {event.sentence}"
            self.console.print(Text(line, style="yellow"))
        if isinstance(event, Finished) and event.result.status is not Status.OK:
            line = f"{self.tally.label(event.result.trial_id)}: {outcome(event.result)}"
            self.console.print(Text(line, style="red"))
        self.live.update(self._drawn())

    def _drawn(self) -> Group:
        return Group(self._head(), self._bar(), self._running())

    def _head(self) -> Text:
        tally = self.tally
        head = Text(f"{len(tally.finished)} of {len(tally.seconds)} trials done")
        head.append(f", {len(tally.running)} running, {tally.num_done_before} done before")
        if tally.num_failed:
            head.append(f", {tally.num_failed} failed", style="bold red")
        head.append(f"; {in_words(tally.eta_seconds())} left", style="dim")
        return head

    def _bar(self) -> Padding:
        """A bar ends no line of its own: without padding the first row below would be lost."""
        total = max(1, len(self.tally.seconds))
        return Padding(ProgressBar(total=total, completed=len(self.tally.finished)), 0)

    def _running(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for trial_id in list(self.tally.running)[:_MOST_RUNNING_SHOWN]:
            point = self.tally.points.get(trial_id)
            table.add_row(
                Text(self.tally.label(trial_id)), Text(self._reached(trial_id, point), style="dim")
            )
        return table

    def _reached(self, trial_id: str, point: Point | None) -> str:
        if point is None:
            return "starting"
        of = self.tally.steps.get(trial_id, point.step)
        return f"step {point.step} of {of}, {point.metric} {point.value:.3f} {point.unit}"


def outcome(result: Result) -> str:
    """What a trial came to, in a few words: its first number, or why there is none."""
    if result.status is not Status.OK:
        return f"{result.status.value}: {result.reason}"
    said = [m for m in result.measurements if m.metric not in CONTROLS]
    first = next((m for m in said if m.value is not None), None)
    if first is None:
        return "ok" if not said else f"{said[0].status.value}: {said[0].reason}"
    unit = "" if first.unit == "1" else f" {first.unit}"
    num_noisy = sum(m.status is Status.NOISY for m in said)
    noisy = f", {num_noisy} of {len(said)} noisy" if num_noisy else ""
    return f"{first.metric} {first.value:.6g}{unit}{noisy}"
