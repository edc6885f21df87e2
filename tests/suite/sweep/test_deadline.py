"""Tests for a sweep with a time limit: finished trials are kept, running processes are ended."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from bakeoff.suite import stopping, timeouts
from bakeoff.suite.commands import run as run_command
from bakeoff.suite.errors import DONE, FAILED
from bakeoff.suite.events import Event, Finished, Started
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources, Result, Status, Trial
from bakeoff.suite.sweep import driver as sweep
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.mlflow_sync import EventLog
from bakeoff.suite.sweep.verify import differences
from bakeoff.suite.timeouts import Deadline
from tests.suite.heads_sweep import LocalStore
from tests.workplace import Workplace, is_alive

pytestmark = pytest.mark.usefixtures("plain_figures")

SOON = 1.0  # seconds after the deadline by which everything must have ended


def options(work: Workplace, deadline: Deadline) -> Options:
    return Options(out=work.out, executor="inline", deadline=deadline)


def held(work: Workplace) -> Counter[tuple[str, int, Status]]:
    """Count the results in the journal by (probe, seed, status)."""
    with Journal(work.out / "journal.db", read_only=True) as journal:
        trials = {trial.trial_id: trial for plan in journal.plans() for trial in plan.trials}
        return Counter(
            (trials[result.trial_id].probe, trials[result.trial_id].seed, result.status)
            for result in journal.results(trials)
        )


def shown(work: Workplace) -> Counter[str]:
    """Count the trials in the store by status."""
    return Counter(child.status for child in LocalStore(work.out).trials(("small", "quick")))


MIXERS = """
import os
import signal
import time
from pathlib import Path

from bakeoff.models.mixer import Mixer


class Good(Mixer):
    def forward(self, x, mask=None, context=None, context_mask=None):
        return x.mean(dim=1, keepdim=True).expand_as(x)


class StillWorks(Good):
    # The deadline comes now, wherever this process stands: no clock decides what a test sees.
    def forward(self, x, mask=None, context=None, context_mask=None):
        here = Path(__file__).parent
        if len(x) >= 100 and (here / "driver").exists():
            driver = int((here / "driver").read_text())
            is_here = os.getpid() == driver
            child = 0 if is_here else os.posix_spawnp("sleep", ["sleep", "600"], os.environ)
            while not (is_here or (here / f"begun process {os.getpid()}").exists()):
                time.sleep(0.01)  # the driver has not heard of it yet
            (here / "reached").write_text(f"{time.monotonic()} {os.getpid()} {child}")
            os.kill(driver, signal.SIGALRM)
            time.sleep(600)
        return x
"""


def cut_ablation(work: Workplace, module: str, **fields: Any) -> str:
    """Write an ablation whose second variant triggers the deadline as soon as it runs."""
    (work.path / f"{module}.py").write_text(MIXERS)
    (work.path / "driver").write_text(str(os.getpid()))
    return work.ablation(
        mixer=f"{module}:Good",
        axis="mixer",
        values=[f"{module}:Good", f"{module}:StillWorks"],
        **fields,
    )


@pytest.fixture(autouse=True)
def _an_alarm_is_the_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every alarm as the deadline of the sweep, which is set before the limits of trials."""
    monkeypatch.setattr(timeouts, "_is_due", lambda one, now: one is timeouts._ALARMS[0])
    monkeypatch.setattr(stopping, "SECONDS_TO_SAVE", 0.1)  # no test waits for the end of a step


@pytest.fixture(autouse=True)
def _who_has_begun_is_noted(work: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a file for each started trial, once its event is in the journal and sent on."""
    write = EventLog.write

    def noted(log: EventLog, event: Event) -> None:
        write(log, event)
        if isinstance(event, Started):
            (work.path / f"begun {event.place}").touch()

    monkeypatch.setattr(EventLog, "write", noted)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list of the times at which a sweep ended, before its report (monotonic clock)."""
    found: list[float] = []
    conclude = sweep.conclude

    def noted(*arguments: Any) -> Any:
        found.append(time.monotonic())
        return conclude(*arguments)

    monkeypatch.setattr(sweep, "conclude", noted)
    return found


def reached(work: Workplace) -> tuple[float, int, int]:
    """Return the time of the deadline, the process that triggered it, and that process's child."""
    seconds, pid, child = (work.path / "reached").read_text().split()
    return float(seconds), int(pid), int(child)


@pytest.mark.slow
def test_a_training_is_interrupted_and_the_same_command_continues(
    work: Workplace, ends: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    file = cut_ablation(work, "cut_training", probes=["quality", "parameters"])
    limit = options(work, Deadline(600.0))
    assert run_command.run([file], scale="quick", seeds=1, options=limit) == FAILED
    came, pid, child = reached(work)
    assert pid != os.getpid()
    assert not is_alive(pid)
    assert not is_alive(child)
    assert ends[0] - came < SOON
    assert held(work) == {("parameters", 0, Status.OK): 2, ("quality", 0, Status.OK): 1}
    said = capsys.readouterr()
    words = " ".join(said.err.split())
    assert "3 trials run; 3 ok; 1 without a result yet" in words
    assert (
        "the time limit of 10 min 0 s was reached: 1 trial is left, and the same command" in words
    )
    assert str(work.out / "reports" / "small" / "index.html") in said.out
    assert shown(work) == {"FINISHED": 3, "KILLED": 1}
    found = differences(work.out, None)
    assert not found.differences
    assert "; small is unfinished, `bakeoff run small" in found.summary
    assert found.summary.endswith("runs the 1 trial left")
    (work.path / "driver").unlink()
    outcome = run(file, seeds=1, options=limit)
    assert (outcome.num_run, outcome.num_missing, outcome.num_left) == (1, 0, 0)


@pytest.mark.slow
def test_a_timing_is_cut_and_its_process_is_gone_with_all_that_it_has_started(
    work: Workplace, ends: list[float]
) -> None:
    file = cut_ablation(work, "cut_timing", probes=["step_time", "parameters"])
    outcome = run(file, seeds=1, options=options(work, Deadline(600.0)))
    came, pid, child = reached(work)
    assert pid != os.getpid()
    assert ends[0] - came < SOON
    assert not is_alive(pid)
    assert not is_alive(child)
    assert (outcome.num_run, outcome.num_missing, outcome.num_left) == (2, 1, 1)
    assert held(work) == {("parameters", 0, Status.OK): 2}


@pytest.mark.slow
def test_what_is_done_in_time_is_done(work: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    file, deadline = work.ablation(), Deadline(600.0)
    assert run_command.run([file], scale="quick", seeds=2, options=options(work, deadline)) == DONE
    assert "time limit" not in capsys.readouterr().err
    over = Deadline(1.0, begun=time.monotonic() - 2.0)
    assert run_command.run([file], scale="quick", seeds=2, options=options(work, over)) == DONE
    assert "time limit" not in capsys.readouterr().err


@pytest.mark.whole
def test_a_limit_that_is_over_before_anything_ran_leaves_a_report_of_nothing(
    work: Workplace,
) -> None:
    over = Deadline(1.0, begun=time.monotonic() - 2.0)
    outcome = run(work.ablation(), options=options(work, over))
    assert (outcome.num_run, outcome.num_missing, outcome.num_left) == (0, 5, 5)
    assert outcome.reports[0].is_file()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the trials: trainings succeed and timings fail, without store or report."""

    def ended(
        trial: Trial, resources: Resources, *rest: object, **named: object
    ) -> Iterator[Event]:
        is_timing = trial.probe == "step_time"
        yield Started(trial.trial_id, "here")
        yield Finished(
            Result(
                trial_id=trial.trial_id,
                status=Status.ERROR if is_timing else Status.OK,
                provenance=provenance(resources),
                seconds=0.0,
            )
        )

    monkeypatch.setattr(sweep, "mlflow_is_installed", lambda: False)
    monkeypatch.setattr(sweep, "conclude", lambda outcome, *rest: outcome)
    monkeypatch.setattr("bakeoff.suite.execution.inline.run_trial", ended)
    monkeypatch.setattr("bakeoff.suite.execution.inline.run_in_subprocess", ended)


@pytest.mark.usefixtures("bare")
def test_a_seed_of_everything_comes_before_the_next_and_no_failure_is_tried_twice(
    work: Workplace,
) -> None:
    file = work.ablation(
        axis="depth", values=[1, 2], probes=["quality", "step_time"], seeds=2, batch=2
    )
    outcome = run(file, options=options(work, Deadline(600.0)))
    assert (outcome.num_run, outcome.num_missing, outcome.num_left) == (6, 0, 0)
    with Journal(work.out / "journal.db", read_only=True) as journal:
        begun = sorted(journal.attempts(), key=lambda attempt: attempt.started_seconds)
        trials = {t.trial_id: t for plan in journal.plans() for t in plan.trials}
    assert {each.attempt for each in begun} == {1}
    order = [(trials[each.trial_id].probe, trials[each.trial_id].seed) for each in begun]
    assert order == [
        ("quality", 0),
        ("quality", 0),
        ("step_time", 0),
        ("quality", 1),
        ("quality", 1),
        ("step_time", 1),
    ]


@pytest.mark.ray
@pytest.mark.slow
def test_on_ray_what_runs_is_ended_too(work: Workplace) -> None:
    mixers = work.mixers("mixers_cut_ray", pause=60.0)
    file = work.ablation(
        mixer=f"{mixers}:Good",
        axis="mixer",
        values=[f"{mixers}:Slow", f"{mixers}:Good"],
        probes=["parameters", "quality"],
        seeds=1,
    )
    begun = time.monotonic()
    done = work.bakeoff("run", file, "--time-limit", "30")
    assert time.monotonic() - begun < 30 + 15  # includes the shutdown of Ray and the report
    assert done.returncode == FAILED, done.stderr
    assert "the time limit of 30 s was reached: 1 trial is left" in done.stderr.replace("\n", " ")
    assert shown(work) == {"FINISHED": 3, "KILLED": 1}
    assert sum(held(work).values()) == 3
    assert (work.out / "reports" / "small" / "index.html").is_file()
    assert not differences(work.out, None).differences
