"""Tests that a sweep runs the planned code, even if its files are edited while it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import suite
from suite.events import Event, Finished
from suite.schema import Status
from suite.sweep import driver
from suite.sweep.driver import Display, Options

EXP = '''"""Base file."""
from dataclasses import dataclass
from pathlib import Path
from torch import nn
from models import Architecture
from suite import Ablation, Model, Scale, vary
from own_blocks import scale_by

class Net(Architecture):
    files = ("words.txt",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 16
    def build(self, seeds):
        assert Path(__file__).with_name("words.txt").read_text()
        assert Path(__file__).with_name("undeclared.txt").read_text()
        self.conv = nn.Conv1d(self.spec.input_size, self.config.width, 3)
        self.head = nn.Linear(self.config.width, self.spec.output_size)
    def forward(self, inputs):
        return scale_by(self.head(self.conv(inputs.mT).relu().mean(dim=2)))

ABLATION = Ablation(question="Is wider better?", baseline=Model("own_exp:Net", width=16),
    axes=[vary("width", [8, 16])], tasks=["fashion_mnist_patches"], probes=["quality"],
    scales={"quick": Scale(length=49, steps=1, batch=2, seeds=2)})
'''
BLOCKS = "def scale_by(x):\n    return x\n"


@pytest.fixture
def folder(tmp_path: Path, store_tables: Path) -> Path:
    """Return a folder of the user, in which some files have the names of this project's modules."""
    texts = {
        "own_exp.py": EXP,
        "own_blocks.py": BLOCKS,
        "words.txt": "one",
        "undeclared.txt": "two",
        "suite.py": "1 / 0",
        "ablations.py": "1 / 0",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name in ("models", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("1 / 0")
    (tmp_path / "out").mkdir()
    shutil.copy(store_tables, tmp_path / "out" / "mlflow.db")
    return tmp_path


def swept(folder: Path, edit: Callable[[], object], executor: Any) -> list[Finished]:
    """Run the sweep, and call `edit` after each result."""
    ended: list[Finished] = []

    class Editor(Display):
        def show(self, event: Event) -> None:
            if isinstance(event, Finished):
                ended.append(event)
                edit()

    options = Options(out=folder / "out", executor=executor)
    driver.run(str(folder / "own_exp.py"), options=options, display_for=Editor)
    return ended


@pytest.mark.parametrize(
    "executor", ["inline", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])]
)
def test_later_trials_run_what_was_planned(
    executor: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def edit() -> None:
        (folder / "own_blocks.py").write_text("1 / 0")
        (folder / "own_exp.py").write_text("1 / 0")

    ended = swept(folder, edit, executor)
    assert [event.result.reason for event in ended] == [""] * 4
    (folder / "own_blocks.py").write_text(f"{BLOCKS}# edited\n")
    (folder / "own_exp.py").write_text(EXP)
    again = suite.plan(str(folder / "own_exp.py"))
    assert not {trial.trial_id for trial in again.trials} & {event.trial_id for event in ended}


@pytest.mark.usefixtures("kept_servers")
def test_a_declared_file_that_is_edited_ends_later_trials(folder: Path) -> None:
    ended = swept(folder, lambda: (folder / "words.txt").write_text("other"), "inline")
    assert [event.result.status for event in ended] == [Status.OK, *[Status.ERROR] * 3]
    wanted = f"ChangedFile: {folder / 'words.txt'} was changed after the sweep was planned"
    assert {event.result.reason for event in ended[1:]} == {wanted}


def printed(folder: Path, code: str) -> str:
    """Return the output of a program in the folder, which comes first on its import path."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    return (done.stdout + done.stderr).strip()


def test_a_folder_with_a_name_of_ours_does_not_disturb(folder: Path) -> None:
    (folder / "suite.py").unlink()  # this name shadows the package, which cannot prevent it
    code = "import suite, models, reports; from suite.planning.loader import shipped"
    assert printed(folder, f"{code}; print('heads' in shipped(), models.MIXERS)").startswith("True")


@pytest.mark.parametrize(
    "code",
    [
        "import models; import suite",
        "import suite; from models.gma import GMA",
        "import suite; from models import GMA",
    ],
)
def test_a_folder_in_the_way_is_named(code: str, folder: Path) -> None:
    (folder / "suite.py").unlink()
    (folder / "models" / "__init__.py").write_text("GMA = 1")
    (folder / "models" / "gma.py").write_text("GMA = 1")
    said = printed(folder, code).splitlines()[-1]
    place = folder / "models"
    assert said == (
        f"ImportError: {place} has the name of bakeoff's own package 'models'; rename it"
    )
