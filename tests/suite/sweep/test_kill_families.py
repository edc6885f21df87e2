"""Three trainings and thirty that start from them, killed at every stage: none is lost or redone.

Driver and workers get SIGKILL, in turn: while Ray starts, while parents train, between parents and
children, among the children, and while the report is written.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from suite.errors import DONE
from suite.journal.journal import Journal
from suite.planning.plan import plan
from suite.sweep.driver import Options, run
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
MOST_SECONDS = 300.0  # until a moment comes, on a busy machine
FILE = '''"""Does pre-training help at every rate?"""
from suite import Ablation, Model, Scale, vary

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
def parents(file: Path) -> set[str]:
    trials = plan(str(file)).trials
    found = {trial.start.trial_id for trial in trials if trial.start}
    assert (len(found), len(trials)) == (NUM_PARENTS, NUM_PARENTS + NUM_CHILDREN)
    return found


@pytest.fixture(scope="module")
def undisturbed(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    torch.set_num_threads(1)
    work = Workplace(tmp_path_factory.mktemp("undisturbed"))
    outcome = run(str(file), options=Options(out=work.out, executor="inline"))
    assert outcome.num_run == NUM_PARENTS + NUM_CHILDREN
    return work


def killed(work: Workplace, file: Path, moment: Moment, *, workers: bool = False) -> None:
    """Kill the driver then; or its workers, and the driver when three more results are there."""
    begun = Run(work, str(file))
    if workers:
        assert begun.reaches(moment, MOST_SECONDS)
        pids = list(_workers_of(begun.process.pid))
        assert pids, "a sweep on Ray has workers"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        moment = after_results(begun.num_results() + 3)
    assert begun.reaches(moment, MOST_SECONDS)
    begun.end(signal.SIGKILL)
    assert begun.leaves_nothing(), begun.processes()


def _workers_of(driver: int) -> Iterator[int]:
    """Processes of Ray that run trials, below that process."""
    above = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked
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
    """How often each trial that has a result was begun."""
    with Journal(work.out / "journal.db", read_only=True) as journal:
        done = {entry.trial_id for entry in journal.entries()}
    return {trial_id: count for trial_id, count in attempts(work).items() if trial_id in done}


def test_driver_and_workers_are_killed_at_every_stage(
    tmp_path: Path, file: Path, parents: set[str], undisturbed: Workplace
) -> None:
    work = Workplace(tmp_path)
    stages: list[tuple[Moment, bool]] = [
        (while_starting, False), (after_results(1), False), (after_results(2), True),
        (after_results(8), False), (after_results(14), True), (after_results(24), False),
        (while_reporting, False),
    ]  # fmt: skip
    done: dict[str, int] = {}
    for moment, workers in stages:
        killed(work, file, moment, workers=workers)
        found = _begun(work)
        assert done.items() <= found.items(), "what was done ran again"
        assert not found.keys() - parents or parents & found.keys(), "a child ran before its parent"
        done = found
    assert len(done) == NUM_PARENTS + NUM_CHILDREN
    ended = work.bakeoff("run", str(file))
    assert ended.returncode == DONE, ended.stderr
    assert _begun(work) == done
    assert numbers(work) == numbers(undisturbed)
    assert not (work.out / "checkpoints").exists()
