"""Test that batches with any inputs are moved, cut and masked consistently."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import UNSCORED, Batch, joined


def batch_of(rows: int = 4) -> Batch:
    return Batch(
        inputs={
            "inputs": torch.arange(3 * rows).reshape(rows, 3),
            "context": torch.randn(rows, 5, 2),
            "context_mask": torch.ones(rows, 5, dtype=torch.bool),
        },
        targets=torch.arange(3 * rows).reshape(rows, 3),
    )


def test_a_gpu_fetches_each_tensor_once_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that it is pinned; otherwise the copy would wait for all pending GPU work."""
    pinned: list[Tensor] = []
    moved: list[tuple[Tensor, str, bool]] = []

    def pin(tensor: Tensor) -> Tensor:
        pinned.append(tensor.clone())
        return pinned[-1]

    def move(tensor: Tensor, device: str, non_blocking: bool = False) -> Tensor:
        moved.append((tensor, device, non_blocking))
        return tensor.clone()

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", move)
    batch = batch_of()
    there = batch.to("cuda")
    assert [id(tensor) for tensor, *_ in moved] == [id(tensor) for tensor in pinned]
    assert {tuple(how) for _, *how in moved} == {("cuda", True)}
    assert len(moved) == len(batch.inputs) + 1
    assert all(torch.equal(there.inputs[name], batch.inputs[name]) for name in batch.inputs)
    assert torch.equal(there.targets, batch.targets)
    assert batch.to("cpu") is batch
    assert len(pinned) == len(moved)


def test_a_model_is_called_with_the_inputs_by_name() -> None:
    batch = batch_of()
    called = {}

    def model(tokens: Tensor, **named: Tensor) -> Tensor:
        called.update(named, inputs=tokens)
        return tokens.float()

    outputs = batch.through(model)
    assert {name: id(tensor) for name, tensor in called.items()} == {
        name: id(tensor) for name, tensor in batch.inputs.items()
    }
    assert outputs == Outputs(outputs.logits, {})


def test_inputs_of_other_names_are_passed_too() -> None:
    """Use the inputs of the two towers of an image-text model."""
    batch = Batch(inputs={"texts": torch.ones(2), "images": torch.zeros(2)}, targets=torch.ones(2))
    found = batch.through(lambda *, images, texts: Outputs(texts - images, {"penalty": images}))
    assert found.logits.tolist() == [1, 1]
    assert found.auxiliary["penalty"].tolist() == [0, 0]


def test_a_change_reaches_every_tensor() -> None:
    shapes = batch_of().map(lambda tensor: tensor[:, :1])
    assert {name: list(tensor.shape) for name, tensor in shapes.inputs.items()} == {
        "inputs": [4, 1],
        "context": [4, 1, 2],
        "context_mask": [4, 1],
    }
    assert list(shapes.targets.shape) == [4, 1]


def test_rows_are_a_copy() -> None:
    batch = batch_of()
    rows = batch.rows(slice(1, 3))
    assert torch.equal(rows.inputs["context"], batch.inputs["context"][1:3])
    rows.inputs["context"].zero_()
    assert batch.inputs["context"][1:3].abs().sum() > 0


def test_batches_are_joined_and_divided_again() -> None:
    whole = batch_of()
    again = joined([whole.rows(slice(1)), whole.rows(slice(1, None))])
    assert torch.equal(again.targets, whole.targets)
    for name, tensor in whole.inputs.items():
        assert torch.equal(again.inputs[name], tensor)


@pytest.mark.parametrize("name", ["boxes", "references"])
def test_what_no_model_is_given_goes_with_its_examples(name: str) -> None:
    unseen = torch.arange(4 * 3 * 4).reshape(4, 3, 4)
    whole = replace(batch_of(), **{name: unseen})
    rows = [whole.rows(slice(1)), whole.rows(slice(1, None))]
    again = getattr(joined(rows), name)
    assert torch.equal(again, unseen)
    assert getattr(rows[0], name).shape == (1, 3, 4)
    assert getattr(whole.only(torch.ones(4, dtype=torch.bool)), name) is unseen
    assert getattr(joined([batch_of(), batch_of()]), name) is None


def test_a_batch_that_is_on_the_device_is_itself() -> None:
    batch = batch_of()
    assert batch.to("cpu") is batch
    assert {t.device.type for t in batch.to("meta").inputs.values()} == {"meta"}


def test_targets_that_are_left_out_are_not_scored() -> None:
    logits = torch.zeros(2, 3, 7)
    batch = Batch(inputs={}, targets=torch.tensor([[0, UNSCORED, 2], [3, 4, 5]]))
    asked = batch.only(torch.tensor([[True, True, False], [False, True, True]]))
    assert asked.is_scored(logits).tolist() == [[True, False, False], [False, True, True]]
    assert batch.only(torch.tensor([False, True])).targets.tolist() == [[UNSCORED] * 3, [3, 4, 5]]


@pytest.mark.parametrize("shape", [(3,), (3, 2)], ids=["of sequences", "of tokens"])
def test_rows_of_probabilities_are_left_out_whole(shape: tuple[int, ...]) -> None:
    logits = torch.zeros(*shape, 4)
    batch = Batch(inputs={}, targets=torch.rand(*shape, 4).softmax(dim=-1))
    assert batch.is_soft(logits)
    is_asked = torch.ones(shape, dtype=torch.bool)
    is_asked[1] = False
    assert torch.equal(batch.only(is_asked).is_scored(logits), is_asked)


def test_numbers_are_no_probabilities() -> None:
    batch = Batch(inputs={}, targets=torch.rand(3))
    assert not batch.is_soft(torch.zeros(3, 1))
