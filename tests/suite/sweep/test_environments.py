"""Tests that one comparison is made in one environment: device, threads and versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rich.console import Console

from bakeoff.suite.events import Assignments, Event, Finished, Started
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Plan, Provenance, Resources, Result, Status, Trial
from bakeoff.suite.sweep import driver as sweep
from bakeoff.suite.sweep.driver import Options, run_plans
from bakeoff.suite.timeouts import Deadline
from tests.workplace import Workplace

pytestmark = pytest.mark.usefixtures("plain_figures")

OLD = replace(provenance(Resources()), device="the old machine")
NEW = replace(OLD, device="the new machine")


@dataclass
class Cluster:
    """A fake executor whose nodes have one environment; it records the timings it was given."""

    place: Provenance
    timed: list[Trial] = field(default_factory=list)

    def execute(self, work: Assignments) -> Iterator[Event]:
        for trial, _ in work:
            yield from self._ended(trial)

    def execute_alone(self, work: Assignments, environment_id: str) -> Iterator[Event]:
        assert environment_id == self.place.environment_id
        for trial, _ in work:
            self.timed.append(trial)
            yield from self._ended(trial)

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        return self.place.environment_id

    def refuse_infeasible(self, work: Assignments) -> None:
        pass

    def _ended(self, trial: Trial) -> Iterator[Event]:
        yield Started(trial.trial_id, "node 1")
        yield Finished(ended(trial, self.place))


def ended(trial: Trial, place: Provenance) -> Result:
    return Result(trial_id=trial.trial_id, status=Status.OK, provenance=place, seconds=0.0)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(sweep, "mlflow_is_installed", lambda: False)
    monkeypatch.setattr(sweep, "conclude", lambda outcome, *rest: outcome)
    file = Workplace(tmp_path).ablation(
        axis="depth", values=[1, 2], probes=["quality", "step_time"], seeds=3, batch=2
    )
    return plan(file)


def timings(planned: Plan) -> list[Trial]:
    """Return the timings, one per process; each compares both variants."""
    found = [trial for trial in planned.trials if trial.probe == "step_time"]
    assert [trial.seed for trial in found] == [0, 1, 2]
    return found


def environments(out: Path, trial: Trial) -> set[str]:
    with Journal(out / "journal.db", read_only=True) as journal:
        return journal.done()[trial.trial_id]


@pytest.mark.parametrize("seconds", [None, 600.0], ids=["to the end", "with a limit"])
@pytest.mark.parametrize("num_done", [1, 2])
def test_where_the_nodes_of_earlier_timings_are_gone_all_are_made_anew(
    planned: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    num_done: int,
    seconds: float | None,
) -> None:
    out, cluster = tmp_path / "out", Cluster(NEW)
    deadline = None if seconds is None else Deadline(seconds)  # starts here, not at collection
    out.mkdir()
    with Journal(out / "journal.db") as journal:
        # Use the last ones, so that the order alone does not give the right answer.
        for trial in timings(planned)[3 - num_done :]:
            journal.commit(ended(trial, OLD), journal.begin(trial.trial_id, "node 0"))
    monkeypatch.setattr(sweep, "executing", lambda *arguments: nullcontext(cluster))
    options = Options(out=out, address="127.0.0.1:6379", deadline=deadline)
    outcome = run_plans([planned], options, Console(quiet=True))
    assert (outcome.num_missing, outcome.num_left) == (0, 0)
    assert sorted(trial.seed for trial in cluster.timed) == [0, 1, 2]
    for trial in timings(planned):
        assert NEW.environment_id in environments(out, trial)


def test_a_sweep_that_goes_on_on_another_machine_times_all_processes_there(
    planned: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, there = tmp_path / "out", Cluster(provenance(planned.resources))
    out.mkdir()
    with Journal(out / "journal.db") as journal:
        for trial in timings(planned)[:2]:
            journal.commit(ended(trial, OLD), journal.begin(trial.trial_id, "node 0"))
    monkeypatch.setattr(sweep, "executing", lambda *arguments: nullcontext(there))
    run_plans([planned], Options(out=out, executor="inline"), Console(quiet=True))
    assert sorted(trial.seed for trial in there.timed) == [0, 1, 2]


@pytest.mark.whole
def test_threads_are_an_environment_and_two_ablations_do_not_share_their_timings(
    planned: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(
        planned,
        about=replace(planned.about, ablation="other"),
        resources=Resources(num_cpus=2, num_threads=2),
    )
    out = tmp_path / "out"

    def ended_here(
        trial: Trial, resources: Resources, *rest: object, **named: object
    ) -> Iterator[Event]:
        yield Finished(ended(trial, provenance(resources)))

    monkeypatch.setattr("bakeoff.suite.execution.inline.run_trial", ended_here)
    monkeypatch.setattr("bakeoff.suite.execution.inline.run_in_subprocess", ended_here)
    run_plans([planned, other], Options(out=out, executor="inline"), Console(quiet=True))
    wanted = {provenance(each.resources).environment_id for each in (planned, other)}
    assert len(wanted) == 2
    for trial in timings(planned):
        assert environments(out, trial) == wanted
