"""Check that a loss over a whole batch does not depend on accumulation or workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.interface import Outputs
from bakeoff.suite.schema import Parallel
from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.emoji.emoji_pairs import LENGTH, EmojiPairs
from bakeoff.suite.training.engines.engine import Engine
from bakeoff.suite.training.engines.joint import (
    divided,
    first_pass,
    joined,
    loss_and_gradients,
    second_pass,
)
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.sharded import ShardedEngine
from tests.suite.toy import training
from tests.suite.training.engines.pair import on_two_workers

STEPS, BATCH, SEED = 3, 7, 0  # not divisible by two or three parts


def _model() -> nn.Module:
    torch.manual_seed(SEED)
    interface = EmojiPairs.interface(LENGTH)
    first = interface.inputs["inputs"]
    return build_model(
        ModelSpec(
            architecture="contrastive",
            mixer="attention",
            position="learned",
            dim=8,
            depth=1,
            length=LENGTH,
            input_kind="tokens",
            input_size=first.size,
            output_size=interface.output_size,
            others={name: each for name, each in interface.inputs.items() if name != "inputs"},
            knobs={"heads": 2},
            settings={"patch": 16},
        )
    )


def _trained(engine: Engine) -> list[float]:
    task = EmojiPairs(LENGTH)
    return [
        engine.mean([engine.step(task.training_batch(step, BATCH, SEED), task)])
        for step in range(STEPS)
    ]


def _alone(accumulation: int) -> tuple[list[float], list[Tensor]]:
    """Return losses and gradients without clipping or AdamW, which hide the gradient's scale."""
    model = _model()
    asked = training(
        STEPS,
        learning_rate=1e-2,
        warmup_steps=1,
        accumulation=accumulation,
        optimizer="sgd",
        clip_norm=None,
    )
    return _trained(LocalEngine(model, asked, "cpu")), [*map(_copied, model.parameters())]


def _copied(parameter: Tensor) -> Tensor:
    return parameter.detach().clone()


def test_parts_give_the_loss_and_the_gradient_of_the_whole_batch() -> None:
    losses, weights = _alone(1)
    for accumulation in (2, 3, 16):  # most of 16 parts are empty
        in_parts, others = _alone(accumulation)
        assert in_parts == pytest.approx(losses, rel=1e-5)
        for one, other in zip(others, weights, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_the_loss_is_of_all_pairs_of_the_batch() -> None:
    """Compare with the mean over parts, where each picture has fewer negative captions."""
    task = EmojiPairs(LENGTH)
    batch = task.training_batch(0, BATCH, SEED)
    model = _model()
    (first, *_), _ = _alone(2)
    whole = task.loss(batch.through(model), batch).item()
    halves = [batch.rows(slice(0, 3)), batch.rows(slice(3, BATCH))]
    apart = sum(task.loss(h.through(model), h).item() * len(h.targets) for h in halves) / BATCH
    assert first == pytest.approx(whole, rel=1e-5)
    assert abs(first - apart) > 0.1


def test_the_loss_is_that_of_the_paper_in_both_directions() -> None:
    task = EmojiPairs(LENGTH)
    batch = task.training_batch(0, BATCH, SEED)
    outputs = batch.through(_model())
    images, texts = outputs.auxiliary["image_vector"], outputs.auxiliary["text_vector"]
    rows = [[(image @ text[0]) / 0.07 for text in texts] for image in images]
    columns = [[rows[i][j] for i in range(BATCH)] for j in range(BATCH)]
    losses = [
        cross_entropy(torch.stack(row)[None], torch.tensor([own]))
        for side in (rows, columns)
        for own, row in enumerate(side)
    ]
    expected = torch.stack(losses).mean().item()
    assert task.loss(outputs, batch).item() == pytest.approx(expected, rel=1e-5)


def _dropped(seen: list[Tensor], weight: Tensor, batch: Batch) -> Outputs:
    seen.append(dropout(batch.inputs["inputs"] * weight, 0.5))
    return Outputs(seen[-1])


def _parts() -> Sequence[Batch]:
    rows = torch.arange(24.0).reshape(6, 4)
    batch = Batch(inputs={"inputs": rows}, targets=torch.zeros(6).long())
    return [batch.rows(slice(0, 4)), batch.rows(slice(4, 6))]


def test_both_passes_of_a_part_draw_the_same_numbers() -> None:
    seen: list[Tensor] = []
    weight = torch.ones(4, requires_grad=True)

    def answer(part: Batch) -> Outputs:
        return _dropped(seen, weight, part)

    parts = _parts()
    passes = [first_pass(part, answer) for part in parts]
    whole = joined([each.outputs for each in passes])
    loss, gradients = loss_and_gradients(whole, lambda found: found.logits.square().sum())
    drawn_before = torch.get_rng_state()
    for part, each, own in zip(parts, passes, divided(gradients, [4, 2]), strict=True):
        second_pass(part, answer, each.before, own).backward()  # type: ignore[no-untyped-call]
    assert torch.equal(torch.get_rng_state(), drawn_before), "what comes after draws on"
    assert all(torch.equal(a, b) for a, b in zip(seen[:2], seen[2:], strict=True))
    assert loss.item() == whole.logits.square().sum().item()
    by_hand = sum((2 * each * each / weight).sum(dim=0) for each in seen[:2])
    assert isinstance(by_hand, Tensor)
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, by_hand.detach())


def _on_a_worker() -> dict[str, list[float]]:
    found = {}
    for zero, accumulation in ((0, 1), (0, 2), (3, 1)):
        parallel = Parallel(workers=2, zero=zero, precision="float32", accumulation=accumulation)
        asked = training(STEPS, learning_rate=1e-2, warmup_steps=1)
        engine = ShardedEngine(_model(), asked, parallel, "cpu")
        losses = _trained(engine)
        found[f"zero {zero}, accumulation {accumulation}"] = [*losses, _norm(engine, zero)]
    return found


def _norm(engine: ShardedEngine, zero: int) -> float:
    """Return the gradient norm of one more step, before clipping."""
    task, norms = EmojiPairs(LENGTH), []
    batch = task.training_batch(STEPS, BATCH, SEED)

    def look() -> None:
        norms.append(_norm_in(engine.model.module))

    engine.step(batch, task, lambda: None if zero else look())
    return float(engine.model.get_global_grad_norm()) if zero else norms[0]


def _norm_in(model: nn.Module) -> float:
    found = [each.grad.norm() for each in model.parameters() if each.grad is not None]
    return torch.stack(found).norm().item()


@pytest.mark.cluster
def test_two_workers_train_as_one_process(tmp_path: Path) -> None:
    model, task = _model(), EmojiPairs(LENGTH)
    engine = LocalEngine(model, training(STEPS, learning_rate=1e-2, warmup_steps=1), "cpu")
    losses = _trained(engine)
    batch = task.training_batch(STEPS, BATCH, SEED)
    model.zero_grad()
    task.loss(batch.through(model), batch).backward()  # type: ignore[no-untyped-call]
    for name, found in on_two_workers(_on_a_worker, tmp_path / "workers").items():
        assert found == pytest.approx([*losses, _norm_in(model)], rel=1e-3), name
