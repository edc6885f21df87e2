"""Kill a sweep of 3 parents and 30 children at every stage; no trial is lost or run again.

The driver and workers get SIGKILL in turn: while Ray starts, while parents train, among the
children, and while the report is written. Another sweep is killed when all parents have a result
and no child has; the first sweep cannot test this, because after a kill a missing parent may run
beside children of other parents.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from bakeoff.suite.errors import DONE
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.sweep.driver import Options, run
from tests.suite.sweep.test_kill import (
    Moment,
    Run,
    after_results,
    attempts,
    numbers,
    while_reporting,
    while_starting,
)
from tests.workplace import Workplace

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

NUM_PARENTS, NUM_CHILDREN = 3, 30
MOST_SECONDS = 300.0  # limit of the wait for a moment, on a busy machine
FILE = '''"""Does pre-training help at every rate?"""
from bakeoff import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does pre-training help at every rate?",
    baseline=Model(mixer="attention", position="none"),
    axes=[vary("learning_rate", [0.001 * n for n in range(1, 11)])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(
            dim=8, depth=1, length=49, steps=6, batch=100, num_evaluations=1, seeds=3,
            learning_rate=0.001, start="parity", pretraining_steps=6,
            pretraining_learning_rate=0.01,
        )
    },
)
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("families") / "small.py"
    found.write_text(FILE)
    return found


@pytest.fixture(scope="module")
def parents(file: Path) -> dict[str, str]:
    """Return the parent of each child, by id."""
    trials = plan(str(file)).trials
    found = {trial.trial_id: trial.start.trial_id for trial in trials if trial.start}
    assert (len(set(found.values())), len(found)) == (NUM_PARENTS, NUM_CHILDREN)
    assert len(trials) == NUM_PARENTS + NUM_CHILDREN
    return found


@pytest.fixture(scope="module")
def undisturbed(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    torch.set_num_threads(1)
    work = Workplace(tmp_path_factory.mktemp("undisturbed"))
    outcome = run(str(file), options=Options(out=work.out, executor="inline"))
    assert outcome.num_run == NUM_PARENTS + NUM_CHILDREN
    return work


def all_parents_alone(run: Run) -> bool:
    """Return True once there are as many results as parents, which run before all children.

    The driver is stopped during the check, and stays stopped if the result is True, because on a
    busy machine a child may take less time than the check.
    """
    run.process.send_signal(signal.SIGSTOP)
    is_reached = run.num_results() >= NUM_PARENTS
    if not is_reached:
        run.process.send_signal(signal.SIGCONT)
    return is_reached


def killed(work: Workplace, file: Path, moment: Moment, of_workers: Moment | None = None) -> None:
    """Kill the driver at a moment, and optionally its workers at an earlier one."""
    begun = Run(work, str(file))
    if of_workers:
        assert begun.reaches(of_workers, MOST_SECONDS)
        pids = list(_workers_of(begun.process.pid))
        assert pids, "a sweep on Ray has workers"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert begun.reaches(moment, MOST_SECONDS)
    begun.end(signal.SIGKILL)
    assert begun.leaves_nothing(), begun.processes()


def _workers_of(driver: int) -> Iterator[int]:
    """Yield the Ray processes that run trials and descend from the driver."""
    above = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            above[int(folder.name)] = int(fields[1])
    for pid in above:
        line = pid
        while line not in (driver, 0, 1):
            line = above.get(line, 0)
        with suppress(OSError):
            name = Path(f"/proc/{pid}/cmdline").read_bytes()
            if line == driver and name.startswith(b"ray::_stream_trial"):
                yield pid


def _begun(work: Workplace) -> dict[str, int]:
    """Return the number of attempts of each trial that has a result."""
    with Journal(work.out / "journal.db", read_only=True) as journal:
        done = {entry.trial_id for entry in journal.entries()}
    return {trial_id: count for trial_id, count in attempts(work).items() if trial_id in done}


@pytest.mark.slow
def test_driver_and_workers_are_killed_at_every_stage(
    tmp_path: Path, file: Path, parents: dict[str, str], undisturbed: Workplace
) -> None:
    work = Workplace(tmp_path)
    stages: list[tuple[Moment, Moment | None]] = [
        (while_starting, None),
        (after_results(1), None),
        (after_results(5), after_results(2)),
        (after_results(8), None),
        (after_results(17), after_results(14)),
        (after_results(24), None),
        (while_reporting, None),
    ]
    done: dict[str, int] = {}
    for moment, of_workers in stages:
        killed(work, file, moment, of_workers)
        found = _begun(work)
        assert done.items() <= found.items(), "what was done ran again"
        orphans = {child for child in parents.keys() & found if parents[child] not in found}
        assert not orphans, "a child ran before its parent"
        done = found
    assert len(done) == NUM_PARENTS + NUM_CHILDREN
    finish(work, file, undisturbed)
    assert _begun(work) == done


@pytest.mark.slow
def test_killed_between_parents_and_children(
    tmp_path: Path, file: Path, parents: dict[str, str], undisturbed: Workplace
) -> None:
    work = Workplace(tmp_path)
    killed(work, file, all_parents_alone, after_results(1))
    done = _begun(work)
    assert done.keys() == set(parents.values())
    finish(work, file, undisturbed)
    assert done.items() <= _begun(work).items(), "what was done ran again"


def finish(work: Workplace, file: Path, undisturbed: Workplace) -> None:
    """Run the command once more, and compare the numbers with the undisturbed sweep."""
    ended = work.bakeoff("run", str(file), timeout=2 * MOST_SECONDS)
    assert ended.returncode == DONE, ended.stderr
    assert numbers(work) == numbers(undisturbed)
    assert not (work.out / "checkpoints").exists()
