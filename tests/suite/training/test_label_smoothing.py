"""Test label smoothing: it changes the training loss and the trial ids, but not the scores."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.interface import IMAGE_TOKENS, IMAGE_VECTOR, SCALE, TEXT_VECTOR, Outputs
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Parallel
from bakeoff.suite.spec import vary
from bakeoff.suite.tasks.registry import TASKS, build_task, task_class
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.sharded import ShardedEngine
from tests.suite.small_ablation import make_ablation
from tests.suite.toy import FirstToken, Reader, training
from tests.suite.training.engines.pair import on_two_workers

SMOOTHING = 0.3


class Smoothed(FirstToken):
    """The toy task with the loss of `Task`."""

    loss = Task.loss


TASK = Smoothed()


def _by_hand(outputs: Tensor, targets: Tensor, share: float) -> Tensor:
    """Return the cross-entropy against a mix of target and uniform classes, in nats per target."""
    log_p = functional.log_softmax(outputs.flatten(0, -2), dim=-1)
    rows = [(log_p[i], t) for i, t in enumerate(targets.flatten().tolist()) if t != UNSCORED]
    losses = [-(1 - share) * row[target] - share * row.mean() for row, target in rows]
    return torch.stack(losses).mean()


@pytest.mark.parametrize("shape", [(6,), (2, 5)], ids=["of sequences", "of tokens"])
def test_the_loss_is_the_mixtures_and_torchs(shape: tuple[int, ...]) -> None:
    chance = torch.Generator().manual_seed(0)
    outputs = torch.randn(*shape, 7, generator=chance)
    targets = torch.randint(7, shape, generator=chance)
    targets.view(-1)[1] = UNSCORED
    batch = Batch(inputs={}, targets=targets)
    smoothed = TASK.loss(Outputs(outputs), batch, SMOOTHING)
    torch.testing.assert_close(smoothed, _by_hand(outputs, targets, SMOOTHING))
    kept = targets.flatten() != UNSCORED
    torchs = functional.cross_entropy(
        outputs.flatten(0, -2)[kept], targets.flatten()[kept], label_smoothing=SMOOTHING
    )
    torch.testing.assert_close(smoothed, torchs)
    assert smoothed != TASK.loss(Outputs(outputs), batch)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_that_names_classes_takes_it(name: str) -> None:
    """Check that a task with its own loss does not ignore the smoothing."""
    kind = task_class(name)
    if kind.compares_examples:
        task = build_task(name, kind.fixed_length or 32)
        batch, rows = task.training_batch(0, 4, seed=0), torch.eye(4)
        vectors = {IMAGE_VECTOR: rows, TEXT_VECTOR: rows[:, None], SCALE: 100 * torch.ones(4)}
        outputs = Outputs(torch.zeros(4, 1), vectors)
        assert task.loss(outputs, batch).item() == 0
        # Three of the four candidates have logits that are 100 lower, with a quarter of the share
        # each.
        assert task.loss(outputs, batch, SMOOTHING).item() == pytest.approx(75 * SMOOTHING)
    elif kind.asks_for == "drawing":
        task = build_task(name, kind.fixed_length or 32)
        batch, tokens = task.training_batch(0, 4, seed=0), torch.arange(4)[:, None]
        outputs = Outputs(100 * torch.eye(4)[tokens], {IMAGE_TOKENS: tokens})
        assert task.loss(outputs, batch).item() == 0
        assert task.loss(outputs, batch, SMOOTHING).item() == pytest.approx(75 * SMOOTHING)
    elif name == "definitions_pairs":
        task = build_task(name, 32)
        batch = task.training_batch(0, 4, seed=0)
        known = torch.nn.functional.one_hot(batch.targets.clamp(min=0), task.output_size)
        outputs = Outputs(100.0 * known)
        assert task.loss(outputs, batch).item() == 0
        wanted = 100 * (1 - 1 / task.output_size) + 50  # all words, and the two answers
        assert task.loss(outputs, batch, SMOOTHING).item() == pytest.approx(wanted * SMOOTHING)
    elif kind.loss is not Task.loss:
        assert kind.asks_for in ("number", "image"), "only numbers have no labels to smooth"


def test_the_local_engine_trains_by_it_and_scores_without() -> None:
    model, batch = Reader(), TASK.training_batch(0, 8, 0)
    with torch.no_grad():
        outputs = batch.through(model).logits
    engine = LocalEngine(model, training(10, label_smoothing=SMOOTHING), "cpu")
    plain = LocalEngine(Reader(), training(10), "cpu")
    assert engine.evaluate(TASK, "test", 16) == plain.evaluate(TASK, "test", 16)
    loss = engine.step(batch, TASK)
    torch.testing.assert_close(loss, _by_hand(outputs, batch.targets, SMOOTHING))
    assert loss != plain.step(batch, TASK)


def test_a_score_in_bits_knows_nothing_of_it() -> None:
    task = build_task("shakespeare_characters", 4)
    batch = next(iter(task.held_out("validation", 2)))
    outputs = torch.randn(2, 4, task.output_size, generator=torch.Generator().manual_seed(0))
    bits = task.metric.value(task.metric.sums(Outputs(outputs), batch))
    nats = _by_hand(outputs, batch.targets, 0.0).item()
    assert bits == pytest.approx(nats / torch.tensor(2.0).log().item(), rel=1e-5)


def sharded_losses(folder: Path) -> list[float]:
    """Return the losses of a first step on a worker, with smoothing and without."""
    parallel = Parallel(workers=2, zero=0, precision="float32", accumulation=1)
    losses = []
    for share in (SMOOTHING, 0.0):
        engine = ShardedEngine(Reader(), training(10, label_smoothing=share), parallel, "cpu")
        losses.append(engine.mean([engine.step(TASK.training_batch(0, 8, 0), TASK)]))
    return losses


@pytest.mark.slow
def test_the_sharded_engine_trains_by_it(tmp_path: Path) -> None:
    batch = TASK.training_batch(0, 8, 0)
    outputs = batch.through(Reader()).logits.detach()
    expected = [_by_hand(outputs, batch.targets, share).item() for share in (SMOOTHING, 0.0)]
    found = on_two_workers(sharded_losses, tmp_path / "two", tmp_path)
    assert found == pytest.approx(expected, rel=1e-5)
    assert found[0] != pytest.approx(found[1], rel=1e-3)


def test_it_is_part_of_a_trials_id_where_it_is_asked_for() -> None:
    def ids(**scale: float) -> list[str]:
        return [trial.trial_id for trial in plan(make_ablation(scale=scale), seeds=1).trials]

    assert ids(label_smoothing=0.0) == ids()
    assert not set(ids(label_smoothing=0.1)) & set(ids())
    assert not set(ids(label_smoothing=0.1)) & set(ids(label_smoothing=0.2))


def test_it_may_be_an_axis_and_is_said_where_it_is_asked_for() -> None:
    varied = make_ablation(axes=[vary("label_smoothing", [0.0, 0.1])])
    shares = {t.training.label_smoothing for t in plan(varied, seeds=1).trials if t.training}
    assert shares == {0.0, 0.1}
    assert "label_smoothing" not in plan(varied, seeds=1).about.settings
    asked = make_ablation(scale={"label_smoothing": 0.1})
    assert plan(asked, seeds=1).about.settings["label_smoothing"] == 0.1
