"""Tests for trials of two workers on a real Ray, with and without kills: same numbers as inline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bakeoff.suite.events import (
    Checkpoints,
    Event,
    Finished,
    Progressed,
    Remarked,
    Started,
)
from bakeoff.suite.execution.output import MOST_BYTES
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Parallel, Resources, Result, Status, Trial
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.training.checkpoint import remove, why_invalid
from tests.suite.cluster.heads import embedded, is_gone, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

RTOL = 1e-5  # float32; measured: 2e-7
STEPS = 40
SPREAD = Parallel(workers=2, zero=1, precision="float32", accumulation=1)
MIXERS = '''"""Mixers that tell of every pass, and meet their fault in training, on one worker."""
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from bakeoff.models.mixer import Mixer

FOLDER = Path({folder!r})


class Told(Mixer):
    supports_causal = True

    def __init__(self, **fields):
        super().__init__(**fields)
        self.map = torch.nn.Linear(self.dim, self.dim)

    def forward(self, x, mask=None, context=None, context_mask=None):
        if self.training and dist.is_initialized():
            with (FOLDER / f"worker-{{dist.get_rank()}}").open("a") as told:
                print(os.getpid(), file=told)
            self.meet_fault()
        return self.map(x).cumsum(1) / 8

    def meet_fault(self):
        time.sleep({pause})


class Raises(Told):
    def meet_fault(self):
        if dist.get_rank() == 1:
            print("x" * 200_000, "printed before the fault")
            raise RuntimeError("the mixer has a fault")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the mixers, the record of their passes, and the checkpoints."""
    made = tmp_path_factory.mktemp("workers")
    (made / "worker_mixers.py").write_text(MIXERS.format(folder=str(made), pause=0.1))
    return made


@pytest.fixture(scope="module")
def executor(folder: Path) -> Iterator[object]:
    """Yield one embedded Ray for all tests of this file, with a checkpoint at every evaluation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        with embedded(folder, folder, seconds_between=0.0) as opened:
            yield opened


@pytest.fixture(autouse=True)
def _nothing_told(folder: Path) -> None:
    torch.set_num_threads(1)
    for file in folder.glob("worker-*"):
        file.unlink()


def trial_with(mixer: str) -> Trial:
    scale = Scale(
        dim=8,
        depth=1,
        length=64,
        steps=STEPS,
        batch=8,
        learning_rate=1e-2,
        num_evaluations=8,
        workers=2,
        zero=1,
        seeds=1,
    )
    ablation = Ablation(
        question="?",
        baseline=Model(mixer=f"worker_mixers:{mixer}"),
        scales={"quick": scale},
        tasks=["shakespeare_characters"],
        probes=["quality"],
        axes=[vary("batch", [8, 10])],
    )
    return plan(ablation).trials[0]


@pytest.fixture(scope="module")
def undisturbed(executor: object) -> Result:
    """Return the result of the same trial in one process, by the local engine."""
    *_, last = run_trial(replace(trial_with("Told"), parallel=None), Resources(), "here")
    assert isinstance(last, Finished)
    return last.result


def assert_same_numbers(result: Result, wanted: Result) -> None:
    assert result.status is Status.OK, result.traceback
    assert [(p.metric, p.step, p.flops) for p in result.points] == [
        (p.metric, p.step, p.flops) for p in wanted.points
    ]
    values = [point.value for point in wanted.points]
    assert [point.value for point in result.points] == pytest.approx(values, rel=RTOL)
    assert [m.value for m in result.measurements] == [
        pytest.approx(m.value, rel=RTOL) for m in wanted.measurements
    ]


def passes(folder: Path, rank: int) -> list[int]:
    """Return the process id of each training pass of a worker, in order."""
    file = folder / f"worker-{rank}"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def is_kept(folder: Path) -> bool:
    """Return True if there is a checkpoint and worker 1 has passed a quarter of the steps."""
    kept = [*(folder / "checkpoints").glob("*/generation-*")]
    return bool(kept) and len(passes(folder, 1)) > STEPS // 4


def assert_committed(folder: Path) -> None:
    """Check the checkpoints of a finished trial, and that `remove` deletes all of them."""
    trial_id = trial_with("Told").trial_id
    kept = [*(folder / "checkpoints" / trial_id).glob("generation-*")]
    assert 1 <= len(kept) <= 2
    assert [why_invalid(generation, trial_id) for generation in kept] == [""] * len(kept)
    remove(Checkpoints(folder=folder / "checkpoints"), trial_id)
    assert not (folder / "checkpoints" / trial_id).exists()


def free_cpus() -> float:
    import ray

    return float(ray.available_resources().get("CPU", 0.0))


def test_a_killed_worker_resumes_and_the_numbers_are_those_of_one_process(
    executor, folder: Path, undisturbed: Result
) -> None:
    trial, killed = trial_with("Told"), 0
    told: list[Event] = []
    for event in executor.execute([(trial, Resources())]):
        told.append(event)
        if not killed and is_kept(folder):
            killed = passes(folder, 1)[-1]
            os.kill(killed, signal.SIGKILL)
    result = told[-1].result if isinstance(told[-1], Finished) else None
    assert result is not None
    assert_same_numbers(result, undisturbed)
    assert 0 < len(passes(folder, 1)) - passes(folder, 1).count(killed) < STEPS, "it began anew"
    points = [p for event in told if isinstance(event, Progressed) for p in event.points]
    assert len({(p.metric, p.step) for p in points}) == len(points), "a point was told twice"
    assert [type(event) for event in told if isinstance(event, Started | Finished)] == [
        Started,
        Finished,
    ]
    remarks = [event.sentence for event in told if isinstance(event, Remarked)]
    assert len(remarks) == 1
    assert remarks[0].startswith("it resumes from step ")
    assert_committed(folder)
    wait_until(lambda: free_cpus() == os.cpu_count())


@pytest.mark.slow
def test_an_error_on_one_worker_is_a_row_and_ends_the_others(executor, folder: Path) -> None:
    *_, last = executor.execute([(trial_with("Raises"), Resources())])
    assert isinstance(last, Finished)
    assert last.result.status is Status.ERROR
    assert last.result.reason.startswith("RuntimeError: the mixer has a fault (at worker_mixers.py")
    assert "worker_mixers.py" in last.result.traceback
    assert last.result.output.endswith("xxx printed before the fault\n")
    assert len(last.result.output) == MOST_BYTES + len("... ")
    assert len(passes(folder, 1)) == 1, "what raises is a finding, and not tried again"
    wait_until(lambda: free_cpus() == os.cpu_count())
    assert all(is_gone(process) for process in passes(folder, 0))


@pytest.mark.slow
def test_cancelling_ends_the_workers_and_gives_back_their_room(executor, folder: Path) -> None:
    from bakeoff.suite.cluster.ray_private import remove_orphaned_groups

    with closing(executor.execute([(trial_with("Told"), Resources())])) as events:
        next(event for event in events if isinstance(event, Progressed))
        processes = {process for rank in (0, 1) for process in passes(folder, rank)}
        assert len(processes) == 2
        assert free_cpus() < os.cpu_count()
    wait_until(lambda: all(map(is_gone, processes)))
    wait_until(lambda: remove_orphaned_groups() == 0 and free_cpus() == os.cpu_count())


DRIVER = """
from pathlib import Path

from bakeoff.suite.events import Checkpoints
from bakeoff.suite.sweep.driver import executing
from bakeoff.suite.events import ExecutorSettings
from bakeoff.suite.schema import Resources
from tests.suite.cluster.test_multi_worker import trial_with
from tests.workplace import code_in

folder = Path({folder!r})
settings = ExecutorSettings(
    code=code_in(folder),
    checkpoints=Checkpoints(folder=folder / "checkpoints", seconds_between=0.0),
)
with executing("ray", None, settings) as executor:
    list(executor.execute([(trial_with("Told"), Resources())]))
"""


@pytest.mark.slow
def test_a_killed_driver_goes_on_where_it_was(executor, folder: Path, undisturbed: Result) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(folder=str(folder))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(Path.cwd())])},
    )
    wait_until(lambda: is_kept(folder) or driver.poll() is not None)
    driver.kill()
    driver.wait()
    first_life = {process for rank in (0, 1) for process in passes(folder, rank)}
    wait_until(lambda: all(map(is_gone, first_life)))
    *_, last = executor.execute([(trial_with("Told"), Resources())])
    assert isinstance(last, Finished)
    assert_same_numbers(last.result, undisturbed)
    assert 0 < sum(process not in first_life for process in passes(folder, 1)) < STEPS
    assert_committed(folder)
