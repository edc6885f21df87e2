"""Test the task of section 4.1.1 of the Mamba paper."""

import torch

from bakeoff.suite.tasks.selective_copying import ASKING, NOISE, NUM_DATA, SelectiveCopying
from bakeoff.suite.tasks.task import UNSCORED


def test_sixteen_of_sixteen_symbols_are_to_be_remembered() -> None:
    assert SelectiveCopying.input_size == SelectiveCopying.output_size == 16
    batch = SelectiveCopying(100).training_batch(0, 30, seed=0)
    is_data = (batch.inputs["inputs"] != NOISE) & (batch.inputs["inputs"] != ASKING)
    assert (is_data.sum(dim=1) == NUM_DATA).all()
    assert (batch.inputs["inputs"][:, 84:] == ASKING).all()
    assert (batch.inputs["inputs"][:, :84] != ASKING).all()


def test_what_is_asked_for_is_the_data_in_their_order() -> None:
    batch = SelectiveCopying(100).training_batch(3, 30, seed=1)
    for inputs, targets in zip(batch.inputs["inputs"], batch.targets, strict=True):
        data = inputs[(inputs != NOISE) & (inputs != ASKING)]
        assert targets[84:].tolist() == data.tolist()
        assert (targets[:84] == UNSCORED).all()


def test_places_and_data_are_uniform() -> None:
    batches = [SelectiveCopying(48).training_batch(step, 500, seed=0) for step in range(4)]
    inputs = torch.cat([batch.inputs["inputs"] for batch in batches])
    share = (inputs[:, :32] != NOISE).double().mean(dim=0)
    assert (share - 0.5).abs().max() < 0.05
    counts = inputs[:, :32][inputs[:, :32] != NOISE].bincount(minlength=15)[1:]
    chi_squared = ((counts - counts.sum() / 14) ** 2 / (counts.sum() / 14)).sum()
    assert chi_squared < 34.6  # 99.9 % of chi-squared with 13 degrees of freedom


def test_the_paper_has_4096_places_before_those_that_ask() -> None:
    batch = SelectiveCopying(4112).training_batch(0, 2, seed=0)
    assert batch.inputs["inputs"].shape == (2, 4112)
    assert (batch.inputs["inputs"] == NOISE).sum(dim=1).tolist() == [4080, 4080]


def test_a_person_reads_noise_data_and_questions_apart() -> None:
    task = SelectiveCopying(40)
    inputs = task.training_batch(0, 1, seed=0).inputs["inputs"][0]
    text = task.text(inputs.tolist())
    assert text.endswith("?" * 16)
    assert text.count(".") == 8
    assert set(text) <= set(".abcdefghijklmn?")
