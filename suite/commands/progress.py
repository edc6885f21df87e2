"""Show the progress of a run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from suite.commands.sweep_history import PACKED, Estimates, History, time_left
from suite.events import Event, Finished, Progressed, Remarked, Started, Waiting
from suite.journal.plans import Listed, listed
from suite.journal.sqlite_schema import End
from suite.journal.status_message import STATUS_LINES, SweepStatus, line_of
from suite.planning.cost_model import kinds_of, seconds_of
from suite.schema import CONTROLS, FAILURES, Plan, Point, Result, Status
from suite.sweep.driver import Display
from suite.sweep.pending import Pending, Work, distinct_work, topological_layers
from suite.text import in_words, number_of, short

_MOST_RUNNING_SHOWN = 8
_SECONDS_BETWEEN_STATUS_LINES = (1.0, 60.0)  # at least, at most
_SECONDS_BETWEEN_ESTIMATES = 1.0  # since each goes through all trials


@dataclass
class Tally:
    """What has happened so far, and how long the rest will take.

    Attributes:
        trials: To run, by id; those of `others` join them when they begin.
        others: Done before, by id: some run again where no node of their environment is left.
        estimates: What is known of how long they take.
        steps: trial_id -> its training steps.
        num_done_before: Trials that an earlier run has done.
        editions: Ablation -> the number of its edition.
    """

    trials: dict[str, Listed]
    others: Mapping[str, Listed] = field(default_factory=dict)
    estimates: Estimates = field(default_factory=Estimates)
    steps: Mapping[str, int] = field(default_factory=dict)
    num_done_before: int = 0
    editions: Mapping[str, int] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, Any] | None = None
    failed: dict[str, str] = field(default_factory=dict)
    points: dict[str, Point] = field(default_factory=dict)
    statuses: Counter[Status] = field(default_factory=Counter)
    finished: set[str] = field(default_factory=set)
    start: float = field(default_factory=time.monotonic)
    _begun: dict[str, float] = field(default_factory=dict)
    _ends: list[End] = field(default_factory=list)
    _eta: float | None = None
    _next_estimate: float = 0.0

    def take(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, Started | Finished) and event.trial_id not in self.trials:
            self.trials[event.trial_id] = self.others[event.trial_id]
        match event:
            case Started(trial_id=trial_id, place=place):
                self.running[trial_id] = place
                self._begun[trial_id] = time.monotonic()
            case Progressed(trial_id=trial_id, points=points) if points:
                self.points[trial_id] = points[-1]
            case Finished(result=result):
                self._take_result(result)
            case Waiting(num_trials=number, reason=reason):
                self.waiting = {"num_trials": number, "reason": reason} if number else None

    def _take_result(self, result: Result) -> None:
        self.running.pop(result.trial_id, None)
        self._begun.pop(result.trial_id, None)
        self.statuses[result.status] += 1
        self.finished.add(result.trial_id)
        if result.status in FAILURES:
            self.failed[result.trial_id] = f"{result.status.value}: {result.reason}"
        trial = self.trials[result.trial_id]
        self._ends.append(
            End(
                trial.trial_id,
                "",
                1,
                result.status.value,
                result.seconds,
                trial.num_cpus,
                trial.num_gpus,
                time.monotonic(),
                result.reason,
                is_kept=True,
            )
        )

    def status(self) -> SweepStatus:
        """The progress, for `bakeoff status` elsewhere."""
        left = len(self.trials) - len(self.finished) - len(self.running)
        counts = {status.value: number for status, number in self.statuses.items()}
        counts |= {"running": len(self.running), "missing": left}
        counts |= {"done_before": self.num_done_before}
        return SweepStatus(
            counts={state: number for state, number in sorted(counts.items()) if number},
            running=self.running,
            waiting=self.waiting if left else None,
            failed=self.failed,
            labels={trial_id: trial.label for trial_id, trial in self.trials.items()},
            eta_seconds=self.eta_seconds(),
            editions=self.editions,
        )

    def eta_seconds(self) -> float | None:
        """The time left, as of a second ago."""
        now = time.monotonic()
        if now >= self._next_estimate or len(self.finished) == len(self.trials):
            self._next_estimate = now + _SECONDS_BETWEEN_ESTIMATES
            self._eta = time_left(
                History(
                    trials=self.trials,
                    done=self.finished,
                    running=self._begun,
                    starts=(),
                    ends=self._ends,
                    now=now,
                    driver_started=self.start,
                    estimates=self.estimates,
                    shares=self._shares(),
                )
            )
        return self._eta

    def _shares(self) -> dict[str, float]:
        steps = {key: self.points[key].step for key in self.running if key in self.points}
        return {key: step / self.steps[key] for key, step in steps.items() if key in self.steps}

    def label(self, trial_id: str) -> str:
        """As ``heads=4 shakespeare_characters seed 1``."""
        return (self.trials.get(trial_id) or self.others[trial_id]).label


def has_status_lines() -> bool:
    """Whether a program reads this driver's log."""
    return os.environ.get(STATUS_LINES) == "1"


def display_for(plans: Sequence[Plan], missing: Pending, console: Console) -> Display:
    """A live display on a terminal, else plain lines; those also where a program reads the log."""
    tally = _tally(plans, missing)
    is_live = console.is_terminal and not has_status_lines()
    return LiveDisplay(tally, console) if is_live else PlainLines(tally, console)


def _tally(plans: Sequence[Plan], missing: Pending) -> Tally:
    work = {trial.trial_id: (trial, asked) for trial, asked in (*missing.packed, *missing.alone)}
    every = {t.trial_id: t for plan in reversed(plans) for t in listed(plan)}  # the first one's
    return Tally(
        trials={trial_id: every.pop(trial_id) for trial_id in work},
        others=every,
        estimates=_estimates(plans, missing),
        steps={key: t.training.steps for key, (t, _) in work.items() if t.training is not None},
        num_done_before=missing.num_done,
        editions={plan.about.ablation: plan.about.edition for plan in plans},
    )


def _estimates(plans: Sequence[Plan], missing: Pending) -> Estimates:
    """Return the estimates of the trials to run, and of those known from earlier runs."""
    past = [item for item in distinct_work(plans) if item[0].trial_id in missing.past]
    works: list[Work] = [*missing.packed, *missing.alone, *past]
    layers = enumerate(topological_layers(missing.packed))
    return Estimates(
        work={trial.trial_id: seconds_of(trial, asked) for trial, asked in works},
        kinds={t.trial_id: (*kinds_of(t), *([] if t.is_timing else [PACKED])) for t, _ in works},
        layers={trial.trial_id: layer for layer, some in layers for trial, _ in some},
        past=missing.past,
        num_places=missing.num_places,
    )


class PlainLines(Display):
    """One line for each finished trial, for logs and pipes.

    Where a program reads the log, there are status messages, too (`journal.status_message`).
    """

    def __init__(self, tally: Tally, console: Console) -> None:
        self.tally, self.console = tally, console
        self.has_status = has_status_lines()
        self.last_status_seconds = 0.0

    def __enter__(self) -> PlainLines:
        before = self.tally.num_done_before
        self._print(f"{number_of(len(self.tally.trials), 'trial')} to run, {before} done before")
        self._print_status()
        return self

    def __exit__(self, *exception: object) -> None:
        self._print_status()

    def show(self, event: Event) -> None:
        """Print the trial if it has finished, and remarks about it."""
        self.tally.take(event)
        if isinstance(event, Remarked):
            self._print(f"{self.tally.label(event.trial_id)}: {event.sentence}")
        if isinstance(event, Finished):
            count = f"[{len(self.tally.finished)}/{len(self.tally.trials)}]"
            eta = in_words(self.tally.eta_seconds())
            what = f"{self.tally.label(event.result.trial_id)}: {outcome(event.result)}"
            self._print(f"{count} {what} ({event.result.seconds:.1f} s; {eta} left)")
        # The pause is longer in long sweeps, whose log would grow by megabytes a day.
        shortest, longest = _SECONDS_BETWEEN_STATUS_LINES
        pause = min(longest, max(shortest, (time.monotonic() - self.tally.start) / 60))
        if time.monotonic() - self.last_status_seconds >= pause:
            self._print_status()

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _print_status(self) -> None:
        self.last_status_seconds = time.monotonic()
        if self.has_status:
            print(line_of(self.tally.status()), flush=True)


class LiveDisplay(Display):
    """Running, done and failed trials and the time left; redrawn in place."""

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
        total, completed = max(1, len(self.tally.trials)), len(self.tally.finished)
        # Padded: a bar does not end its line, and the first row below would be lost.
        bar = Padding(ProgressBar(total=total, completed=completed), 0)
        return Group(self._head(), bar, self._running())

    def _head(self) -> Text:
        tally = self.tally
        head = Text(f"{len(tally.finished)} of {len(tally.trials)} trials done")
        head.append(f", {len(tally.running)} running, {tally.num_done_before} done before")
        if tally.failed:
            head.append(f", {len(tally.failed)} failed", style="bold red")
        head.append(f"; {in_words(tally.eta_seconds())} left", style="dim")
        return head

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
    """The result in a few words: its first number, or why there is none."""
    if result.status is not Status.OK:
        logs = f"; bakeoff logs {short(result.trial_id)}" if result.status in FAILURES else ""
        return f"{result.status.value}: {result.reason}{logs}"
    found = [m for m in result.measurements if m.metric not in CONTROLS]
    first = next((m for m in found if m.value is not None), None)
    if first is None:
        return "ok" if not found else f"{found[0].status.value}: {found[0].reason}"
    unit = "" if first.unit == "1" else f" {first.unit}"
    timings = [m for m in found if m.unit == "s" and m.value is not None]
    num_noisy = sum(m.status is Status.NOISY for m in timings)
    part = "" if num_noisy == len(timings) else f"{num_noisy} of {len(timings)} timings "
    noisy = f", {part}noisy" if num_noisy else ""
    return f"{first.metric} {first.value:.6g}{unit}{noisy}"
