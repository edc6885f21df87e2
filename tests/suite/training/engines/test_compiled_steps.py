"""Test training steps with a compiled model: when they are used, and how a training resumes.

Most tests replace the compiler and the GPU, and nothing else; those marked `slow` compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.suite.errors import CaptureFailed, CheckpointError
from bakeoff.suite.events import Condition, TrialRemark
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines import recording, runtimes
from bakeoff.suite.training.engines.compiled_code import FOLDER, keeping_compiled_code
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train_resuming
from tests.suite.toy import FirstToken, training
from tests.suite.training.engines import tape
from tests.suite.training.engines.test_recording import (
    BATCH,
    LENGTH,
    STEPS,
    TEXT,
    Declared,
    Dropping,
    built,
    trained,
)

BOTH = f"{recording.COMPILED}; {recording.RECORDED}"


class Compiled(nn.Module):
    """A stand-in for a compiled model, which may be wrong or fail."""

    def __init__(self, model: nn.Module, factor: float = 1.0, fails_at: int = 0) -> None:
        super().__init__()
        self.model, self.factor, self.fails_at, self.num_calls = model, factor, fails_at, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.num_calls += 1
        if self.num_calls == self.fails_at:
            raise RuntimeError("Recompiled\nwith details")
        found: Tensor = self.model(inputs) * self.factor
        return found


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Replace compiler and GPU; the result sets what compiled models are like."""
    monkeypatch.setattr(recording, "on_gpu", tape.recorded)

    def make(**how: Any) -> None:
        monkeypatch.setattr(runtimes, "compiled_for_steps", lambda model, _: Compiled(model, **how))

    make()
    yield make
    recording.record_nothing("")


def run(**how: Any) -> tuple[Any, ...]:
    return trained(Declared(), training(STEPS), FirstToken(3), is_compiled=True, **how)


@pytest.mark.usefixtures("compiler")
def test_compiled_steps_that_agree_are_used_and_recorded() -> None:
    eager, *_ = trained(Declared(), training(STEPS), FirstToken(3))
    losses, _, how = run(is_recorded=True)
    assert how == BOTH
    assert losses == pytest.approx(eager, rel=1e-5)
    assert run()[2] == recording.COMPILED


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"factor": 1.01}, "compiled steps gave losses of ["),
        ({"fails_at": 1}, "RuntimeError: Recompiled"),
        ({"fails_at": 4}, "RuntimeError: Recompiled"),  # compiled anew after its trial runs
    ],
)
def test_others_are_recorded_uncompiled_and_say_why(
    how: dict[str, Any], why: str, compiler: Callable[..., None]
) -> None:
    eager, *_ = trained(Declared(), training(STEPS), FirstToken(3))
    compiler(**how)
    losses, _, said = run(is_recorded=True)
    assert said.startswith(f"{recording.RECORDED}; not compiled: {why}")
    assert "\n" not in said
    assert losses == pytest.approx(eager, rel=1e-5)
    on_cpu, _, said = run()
    assert said.startswith(f"eagerly; not compiled: {why}")
    assert on_cpu == eager


def test_what_no_graph_holds_is_never_compiled(
    compiler: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(fails_at=1)
    monkeypatch.setattr(recording, "why_not_captured", lambda step, kind: "it waits")
    assert run(is_recorded=True)[2] == "eagerly: it waits"


def test_each_shape_of_a_batch_is_decided_for_itself(compiler: Callable[..., None]) -> None:
    compiler(fails_at=12)  # in the trial runs of the second shape
    engine, task = LocalEngine(Declared(), training(9), "cpu", is_compiled=True), FirstToken(3)
    for rows in (4, 5, 4):
        engine.step(task.training_batch(0, rows, 0), task)
    assert engine.how_steps_run == (
        "compiled; 1 of 2 shapes not compiled: RuntimeError: Recompiled"
    )


def engine_of(model: nn.Module | None = None, **how: Any) -> LocalEngine:
    return LocalEngine(model or Declared(), training(STEPS), "cpu", **how)


def stepped(engine: LocalEngine, steps: range) -> LocalEngine:
    task = FirstToken(3)
    for step in steps:
        engine.step(task.training_batch(step, BATCH, 0), task)
    return engine


@pytest.mark.parametrize("how", [{}, {"is_recorded": True}])
def test_a_resumed_training_does_not_decide_anew(
    how: dict[str, Any], compiler: Callable[..., None], tmp_path: Path
) -> None:
    """Resume with a compiled model that would be refused now, and with one that was refused."""
    whole = stepped(engine_of(is_compiled=True, **how), range(STEPS))
    stepped(engine_of(is_compiled=True, **how), range(3)).save(tmp_path)
    resumed = engine_of(is_compiled=True, **how)
    resumed._recorded._tolerance = -1.0
    resumed.load(tmp_path)
    assert stepped(resumed, range(3, STEPS)).state_sha256() == whole.state_sha256()
    assert resumed.how_steps_run == whole.how_steps_run

    compiler(factor=1.5)
    refused = tmp_path / "refused"
    refused.mkdir()
    stepped(engine_of(is_compiled=True, **how), range(3)).save(refused)
    compiler()
    uncompiled = engine_of(is_compiled=True, **how)
    uncompiled.load(refused)
    stepped(uncompiled, range(3, STEPS))
    assert "not compiled: compiled steps gave" in uncompiled.how_steps_run


def test_what_was_compiled_and_cannot_be_now_starts_again_elsewhere(
    compiler: Callable[..., None], tmp_path: Path
) -> None:
    stepped(engine_of(is_compiled=True), range(3)).save(tmp_path)
    compiler(fails_at=1)
    resumed = engine_of(is_compiled=True)
    resumed.load(tmp_path)
    with pytest.raises(CaptureFailed, match="now: RuntimeError"):
        stepped(resumed, range(3, 4))
    recording.record_nothing("it cannot be compiled")
    again = engine_of(is_compiled=True)
    with pytest.raises(CheckpointError, match="did not run eagerly, as they do here"):
        again.load(tmp_path)
    assert stepped(again, range(2)).how_steps_run == "eagerly: it cannot be compiled"


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (True, False, "its steps were compiled, and are not compiled here"),
        (False, True, "its steps were not compiled, as they are here"),
    ],
)
def test_a_checkpoint_of_other_steps_is_skipped_with_a_remark(
    before: bool, now: bool, why: str, tmp_path: Path
) -> None:
    exercise = Exercise(task=FirstToken(3), training=training(STEPS), batch=BATCH, seed=0)

    def said(is_compiled: bool) -> list[object]:
        kept = Checkpointer(tmp_path / "trial", 0.0)
        return [*train_resuming(engine_of(is_compiled=is_compiled), exercise, kept)]

    said(before)
    found = said(now)
    remarks = [each.sentence for each in found if isinstance(each, TrialRemark)]
    assert any(why in sentence for sentence in remarks)
    assert not any("resumes" in sentence for sentence in remarks)
    assert (Condition("training steps", recording.COMPILED) in found) == now


def test_a_call_that_would_be_compiled_anew_is_found_before_a_capture() -> None:
    """Use torch's compiler without its code generator, and a number that changes at each call."""
    number = iter(range(100))
    scaled = torch.compile(lambda x, by: x * by, dynamic=False, backend="eager")
    with pytest.raises(RuntimeError, match="recompil"):
        recording._settle(lambda: scaled(torch.ones(2), next(number)), "cpu")
    recording._settle(lambda: scaled(torch.ones(2), 3), "cpu")


def test_compiled_code_is_kept_beside_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", default_cache_dir())  # torch sets it itself
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    kept = Checkpointer(tmp_path / "checkpoints" / "trial", 1e9)
    with keeping_compiled_code(kept):
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / FOLDER / "torch")
        assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / FOLDER / "triton")
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == default_cache_dir()
    assert "TRITON_CACHE_DIR" not in os.environ
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine")
    with keeping_compiled_code(kept):
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/mine"
    with keeping_compiled_code(None):
        assert "TRITON_CACHE_DIR" not in os.environ


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_training_compiled_on_this_cpu_agrees_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    """Use dropout, whose random numbers must be those of eager steps."""
    task, asked = FirstToken(3), training(STEPS)
    eager, *_ = trained(Dropping(), asked, task)
    with keeping_compiled_code(Checkpointer(tmp_path / "checkpoints" / "trial", 1e9)):
        losses, _, how = trained(Dropping(), asked, task, is_compiled=True)
        assert how == recording.COMPILED
        assert losses == pytest.approx(eager, rel=1e-5)
        exercise = Exercise(task=task, training=asked, batch=BATCH, seed=0)

        def state(*, stops_at: int | None) -> str:
            torch.manual_seed(5)
            kept = Checkpointer(tmp_path / "checkpoints" / f"{stops_at}", 0.0)
            for attempt in range(2 if stops_at else 1):
                engine = LocalEngine(Dropping(), asked, "cpu", is_compiled=True)
                for said in train_resuming(engine, exercise, kept):
                    if not attempt and getattr(said, "step", 0) == stops_at:
                        break
            return engine.state_sha256()

        assert state(stops_at=4) == state(stops_at=None)
    assert any((tmp_path / FOLDER / "torch").rglob("*.so"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_gpu_compiles_records_and_resumes(dropout: float, tmp_path: Path) -> None:
    task = build_task(TEXT, LENGTH)

    def engine(**how: bool) -> LocalEngine:
        torch.manual_seed(5)
        return LocalEngine(built(dropout=dropout), training(STEPS), "cuda", **how)

    def losses(of: LocalEngine, steps: range) -> list[float]:
        batches = [task.training_batch(step, BATCH, 0) for step in steps]
        return [of.step(batch, task).item() for batch in batches]

    both = {"is_recorded": True, "is_compiled": True}
    whole, eager = engine(**both), losses(engine(is_recorded=True), range(STEPS))
    assert losses(whole, range(STEPS)) == pytest.approx(eager, rel=1e-3)
    assert whole.how_steps_run == BOTH
    if dropout:
        return
    first = engine(**both)
    losses(first, range(3))
    first.save(tmp_path)
    resumed = engine(**both)
    resumed.load(tmp_path)
    losses(resumed, range(3, STEPS))
    assert resumed.state_sha256() == whole.state_sha256()
