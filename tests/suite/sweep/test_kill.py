"""Tests that a sweep killed at any moment and started again loses and duplicates nothing."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bakeoff.suite.cli import app
from bakeoff.suite.errors import DONE, INTERRUPTED
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError
from bakeoff.suite.schema import Status
from bakeoff.suite.sweep.driver import Options, run
from tests.workplace import Workplace

pytestmark = pytest.mark.ray

NUM_TRIALS = 12
RATES = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]  # two seeds each
Moment = Callable[["Run"], bool]


class Run:
    """`bakeoff run` in a separate process; a mark in the environment identifies all it starts."""

    def __init__(self, work: Workplace, file: str) -> None:
        self.work = work
        self.mark = uuid.uuid4().hex
        self.process = replace(work, environment={"BAKEOFF_TEST": self.mark}).start("run", file)
        self.began = time.monotonic()

    def num_results(self) -> int:
        try:
            with Journal(self.work.out / "journal.db", read_only=True) as journal:
                return len(journal.entries())
        except JournalError:  # there is no journal yet
            return 0

    def reaches(self, moment: Moment, seconds: float = 120.0) -> bool:
        """Wait for the moment; return False if the command ended before."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if moment(self):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        raise AssertionError("the moment never came")

    def end(self, number: signal.Signals) -> str:
        """Send the signal to the driver alone; return its output."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[0]

    def processes(self, *, with_agents: bool = False) -> list[str]:
        """Return the command lines of the live processes that this run started.

        Ray's two agents hold no trial and no CPU, but end only after a minute: when their node is
        dead they first report that for 60 seconds to a head that is dead too
        (`publish_error_to_driver` in ray/_private/utils.py, 2.60).
        """
        return [line for line in self._alive() if with_agents or "Agent" not in line]

    def _alive(self) -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # the process has just ended
                if self.mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def leaves_nothing(self, seconds: float = 30.0, *, with_agents: bool = False) -> bool:
        """Wait until no process is left; on a busy machine Ray's processes notice a kill late."""
        until = time.monotonic() + seconds
        while self.processes(with_agents=with_agents):
            if time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True


def after_results(number: int) -> Moment:
    return lambda run: run.num_results() >= number


def after_seconds(seconds: float) -> Moment:
    return lambda run: time.monotonic() - run.began > seconds


def while_starting(run: Run) -> bool:
    """Return True if the journal exists and Ray is starting.

    A child of Ray that has not started its own program yet is not notified when its parent ends, as
    it requests that after the fork; the next run ends it
    (`bakeoff.suite.execution.process_cleanup`).
    """
    has_begun = any("gcs_server" in line for line in run.processes())
    return (run.work.out / "journal.db").exists() and has_begun


def while_reporting(run: Run) -> bool:
    return (run.work.out / "reports").exists()


def attempts(work: Workplace) -> dict[str, int]:
    with Journal(work.out / "journal.db", read_only=True) as journal:
        return {attempt.trial_id: attempt.attempt for attempt in journal.attempts()}


def numbers(work: Workplace) -> dict[str, object]:
    """Return the status, measurements and points of every trial in the journal."""
    with Journal(work.out / "journal.db", read_only=True) as journal:
        trial_ids = [entry.trial_id for entry in journal.entries()]
        assert len(trial_ids) == len(set(trial_ids))
        found = {
            r.trial_id: (r.status, r.measurements, r.points) for r in journal.results(trial_ids)
        }
    assert {status for status, _, _ in found.values()} <= {Status.OK}
    return dict(found)


def reported(work: Workplace) -> list[tuple[str, ...]]:
    with (work.out / "reports" / "small" / "results.csv").open(newline="") as file:
        return [
            tuple(row[name] for name in ("variant", "seed", "metric", "value", "status"))
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """Return a workplace in which the same sweep ran inline, without an interruption."""
    torch.set_num_threads(1)
    work = Workplace(tmp_path_factory.mktemp("undisturbed"))
    file = work.ablation(values=RATES, probes=["quality"])
    assert run(file, options=Options(out=work.out, executor="inline")).num_run == NUM_TRIALS
    return work


def finish(work: Workplace, file: str, undisturbed: Workplace) -> None:
    """Run the command once more, and compare everything with the undisturbed sweep."""
    done = work.bakeoff("run", file)
    assert done.returncode == DONE, done.stderr
    assert numbers(work) == numbers(undisturbed)
    assert reported(work) == reported(undisturbed)
    verified = CliRunner().invoke(app, ["verify", "--out", str(work.out)])
    assert (verified.exit_code, "agree" in verified.stdout) == (DONE, True), verified.stdout
    assert children_of(work) == {("FINISHED", 1): NUM_TRIALS}


def children_of(work: Workplace) -> Counter[tuple[str, int]]:
    """Count the trials in the store by status and by the number of their runs."""
    from tests.suite.heads_sweep import LocalStore

    shown = LocalStore(work.out).trials(("small", "quick"))
    times = Counter(child.trial_id for child in shown)
    return Counter((child.status, times[child.trial_id]) for child in shown)


def killed_at(work: Workplace, file: str, moment: Moment, *, may_end: bool = False) -> None:
    """Kill the driver at a moment; check that results are kept and that no process is left."""
    finished_before = numbers(work) if (work.out / "journal.db").exists() else {}
    started_before = attempts(work) if finished_before else {}
    run = Run(work, file)
    was_reached = run.reaches(moment)
    acknowledged = run.num_results()
    said = run.end(signal.SIGKILL)
    assert was_reached or may_end, said
    assert run.leaves_nothing(), run.processes()
    if not acknowledged:
        return
    found = numbers(work)
    assert len(found) >= acknowledged
    for trial_id, number in finished_before.items():
        assert found[trial_id] == number
        assert attempts(work)[trial_id] == started_before[trial_id], "a finished trial ran again"


def interrupted_at(work: Workplace, file: str, moment: Moment) -> None:
    """Interrupt the driver by Ctrl-C; check its message, and that no trial is shown as running."""
    run = Run(work, file)
    assert run.reaches(moment)
    said = run.end(signal.SIGINT)
    assert run.process.returncode == INTERRUPTED, said
    assert "the same command continues from here" in said
    assert "Traceback" not in said
    assert run.leaves_nothing(), run.processes()
    assert "RUNNING" not in {status for status, _ in children_of(work)}
    assert numbers(work)


@pytest.mark.slow  # `make chaos-short`, which CI runs too, kills more often
def test_kill_after_kill_the_sweep_ends_as_if_nothing_had_happened(
    tmp_path: Path, undisturbed: Workplace
) -> None:
    work = Workplace(tmp_path)
    file = work.ablation(values=RATES, probes=["quality"])
    killed_at(work, file, while_starting)
    killed_at(work, file, after_results(1))
    interrupted_at(work, file, after_results(6))
    killed_at(work, file, while_reporting)
    counted = attempts(work)
    assert len(counted) == NUM_TRIALS
    finish(work, file, undisturbed)
    assert attempts(work) == counted  # all trials had ended before the last kill


@pytest.mark.slow
def test_after_a_kill_even_the_agents_end(tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    run = Run(work, work.ablation(values=RATES, probes=["quality"]))
    assert run.reaches(after_results(1))
    run.end(signal.SIGKILL)
    assert run.leaves_nothing(180.0, with_agents=True), run.processes(with_agents=True)


MOMENTS = {f"{0.5 * n} seconds": after_seconds(0.5 * n) for n in range(1, 24)} | {
    f"{n} results": after_results(n) for n in range(1, NUM_TRIALS + 1)
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_killed_at_every_moment(tmp_path: Path, undisturbed: Workplace, moment: Moment) -> None:
    work = Workplace(tmp_path)
    file = work.ablation(values=RATES, probes=["quality"])
    killed_at(work, file, moment, may_end=True)
    before = {trial_id: attempts(work)[trial_id] for trial_id in numbers(work)}
    finish(work, file, undisturbed)
    assert before.items() <= attempts(work).items()


@pytest.mark.bad_input(28)
@pytest.mark.slow
def test_ctrl_c_of_a_terminal_reaches_all_processes_and_twice_is_no_worse(
    tmp_path: Path, undisturbed: Workplace
) -> None:
    """Send the signal to the whole process group, as a terminal does, and send it twice."""
    work = Workplace(tmp_path)
    file = work.ablation(values=RATES, probes=["quality"])
    run = Run(work, file)
    assert run.reaches(after_results(2))
    os.killpg(run.process.pid, signal.SIGINT)
    time.sleep(0.3)
    with suppress(ProcessLookupError):
        os.killpg(run.process.pid, signal.SIGINT)
    said = run.process.communicate(timeout=60)[0]
    assert run.process.returncode == INTERRUPTED, said
    assert run.leaves_nothing(), run.processes()
    finish(work, file, undisturbed)


@pytest.mark.slow
def test_a_stopped_driver_goes_on_where_it_was(tmp_path: Path, undisturbed: Workplace) -> None:
    """Stop the driver by SIGSTOP and resume it by SIGCONT, like a laptop that sleeps."""
    work = Workplace(tmp_path)
    file = work.ablation(values=RATES, probes=["quality"])
    run = Run(work, file)
    assert run.reaches(after_results(2))
    run.process.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        run.process.communicate(timeout=5)
    run.process.send_signal(signal.SIGCONT)
    said = run.process.communicate(timeout=120)[0]
    assert run.process.returncode == DONE, said
    assert set(attempts(work).values()) == {1}
    finish(work, file, undisturbed)
