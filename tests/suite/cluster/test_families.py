"""Tests for architectures on a real Ray: one or two workers give the numbers of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from bakeoff.suite.events import Checkpoints, ExecutorSettings, Finished
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Resources, Result, Status, Trial
from bakeoff.suite.spec import vary
from bakeoff.suite.sweep.driver import executing
from bakeoff.suite.sweep.pending import topological_layers
from tests.suite.families import STARTS, TASKS, family_ablation

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

RTOL = 1e-5  # float32
IN_CI = ("sorting", 3)  # a parent and its child, whose weights two workers have in parts


def planned(task: str, **scale: object) -> Plan:
    """Return a plan of one trial with random weights, one parent, and one child of it."""
    fields = {"pretraining_steps": 2, **scale}
    return plan(family_ablation(task, axes=[vary("start", ["none", STARTS[task]])], scale=fields))


def in_order(table: Plan) -> list[Trial]:
    """Return the trial without a start, then the parent, then its child."""
    (child,) = (t for t in table.trials if t.start)
    (alone,) = (t for t in table.trials if t not in (child, child.start))
    assert child.start is not None
    return [alone, child.start, child]


def results_of(executor, trials: Sequence[Trial]) -> list[Result]:
    """Run the trials, parents before their children, and return their results."""
    found: dict[str, Result] = {}
    for layer in topological_layers([(trial, Resources()) for trial in trials]):
        events = executor.execute(layer)
        found |= {e.trial_id: e.result for e in events if isinstance(e, Finished)}
    assert [(r.status, r.reason) for r in found.values() if r.status is not Status.OK] == []
    return [found[trial.trial_id] for trial in trials]


@pytest.fixture(scope="module")
def all_plans() -> dict[tuple[str, int | None], Plan]:
    """Return the plans by task and ZeRO stage; a stage of None means one process."""
    return {(task, None): planned(task) for task in TASKS} | {
        (task, stage): planned(task, workers=2, zero=stage) for task in TASKS for stage in range(4)
    }


def settings_in(folder: Path, plans: dict[tuple[str, int | None], Plan]) -> ExecutorSettings:
    parents = {t.start.trial_id for each in plans.values() for t in each.trials if t.start}
    (folder / "checkpoints").mkdir()
    return ExecutorSettings(
        checkpoints=Checkpoints(folder=folder / "checkpoints", kept=frozenset(parents))
    )


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory, all_plans) -> Iterator[object]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        with executing("ray", None, settings_in(home, all_plans)) as opened:
            yield opened


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, all_plans) -> dict[str, list[Result]]:
    """Return the results of each task, computed in this process."""
    torch.set_num_threads(1)
    inline = InlineExecutor(settings_in(tmp_path_factory.mktemp("here"), all_plans))
    return {task: results_of(inline, in_order(all_plans[task, None])) for task in TASKS}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_on_one_worker_every_bit_is_that_of_this_process(
    task: str, executor, here: dict[str, list[Result]], all_plans
) -> None:
    found = results_of(executor, in_order(all_plans[task, None]))
    assert len(found) == 3
    assert [r.finding_sha256 for r in found] == [r.finding_sha256 for r in here[task]]


@pytest.mark.parametrize(
    ("task", "stage"),
    [
        pytest.param(task, stage, marks=() if (task, stage) == IN_CI else pytest.mark.slow)
        for task in TASKS
        for stage in range(4)
    ],
)
def test_two_workers_train_keep_and_start_as_one(
    task: str, stage: int, executor, here: dict[str, list[Result]], all_plans
) -> None:
    """Compare the trial without a start, or in two of the cases a parent and its child."""
    alone, parent, child = (0, 1, 2)
    is_pair = (task, stage) in (("fashion_mnist_images", 0), ("sorting", 3))
    places = [parent, child] if is_pair else [alone]
    trials = [in_order(all_plans[task, stage])[place] for place in places]
    assert {t.num_workers for t in trials} == {2}
    for place, found in zip(places, results_of(executor, trials), strict=True):
        wanted = here[task][place]
        for numbers, theirs in (
            (found.points, wanted.points),
            (found.measurements, wanted.measurements),
        ):
            assert [each.metric for each in numbers] == [each.metric for each in theirs]
            assert [each.value for each in numbers] == pytest.approx(
                [each.value for each in theirs], rel=RTOL, abs=RTOL
            )
