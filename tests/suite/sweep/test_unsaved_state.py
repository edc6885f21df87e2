"""Test that a model with state outside checkpoints gives the numbers of an undisturbed training."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakeoff.suite.events import Finished
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Result, Status
from bakeoff.suite.sweep.driver import Options, _Sweep
from bakeoff.suite.sweep.mlflow_sync import EventLog
from bakeoff.suite.training.checkpoint import checkpointer_for
from tests.suite.small_ablation import WriteAblation

pytestmark = pytest.mark.usefixtures("plain_figures")

NET = """
from dataclasses import dataclass
from pathlib import Path
from torch import nn
from bakeoff.models import Architecture

KILLED = Path(__file__).with_name("killed")


class Net(Architecture):
    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 8

    def build(self, seeds):
        self.first = nn.Linear(self.spec.input_size, self.config.width)
        self.head = nn.Linear(self.config.width, self.spec.output_size)
        self.calls = 0

    def forward(self, inputs):
        if self.training:
            self.calls += 1
            if self.calls == 15 and not KILLED.exists():
                KILLED.touch()
                raise KeyboardInterrupt  # in the place of a kill: this ends the process
        return self.head(self.first(inputs).mean(1) / (1 + self.calls))
"""


@pytest.mark.slow
def test_after_a_kill_it_starts_again_and_gives_the_same_numbers(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    (tmp_path / "drifting_net.py").write_text(NET)
    file = write_ablation(
        baseline='Model("drifting_net:Net")',
        axes='[vary("width", [8])]',
        probes='["quality"]',
        tasks='["fashion_mnist_patches"]',
        scales='{"quick": Scale(length=49, steps=20, batch=8, seeds=1)}',
    )
    planned = plan(str(file))
    (trial,) = planned.trials

    def result(out: str) -> Result:
        """Run the trial in this process, with the checkpoints of a sweep."""
        options = Options(out=tmp_path / out, executor="inline", checkpoint_seconds=0.0)
        (tmp_path / out / "checkpoints").mkdir(parents=True, exist_ok=True)
        with Journal(tmp_path / out / "journal.db") as journal:
            sweep = _Sweep([planned], options, journal, EventLog(journal, None), code=None)
            checkpointer = checkpointer_for(trial, sweep._executor_settings.checkpoints)
        *_, last = run_trial(trial, planned.resources, "here", checkpointer)
        assert isinstance(last, Finished)
        return last.result

    with pytest.raises(KeyboardInterrupt):
        result("out")
    resumed, undisturbed = result("out"), result("undisturbed")
    assert resumed.status is Status.OK
    assert resumed.points == undisturbed.points
    assert resumed.state_sha256 == undisturbed.state_sha256
