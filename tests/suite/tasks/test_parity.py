"""Test that answers follow from the bits and that parts are named by length."""

import pytest
import torch

from bakeoff.suite.tasks.parity import Parity


def test_each_answer_is_the_parity_of_the_bits_so_far() -> None:
    batch = Parity(37).training_batch(0, 50, seed=0)
    for bits, answers in zip(batch.inputs["inputs"].tolist(), batch.targets.tolist(), strict=True):
        assert answers == [sum(bits[: place + 1]) % 2 for place in range(37)]


def test_ones_and_zeros_are_as_frequent_and_so_are_answers() -> None:
    batch = Parity(100).training_batch(0, 400, seed=0)
    assert batch.inputs["inputs"].double().mean() == pytest.approx(0.5, abs=0.01)
    assert batch.targets.double().mean() == pytest.approx(0.5, abs=0.02)


def test_lengths_are_powers_of_two_and_the_last_place() -> None:
    expected = ("length=1", "length=2", "length=4", "length=8", "length=16")
    assert Parity(16).parts() == expected
    assert Parity(20).parts() == (*expected, "length=20")


def test_a_part_holds_the_places_above_half_its_length() -> None:
    task = Parity(20)
    parts = task.in_parts(task.training_batch(0, 3, seed=0))
    assert parts["length=1"][0].nonzero().flatten().tolist() == [0]
    assert parts["length=8"][1].nonzero().flatten().tolist() == [4, 5, 6, 7]
    assert parts["length=20"][2].nonzero().flatten().tolist() == [16, 17, 18, 19]
    assert torch.stack(list(parts.values())).sum(dim=0).eq(1).all()
