"""Test next words with and without a prefix: no answer can be read from the inputs."""

from __future__ import annotations

import pytest
import torch

from bakeoff.models import build_model
from bakeoff.models.interface import INPUTS, prefix_length
from bakeoff.models.model_spec import ModelSpec
from bakeoff.suite.tasks.pretraining.corpora import BEGIN, NUM_SYMBOLS
from bakeoff.suite.tasks.pretraining.next_words import DefinitionsNext, DefinitionsPrefix
from bakeoff.suite.tasks.task import UNSCORED

LENGTH = 13


def model(architecture: str) -> torch.nn.Module:
    mixer = "" if architecture == "bert_prefix" else "attention"
    torch.manual_seed(0)
    spec = ModelSpec(
        architecture=architecture,
        mixer=mixer,
        knobs={},
        position="learned",
        dim=8,
        depth=2,
        length=LENGTH,
        input_kind="tokens",
        input_size=NUM_SYMBOLS,
        output_size=NUM_SYMBOLS,
    )
    return build_model(spec).double().eval()


def test_each_token_is_asked_for_the_next_one() -> None:
    batch = DefinitionsNext(LENGTH).training_batch(0, 9, seed=0)
    inputs = batch.inputs[INPUTS]
    assert (inputs[:, 0] == BEGIN).all()
    assert torch.equal(inputs[:, 1:], batch.targets[:, :-1])
    assert (batch.targets != UNSCORED).all()


def test_nothing_of_the_prefix_is_asked_for() -> None:
    whole = DefinitionsNext(LENGTH).training_batch(0, 9, seed=0)
    batch = DefinitionsPrefix(LENGTH).training_batch(0, 9, seed=0)
    first = prefix_length(LENGTH) - 1
    assert torch.equal(batch.inputs[INPUTS], whole.inputs[INPUTS])
    assert (batch.targets[:, :first] == UNSCORED).all()
    assert torch.equal(batch.targets[:, first:], whole.targets[:, first:])


@pytest.mark.parametrize("architecture", ["bert_left_to_right", "bert_prefix"])
def test_a_scored_logit_depends_on_no_token_that_it_is_asked_for(architecture: str) -> None:
    task = DefinitionsPrefix(LENGTH) if architecture == "bert_prefix" else DefinitionsNext(LENGTH)
    batch, bert = task.training_batch(0, 1, seed=0), model(architecture)
    before = batch.through(bert).logits[0]
    for place in range(1, LENGTH):
        inputs = batch.inputs[INPUTS].clone()
        inputs[0, place] += 1
        moved = (bert(inputs)[0] - before).abs().amax(dim=1) > 0
        scored_before = batch.targets[0, :place] != UNSCORED
        assert not (moved[:place] & scored_before).any()
        assert moved[place:].all()


def test_a_prefix_is_read_both_ways() -> None:
    batch, bert = DefinitionsPrefix(LENGTH).training_batch(0, 1, seed=0), model("bert_prefix")
    last = prefix_length(LENGTH) - 1
    inputs = batch.inputs[INPUTS].clone()
    inputs[0, last] += 1
    moved = (bert(inputs) - bert(batch.inputs[INPUTS])).abs().amax(dim=-1) > 0
    assert moved.all()


def test_weights_of_the_prefix_form_are_those_of_attention() -> None:
    shapes = {name: each.shape for name, each in model("bert_prefix").state_dict().items()}
    assert shapes == {name: each.shape for name, each in model("bert").state_dict().items()}
