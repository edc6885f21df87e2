"""Tests for trials on a real Ray: the same numbers as inline, and a result for every end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import ray
import torch

from bakeoff.suite.cluster import execute
from bakeoff.suite.cluster.ray_private import end_process_after_this_task
from bakeoff.suite.events import (
    Event,
    Finished,
    Progressed,
    Remarked,
    Started,
)
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.own_modules import planned_code
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Resources, Result, Status
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.driver import Options
from bakeoff.suite.sweep.verify import differences
from tests.suite.cluster.heads import embedded, is_gone, wait_until
from tests.suite.execution.test_isolation import MIXERS, POLLUTIONS, here, numbers
from tests.workplace import Workplace

pytestmark = [pytest.mark.ray, pytest.mark.whole]


@pytest.fixture(scope="module")
def mixers(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """Return a folder with the user's own mixers, in the module `cluster_mixers`."""
    work = Workplace(tmp_path_factory.mktemp("mixers"))
    work.mixers("cluster_mixers", pause=0.05)
    return work


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def executor(mixers: Workplace, home: Path) -> Iterator[object]:
    """Yield one embedded Ray for all tests of this file."""
    with embedded(home, mixers.path) as opened:
        yield opened


def results(events: Sequence[Event]) -> dict[str, Result]:
    return {e.trial_id: e.result for e in events if isinstance(e, Finished)}


def work_of(planned: Plan) -> list[tuple[object, Resources]]:
    return [(trial, planned.resources) for trial in planned.trials]


def own(mixers: Workplace, *names: str, seeds: int = 1) -> Plan:
    return plan(
        mixers.ablation(
            mixer="cluster_mixers:Good",
            axis="mixer",
            probes=["quality"],
            seeds=seeds,
            values=["cluster_mixers:Good", *(f"cluster_mixers:{name}" for name in names)],
        )
    )


def test_a_sweep_on_ray_gives_the_bits_of_this_process_and_records_that_agree(
    executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a sweep from end to end twice: on the Ray of all tests of this file, and inline."""
    monkeypatch.setattr(driver, "executing", lambda *arguments: nullcontext(executor))
    file = Workplace(tmp_path).ablation(
        mixer="attention", axis="heads", values=[1, 4], steps=30, probes=["quality"]
    )
    away = swept(file, Options(out=tmp_path / "away", executor="ray"))
    monkeypatch.undo()
    monkeypatch.setattr(driver, "mlflow_is_installed", lambda: False)
    here = swept(file, Options(out=tmp_path / "here", executor="inline"))
    torch.set_num_threads(1)
    assert away.keys() == here.keys()
    assert len(away) == 4
    for trial_id, result in here.items():
        assert result.status is away[trial_id].status is Status.OK, away[trial_id].traceback
        assert result.points == away[trial_id].points
        assert result.measurements == away[trial_id].measurements
        assert result.provenance == away[trial_id].provenance
    assert max(len(result.points) for result in here.values()) == 31
    assert differences(tmp_path / "away", None).differences == ()
    rows, wanted = ((tmp_path / out / "reports/small/results.csv") for out in ("away", "here"))
    assert len(rows.read_text().splitlines()) == len(wanted.read_text().splitlines()) > 4


def swept(file: str, options: Options) -> dict[str, Result]:
    """Run a sweep, and return the results in its journal, by trial id."""
    outcome = driver.run(file, options=options)
    assert (outcome.error, outcome.num_missing) == ("", 0)
    with Journal(options.out / "journal.db", read_only=True) as journal:
        trial_ids = [entry.trial_id for entry in journal.entries()]
        return {result.trial_id: result for result in journal.results(trial_ids)}


@pytest.mark.slow
@pytest.mark.cluster
def test_own_code_has_its_own_process_and_a_changed_one_ends(executor, mixers: Workplace) -> None:
    polluter = MIXERS + f"class Loss(Polluter):\n    def pollute(self): {POLLUTIONS['Loss']}\n"
    (mixers.path / "polluting_loss.py").write_text(polluter)
    values = ["polluting_loss:Loss", "fnet"]
    file = mixers.ablation(mixer="fnet", axis="mixer", values=values, probes=["quality"])
    planned = plan(file)
    work = work_of(planned)
    with_it = type(executor)(replace(executor.settings, code=planned_code([planned])))
    assert numbers(with_it.execute(work)) == numbers(here(work))

    @ray.remote(max_calls=1_000_000, num_returns="streaming")
    def changed() -> Iterator[int]:
        end_process_after_this_task(1_000_000)
        for _ in range(3):
            yield os.getpid()

    first, second = ([ray.get(pid) for pid in changed.remote()] for _ in range(2))
    assert len(first) == len(second) == 3
    assert first != second


@pytest.mark.slow
@pytest.mark.cluster
def test_thirty_trials_all_finish_each_once(executor, mixers: Workplace) -> None:
    planned = plan(
        mixers.ablation(
            values=[1e-3 * n for n in range(1, 31)], seeds=1, steps=1, probes=["quality"]
        )
    )
    events = list(executor.execute(work_of(planned)))
    wanted = {trial.trial_id for trial in planned.trials}
    assert len(wanted) == 30
    for kind in (Started, Finished):
        told = [event.trial_id for event in events if isinstance(event, kind)]
        assert len(told) == 30
        assert set(told) == wanted
    assert {result.status for result in results(events).values()} == {Status.OK}


@pytest.mark.slow
@pytest.mark.cluster
def test_a_short_trial_does_not_wait_for_a_long_one(executor, mixers: Workplace) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one CPU runs one trial at a time")
    planned = own(mixers, "Hangs")
    endless = next(t for t in planned.trials if t.subjects[0].mixer.endswith("Hangs"))
    good = next(t for t in planned.trials if t.subjects[0].mixer.endswith("Good"))
    limited = type(executor)(replace(executor.settings, trial_seconds=120.0))
    with closing(limited.execute([(endless, Resources()), (good, Resources())])) as events:
        first = next(event for event in events if isinstance(event, Finished))
    assert first.trial_id == good.trial_id


@pytest.mark.slow
@pytest.mark.cluster
def test_curves_arrive_while_a_trial_runs(executor, mixers: Workplace) -> None:
    slow = next(t for t in own(mixers, "Slow").trials if t.subjects[0].mixer.endswith("Slow"))
    events = list(executor.execute([(slow, Resources())]))
    live = [e for e in events if isinstance(e, Progressed)]
    assert events.index(live[0]) < len(events) - 1
    told = tuple(point for event in live for point in event.points)
    assert told == results(events)[slow.trial_id].points[: len(told)]


@pytest.mark.cluster
@pytest.mark.parametrize("fault", [pytest.param("Exits", marks=pytest.mark.slow), "Killed"])
def test_a_process_that_dies_and_what_raises_are_rows_and_the_others_finish(
    executor, mixers: Workplace, fault: str
) -> None:
    planned = own(mixers, fault, "Raises")
    found = results(list(executor.execute(work_of(planned))))
    good, died, raised = (found[trial.trial_id] for trial in planned.trials)
    assert [good.status, died.status, raised.status] == [Status.OK, Status.CRASHED, Status.ERROR]
    assert died.reason.startswith("given up after 3 attempts; in the last its process")
    assert "\n" not in died.reason
    assert died.measurements == ()
    assert raised.reason.startswith("RuntimeError: the mixer has a fault (at cluster_mixers.py, ")
    assert "cluster_mixers.py" in raised.traceback
    assert raised.output == "said before the fault\n"


@pytest.mark.slow
@pytest.mark.cluster
def test_a_process_that_dies_once_costs_the_trial_nothing(executor, mixers: Workplace) -> None:
    planned = own(mixers, "KilledOnce")
    events = list(executor.execute(work_of(planned)))
    assert {result.status for result in results(events).values()} == {Status.OK}
    (remark,) = [event for event in events if isinstance(event, Remarked)]
    assert remark.sentence == "its process died; it runs again (attempt 2)"
    num_started = Counter(event.trial_id for event in events if isinstance(event, Started))
    assert num_started[remark.trial_id] == 2
    assert num_started.total() == 3


@pytest.mark.cluster
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("Hangs", marks=pytest.mark.slow),
        "HangsInC",
        pytest.param("Stops", marks=pytest.mark.slow),
    ],
)
def test_a_trial_that_never_ends_is_ended_and_leaves_nothing(
    executor, mixers: Workplace, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "SECONDS_OF_GRACE", 2.0)
    limited = type(executor)(replace(executor.settings, trial_seconds=1.0))
    planned = own(mixers, fault)
    faulty = next(t for t in planned.trials if t.subjects[0].mixer.endswith(fault))
    events = list(limited.execute([(faulty, planned.resources)]))
    (result,) = results(events).values()
    assert result.status is Status.TIMEOUT
    assert "--trial-limit" in result.reason
    (place,) = [event.place for event in events if isinstance(event, Started)]
    if fault != "Hangs":  # "Hangs" ends in time, and its process is used again
        gone = [int(place.rpartition(" ")[2]), *_children_left()]
        wait_until(lambda: not any(map(psutil.pid_exists, gone)) and not _children_left())


def _children_left() -> list[int]:
    """Return the processes started by the mixer that has a child process."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "604742" in (process.info["cmdline"] or [])
    ]


@pytest.mark.slow
@pytest.mark.cluster
def test_timings_run_one_at_a_time_in_processes_of_their_own(executor, mixers: Workplace) -> None:
    """Use timings that fail at the first pass; test_scheduling.py has timings that succeed."""
    planned = plan(
        mixers.ablation(
            mixer="cluster_mixers:Raises", axis="depth", values=[1, 2], probes=["step_time"]
        )
    )
    work = work_of(planned)
    assert len(work) == 2
    events = list(executor.execute_alone(work, executor.environment_for_timing(work[0][1], "")))
    places = [event.place for event in events if isinstance(event, Started)]
    assert len(set(places)) == 2
    assert not any(f"process {os.getpid()}" in place for place in places)
    order = [(type(e).__name__, e.trial_id) for e in events if isinstance(e, Started | Finished)]
    assert order == [
        (kind, trial.trial_id) for trial, _ in work for kind in ("Started", "Finished")
    ]
    used = {
        event.place
        for event in executor.execute(work_of(own(mixers)))
        if isinstance(event, Started)
    }
    assert not used & set(places)  # a process that ran a timing is not used again


@pytest.mark.slow
@pytest.mark.cluster
def test_leaving_early_ends_what_runs(executor, mixers: Workplace) -> None:
    planned = plan(
        mixers.ablation(
            mixer="cluster_mixers:Slow",
            values=[1e-3 * n for n in range(1, 7)],
            probes=["quality"],
            seeds=1,
            steps=2000,
        )
    )
    with closing(executor.execute(work_of(planned))) as events:
        started = next(event for event in events if isinstance(event, Started))
    process = int(started.place.rpartition(" ")[2])
    wait_until(lambda: is_gone(process))
    # The CPUs must be free again; otherwise this would wait for minutes.
    short = own(mixers)
    with closing(executor.execute(work_of(short))) as events:
        assert [e.result.status for e in events if isinstance(e, Finished)] == [Status.OK]


def test_nothing_was_written_to_the_home_folder(executor, home: Path) -> None:
    assert list(home.iterdir()) == []
