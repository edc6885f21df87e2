"""Compare recorded steps with eager ones from the first step on, or check the reason given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import CaptureFailed
from bakeoff.suite.events import Condition, RunAgainEagerly, Started
from bakeoff.suite.execution.trial import run_measuring
from bakeoff.suite.schema import Point, Resources, Training
from bakeoff.suite.tasks.emoji.emoji_scenes import LENGTH as SCENE
from bakeoff.suite.tasks.emoji.emoji_scenes import EmojiScenes
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.engines import recording
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train_resuming
from tests.suite.heads_sweep import HeadsSweep
from tests.suite.toy import NUM_SYMBOLS, FirstToken, Reader, training
from tests.suite.training.engines import tape

LENGTH, BATCH, STEPS = 8, 4, 7
TEXT = "shakespeare_characters"
NOT_PERMITTED = "operation not permitted when stream is capturing"


@pytest.fixture(autouse=True)
def _on_this_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(recording, "on_gpu", tape.recorded)
    yield
    recording.record_nothing("")
    assert not tape.repaired(), "a capture has failed that should not have been tried"


def built(mixer: str = "attention", **settings: Any) -> nn.Module:
    task = build_task(TEXT, LENGTH)
    torch.manual_seed(0)
    return build_model(
        ModelSpec(
            architecture="language_model",
            mixer=mixer,
            settings=settings,
            position="sinusoidal",
            dim=16,
            depth=1,
            length=LENGTH,
            input_kind="tokens",
            input_size=task.input_size,
            output_size=task.output_size,
        )
    )


def trained(model: nn.Module, asked: Training, task: Task, **how: Any) -> tuple[Any, ...]:
    """Return the losses, the parameters and how the steps were run."""
    torch.manual_seed(5)
    engine = LocalEngine(model, asked, "cpu", **how)
    batches = (task.training_batch(step, BATCH, 0) for step in range(asked.steps))
    losses = [engine.step(batch, task).item() for batch in batches]
    return losses, [p.detach().clone() for p in model.parameters()], engine.how_steps_run


RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sgd": {"optimizer": "sgd"},
    "warm-up, clipping, decay, ema": {
        "warmup_steps": 3,
        "clip_norm": 0.1,
        "weight_decay": 0.1,
        "ema": 0.9,
    },
    "bf16": {"precision": "bf16"},
    "own answers": {"scheduled_sampling": 0.5},
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("mixer", ["attention", "conv", "linear_transformer"])
def test_a_recorded_training_is_an_eager_one(mixer: str, recipe: str) -> None:
    task, asked = build_task(TEXT, LENGTH), training(STEPS, **RECIPES[recipe])
    eager, weights, _ = trained(built(mixer), asked, task)
    losses, found, how = trained(built(mixer), asked, task, is_recorded=True)
    assert how == recording.RECORDED
    tolerance = 1e-2 if recipe == "bf16" else 1e-5
    assert losses == pytest.approx(eager, rel=tolerance)
    assert len(set(losses)) == STEPS  # each for a different batch
    for one, other in zip(found, weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=tolerance)


def test_dropout_draws_anew_in_each_replay_and_as_it_would_have_eagerly() -> None:
    task, asked = build_task(TEXT, LENGTH), training(STEPS, learning_rate=1e-9)
    eager, *_ = trained(built(dropout=0.5), asked, task)
    losses, _, how = trained(built(dropout=0.5), asked, task, is_recorded=True)
    assert how == recording.RECORDED
    assert losses == pytest.approx(eager, rel=1e-5)


def test_a_recording_that_updates_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one whose losses would be right for a model that is never trained."""

    def unchanging(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        loss = work().clone()
        return lambda: loss

    monkeypatch.setattr(recording, "on_gpu", unchanging)
    eager, *_ = trained(Declared(), training(STEPS), FirstToken(3))
    losses, _, how = trained(Declared(), training(STEPS), FirstToken(3), is_recorded=True)
    assert "gave losses of" in how
    assert losses == pytest.approx(eager, rel=1e-5)


def test_nothing_of_the_trial_runs_is_left() -> None:
    """Check that the first step is a replay from the original parameters and state."""
    task, model = build_task(TEXT, LENGTH), built()
    before = [p.detach().clone() for p in model.parameters()]
    asked = training(STEPS, learning_rate=0.0, weight_decay=0.0)
    torch.manual_seed(3)
    engine = LocalEngine(model, asked, "cpu", is_recorded=True)
    engine.step(task.training_batch(0, BATCH, 0), task)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    (steps_done,) = {float(state["step"]) for state in engine.optimizer.state.values()}
    assert steps_done == 1.0


@pytest.mark.whole
def test_a_resumed_training_ends_bit_for_bit_as_an_uninterrupted_one(tmp_path: Path) -> None:
    task = build_task(TEXT, LENGTH)
    asked = training(STEPS, warmup_steps=2, num_evaluations=1)
    whole = LocalEngine(built(), asked, "cpu", is_recorded=True)
    first = LocalEngine(built(), asked, "cpu", is_recorded=True)
    for step in range(STEPS):
        whole.step(task.training_batch(step, BATCH, 0), task)
    for step in range(3):
        first.step(task.training_batch(step, BATCH, 0), task)
    first.save(tmp_path)
    second = LocalEngine(built(), asked, "cpu", is_recorded=True)
    second.load(tmp_path)
    for step in range(3, STEPS):
        second.step(task.training_batch(step, BATCH, 0), task)
    assert second.how_steps_run == recording.RECORDED
    assert second.state_sha256() == whole.state_sha256()


def test_a_batch_goes_straight_to_where_the_recording_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that there is one pinned, direct copy and none on the device."""
    task = build_task(TEXT, LENGTH)
    engine = LocalEngine(built(), training(STEPS), "cpu", is_recorded=True)
    engine.step(task.training_batch(0, BATCH, 0), task)
    sent: list[Tensor] = []
    monkeypatch.setattr(recording, "sendable", lambda tensor, _: sent.append(tensor) or tensor)
    monkeypatch.delattr(Batch, "to")
    batch = task.training_batch(1, BATCH, 0)
    engine.step(batch, task)
    assert [id(tensor) for tensor in sent] == [id(batch.inputs["inputs"]), id(batch.targets)]


class Moody(FirstToken):
    """A task whose loss branches on values that a GPU would have to return."""

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        found = super().loss(outputs, batch)
        return found if found.item() > 0 else found * 2


class Fickle(FirstToken):
    """A task that counts its calls, which a recording cannot do."""

    calls = 0

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        self.calls += 1
        return super().loss(outputs, batch) * self.calls


class Declared(nn.Module):
    """A model with a spec that can be recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = built().spec
        torch.manual_seed(0)
        self.table = nn.Embedding(NUM_SYMBOLS, NUM_SYMBOLS)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.table(inputs[:, 0])
        return logits


@pytest.mark.parametrize(
    ("task", "why"), [(Moody, "waits for a number"), (Fickle, "gave losses of")]
)
def test_what_cannot_be_recorded_trains_eagerly_and_says_so(task: type[Task], why: str) -> None:
    asked = training(STEPS)
    eager, weights, _ = trained(Declared(), asked, FirstToken(3))
    losses, found, how = trained(Declared(), asked, task(3), is_recorded=True)
    assert how.startswith("eagerly: ")
    assert why in how
    if task is Moody:
        assert losses == pytest.approx(eager, rel=1e-5)
        torch.testing.assert_close(found, weights, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "recipe", "why"),
    [
        (Reader, {}, "does not say"),
        (lambda: built("performer"), {}, "Performer draws random numbers during training"),
        (lambda: built(residual="reversible"), {}, "reversible"),
        (built, {"optimizer": "adafactor"}, "adafactor"),
        (built, {"accumulation": 2}, "parts of a batch"),
    ],
)
def test_what_is_known_not_to_be_recorded_is_never_tried(
    model: Any, recipe: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "on_gpu", None)
    made = model()
    task: Task = FirstToken(3) if isinstance(made, Reader) else build_task(TEXT, LENGTH)
    *_, how = trained(made, training(2, **recipe), task, is_recorded=True)
    assert why in how


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_a_captioner_is_recorded_unless_it_chooses_where_to_look(attention: str) -> None:
    """Use a Python condition that selects soft attention for half of the batches."""
    interface = EmojiScenes.interface(SCENE)
    spec = ModelSpec(
        architecture="show_attend_tell",
        dim=8,
        length=SCENE,
        input_kind="tokens",
        input_size=interface.inputs["inputs"].size,
        output_size=interface.output_size,
        others={"context": interface.inputs["context"]},
        settings={"attention": attention},
    )
    why = recording.why_eager(build_model(spec), training(2))
    assert why == (
        "show_attend_tell draws random numbers during training" if attention == "hard" else ""
    )


def test_batches_of_several_shapes_have_a_recording_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that their number is limited, since each recording keeps memory."""
    num_recorded = []
    monkeypatch.setattr(
        recording, "on_gpu", lambda work: num_recorded.append(1) or tape.recorded(work)
    )
    task = build_task(TEXT, LENGTH)
    # float64, because rounding errors of float32 add up to as much as the bound
    engine = LocalEngine(built().double(), training(40), "cpu", is_recorded=True)
    eager = LocalEngine(built().double(), training(40), "cpu")
    for rows in (*range(1, 9), *range(1, 9)):
        batch = task.training_batch(0, rows, 0)
        assert engine.step(batch, task).item() == pytest.approx(eager.step(batch, task).item())
    assert len(num_recorded) == 8
    assert engine.how_steps_run == recording.RECORDED
    engine.step(task.training_batch(0, 9, 0), task)
    assert "more than 8 shapes" in engine.how_steps_run


def test_a_training_says_how_its_steps_were_run() -> None:
    exercise = Exercise(task=FirstToken(3), training=training(2), batch=BATCH, seed=0)
    engine = LocalEngine(Declared(), exercise.training, "cpu", is_recorded=True)
    said = list(train_resuming(engine, exercise, None))
    assert Condition("training steps", recording.RECORDED) in said
    eager = LocalEngine(Declared(), exercise.training, "cpu")
    assert not any(isinstance(each, Condition) for each in train_resuming(eager, exercise, None))


class Dropping(Declared):
    """A model that draws random numbers in each step."""

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(inputs), 0.5)


def a_failing_one(monkeypatch: pytest.MonkeyPatch) -> LocalEngine:
    """Return a training with dropout whose capture fails without any warning sign."""
    monkeypatch.setattr(recording, "why_not_captured", lambda step, kind: "")
    torch.manual_seed(5)
    return LocalEngine(Dropping(), training(STEPS), "cpu", is_recorded=True)


def test_a_capture_that_fails_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later eager steps and later trainings would fail too."""
    engine, task = a_failing_one(monkeypatch), Moody(3)
    batch = task.training_batch(0, BATCH, 0)
    with pytest.raises(CaptureFailed, match=NOT_PERMITTED):
        engine.step(batch, task)
    with pytest.raises(RuntimeError, match="Offset increment outside graph capture"):
        torch.rand(1)
    assert tape.repaired()


def test_a_trial_whose_capture_fails_has_no_result_and_its_second_process_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = a_failing_one(monkeypatch)
    exercise = Exercise(task=Moody(3), training=training(STEPS), batch=BATCH, seed=0)
    trial, here = HeadsSweep().trial(), Resources()
    events = list(run_measuring(trial, here, "", lambda: train_resuming(engine, exercise, None)))
    assert tape.repaired()
    assert isinstance(events[0], Started)
    assert events[1:] == [RunAgainEagerly(trial.trial_id, NOT_PERMITTED)]
    recording.record_nothing(NOT_PERMITTED)
    again = a_failing_one(monkeypatch)
    said = list(train_resuming(again, exercise, None))
    assert Condition("training steps", f"eagerly: {NOT_PERMITTED}") in said
    torch.manual_seed(5)
    eager = LocalEngine(Dropping(), exercise.training, "cpu")
    points = [each for each in train_resuming(eager, exercise, None) if isinstance(each, Point)]
    assert [p.value for p in said if isinstance(p, Point)] == pytest.approx(
        [p.value for p in points], rel=1e-5
    )


def test_what_no_graph_holds_is_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that nothing is tried; a failure would break the process's random generator."""
    monkeypatch.setattr(recording, "on_gpu", None)
    losses, _, how = trained(Dropping(), training(STEPS), Moody(3), is_recorded=True)
    assert how == "eagerly: aten._local_scalar_dense.default waits for a number from the device"
    eager, *_ = trained(Dropping(), training(STEPS), FirstToken(3))
    assert losses == pytest.approx(eager, rel=1e-5)
