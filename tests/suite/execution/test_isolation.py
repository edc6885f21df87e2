"""Tests for the isolation of trials: separate processes for user code, guards in shared ones."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bakeoff.suite.events import (
    Assignments,
    Checkpoints,
    Event,
    ExecutorSettings,
    Finished,
    Remarked,
)
from bakeoff.suite.execution import inline
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Resources, Status
from tests.suite.heads_sweep import HeadsSweep
from tests.workplace import Workplace

MIXERS = """
import os, random, signal
import torch
from bakeoff.models.mixer import Mixer

NUMBER = 0.0
cross_entropy = torch.nn.functional.cross_entropy

class Polluter(Mixer):
    def __init__(self, **fields):
        global NUMBER
        super().__init__(**fields)
        self.map, self.number = torch.nn.Linear(self.dim, self.dim), NUMBER
        NUMBER += 0.1
        self.pollute()
    def forward(self, x, mask=None, context=None, context_mask=None):
        return self.map(x.float()).to(x.dtype).mean(1, keepdim=True).expand_as(x) + self.number
"""
POLLUTIONS = {
    "Counter": "pass",
    "Torch": """
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True)
        torch.set_float32_matmul_precision("medium")
""",
    "Process": """
        random.seed(1); torch.manual_seed(1)
        os.chdir("/")
        os.environ["OMP_NUM_THREADS"] = "7"
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
""",
    "Loss": "torch.nn.functional.cross_entropy = lambda *a, **k: 2 * cross_entropy(*a, **k)",
}


@pytest.fixture(scope="module")
def polluters(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    work = Workplace(tmp_path_factory.mktemp("polluters"))
    classes = (f"class {n}(Polluter):\n    def pollute(self): {p}\n" for n, p in POLLUTIONS.items())
    (work.path / "polluting.py").write_text(MIXERS + "".join(classes))
    return work


def trials(work: Workplace, *names: str) -> Assignments:
    values = [*(f"polluting:{name}" for name in names), "fnet"]
    file = work.ablation(mixer="fnet", axis="mixer", values=values, probes=["quality"], seeds=1)
    found = [(trial, Resources()) for trial in plan(file).trials]
    assert len(found) == len(values)
    return found


def numbers(events: Iterator[Event]) -> dict[str, object]:
    ended = [event.result for event in events if isinstance(event, Finished)]
    assert {result.status for result in ended} <= {Status.OK, Status.ERROR}
    return {r.trial_id: (r.status, r.measurements, r.points) for r in ended}


def here(work: Assignments) -> Iterator[Event]:
    settings = ExecutorSettings(checkpoints=Checkpoints(folder=Path("none")))
    return InlineExecutor(settings).execute(work)


@pytest.mark.usefixtures("kept_servers")
@pytest.mark.parametrize(
    "polluting", [("Torch", "Loss"), pytest.param((*POLLUTIONS,), marks=pytest.mark.slow)]
)
def test_a_sweep_gives_the_same_numbers_in_any_order(
    polluters: Workplace, polluting: tuple[str, ...]
) -> None:
    before = torch.get_default_dtype(), os.getcwd(), torch.nn.functional.cross_entropy
    work = trials(polluters, *polluting)
    assert numbers(here(work)) == numbers(here(work[::-1]))
    after = torch.get_default_dtype(), os.getcwd(), torch.nn.functional.cross_entropy
    assert after == before, "planning tried the mixers in this process"


def test_what_a_trial_in_this_process_changes_is_undone_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def changes(*arguments: object) -> Iterator[Event]:
        torch.set_default_dtype(torch.float64)
        os.environ["LEFT"] = "1"
        monkeypatch.setattr(torch.nn.functional, "cross_entropy", len)
        yield from ()

    monkeypatch.setattr(inline, "run_trial", changes)
    (said,) = here([(HeadsSweep().trial(), Resources())])
    assert isinstance(said, Remarked)
    assert said.sentence == (
        "it changed torch's default dtype (torch.float32 -> torch.float64), the environment "
        "variable LEFT and torch.nn.functional.cross_entropy, which was undone"
    )
    assert torch.get_default_dtype() is torch.float32
    assert "LEFT" not in os.environ
    assert torch.nn.functional.cross_entropy is not len


@pytest.mark.slow
def test_the_floors_that_scikit_learn_fits_change_nothing_that_others_share() -> None:
    program = (
        "from bakeoff.suite.timing.global_state import GlobalState\n"
        "before = GlobalState()\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "print(before.changes())"
    )
    environment = {name: value for name, value in os.environ.items() if name[:4] != "KMP_"}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout == "\n"
