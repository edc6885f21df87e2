"""Test that `bakeoff new` writes files that run as they are, and refuses what would not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

import bakeoff
from bakeoff.suite import cli
from bakeoff.suite.commands.new import new
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import SpecError
from bakeoff.suite.tasks.task import UNSCORED, Outputs

KINDS = ("ablation", "mixer", "architecture", "task")
RUNNABLE = ("ablation", "mixer", "architecture", "task")
CLASSES = {"mixer": "MineAverage", "architecture": "MineAverage", "task": "MineAverage"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_command_is_printed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert new(kind, "mine_average") == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrote mine_average.py",
        "next:  bakeoff run mine_average.py --scale smoke",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_everything_has_the_new_name(kind: str, here: Path) -> None:
    new(kind, "mine_average")
    text = (here / "mine_average.py").read_text()
    assert "bakeoff run mine_average.py" in text
    assert f"my_{kind}" not in text.lower()
    assert ("class MineAverage(" in text) == (kind in CLASSES)


@pytest.mark.whole
@pytest.mark.usefixtures("fast_sweeps")
@pytest.mark.parametrize("kind", RUNNABLE)
def test_the_file_runs_as_it_is(kind: str) -> None:
    new(kind, "mine_average")
    planned = plan("mine_average.py")
    assert all(cell.trial_id for cell in planned.cells)
    outcome = bakeoff.run(
        "mine_average.py", scale="smoke", executor="inline", seeds=1, steps=2, batch=500
    )
    assert outcome.counts["ok"]
    assert not outcome.counts["failed"]
    assert planned.about.question in (outcome.reports[0].parent / "report.md").read_text()
    named = [trial.task for trial in planned.trials]
    named += [subject.spelling for trial in planned.trials for subject in trial.subjects]
    assert any("mine_average:MineAverage" in each for each in named) == (kind != "ablation")


def test_a_model_can_be_trained_on_the_task(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    new("task", "mine_task")
    monkeypatch.setattr(sys, "path", [*sys.path, str(here)])
    module = importlib.import_module("mine_task")
    assert find("mine_task.py").ablation.tasks == ("mine_task:MineTask",)
    task = module.MineTask(length=12)
    batch = task.training_batch(3, batch=4, seed=1)
    inputs, delay = batch.inputs["inputs"], module.DELAY
    assert torch.equal(inputs, task.training_batch(3, batch=4, seed=1).inputs["inputs"])
    assert torch.equal(batch.targets[:, delay:], inputs[:, :-delay])
    assert (batch.targets[:, :delay] == UNSCORED).all()
    model = torch.nn.Sequential(torch.nn.Embedding(8, 16), torch.nn.Linear(16, 8))
    loss = task.loss(Outputs(model(inputs)), batch)
    loss.backward()
    assert all(each.grad.abs().sum() > 0 for each in model.parameters())
    assert sum(len(each.targets) for each in task.held_out("test", 500)) == 2_000


def test_a_shipped_ablation_is_copied_under_the_new_name() -> None:
    assert new("ablation", "mine_heads", "heads") == 0
    copy, first = find("mine_heads.py"), find("heads")
    assert (copy.name, copy.ablation, copy.note) == ("mine_heads", first.ablation, first.note)
    ids = [[trial.trial_id for trial in plan(name).trials] for name in ("mine_heads.py", "heads")]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_ablation_can_be_copied(name: str) -> None:
    new("ablation", "mine_copy", name)
    assert find("mine_copy.py").ablation == find(name).ablation


REFUSED = {
    "a path": (["ablation", "a/b"], "lower-case letters"),
    "an ending": (["ablation", "mine.py"], "no .py at the end"),
    "a capital": (["mixer", "Mine"], "lower-case letters"),
    "a digit first": (["task", "1st"], "a letter first"),
    "65 letters": (["task", "a" * 65], "at most 64"),
    "nothing": (["task", ""], "a letter first"),
    "a line break": (["task", "a\nb"], r"'a\\nb'"),
    "a keyword": (["ablation", "class"], "a keyword of Python"),
    "all": (["ablation", "all"], "means every shipped ablation"),
    "a shipped ablation": (["ablation", "heads"], "'heads' is the name of a shipped ablation"),
    "a module": (["mixer", "numpy"], "a Python module 'numpy' exists already"),
    "this package": (["mixer", "bakeoff"], "a Python module 'bakeoff' exists already"),
    "a class that the file needs": (["mixer", "mixer"], "the class would be called Mixer"),
    "another one": (["task", "generated_task"], "the class would be called GeneratedTask"),
    "a copy of nothing": (["ablation", "mine", "--from", "heds"], "did you mean 'heads'"),
    "a copy of a mixer": (["mixer", "mine", "--from", "heads"], "not for `bakeoff new mixer`"),
    "an unknown kind": (["model", "mine"], "'model' is not one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_not_run_is_refused(
    case: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, fragment = REFUSED[case]
    monkeypatch.setattr(sys, "argv", ["bakeoff", "new", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert fragment in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_nothing_is_overwritten(here: Path) -> None:
    (here / "mine.py").write_text("years of work")
    with pytest.raises(SpecError, match=r"^mine\.py exists already; choose another name"):
        new("ablation", "mine")
    assert (here / "mine.py").read_text() == "years of work"


def test_a_folder_of_that_name_would_hide_the_file(here: Path) -> None:
    (here / "mine").mkdir()
    with pytest.raises(SpecError, match="a folder of this name would hide the file"):
        new("mixer", "mine")
