"""Tests for the progress display: plain lines in a pipe, a live display on a terminal."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bakeoff
from bakeoff.suite.commands.progress import (
    LiveDisplay,
    PlainLines,
    ProgressState,
    display_for,
    outcome,
)
from bakeoff.suite.commands.sweep_history import Estimates
from bakeoff.suite.events import Finished, Progressed, Started, Waiting
from bakeoff.suite.journal.plans import Listed
from bakeoff.suite.journal.status_message import last_status
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Measurement, Plan, Point, Result, Status
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.driver import Options
from bakeoff.suite.sweep.finish import SweepOutcome
from bakeoff.suite.sweep.pending import Pending, pending_work
from bakeoff.suite.timing.passes import Missing
from tests.suite.heads_sweep import HEADS
from tests.workplace import Workplace

pytestmark = pytest.mark.usefixtures("plain_figures")


@pytest.fixture
def sweep(tmp_path: Path) -> Plan:
    return plan(Workplace(tmp_path).ablation(values=[1e-3, 1e-2], probes=["quality", "parameters"]))


@pytest.fixture
def missing(sweep: Plan) -> Pending:
    return pending_work([sweep], {})


def console(*, is_terminal: bool, width: int = 200) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=width, height=30)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plainly(text: str) -> str:
    """Return the text without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def result(trial_id: str, status: Status = Status.OK, reason: str = "") -> Result:
    number = Measurement(metric="accuracy", value=0.123456789, unit="1", better="higher")
    return Result(
        trial_id=trial_id,
        status=status,
        provenance=HEADS.place,
        seconds=1.25,
        reason=reason,
        measurements=(number,) if status is Status.OK else (),
    )


def state(*names: str, **fields: Any) -> ProgressState:
    trials = {
        name: Listed("heads", "quick", name, "quality", name, 1, 1.0, 0.0, is_alone=False)
        for name in names
    }
    return ProgressState(trials, **fields)


def point(step: int) -> Point:
    return Point(
        metric="training_loss", step=step, flops=None, value=2.34567, unit="nat", better="lower"
    )


def test_plain_lines_say_each_trial_once_as_it_ends(sweep: Plan, missing: Pending) -> None:
    out = console(is_terminal=False)
    first, second = [trial for trial in sweep.trials if trial.probe == "quality"][:2]
    with display_for([sweep], missing, out) as display:
        display.show(Started(first.trial_id, "here"))
        display.show(Progressed(first.trial_id, (point(3),)))
        display.show(Finished(result(first.trial_id)))
        display.show(Finished(result(second.trial_id, Status.ERROR, "[red]KeyError[/red]: x")))
    assert isinstance(display, PlainLines)
    lines = said(out).splitlines()
    assert lines[0] == "5 trials to run, 0 already done"
    assert lines[1].startswith(
        "[1/5] learning_rate=0.001, fashion_mnist_patches, seed 0: accuracy 0.123457 (1.2 s; "
    )
    assert "[2/5]" in lines[2]
    logs = f"bakeoff logs {second.trial_id[:8]}"
    assert f"seed 1: error: [red]KeyError[/red]: x; {logs} (" in lines[2]
    assert len(lines) == 3
    assert "\x1b" not in said(out)


def test_plain_lines_say_what_runs_after_a_minute_of_silence(
    sweep: Plan, missing: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = begin = time.monotonic()
    monkeypatch.setattr("bakeoff.suite.commands.progress.time.monotonic", lambda: now)
    out = console(is_terminal=False)
    first, second, third, *_ = sweep.trials
    with display_for([sweep], missing, out) as display:
        for trial in (first, second, third):
            display.show(Started(trial.trial_id, "here"))
        for seconds in range(0, 200, 5):
            now = begin + seconds
            display.show(Progressed(first.trial_id, (point(seconds // 100 + 3),)))
    running = [line for line in said(out).splitlines() if line.startswith("running: ")]
    assert len(running) == 3
    assert "seed 0: step 3 of 6, training_loss 2.346 nat; " in running[0]
    assert ": starting; 1 more (" in running[0]
    assert ": step 4 of 6, training_loss 2.346 nat; " in running[-1]


def test_the_live_display_shows_what_runs_and_how_far(sweep: Plan, missing: Pending) -> None:
    out = console(is_terminal=True)
    first, second, *_ = sweep.trials
    with display_for([sweep], missing, out) as display:
        display.show(Started(first.trial_id, "here"))
        display.show(Started(second.trial_id, "there"))
        display.show(Progressed(first.trial_id, (point(3), point(4))))
        assert isinstance(display, LiveDisplay)
        display.live.refresh()
        running = plainly(said(out))
        display.show(Finished(result(first.trial_id)))
        display.show(Finished(result(second.trial_id, Status.CRASHED, "[/nothing] '[bold]'")))
    assert "step 4 of 6, training_loss 2.346 nat" in running
    assert "starting" in running
    assert "0 of 5 trials done, 2 running" in running
    assert "2 of 5 trials done, 0 running, 0 already done, 1 failed" in plainly(said(out))
    assert "crashed: [/nothing] '[bold]'" in said(out)  # brackets are not interpreted as markup


def test_the_display_lets_go_of_the_terminal_when_it_is_interrupted(
    sweep: Plan, missing: Pending
) -> None:
    out = console(is_terminal=True)
    with pytest.raises(KeyboardInterrupt), display_for([sweep], missing, out):
        raise KeyboardInterrupt
    # The cursor is visible again.
    assert said(out).count("\x1b[?25l") == said(out).count("\x1b[?25h")


def test_a_submitted_driver_tells_programs_how_far_it_is(
    sweep: Plan,
    missing: Pending,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 100.0
    monkeypatch.setattr("bakeoff.suite.commands.progress.time.monotonic", lambda: now)
    monkeypatch.setenv("BAKEOFF_STATUS_LINES", "1")
    out = console(is_terminal=True)
    first, second, *_ = sweep.trials
    with display_for([sweep], missing, out) as display:
        begun = last_status(capsys.readouterr().out)
        display.show(Started(first.trial_id, "node 1"))
        display.show(Waiting(4, "no node is free"))
        assert capsys.readouterr().out == ""  # too soon for another line
        now = 110.0
        display.show(Started(second.trial_id, "node 2"))
        running = last_status(capsys.readouterr().out)
        display.show(Finished(result(first.trial_id)))
        display.show(Finished(result(second.trial_id, Status.CRASHED, "it died")))
    ended = last_status(capsys.readouterr().out)
    assert begun is not None
    assert running is not None
    assert ended is not None
    assert begun.counts == {"missing": 5}
    assert running.counts == {"missing": 3, "running": 2}
    assert running.running == {first.trial_id: "node 1", second.trial_id: "node 2"}
    assert running.waiting == {"num_trials": 4, "reason": "no node is free"}
    assert running.labels.keys() == {first.trial_id, second.trial_id}
    assert ended.counts == {"crashed": 1, "missing": 3, "ok": 1}
    assert ended.failed == {second.trial_id: "crashed: it died"}
    assert "[1/5]" in said(out)  # plain lines for people, even on a terminal


@pytest.mark.whole
def test_a_day_of_lines_is_no_endless_log(
    sweep: Plan,
    missing: Pending,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begin = now = time.monotonic()
    monkeypatch.setattr("bakeoff.suite.commands.progress.time.monotonic", lambda: now)
    monkeypatch.setenv("BAKEOFF_STATUS_LINES", "1")
    with display_for([sweep], missing, console(is_terminal=False)) as display:
        for second in range(24 * 3600):
            now = begin + second
            display.show(Progressed(sweep.trials[0].trial_id, ()))
    assert 1400 < len(capsys.readouterr().out.splitlines()) < 2000
    assert isinstance(display, PlainLines)
    assert display.state.points == {}  # an event without points changes nothing


def test_what_waited_waits_no_more() -> None:
    found = state("a", num_done_before=2)
    found.take(Waiting(1, "no node is free"))
    assert found.status().waiting == {"num_trials": 1, "reason": "no node is free"}
    assert found.status().counts == {"done_before": 2, "missing": 1}
    found.take(Waiting(0, ""))
    assert found.status().waiting is None


def test_every_trial_has_a_label_of_its_own(sweep: Plan, missing: Missing) -> None:
    display = display_for([sweep], missing, console(is_terminal=False))
    assert isinstance(display, PlainLines)
    labels = {trial_id: trial.label for trial_id, trial in display.state.trials.items()}
    assert set(labels) == {trial.trial_id for trial in sweep.trials}
    assert len(set(labels.values())) == len(labels)


def test_the_estimate_is_corrected_by_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("bakeoff.suite.commands.progress.time.monotonic", lambda: now)
    found = state("a", "b", estimates=Estimates(work={"a": 10.0, "b": 30.0}), start=now)
    assert 30.0 <= found.eta_seconds() <= 40.0  # on several CPUs, or one
    found.take(Started("a", "here"))
    now = 200.0
    found.take(Finished(replace(result("a"), seconds=100.0)))  # the estimate was 10 s
    found.take(Started("b", "here"))
    assert found.eta_seconds() == pytest.approx(300.0, rel=0.1)
    now = 300.0
    assert found.eta_seconds() == pytest.approx(200.0, rel=0.15)
    now = 500.0
    found.take(Finished(replace(result("b"), seconds=300.0)))
    assert found.eta_seconds() == 0.0


def test_the_estimate_of_a_long_sweep_is_made_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, asked = 100.0, []
    monkeypatch.setattr("bakeoff.suite.commands.progress.time.monotonic", lambda: now)
    monkeypatch.setattr("bakeoff.suite.commands.progress.time_left", asked.append)
    found = state("a", "b")
    for _ in range(10):
        found.eta_seconds()
        now += 0.25
    assert len(asked) == 3


def test_a_trial_that_runs_again_in_another_environment_is_counted(sweep: Plan) -> None:
    out = console(is_terminal=False)
    done = {trial.trial_id: {"elsewhere"} for trial in sweep.trials}
    with display_for([sweep], pending_work([sweep], done), out) as display:
        display.show(Started(sweep.trials[0].trial_id, "here"))
        display.show(Finished(result(sweep.trials[0].trial_id)))
    assert said(out).splitlines()[0] == "0 trials to run, 5 already done"
    assert "[1/1] learning_rate=" in said(out)


def test_a_run_from_python_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    done = SweepOutcome(by_status={}, num_run=0, num_missing=0)
    monkeypatch.setattr(driver, "run_plans", lambda *some: given.extend(some) or done)
    bakeoff.run(out="t2", executor="inline")
    assert given[-1] is display_for
    assert given[1] == Options(out=Path("t2"), executor="inline")
    with pytest.raises(SpecError, match="did you mean 'inline'"):
        bakeoff.run(executor="inlin")  # type: ignore[arg-type]
    assert {"run", "plan", "run_task", "Ablation"} <= set(dir(bakeoff))


def timed(metric: str, value: float | None, status: Status = Status.OK) -> Measurement:
    return Measurement(
        metric=metric, value=value, unit="s", better="lower", status=status, reason="why"
    )


@pytest.mark.parametrize(
    ("measurements", "words"),
    [
        ([], "ok"),
        ([replace(timed("accuracy", 0.123456789), unit="1")], "accuracy 0.123457"),
        (  # the variant's value precedes those of the instrument
            [timed("copy_peak_bytes_per_second", 1e10), timed("forward_seconds", 0.5)],
            "forward_seconds 0.5 s",
        ),
        (
            [timed("decode_token_seconds", None, Status.SKIPPED), timed("forward_seconds", 0.5)],
            "forward_seconds 0.5 s",
        ),
        (
            [timed("forward_seconds", 0.5), timed("forward_backward_seconds", 1.0, Status.NOISY)],
            "forward_seconds 0.5 s, 1 of 2 timings noisy",
        ),
        ([timed("forward_seconds", None, Status.OUT_OF_MEMORY)], "out_of_memory: why"),
    ],
)
def test_an_outcome_is_the_first_number_or_why_there_is_none(
    measurements: list[Measurement], words: str
) -> None:
    assert outcome(replace(result("a"), measurements=tuple(measurements))) == words


def test_the_outcome_of_a_search_is_the_rate_that_won() -> None:
    score = replace(timed("validation_accuracy", 0.5), unit="1")
    at = [replace(score, at=f"learning_rate={rate}") for rate in ("0.01", "0.002", "0.005")]
    found = (replace(timed("learning_rate", 0.002), unit="1"), *at)
    assert outcome(replace(result("a"), measurements=found)) == (
        "0.002 is the best of 0.002, 0.005, 0.01"
    )


def test_the_outcome_of_a_comparison_names_the_fastest_and_the_slowest() -> None:
    times = {"attention": 0.5, "lstm": 0.75, "fnet": 0.25}
    found = tuple(
        replace(timed("forward_seconds", seconds), subject=index)
        for index, seconds in enumerate(times.values())
    )
    said = outcome(replace(result("a"), measurements=found), dict(enumerate(times)))
    assert said == "forward_seconds 0.25 s (fnet) to 0.75 s (lstm)"


def test_the_outcome_of_a_failure_is_its_reason() -> None:
    diverged = result("a", Status.DIVERGED, "the loss is nan")
    assert outcome(diverged) == "diverged: the loss is nan"
