"""Tests that a sweep runs the planned code, even if its files are edited while it runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bakeoff
from bakeoff.suite.events import Event, Finished
from bakeoff.suite.places import PACKAGE
from bakeoff.suite.planning.own_modules import forget_changed
from bakeoff.suite.schema import Status
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.driver import Display, Options

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]

EXP = '''"""Base file."""
from dataclasses import dataclass
from pathlib import Path
from torch import nn
from bakeoff.models import Architecture
from bakeoff import Ablation, Model, Scale, vary
from own_blocks import scale_by
from models.sizes import WIDTH
import reports, suite

class Net(Architecture):
    files = ("words.txt",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = WIDTH
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
def folder(tmp_path: Path, store_tables: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of the user, in which some files have the names of this project's folders."""
    texts = {
        "own_exp.py": EXP,
        "own_blocks.py": BLOCKS,
        "words.txt": "one",
        "undeclared.txt": "two",
        "suite.py": "from own_blocks import scale_by",
        "ablations.py": "1 / 0",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name in ("models", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "models" / "sizes.py").write_text("WIDTH = 16")
    (tmp_path / "out").mkdir()
    shutil.copy(store_tables, tmp_path / "out" / "mlflow.db")
    # The user is not in a checkout, whose folders would be found first under these names.
    above = PACKAGE.parent.resolve()
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != above]
    monkeypatch.setattr(sys, "path", elsewhere)
    yield tmp_path
    forget_changed()


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
    "executor",
    [
        pytest.param("inline", marks=pytest.mark.slow),
        pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.cluster, pytest.mark.slow]),
    ],
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
    again = bakeoff.plan(str(folder / "own_exp.py"))
    assert not {trial.trial_id for trial in again.trials} & {event.trial_id for event in ended}


@pytest.mark.usefixtures("kept_servers")
def test_a_declared_file_that_is_edited_ends_later_trials(folder: Path) -> None:
    ended = swept(folder, lambda: (folder / "words.txt").write_text("other"), "inline")
    assert [event.result.status for event in ended] == [Status.OK, *[Status.ERROR] * 3]
    wanted = f"ChangedFile: {folder / 'words.txt'} was changed after the sweep was planned"
    assert {event.result.reason for event in ended[1:]} == {wanted}
