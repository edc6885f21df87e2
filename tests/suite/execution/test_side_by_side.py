"""Tests for trials that share GPUs by fractions, in real processes with a fake number of GPUs."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from bakeoff.suite.events import Assignments, Checkpoints, ExecutorSettings, Finished
from bakeoff.suite.execution import side_by_side
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.execution.side_by_side import (
    PIPES,
    SideBySide,
    beside_others,
    gpu_names,
    num_places,
)
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Resources, Status, Trial
from tests.workplace import code_in, is_alive

MIXER = '''"""Notes what its process sees, and when."""
import json, os, time
from pathlib import Path
from bakeoff.models.mixer import Mixer

class Noting(Mixer):
    def make_parameters(self, config):
        begun = time.time()
        folder = Path(__file__).parent
        if not (folder / "seconds").exists():  # while it is planned
            return
        (folder / f"begun-{os.getpid()}").touch()
        seconds, together = map(float, (folder / "seconds").read_text().split())
        while time.time() < begun + seconds and len(list(folder.glob("begun-*"))) < together:
            time.sleep(0.01)
        seen = {name: os.environ.get(name, "") for name in
                ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY")}
        note = seen | {"begun": begun, "ended": time.time(), "pid": os.getpid()}
        (folder / f"note-{os.getpid()}.json").write_text(json.dumps(note))

    def forward(self, x, mask=None, context=None, context_mask=None):
        return x
'''
ABLATION = """from bakeoff import Ablation, Model, Scale, vary
ABLATION = Ablation(
    question="?", baseline=Model("tagger", mixer="own_noting:Noting", feed_forward_ratio=1),
    axes=[vary("feed_forward_ratio", [1, 2, 3, 4])], tasks=["shakespeare_masked"],
    probes=["parameters"],
    scales={"quick": Scale(dim=8, depth=1, length=8, steps=1, batch=1)},
)
"""


@dataclass
class Bench:
    """Four trials of a mixer that records its environment and times, and their folder."""

    folder: Path
    trials: tuple[Trial, ...]

    def work(self, resources: Resources, seconds: float, together: float = 99) -> Assignments:
        """Return the trials; each waits at most `seconds`, or until `together` of them run."""
        (self.folder / "seconds").write_text(f"{seconds} {together}")
        return [(trial, resources) for trial in self.trials]

    @property
    def settings(self) -> ExecutorSettings:
        return ExecutorSettings(
            checkpoints=Checkpoints(folder=self.folder / "checkpoints"),
            code=code_in(self.folder),
        )

    def notes(self) -> list[dict[str, Any]]:
        """Return the record of each trial, in the order of their starts."""
        found = [json.loads(file.read_text()) for file in self.folder.glob("note-*")]
        return sorted(found, key=lambda note: note["begun"])


@pytest.fixture
def bench(tmp_path: Path, kept_servers: object, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Plan the trials, then fake two GPUs, four CPUs and MPS."""
    (tmp_path / "own_noting.py").write_text(MIXER)
    (tmp_path / "own.py").write_text(ABLATION)
    trials = plan(str(tmp_path / "own.py")).trials
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(side_by_side, "num_cpus", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(side_by_side, "shared_gpus", lambda work: nullcontext({PIPES: "there"}))
    return Bench(tmp_path, trials)


@pytest.mark.whole
@pytest.mark.parametrize("num_gpus", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_as_many_run_at_a_time_as_have_room_each_on_a_gpu(
    bench: Bench, num_gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)
    work = bench.work(Resources(num_gpus=0.5), seconds=60.0, together=2 * num_gpus)
    with_others = InlineExecutor(bench.settings).execute(work)
    ended = [event.result for event in with_others if isinstance(event, Finished)]
    assert {result.trial_id for result in ended} == {trial.trial_id for trial, _ in work}
    assert {result.status for result in ended} == {Status.OK}
    found = bench.notes()
    used = sorted(note["CUDA_VISIBLE_DEVICES"] for note in found)
    assert used == (["0"] * 4 if num_gpus == 1 else ["0", "0", "1", "1"])
    assert {note[PIPES] for note in found} == {"there"}
    first = found[: 2 * num_gpus]
    begun, ended_at = max(n["begun"] for n in first), min(n["ended"] for n in first)
    assert begun < ended_at, "they ran in turn"


@pytest.mark.slow
def test_a_whole_gpu_is_not_shared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    work = bench.work(Resources(num_gpus=1.0), seconds=0.05)
    list(SideBySide(bench.settings).execute(work))
    found = bench.notes()
    assert all(one["ended"] <= other["begun"] for one, other in pairwise(found))


@pytest.mark.slow
def test_no_process_is_left_when_it_is_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    work = bench.work(Resources(num_gpus=0.5), seconds=60.0)
    events = SideBySide(bench.settings).execute(work)
    started = [next(events) for _ in range(2)]
    pids = [int(event.place.split()[-1]) for event in started]
    assert all(map(is_alive, pids))
    begun = time.monotonic()
    events.close()
    assert time.monotonic() - begun < 10
    assert not any(map(is_alive, pids))


@pytest.mark.usefixtures("bench")
def test_what_fits_where(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {1.0: 2, 0.5: 4, 0.333: 4, 0.125: 4, 0.0: 1, 2.0: 1}
    assert {share: num_places(Resources(num_gpus=share)) for share in shares} == shares
    assert num_places(Resources(num_gpus=0.125, num_cpus=4)) == 1
    room = side_by_side._Room()
    assert [room.taken(Resources(num_gpus=0.5)) for _ in range(5)] == ["0", "1", "0", "1", None]
    monkeypatch.setattr(side_by_side, "num_cpus", lambda: 64)
    assert num_places(Resources(num_gpus=0.333)) == 6
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert gpu_names() == ["3", "5"]


def test_what_needs_no_gpu_or_several_runs_in_turn(bench: Bench) -> None:
    (trial, _), *_ = bench.work(Resources(), seconds=0.0)
    whole, half = (trial, Resources(num_gpus=1.0)), (trial, Resources(num_gpus=0.5))
    assert beside_others([(trial, Resources()), whole, half]) == [whole, half]
    assert beside_others([(trial, Resources()), (trial, Resources(num_gpus=2.0))]) == []
