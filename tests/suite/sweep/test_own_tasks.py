"""Tests of sweeps on the user's own tasks and data: identity, edits, resuming, starts, workers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from torch import nn

import bakeoff
from bakeoff.suite.cluster.code_bundle import bundle_code
from bakeoff.suite.events import Event, Finished
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Result, Status
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.driver import Display, Options
from tests.suite.execution.test_isolation import POLLUTIONS

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]

TASKS = '''"""Tasks of the user's own."""
import os, random, signal
import numpy as np
import torch
from helper import LOW
from bakeoff.suite.tasks.data_order import RandomStream, held_out_stream
from bakeoff.suite.tasks.task import Batch, Task

cross_entropy = torch.nn.functional.cross_entropy


class Largest(Task):
    """The largest of some digits."""

    asks_for = "class"
    input_size = 10
    output_size = 10

    def draw(self, stream, count):
        digits = stream.integers(count * self.length, low=LOW, high=10).reshape(count, -1)
        return Batch(inputs={"inputs": torch.from_numpy(digits)},
                     targets=torch.from_numpy(digits.max(axis=1)))

    def training_batch(self, step, batch, seed):
        return self.draw(RandomStream(seed, step), batch)

    def held_out(self, split, batch):
        examples = self.draw(held_out_stream(split), 16)
        yield from (examples.rows(slice(n, n + batch)) for n in range(0, 16, batch))


class Smallest(Largest):
    """The smallest of some digits."""

    def draw(self, stream, count):
        digits = stream.integers(count * self.length, low=LOW, high=10).reshape(count, -1)
        return Batch(inputs={"inputs": torch.from_numpy(digits)},
                     targets=torch.from_numpy(digits.min(axis=1)))
'''
ABLATION = '''"""Own tasks and data."""
from bakeoff import Ablation, Model, Recipe, Scale, TextFile, vary

ABLATION = Ablation(
    question="Does it run?",
    baseline=Model("{architecture}", mixer="gru"),
    axes=[vary("mixer", ["gru", "attention"])],
    tasks={tasks},
    probes=["quality"],
    recipe=Recipe({recipe}),
    {more}
    scales={{"quick": Scale(dim=8, depth=1, length=8, steps=2, batch=4, num_evaluations=2,
                            warmup_steps=1, seeds=1, {scale})}},
)
'''


class Folder:
    """A folder of the user with tasks, a text and an ablation."""

    def __init__(self, path: Path, store_tables: Path) -> None:
        self.path, self.out, self._tables = path, path / "out", store_tables
        self.forget_results()
        self.write()

    def forget_results(self) -> None:
        """Use another, empty output folder from now on."""
        self.out = self.out.with_name(f"{self.out.name}_")
        self.out.mkdir()
        shutil.copy(self._tables, self.out / "mlflow.db")

    def write(self) -> None:
        """Write the tasks and the text."""
        path = self.path
        (path / "my_tasks.py").write_text(TASKS)
        (path / "helper.py").write_text("LOW = 0\n")
        text = "To be, or not to be, that is the question: whether it is nobler.\n"
        (path / "my.txt").write_text("".join(f"{n} {text}" for n in range(100)))

    def ablation(
        self,
        tasks: str = "['my_tasks:Largest']",
        recipe: str = "",
        *,
        architecture: str = "classifier",
        more: str = "",
        scale: str = "",
    ) -> str:
        """Write the ablation and return its path."""
        fields = {"tasks": tasks, "recipe": recipe, "more": more, "scale": scale}
        text = ABLATION.format(architecture=architecture, **fields)
        (self.path / "own_exp.py").write_text(text)
        return str(self.path / "own_exp.py")

    def swept(
        self, file: str, edit: Callable[[], object] = str, executor: Any = "inline"
    ) -> dict[str, Result]:
        """Run the sweep, and call `edit` after each result."""
        ended: dict[str, Result] = {}

        class Editor(Display):
            def show(self, event: Event) -> None:
                if isinstance(event, Finished):
                    ended[event.trial_id] = event.result
                    edit()

        options = Options(out=self.out, executor=executor)
        driver.run(file, options=options, display_for=Editor)
        return ended


@pytest.fixture
def folder(
    tmp_path: Path, store_tables: Path, kept_servers: object, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    (tmp_path / "own").mkdir()
    return Folder(tmp_path / "own", store_tables)


def ids(file: str) -> set[str]:
    return {trial.trial_id for trial in plan(file).trials}


DATA = "[TextFile('my.txt')]"


def test_a_class_runs_resumes_and_is_known_by_all_that_it_imports(folder: Folder) -> None:
    file = folder.ablation()
    results = folder.swept(file)
    assert {result.status for result in results.values()} == {Status.OK}
    assert results.keys() == ids(file)
    assert not folder.swept(file), "all is done"
    (folder.path / "helper.py").write_text("LOW = 1\n")
    assert not results.keys() & ids(file)


def test_data_run_resume_and_are_known_by_their_content(folder: Folder) -> None:
    file = folder.ablation(DATA, architecture="language_model")
    text = (folder.path / "my.txt").read_text()
    results = folder.swept(file)
    assert {result.status for result in results.values()} == {Status.OK}
    assert not folder.swept(file), "all is done"
    (folder.path / "my.txt").write_text(f"{text}More.\n")
    assert not results.keys() & ids(file)
    (folder.path / "my.txt").write_text(text)
    assert results.keys() == ids(file)


def test_data_that_are_edited_meanwhile_stay_as_planned(folder: Folder) -> None:
    file = folder.ablation(DATA, architecture="language_model")
    edited = folder.swept(file, lambda: (folder.path / "my.txt").write_text("?" * 5000))
    folder.forget_results()
    folder.write()
    again = folder.swept(file)
    assert {k: r.measurements for k, r in edited.items()} == {
        k: r.measurements for k, r in again.items()
    }


def test_data_that_are_edited_after_the_plan_are_refused(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan(folder.ablation(DATA, architecture="language_model"))
    (folder.path / "my.txt").write_text("?" * 5000)
    with pytest.raises(SpecError, match=r"my\.txt was changed after it had been planned"):
        driver.run_plans([found], Options(out=folder.out), Console())


def test_two_files_of_one_name_need_names(folder: Folder) -> None:
    tasks = "[TextFile('my.txt'), TextFile('my.txt', symbols='bytes')]"
    with pytest.raises(SpecError, match=r"would both be called 'my'; give one of your own a name="):
        plan(folder.ablation(tasks, architecture="language_model"))
    tasks = "[TextFile('my.txt'), TextFile('my.txt', symbols='bytes', name='my_bytes')]"
    found = plan(folder.ablation(tasks, architecture="language_model"))
    assert found.about.tasks == ("my", "my_bytes")


def test_a_start_and_a_teacher_are_of_own_tasks_too(folder: Folder) -> None:
    results = folder.swept(folder.ablation(recipe="start='my_tasks:Smallest'"))
    assert {result.status for result in results.values()} == {Status.OK}
    file = folder.ablation(recipe="distillation='soft'", more="teacher=Model(mixer='gru'),")
    results = folder.swept(file)
    assert {result.status for result in results.values()} == {Status.OK}


def test_a_bundle_for_a_cluster_holds_modules_and_data(folder: Folder, tmp_path: Path) -> None:
    tasks = "['my_tasks:Largest']"
    found = [plan(folder.ablation(tasks, recipe="start='my_tasks:Smallest'"))]
    (tmp_path / "sent").mkdir()
    assert bundle_code(found, tmp_path / "sent").sizes().keys() == {
        "helper.py",
        "my_tasks.py",
        "own_exp.py",
    }
    (tmp_path / "sent too").mkdir()
    found = [plan(folder.ablation(DATA, architecture="language_model"))]
    sent = bundle_code(found, tmp_path / "sent too")
    assert sent.sizes().keys() == {"my.txt", "own_exp.py"}
    elsewhere = plan(str(sent.files / "own_exp.py"))
    assert {t.trial_id for t in elsewhere.trials} == {t.trial_id for t in found[0].trials}


def test_data_above_the_folder_cannot_be_sent(folder: Folder, tmp_path: Path) -> None:
    shutil.copy(folder.path / "my.txt", tmp_path)
    found = plan(folder.ablation("[TextFile('../my.txt')]", architecture="language_model"))
    (tmp_path / "sent").mkdir()
    with pytest.raises(SpecError, match=r"must be in the folder of the ablation or below"):
        bundle_code([found], tmp_path / "sent")


@pytest.mark.ray
@pytest.mark.cluster
def test_workers_of_ray_have_own_tasks_and_data(folder: Folder) -> None:
    for tasks, architecture in (("['my_tasks:Largest']", "classifier"), (DATA, "language_model")):
        folder.forget_results()
        file = folder.ablation(tasks, architecture=architecture)
        here = folder.swept(file)
        folder.forget_results()
        there = folder.swept(file, executor="ray")
        assert {k: r.measurements for k, r in here.items()} == {
            k: r.measurements for k, r in there.items()
        }


@pytest.mark.ray
@pytest.mark.cluster
def test_several_workers_share_a_batch_of_own_tasks(folder: Folder) -> None:
    for tasks, architecture in (("['my_tasks:Largest']", "classifier"), (DATA, "language_model")):
        file = folder.ablation(tasks, architecture=architecture, scale="workers=2")
        results = folder.swept(file, executor="ray")
        assert {result.reason for result in results.values()} == {""}


@pytest.mark.slow
def test_what_a_task_changes_in_its_process_changes_no_other_number(folder: Folder) -> None:
    """Compare two orders of tasks, of which each changes its process when a batch is drawn."""
    lines = ["\n\nNUMBER = 0\n"]
    for name, pollution in POLLUTIONS.items():
        lines += [
            f"\nclass {name}(Largest):",
            "    def training_batch(self, step, batch, seed):",
            *(f"        {line.strip()}" for line in pollution.strip().split("\n")),
            "        return super().training_batch(step, batch, seed)",
        ]
    (folder.path / "my_tasks.py").write_text(TASKS + "\n".join(lines) + "\n")
    names = [f"my_tasks:{name}" for name in POLLUTIONS]
    together = folder.swept(folder.ablation(str([*names, "my_tasks:Largest"])))
    folder.forget_results()
    backwards = folder.swept(folder.ablation(str(["my_tasks:Largest", *names[::-1]])))
    assert together.keys() == backwards.keys()
    assert {k: (r.status, r.measurements, r.points) for k, r in together.items()} == {
        k: (r.status, r.measurements, r.points) for k, r in backwards.items()
    }


def test_run_task_takes_own_tasks_and_data(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)
    monkeypatch.syspath_prepend(folder.path)
    settings: dict[str, Any] = {"steps": 2, "length": 8, "progress": False}
    flat = nn.Sequential(nn.Embedding(10, 10), nn.Flatten(), nn.Linear(80, 10))
    assert bakeoff.run_task(flat, task="my_tasks:Largest", **settings).metric == "accuracy"
    data = bakeoff.TextFile("my.txt", symbols="bytes")
    bigrams = nn.Embedding(256, 256)
    before = bakeoff.run_task(bigrams, task=data, **settings)
    assert before.metric == "bits_per_byte"
    (folder.path / "my.txt").write_text("abc" * 1000)
    assert bakeoff.run_task(bigrams, task=data, **settings).value != before.value
