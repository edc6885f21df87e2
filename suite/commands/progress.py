"""Show the progress of a run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from bakeoff.suite.commands.sweep_history import PACKED, Estimates, History, time_left
from bakeoff.suite.events import Event, Finished, Progressed, Remarked, Started, Waiting
from bakeoff.suite.journal.plans import Listed, listed
from bakeoff.suite.journal.sqlite_schema import End
from bakeoff.suite.journal.status_message import STATUS_LINES, SweepStatus, line_of
from bakeoff.suite.planning.cost_model import kinds_of, seconds_of
from bakeoff.suite.schema import (
    CONTROLS,
    FAILURES,
    LEARNING_RATE,
    Measurement,
    Plan,
    Point,
    Result,
    Status,
    Trial,
)
from bakeoff.suite.sweep.driver import Display
from bakeoff.suite.sweep.pending import Pending, Work, distinct_work, topological_layers
from bakeoff.suite.text import in_words, number_of, short

_MOST_RUNNING_SHOWN = 8
_MOST_RUNNING_IN_A_LINE = 2
_SECONDS_OF_SILENCE = 60.0  # after which plain lines say what is running
_SECONDS_BETWEEN_STATUS_LINES = (1.0, 60.0)  # minimum, maximum
_SECONDS_BETWEEN_ESTIMATES = 1.0  # because each estimate goes through all trials


@dataclass
class ProgressState:
    """Counts of the events so far, and the estimate of the time left.

    Attributes:
        trials: Trials to run, by id; trials of `others` are added when they start.
        others: Trials done before, by id; some run again if no node of their environment is left.
        estimates: Facts about the trials before they run.
        steps: trial_id -> its training steps.
        variants: trial_id -> the variants that it compares; trials of a single variant are left
            out.
        num_done_before: Number of trials that an earlier run has done.
        editions: Ablation -> the number of its edition.
    """

    trials: dict[str, Listed]
    others: Mapping[str, Listed] = field(default_factory=dict)
    estimates: Estimates = field(default_factory=Estimates)
    steps: Mapping[str, int] = field(default_factory=dict)
    variants: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
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
        """Return the progress, for `bakeoff status` elsewhere."""
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
        """Return the time left, at most a second old."""
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
        """Return a readable name, for example ``heads=4, shakespeare_characters, seed 1``."""
        return (self.trials.get(trial_id) or self.others[trial_id]).label

    def reached(self, trial_id: str) -> str:
        """Return a running trial and its last step: ``heads=4: step 20 of 300, ...``."""
        point = self.points.get(trial_id)
        if point is None:
            return f"{self.label(trial_id)}: starting"
        of = f" of {self.steps[trial_id]}" if trial_id in self.steps else ""
        value = _number(point.value, point.unit, 4)
        return f"{self.label(trial_id)}: step {point.step}{of}, {point.metric} {value}"

    def line(self, result: Result) -> str:
        """Return a trial with its outcome, for example ``heads=4, seed 1: accuracy 0.75``."""
        variants = self.variants.get(result.trial_id, {})
        return f"{self.label(result.trial_id)}: {outcome(result, variants)}"


def has_status_lines() -> bool:
    """Return True if a program reads this driver's log."""
    return os.environ.get(STATUS_LINES) == "1"


def display_for(plans: Sequence[Plan], missing: Pending, console: Console) -> Display:
    """Return a live display on a terminal, and plain lines elsewhere or for a program."""
    state = _state(plans, missing)
    is_live = console.is_terminal and not has_status_lines()
    return LiveDisplay(state, console) if is_live else PlainLines(state, console)


def _state(plans: Sequence[Plan], missing: Pending) -> ProgressState:
    work = {trial.trial_id: (trial, asked) for trial, asked in (*missing.packed, *missing.alone)}
    # For a shared trial the first plan counts.
    every = {t.trial_id: t for plan in reversed(plans) for t in listed(plan)}
    return ProgressState(
        trials={trial_id: every.pop(trial_id) for trial_id in work},
        others=every,
        estimates=_estimates(plans, missing),
        steps={
            key: t.training.steps
            for key, (t, _) in work.items()
            if t.training is not None and t.pace is None  # whose steps are found later
        },
        variants={key: names for key, names in _variants(plans).items() if len(names) > 1},
        num_done_before=missing.num_done,
        editions={plan.about.ablation: plan.about.edition for plan in plans},
    )


def _variants(plans: Sequence[Plan]) -> dict[str, dict[int, str]]:
    """Return the variants of each trial, by the index of the subject."""
    found: dict[str, dict[int, str]] = {}
    for cell in (cell for plan in plans for cell in plan.cells):
        found.setdefault(cell.trial_id, {}).setdefault(cell.subject, cell.variant)
    return found


def _estimates(plans: Sequence[Plan], missing: Pending) -> Estimates:
    """Return the estimates of the trials to run, and of those known from earlier runs."""
    past = [item for item in distinct_work(plans) if item[0].trial_id in missing.past]
    works: list[Work] = [*missing.packed, *missing.alone, *past]
    layers = enumerate(topological_layers(missing.packed))
    return Estimates(
        work={trial.trial_id: seconds_of(trial, asked) for trial, asked in works},
        kinds={trial.trial_id: _kinds(trial) for trial, _ in works},
        layers={trial.trial_id: layer for layer, some in layers for trial, _ in some},
        past=missing.past,
        num_places=missing.num_places,
    )


def _kinds(trial: Trial) -> tuple[Hashable, ...]:
    """Return the kinds of trials to which this one belongs; see `Estimates.kinds`."""
    return (*kinds_of(trial), *([] if trial.is_timing else [PACKED]))


def seconds_by_finished_trials(plan: Plan, past: Mapping[str, float]) -> dict[str, float]:
    """Return the expected seconds of the trials that are left, by id; empty if none has finished.

    Args:
        plan: The plan.
        past: trial_id -> the seconds that a finished trial of the plan took.
    """
    if not past:
        return {}
    history = History(
        trials={each.trial_id: each for each in listed(plan)},
        done=past,
        running={},
        starts=(),
        ends=(),
        now=0.0,
        driver_started=None,
        estimates=Estimates(
            work={t.trial_id: seconds_of(t, plan.resources.for_trial(t)) for t in plan.trials},
            kinds={trial.trial_id: _kinds(trial) for trial in plan.trials},
            past=past,
        ),
    )
    return {trial.trial_id: seconds for trial, seconds in history.left}


class PlainLines(Display):
    """A display of one line for each finished trial, for logs and pipes.

    After a minute without one, a line says what is running. If a program reads the log, it also
    prints status messages (`journal.status_message`).
    """

    def __init__(self, state: ProgressState, console: Console) -> None:
        self.state, self.console = state, console
        self.has_status = has_status_lines()
        self.last_status_seconds = 0.0
        self.last_line_seconds = 0.0

    def __enter__(self) -> PlainLines:
        before = self.state.num_done_before
        self._print(f"{number_of(len(self.state.trials), 'trial')} to run, {before} already done")
        self._print_status()
        return self

    def __exit__(self, *exception: object) -> None:
        self._print_status()

    def show(self, event: Event) -> None:
        """Print a trial that has finished, and remarks about it."""
        self.state.take(event)
        if isinstance(event, Remarked):
            self._print(f"{self.state.label(event.trial_id)}: {event.sentence}")
        if isinstance(event, Finished):
            count = f"[{len(self.state.finished)}/{len(self.state.trials)}]"
            eta = in_words(self.state.eta_seconds())
            line = self.state.line(event.result)
            self._print(f"{count} {line} ({event.result.seconds:.1f} s; {eta} left)")
        self._print_running()
        # The pause is longer in long sweeps, whose log would grow by megabytes a day.
        shortest, longest = _SECONDS_BETWEEN_STATUS_LINES
        pause = min(longest, max(shortest, (time.monotonic() - self.state.start) / 60))
        if time.monotonic() - self.last_status_seconds >= pause:
            self._print_status()

    def _print_running(self) -> None:
        running = list(self.state.running)
        if running and time.monotonic() - self.last_line_seconds >= _SECONDS_OF_SILENCE:
            shown = [self.state.reached(key) for key in running[:_MOST_RUNNING_IN_A_LINE]]
            num_more = len(running) - len(shown)
            shown += [f"{num_more} more"] if num_more else []
            left = in_words(self.state.eta_seconds())
            self._print(f"running: {'; '.join(shown)} ({left} left)")

    def _print(self, line: str) -> None:
        self.last_line_seconds = time.monotonic()
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _print_status(self) -> None:
        self.last_status_seconds = time.monotonic()
        if self.has_status:
            print(line_of(self.state.status()), flush=True)


class LiveDisplay(Display):
    """A display of running, done and failed trials and the time left, redrawn in place."""

    def __init__(self, state: ProgressState, console: Console) -> None:
        self.state, self.console = state, console
        self.live = Live(self._drawn(), console=console, refresh_per_second=4)

    def __enter__(self) -> LiveDisplay:
        self.live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.update(self._drawn())
        self.live.__exit__(None, None, None)

    def show(self, event: Event) -> None:
        """Redraw the display; leave a line above it for a failure, a remark or a search."""
        self.state.take(event)
        if isinstance(event, Remarked):
            line = f"{self.state.label(event.trial_id)}: {event.sentence}"
            self.console.print(Text(line, style="yellow"))
        if isinstance(event, Finished):
            is_ok = event.result.status is Status.OK
            if not is_ok or _is_search(event.result):
                line = self.state.line(event.result)
                self.console.print(Text(line, style="yellow" if is_ok else "red"))
        self.live.update(self._drawn())

    def _drawn(self) -> Group:
        total, completed = max(1, len(self.state.trials)), len(self.state.finished)
        # Padded, because a bar does not end its line, and the first row below would be lost.
        bar = Padding(ProgressBar(total=total, completed=completed), 0)
        return Group(self._head(), bar, self._running())

    def _head(self) -> Text:
        state = self.state
        head = Text(f"{len(state.finished)} of {len(state.trials)} trials done")
        head.append(f", {len(state.running)} running, {state.num_done_before} already done")
        if state.failed:
            head.append(f", {len(state.failed)} failed", style="bold red")
        head.append(f"; {in_words(state.eta_seconds())} left", style="dim")
        return head

    def _running(self) -> Group:
        state = self.state
        shown = list(state.running)[:_MOST_RUNNING_SHOWN]
        return Group(*(Text(state.reached(key)) for key in shown))


def outcome(result: Result, variants: Mapping[int, str] = {}) -> str:
    """Return the result in a few words: its first number, or why there is none.

    Args:
        result: The result of a trial.
        variants: Names of the variants that the trial compares, by the index of the subject.
    """
    if result.status is not Status.OK:
        logs = f"; bakeoff logs {short(result.trial_id)}" if result.status in FAILURES else ""
        return f"{result.status.value}: {result.reason}{logs}"
    found = [m for m in result.measurements if m.metric not in CONTROLS]
    first = next((m for m in found if m.value is not None), None)
    if first is None or first.value is None:
        return "ok" if not found else f"{found[0].status.value}: {found[0].reason}"
    if _is_search(result):
        tried = sorted(float(m.at.partition("=")[2]) for m in found if m.at)
        return f"{first.value:g} is the best of {', '.join(f'{rate:g}' for rate in tried)}"
    timings = [m for m in found if m.unit == "s" and m.value is not None]
    num_noisy = sum(m.status is Status.NOISY for m in timings)
    part = "" if num_noisy == len(timings) else f"{num_noisy} of {len(timings)} timings "
    noisy = f", {part}noisy" if num_noisy else ""
    return f"{first.metric} {_values(first, found, variants)}{noisy}"


def _is_search(result: Result) -> bool:
    """Return True for a search for the learning rate, whose rates are coordinates."""
    metrics = [m.metric for m in result.measurements]
    return metrics[:1] == [LEARNING_RATE]


def _values(first: Measurement, found: Sequence[Measurement], variants: Mapping[int, str]) -> str:
    """Return the value, or the smallest and the largest with their variants."""
    alike = [m for m in found if m.metric == first.metric and m.at == first.at]
    known = [m for m in alike if m.value is not None and m.subject in variants]
    pairs = [(m.value or 0.0, variants[m.subject]) for m in known]
    if len(pairs) < 2:
        return _number(first.value or 0.0, first.unit)
    return " to ".join(
        f"{_number(value, first.unit)} ({of})" for value, of in (min(pairs), max(pairs))
    )


def _number(value: float, unit: str, digits: int = 6) -> str:
    """Return a value with its unit; the unit "1" is omitted."""
    return f"{value:.{digits}g}" + ("" if unit == "1" else f" {unit}")
