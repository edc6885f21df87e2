"""Check that a resumed training ends with the bits of an uninterrupted one, for all mixers."""

from __future__ import annotations

import builtins
import os
import random
import signal
import subprocess
import sys
import time
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bakeoff.models import MIXERS
from bakeoff.suite.events import TrainedState, TrialRemark
from bakeoff.suite.probes.quality import Quality
from bakeoff.suite.probes.validation import Validation
from bakeoff.suite.schema import Point
from bakeoff.suite.training import loop as training_module
from bakeoff.suite.training.engines.local import LocalEngine
from tests.suite.toy import FirstToken, Reader, training
from tests.suite.training.resumed import (
    ATTENTION,
    NOT_WRITTEN,
    NUM_LOSSES,
    STEPS,
    STOP,
    TRIAL,
    Clock,
    Observed,
    checkpointer_in,
    run,
    spec,
    stopped,
)
from tests.workplace import Workplace


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one thread, losses between points of the curve, and no fsync."""
    torch.set_num_threads(1)
    monkeypatch.setattr(training_module, "_TRAINING_LOSSES_PER_CURVE", NUM_LOSSES)
    monkeypatch.setattr(os, "fsync", lambda file: None)


# Performer redraws its features in the middle of the training.
KNOBS = {"performer": {"redraw_interval": 4}, "linformer": {"projected_length": 2}}
# By default mixers with a buffer, with random numbers, with a state; the others in the battery.
BY_DEFAULT = ("attention", "performer", "lsh_attention", "gru", "mamba2", "synthesizer")


@pytest.mark.parametrize(
    "mixer", [pytest.param(m, marks=[pytest.mark.battery] * (m not in BY_DEFAULT)) for m in MIXERS]
)
def test_every_mixer_continues_with_the_same_bits(mixer: str, tmp_path: Path) -> None:
    model = spec(mixer, **KNOBS.get(mixer, {}))
    undisturbed = run(model, None)
    stopped(tmp_path, model)
    resumed = run(model, checkpointer_in(tmp_path, Clock()))
    assert resumed.numbers == undisturbed.numbers
    assert resumed.num_steps == STEPS - STOP
    assert resumed.remarks == [f"it resumes from step {STOP} of {STEPS}"]
    assert len(resumed.states) == 1


def test_stopped_at_a_point_of_the_curve_or_beside_one_it_ends_with_the_same_bits(
    tmp_path: Path,
) -> None:
    undisturbed = run(ATTENTION, None)
    for after in (1, 4, 6, 11):  # relative to points of the curve: losses after 6, scores after 4
        stopped(tmp_path / str(after), after=after)
        resumed = run(ATTENTION, checkpointer_in(tmp_path / str(after), Clock()))
        assert resumed.numbers == undisturbed.numbers
        assert resumed.num_steps == STEPS - after


def test_stopped_again_and_again_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    for after in (3, 4, 9):
        stopped(tmp_path, after=after)
    resumed = run(ATTENTION, checkpointer_in(tmp_path, Clock()))
    assert resumed.numbers == run(ATTENTION, None).numbers


def test_checkpoints_disturb_nothing(tmp_path: Path) -> None:
    kept = run(ATTENTION, checkpointer_in(tmp_path))  # after every step
    assert kept.numbers == run(ATTENTION, None).numbers
    assert kept.remarks == []
    names = sorted(path.name for path in (tmp_path / TRIAL).iterdir())
    assert names == [f"generation-{number:06d}" for number in (STEPS - 1, STEPS)]


def test_a_trial_that_is_over_before_the_time_leaves_none(tmp_path: Path) -> None:
    run(ATTENTION, checkpointer_in(tmp_path, Clock()))
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_come_when_the_clock_says_so(tmp_path: Path) -> None:
    clock, steps_kept = Clock(), []
    checkpointer = checkpointer_in(tmp_path, clock)
    publish = checkpointer.publish

    def noted(draft: Path, step: int) -> None:
        steps_kept.append(step)
        publish(draft, step)

    checkpointer.publish = noted  # type: ignore[method-assign]

    def pass_time(step: int) -> None:
        clock.now += 0.25

    run(ATTENTION, checkpointer, pass_time)
    assert steps_kept == [4, 8, 12]


class Drawing(Observed):
    """A task that draws from every random source that a user's task or mixer may use."""

    def loss(self, outputs, batch, label_smoothing=0.0):
        factor = 1 + random.random() + np.random.rand() + float(torch.rand(())) + random.gauss()
        return super().loss(outputs, batch, label_smoothing) * (factor + np.random.randn())


def test_every_source_of_random_numbers_continues_where_it_was(tmp_path: Path) -> None:
    def drawn(checkpointer, seed: int, stop: int | None = None) -> object:
        def on_step(step: int) -> None:
            if step == stop:
                raise KeyboardInterrupt

        random.seed(seed)
        np.random.seed(seed)
        return run(Reader(), checkpointer, on_step, kind=Drawing).numbers

    undisturbed = drawn(None, 3)
    with pytest.raises(KeyboardInterrupt):
        drawn(checkpointer_in(tmp_path), 3, STOP)
    assert drawn(checkpointer_in(tmp_path), 99) == undisturbed


class Shared(nn.Module):
    """A model with a tensor under two names, a buffer updated in training, and a frozen vector."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(12, 4, bias=False)
        self.tied = self.map
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, inputs, mask=None):
        return self.norm(self.tied(nn.functional.one_hot(inputs, 4).flatten(1).float()))


def test_shared_tensors_buffers_and_frozen_ones_come_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = (LocalEngine(Shared(), training(STEPS), "cpu") for _ in range(2))
    assert first.state_sha256() != second.state_sha256()
    for step in range(3):
        first.step(FirstToken().training_batch(step, 8, 0), FirstToken())
    first.save(tmp_path)
    second.load(tmp_path)
    assert second.model.map is second.model.tied
    assert second.model.norm.num_batches_tracked == 3
    for engine in (first, second):
        engine.step(FirstToken().training_batch(3, 8, 0), FirstToken())
    assert first.state_sha256() == second.state_sha256()


def test_what_differs_in_one_bit_has_another_hash() -> None:
    engine = LocalEngine(Reader(), training(STEPS), "cpu")
    engine.step(FirstToken().training_batch(0, 8, 0), FirstToken())
    before = engine.state_sha256()
    for tensor in (
        engine.model.map.weight,
        *engine.optimizer.state[engine.model.map.weight].values(),
    ):
        flat = tensor.detach().reshape(-1)
        was = flat[0].clone()
        flat[0] = torch.nextafter(was, torch.tensor(torch.inf))
        assert engine.state_sha256() != before
        flat[0] = was
    assert engine.state_sha256() == before


class Odd(Reader):
    """A model with an extra state that no safe format can hold."""

    def get_extra_state(self) -> object:
        return {"a": 1}

    def set_extra_state(self, state: object) -> None:
        raise AssertionError("nothing is kept")


def test_a_module_with_a_state_that_cannot_be_kept_trains_all_the_same(tmp_path: Path) -> None:
    said = run(Odd(), checkpointer_in(tmp_path))
    assert said.remarks == [
        f"{NOT_WRITTEN}: _extra_state is not a tensor; only tensors can be saved"
    ]
    assert said.points[-1].step == STEPS
    assert said.states == []
    assert list((tmp_path / TRIAL).iterdir()) == []


@pytest.fixture
def _no_safetensors(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def refused(name, *arguments, **named):
        if name.partition(".")[0] == "safetensors":
            raise ImportError(name)
        return importing(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refused)


@pytest.mark.usefixtures("_no_safetensors")
def test_without_safetensors_a_trial_keeps_none_and_says_so_once(tmp_path: Path) -> None:
    said = run(ATTENTION, checkpointer_in(tmp_path))
    assert said.numbers == run(ATTENTION, None).numbers
    assert said.remarks == [f"{NOT_WRITTEN}: safetensors is not installed here"]


def test_a_checkpoint_of_another_model_changes_nothing(tmp_path: Path) -> None:
    """Use a complete checkpoint of this trial where the code changed without its version."""
    stopped(tmp_path, spec("attention", heads=4))
    same = run(ATTENTION, checkpointer_in(tmp_path, Clock()))
    assert same.num_steps == STEPS - STOP, "heads move no shape"
    stopped(tmp_path / "wider", spec("mlp_mixer", hidden=16))
    said = run(spec("mlp_mixer", hidden=24), checkpointer_in(tmp_path / "wider", Clock()))
    assert said.numbers == run(spec("mlp_mixer", hidden=24), None).numbers
    first, second, last = said.remarks
    assert first.startswith("its checkpoint 2 is skipped: tensor trunk.")
    assert "has shape" in first
    assert second.startswith("its checkpoint 1 is skipped: tensor trunk.")
    assert last == "it has no other checkpoint and starts from the beginning"


@pytest.mark.parametrize("kind", [Quality, Validation])
def test_a_probe_says_the_same_with_and_without_a_keeper(kind, tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    from bakeoff.suite.planning.plan import plan

    trial = next(t for t in plan(work.ablation()).trials if t.probe == "quality")
    plain = list(kind().measure(trial, "cpu"))
    saying = kind().measure_resuming(trial, "cpu", checkpointer_in(tmp_path))
    half = takewhile(lambda _: not (tmp_path / TRIAL / "generation-000005").exists(), saying)
    assert all(isinstance(said, Point) for said in half) or kind is Validation
    saying.close()
    resumed = list(kind().measure_resuming(trial, "cpu", checkpointer_in(tmp_path)))
    remark, *rest = resumed
    assert isinstance(remark, TrialRemark)
    assert "it resumes from step" in remark.sentence
    assert rest == plain
    assert sum(isinstance(said, TrainedState) for said in plain) == 1


KILLED = """
import sys, time
from pathlib import Path

import torch

from bakeoff.suite.training import loop as training
from tests.suite.training.resumed import ATTENTION, NUM_LOSSES, checkpointer_in, run

training._TRAINING_LOSSES_PER_CURVE = NUM_LOSSES
torch.set_num_threads(1)

def on_step(step):
    print(step, flush=True)
    time.sleep(0.02)

run(ATTENTION, checkpointer_in(Path(sys.argv[1])), on_step, steps=200)
"""


@pytest.mark.slow  # starts a process that imports torch
def test_killed_at_any_moment_it_continues(tmp_path: Path) -> None:
    """SIGKILL arrives between or during checkpoints, which are written at every step."""
    killed = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert killed.stdout is not None
    for _ in range(9):
        assert killed.stdout.readline()
    time.sleep(0.013)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    resumed = run(ATTENTION, checkpointer_in(tmp_path, Clock()), steps=200)
    assert resumed.numbers == run(ATTENTION, None, steps=200).numbers
    assert 200 - resumed.num_steps >= 7
    assert len(resumed.remarks) == 1
    assert not [p for p in (tmp_path / TRIAL).iterdir() if p.name.startswith("unfinished")]
