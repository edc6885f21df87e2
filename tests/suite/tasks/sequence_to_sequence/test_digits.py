"""Test copying, reversal and sorting of digits: the target is a permutation of the source."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from bakeoff.suite.tasks.sequence_to_sequence.digits import (
    END,
    PADDING,
    START,
    Copying,
    Reversal,
    Sorting,
)
from bakeoff.suite.tasks.task import UNSCORED, Task
from bakeoff.suite.training.engines.engine import evaluate_in_parts
from tests.suite.writers import Successor

ORDERS: dict[type[Task], Callable[[list[int]], list[int]]] = {
    Copying: list,
    Reversal: lambda digits: digits[::-1],
    Sorting: sorted,
}
KINDS = list(ORDERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_is_the_source_in_its_order(kind: type[Reversal]) -> None:
    task = kind(9)
    for batch in task.held_out("validation", 700):
        for source, target in zip(
            batch.inputs["context"].tolist(), batch.targets.tolist(), strict=True
        ):
            digits = [symbol for symbol in source if symbol != PADDING]
            filler = [UNSCORED] * (8 - len(digits))
            assert target == [*ORDERS[kind](digits), END, *filler]


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_the_target_one_place_later(kind: type[Reversal]) -> None:
    batch = next(kind(9).held_out("test", 1_500))
    inputs, is_asked = batch.inputs["inputs"], batch.targets != UNSCORED
    assert (inputs[:, 0] == START).all()
    assert torch.equal(batch.inputs["mask"], is_asked)
    assert (inputs[~is_asked] == PADDING).all()
    follows = is_asked[:, 1:]
    assert torch.equal(inputs[:, 1:][follows], batch.targets[:, :-1][follows])


def test_masks_tell_digits_from_fillers() -> None:
    batch = next(Reversal(9).held_out("test", 1_500))
    assert torch.equal(batch.inputs["context_mask"], batch.inputs["context"] != PADDING)
    assert batch.inputs["context_mask"].sum(dim=1).unique().tolist() == [4, 8]


@pytest.mark.parametrize(("length", "kinds"), [(2, [1]), (3, [1, 2]), (17, [8, 16])])
def test_a_trial_has_full_and_half_sources(length: int, kinds: list[int]) -> None:
    task = Sorting(length)
    assert task.kinds() == kinds
    assert next(task.held_out("test", 4)).inputs["inputs"].shape == (4, length)


def test_a_training_batch_is_of_one_length() -> None:
    """Equal lengths make each share of a batch the same amount of work."""
    lengths = {
        tuple(Reversal(9).training_batch(step, 5, 0).inputs["context_mask"].sum(1).tolist())
        for step in range(12)
    }
    assert lengths == {(4,) * 5, (8,) * 5}


def test_half_of_a_sequence_is_no_match() -> None:
    """Repetition reverses a source of one digit, but not a longer source."""
    found = evaluate_in_parts(Copier(), Reversal(3), "test", 100, "cpu")
    assert found["digits=1"] == 1.0
    assert found["digits=2"] == pytest.approx(0.1, abs=0.03)


class Copier(Successor):
    """A model that repeats the first digit for the length of the source, then ends."""

    def __init__(self) -> None:
        super().__init__(shift=0)

    def encode(self, context: torch.Tensor, context_mask: torch.Tensor) -> torch.Tensor:
        self.left = context_mask.sum(dim=1)
        return super().encode(context, context_mask)

    def step(self, tokens: torch.Tensor, state):  # type: ignore[no-untyped-def]
        logits, state = super().step(tokens, state)
        logits[self.left < state["num"]] = torch.nn.functional.one_hot(
            torch.tensor(END), logits.shape[1]
        ).float()
        return logits, state
