"""Check that other ways to run a model agree, and that unsupported ones give one message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.suite.events import Finished
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Resources, Status, Training, Trial
from bakeoff.suite.spec import vary
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.sequence_to_sequence.digits import Reversal
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.engines import runtimes
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.runtimes import NoRuntime, prepared
from tests.suite.families import TASKS, family_ablation, hold_out_few
from tests.suite.toy import Reader, training
from tests.suite.writers import GruPair

LENGTH, BATCH, STEPS = 8, 2, 3
TEXT = "shakespeare_characters"


def spec(declared: Any, mixer: str = "attention") -> ModelSpec:
    task = build_task(TEXT, LENGTH)
    return ModelSpec(
        architecture="language_model",
        mixer=mixer,
        knobs={},
        position="sinusoidal",
        dim=16,
        depth=1,
        length=LENGTH,
        input_kind="tokens",
        input_size=task.input_size,
        output_size=task.output_size,
        runtime=declared,
    )


def engine(declared: Any, device: str = "cpu", **recipe: Any) -> LocalEngine:
    torch.manual_seed(0)
    return LocalEngine(build_model(spec(declared)), training(STEPS, **recipe), device)


def losses(found: LocalEngine, task: Task) -> list[float]:
    batches = [task.training_batch(step, BATCH, 0) for step in range(STEPS)]
    return [found.step(batch, task).item() for batch in batches]


def compiled_trial() -> Trial:
    task = build_task(TEXT, LENGTH)
    return Trial(
        probe="quality",
        task=TEXT,
        task_digest=task.source.sha256,
        length=LENGTH,
        batch=BATCH,
        subjects=(spec("eager"),),
        training=Training(
            steps=1,
            learning_rate=1e-3,
            warmup_steps=0,
            weight_decay=0.0,
            num_evaluations=1,
            runtime="compiled",
        ),
        seed=0,
        versions={},
    )


def ended(trial: Trial) -> Finished:
    last = list(run_trial(trial, Resources(), "here"))[-1]
    assert isinstance(last, Finished)
    return last


def test_eager_is_the_model_itself() -> None:
    model = build_model(spec("eager"))
    assert prepared(model, "eager", "cpu") is model
    assert engine("eager").model is not model


def test_what_a_model_declares_is_what_an_engine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(model: nn.Module, declared: str, device: str, precision: str) -> nn.Module:
        asked.append((declared, device))
        return model

    monkeypatch.setattr(runtimes, "prepared", noted)
    engine("compiled")
    LocalEngine(Reader(), training(STEPS), "cpu")  # a user's own module has no spec
    assert asked == [("compiled", "cpu")]


def test_a_missing_compiler_ends_a_trial_with_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "_has_cpp_compiler", lambda: False)
    result = ended(compiled_trial()).result
    assert result.status is Status.ERROR
    assert result.reason == (
        "NoRuntime: runtime='compiled' on a CPU needs a C++ compiler (g++, or the one that CXX "
        "names), and none works here."
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_bf16_is_compiled_with_the_model() -> None:
    model, batch = GruPair(dim=8), Reversal(5).training_batch(0, 3, 0)
    compiled = prepared(model, "compiled", "cpu", "bf16")
    eager = prepared(model, "eager", "cpu", "bf16")
    torch.testing.assert_close(batch.through(compiled), batch.through(eager), rtol=2e-2, atol=2e-2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_model_with_a_source_is_compiled() -> None:
    model, batch = GruPair(dim=8), Reversal(5).training_batch(0, 3, 0)
    compiled = prepared(model, "compiled", "cpu")
    torch.testing.assert_close(batch.through(compiled), batch.through(model))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_model_trains_as_an_eager_one() -> None:
    task = build_task(TEXT, LENGTH)
    eager, compiled = engine("eager"), engine("compiled")
    assert losses(compiled, task) == pytest.approx(losses(eager, task), rel=1e-5)
    assert type(compiled.model).__name__ == "OptimizedModule"
    for a, b in zip(eager.model.parameters(), compiled.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("task", TASKS)
def test_a_whole_architecture_trains_compiled_as_it_does_eagerly(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_out_few(monkeypatch.setattr)
    axes = [vary("runtime", ["auto", "compiled"])]
    eager, compiled = (ended(t).result for t in plan(family_ablation(task, axes=axes)).trials)
    assert compiled.status is Status.OK, compiled.reason
    values = [each.value for each in (*eager.points, *eager.measurements)]
    found = [each.value for each in (*compiled.points, *compiled.measurements)]
    assert found == pytest.approx(values, rel=1e-5, abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiler_is_looked_for_as_torch_would() -> None:
    from torch._inductor import config

    assert runtimes._has_cpp_compiler()
    with (
        config.patch({"cpp.cxx": (None, "/no/such/compiler")}),
        pytest.raises(NoRuntime, match="needs a C"),
    ):
        prepared(build_model(spec("compiled")), "compiled", "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("bf16", 1e-2)])
def test_a_gpu_runs_it_as_declared(precision: str, tolerance: float) -> None:
    task = build_task(TEXT, LENGTH)
    found, eager = (engine(how, "cuda", precision=precision) for how in ("compiled", "eager"))
    assert losses(found, task) == pytest.approx(losses(eager, task), rel=tolerance)
    assert found.evaluate(task, "validation", 64) == pytest.approx(
        eager.evaluate(task, "validation", 64), rel=10 * tolerance
    )
    assert replace(spec("compiled"), runtime="eager") == spec("eager")
