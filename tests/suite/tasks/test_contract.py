"""The contract of a task, over every task of the table."""

import hashlib
import os
import subprocess
import sys
from functools import cache

import pytest
import torch
from torch import Tensor

import models
from suite.tasks.registry import TASKS, build_task, task_class
from suite.tasks.task import Batch, Split, Task, TaskError

LENGTH = 96  # of tasks whose data dictate none; divides neither split, so tails are tested too
SPLITS: tuple[Split, ...] = ("validation", "test")

BATCH_DIGESTS = """
import hashlib, sys
from suite.tasks.registry import build_task
task = build_task(sys.argv[1], int(sys.argv[2]))
digest = hashlib.sha256()
for step in (7, 0, 500):
    batch = task.training_batch(step, 8, seed=3)
    digest.update(batch.inputs.numpy().tobytes() + batch.targets.numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    return _task(request.param)


@cache
def _task(name: str) -> Task:
    return build_task(name, task_class(name).fixed_length or LENGTH)


def _same(a: Batch, b: Batch) -> bool:
    return torch.equal(a.inputs, b.inputs) and torch.equal(a.targets, b.targets)


def _is_scored(targets: Tensor) -> Tensor:
    return targets != -100


def test_a_task_says_what_it_is(task: Task) -> None:
    assert TASKS[task.name].endswith(f":{type(task).__name__}")
    assert task.version >= 1
    assert task.metric.name
    assert task.metric.unit
    assert task.metric.better in {"higher", "lower"}
    assert task.source.title
    assert task.source.licence
    assert task.source.origin


def test_its_skeleton_is_one_that_stands(task: Task) -> None:
    assert task.skeleton in models.SKELETONS


def test_a_batch_has_the_shapes_and_types_that_the_task_announces(task: Task) -> None:
    for batch in (task.training_batch(0, 5, seed=0), next(task.held_out("test", 5))):
        if task.input_kind == "tokens":
            assert batch.inputs.shape == (5, task.length)
            assert batch.inputs.dtype == torch.int64
            assert 0 <= batch.inputs.min() <= batch.inputs.max() < task.input_size
        else:
            assert batch.inputs.shape == (5, task.length, task.input_size)
            assert batch.inputs.dtype == torch.float32
            assert batch.inputs.isfinite().all()
        assert batch.targets.shape in {(5,), (5, task.length)}
        assert batch.targets.dtype == torch.int64
        scored = batch.targets[_is_scored(batch.targets)]
        assert 0 <= scored.min() <= scored.max() < task.output_size
        assert batch.mask is None


def test_a_training_batch_scores_every_target(task: Task) -> None:
    assert _is_scored(task.training_batch(0, 64, seed=0).targets).all()


def test_a_training_batch_is_a_function_of_seed_and_step(task: Task) -> None:
    first = task.training_batch(11, 6, seed=2)
    task.training_batch(12, 6, seed=2)
    first_again = build_task(task.name, task.length).training_batch(11, 6, seed=2)
    assert _same(first, first_again)


def test_training_batches_differ_between_steps_and_seeds(task: Task) -> None:
    keys = [(seed, step) for seed in range(4) for step in range(4)]
    inputs = {task.training_batch(step, 4, seed).inputs.numpy().tobytes() for seed, step in keys}
    assert len(inputs) == len(keys)


def test_the_random_state_of_the_process_does_not_matter_and_stays(task: Task) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = task.training_batch(3, 6, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert _same(first, task.training_batch(3, 6, seed=0))


def test_another_process_sees_the_same_batches(task: Task) -> None:
    digest = hashlib.sha256()
    for step in (7, 0, 500):
        batch = task.training_batch(step, 8, seed=3)
        digest.update(batch.inputs.numpy().tobytes() + batch.targets.numpy().tobytes())
    other = subprocess.run(
        [sys.executable, "-c", BATCH_DIGESTS, task.name, str(task.length)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"},
    )
    assert other.stdout.strip() == digest.hexdigest()


def test_a_batch_may_be_overwritten_without_harm_to_the_next(task: Task) -> None:
    for batch_again in (
        lambda: task.training_batch(0, 4, seed=0),
        lambda: next(task.held_out("test", 4)),
    ):
        batch = batch_again()
        kept = Batch(inputs=batch.inputs.clone(), targets=batch.targets.clone())
        batch.inputs.zero_()
        batch.targets.zero_()
        assert _same(batch_again(), kept)


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_is_whole_and_in_the_same_order_at_every_batch_size(
    task: Task, split: Split
) -> None:
    by_7 = list(task.held_out(split, 7))
    by_512 = list(task.held_out(split, 512))
    assert {len(batch.inputs) for batch in by_7[:-1]} == {7}
    assert 1 <= len(by_7[-1].inputs) <= 7
    for field in ("inputs", "targets"):
        a = torch.cat([getattr(batch, field) for batch in by_7])
        b = torch.cat([getattr(batch, field) for batch in by_512])
        assert torch.equal(a, b)


def test_the_splits_share_no_example_with_each_other_or_with_training(task: Task) -> None:
    seen: dict[str, set[bytes]] = {
        split: {
            row.numpy().tobytes() for batch in task.held_out(split, 512) for row in batch.inputs
        }
        for split in SPLITS
    }
    batches = [task.training_batch(step, 500, seed=0) for step in range(20)]
    training = {row.numpy().tobytes() for batch in batches for row in batch.inputs}
    assert not seen["validation"] & seen["test"]
    assert not training & (seen["validation"] | seen["test"])


@pytest.mark.parametrize("split", SPLITS)
def test_batch_size_does_not_change_the_score(task: Task, split: Split) -> None:
    table = torch.randn(1009, task.output_size, generator=torch.Generator().manual_seed(0))

    def score(batch_size: int) -> tuple[float, int]:
        total, count = 0.0, 0
        for batch in task.held_out(split, batch_size):
            # A predictor that sees each row alone: logits from a hash of the row's own inputs.
            outputs = table[_hash_rows(batch) % len(table)]
            batch_sum, batch_count = task.score(outputs, batch)
            total, count = total + batch_sum, count + batch_count
        return total, count

    by_37, by_400 = score(37), score(400)
    assert by_37[1] == by_400[1]
    assert by_37[0] == pytest.approx(by_400[0], rel=1e-12)


def _hash_rows(batch: Batch) -> Tensor:
    """One integer per target, from nothing but the inputs that stand in its row."""
    if batch.targets.dim() == 2:
        return (batch.inputs * 31 + batch.inputs.roll(1, dims=1)) % 1009
    return (batch.inputs.double().flatten(1).sum(dim=1).abs() * 1000).round().long()


def test_a_perfect_predictor_gets_the_best_score(task: Task) -> None:
    best = {"higher": 1.0, "lower": 0.0}[task.metric.better]
    batch = task.training_batch(0, 8, seed=0)
    outputs = 1000.0 * torch.nn.functional.one_hot(batch.targets, task.output_size).float()
    total, count = task.score(outputs, batch)
    assert count == batch.targets.numel()
    assert total / count == best
    assert task.loss(outputs, batch).item() == 0.0


def test_the_loss_is_the_mean_cross_entropy_in_nats_and_carries_gradient(task: Task) -> None:
    batch = task.training_batch(0, 3, seed=0)
    outputs = torch.randn(*batch.targets.shape, task.output_size, requires_grad=True)
    loss = task.loss(outputs, batch)
    loss.backward()
    by_hand = -outputs.log_softmax(-1).gather(-1, batch.targets[..., None]).mean()
    assert loss.shape == ()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert outputs.grad is not None
    assert outputs.grad.abs().sum() > 0


def test_a_score_is_nan_where_a_logit_is(task: Task) -> None:
    batch = task.training_batch(0, 3, seed=0)
    outputs = torch.zeros(*batch.targets.shape, task.output_size)
    outputs[0, ..., 0] = torch.nan
    total, _ = task.score(outputs, batch)
    assert total != total


@pytest.mark.parametrize("length", [0, -5, 10**9])
def test_a_length_that_cannot_be_is_refused_in_one_sentence(task: Task, length: int) -> None:
    with pytest.raises(TaskError, match=rf"{task.name}: .*length must be .* not {length}$"):
        build_task(task.name, length)


def test_text_has_a_letter_or_nothing_for_tokens(task: Task) -> None:
    if task.input_kind != "tokens":
        assert task.text([]) == ""
        return
    inputs = next(iter(task.held_out("validation", 1))).inputs[0]
    text = task.text(inputs.tolist())
    assert text == "" or text.strip()
    assert task.text(inputs[:5].tolist()) == text[:5]
