"""Train every mixer on every task that fits it: briefly inline, longer on a real Ray."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bakeoff.models import MIXERS, architecture_class, mixer_class
from bakeoff.suite.events import Checkpoints, ExecutorSettings, Finished
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Status
from bakeoff.suite.tasks.registry import task_class
from tests.suite.cluster.heads import embedded

pytestmark = pytest.mark.whole

ABLATION = '''"""Do all of them train?"""
from bakeoff import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Do all of them train?",
    baseline=Model(mixer="attention"),
    axes=[vary("mixer", {mixers!r})],
    tasks={tasks!r},
    probes=["quality"],
    scales={{"quick": Scale({scale}, seeds=1)}},
)
'''
TINY = "dim=16, depth=1, length=64, steps=3, batch=16, num_evaluations=1"
QUICK = "dim=64, depth=2, length=64, steps=300, batch=16, learning_rate=3e-3"


def fits(mixer: str, task: str) -> bool:
    is_causal = architecture_class(task_class(task).architecture).is_causal
    return mixer_class(mixer).supports_causal or not is_causal


def planned(folder: Path, tasks: list[str], scale: str) -> Plan:
    file = folder / "all_mixers.py"
    file.write_text(ABLATION.format(mixers=list(MIXERS), tasks=tasks, scale=scale))
    return plan(str(file))


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    with embedded(tmp_path_factory.mktemp("home")) as opened:
        yield opened


def assert_all_train(executor, table: Plan, tasks: list[str]) -> None:
    filled = {(c.variant.partition("=")[2], c.task) for c in table.cells if not c.reason}
    assert filled == {(mixer, task) for mixer in MIXERS for task in tasks if fits(mixer, task)}
    work = [(trial, table.resources) for trial in table.trials]
    results = [e.result for e in executor.execute(work) if isinstance(e, Finished)]
    assert len(results) == len(table.trials)
    assert [(r.status, r.reason) for r in results if r.status is not Status.OK] == []


@pytest.mark.parametrize(
    "task",
    ["fashion_mnist_patches", pytest.param("shakespeare_characters", marks=pytest.mark.battery)],
)
def test_for_a_few_steps(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Score on few examples only, since scoring takes far longer than three steps."""
    kind = task_class(task)
    held_out = kind.held_out
    monkeypatch.setattr(kind, "held_out", lambda *arguments: islice(held_out(*arguments), 4))
    tasks = [task]
    settings = ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path / "none"))
    assert_all_train(InlineExecutor(settings), planned(tmp_path, tasks, TINY), tasks)


@pytest.mark.ray
@pytest.mark.slow
def test_at_quick_scale(executor, tmp_path: Path) -> None:
    """Train about 40 trials of 300 steps: 16 minutes on two cores."""
    tasks = ["shakespeare_characters", "fashion_mnist_pixels", "fashion_mnist_patches"]
    assert_all_train(executor, planned(tmp_path, tasks, QUICK), tasks)
