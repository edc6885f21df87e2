"""Check properties of the Synthesizer that the reference does not cover."""

from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models.small_models import tokens


def build(kind: str, **knobs: Any) -> Mixer:
    torch.manual_seed(0)
    knobs = {"heads": 2, "max_length": 32, "kind": kind, **knobs}
    return build_mixer("synthesizer", dim=8, **knobs).double()


@pytest.mark.parametrize("kind", ["random", "factorized_random"])
def test_random_weights_are_the_same_for_all_tokens(kind: str) -> None:
    weights, x = build(kind).attention_weights, tokens()
    assert torch.equal(weights(x), weights(-3 * x))


@pytest.mark.parametrize("kind", ["dense", "factorized_dense"])
def test_dense_weights_of_a_token_depend_on_it_alone(kind: str) -> None:
    mixer, x = build(kind), tokens()
    other = x.clone()
    other[:, 1] += 1
    moved = (mixer.attention_weights(other) != mixer.attention_weights(x)).any(dim=-1)
    assert moved[:, :, 1].all()
    assert not moved[:, :, 0].any()
    assert not moved[:, :, 2:].any()


def test_factorized_tables_have_the_rank_that_was_asked_for() -> None:
    mixer = build("factorized_random", rank=3)
    logits = mixer.attention_weights(torch.zeros(1, 32, 8).double()).log()
    normed = logits - logits.mean(dim=-1, keepdim=True)  # the softmax ignores a constant
    assert torch.linalg.matrix_rank(normed, atol=1e-9).tolist() == [[3, 3]]


def test_factorized_columns_are_tiled_and_repeated() -> None:
    """Check section 3.1.1: A tiled b times, each element of B repeated a times."""
    mixer, x = build("factorized_dense"), tokens()
    length, (fine, coarse) = x.shape[1], mixer.maps
    tiled = fine(x, fine.columns).repeat(1, 1, 1, coarse.columns)
    repeated = coarse(x, coarse.columns).repeat_interleave(fine.columns, dim=-1)
    expected = (tiled * repeated)[..., :length].softmax(dim=-1)
    torch.testing.assert_close(mixer.attention_weights(x), expected)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ModelError, match="rank=4 is refused by kind='random'"):
        build("random", rank=4)
    with pytest.raises(ModelError, match="synthesizer: rank=0 is below 1"):
        build("dense", rank=0)
    mixer = build("dense", is_causal=True, max_length=1)
    _, state = mixer.step(torch.zeros(1, 8).double(), mixer.initial_state(1))
    with pytest.raises(ModelError, match="at most max_length=1 tokens, not 2"):
        mixer.step(torch.zeros(1, 8).double(), state)
