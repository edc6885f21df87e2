"""Check properties of differential attention that the reference does not cover."""

from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.mixers.attentions.differential_attention import DifferentialAttention
from tests.models.small_models import tokens


def build(**knobs: Any) -> DifferentialAttention:
    torch.manual_seed(0)
    mixer: Mixer = build_mixer("differential_attention", dim=8, **knobs).double()
    assert isinstance(mixer, DifferentialAttention)
    return mixer


@pytest.mark.parametrize(
    ("layer", "start"), [(0, 0.2), (1, 0.3555), (2, 0.4707), (11, 0.7779), (27, 0.7998)]
)
def test_lambda_starts_where_the_paper_says(layer: int, start: float) -> None:
    """Check 0.8 - 0.6 exp(-0.3 (l - 1)), which the vectors change a little in either direction."""
    mixer = build()
    mixer.take_place(layer, mixer)
    assert mixer.lambda_init == pytest.approx(start, abs=1e-4)
    with torch.no_grad():
        assert mixer._lambda().item() == pytest.approx(start, abs=0.1)
        mixer.lambda_q1.zero_()
        mixer.lambda_q2.zero_()
        assert mixer._lambda().item() == pytest.approx(start, abs=1e-4)


def test_a_given_lambda_is_that_of_every_layer() -> None:
    mixer = build(lambda_init=0.5)
    mixer.take_place(5, mixer)
    assert mixer.lambda_init == 0.5


def test_twins_cancel_but_for_their_factor() -> None:
    """Check that two equal softmaxes leave (1 - lambda) of attention, which the norm removes."""
    mixer = build(heads=2, has_head_norm=False)
    attention = build_mixer("attention", dim=8, heads=2, key_dim=2).double()
    with torch.no_grad():
        for linear in (mixer.query, mixer.key):
            pairs = linear.weight.view(2, 2, 2, 8)
            pairs[:, 1] = pairs[:, 0]
    shared = {
        name: weight
        if len(weight) != 8 or name.startswith(("value", "output"))
        else weight.view(2, 2, 2, 8)[:, 0].flatten(0, 1)
        for name, weight in mixer.state_dict().items()
        if "lambda" not in name
    }
    attention.load_state_dict(shared)
    x = tokens(20)
    torch.testing.assert_close(mixer(x), (1 - mixer._lambda()) * attention(x))


def test_heads_start_as_large_as_one_minus_lambda() -> None:
    mixer, x = build(heads=2), tokens(20, 8)
    mixer.output.weight.data.copy_(torch.eye(8))
    sizes = mixer(x).reshape(2, 20, 2, 4).square().mean(dim=-1).sqrt()
    torch.testing.assert_close(sizes, torch.full_like(sizes, 0.8), atol=0.01, rtol=0)


def test_weights_are_those_of_both_softmaxes() -> None:
    mixer, x = build(heads=2, has_head_norm=False), tokens(9)
    weights = mixer.attention_weights(x)
    values = mixer.value(x).reshape(2, 9, 2, 4).transpose(1, 2)
    heads = (weights[:, 0::2] - mixer._lambda() * weights[:, 1::2]) @ values
    torch.testing.assert_close(mixer(x), mixer.output(heads.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"heads": 8}, "heads=8, of two halves each, does not divide dim=8"),
        ({"lambda_init": 1.0}, "lambda_init=1.0 is not from 0 up to below 1"),
        ({"lambda_init": -0.1}, "lambda_init=-0.1 is not from 0 up to below 1"),
        ({"position": "shaw"}, "shaw needs the weights in memory"),
    ],
)
def test_a_knob_without_sense_is_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"differential_attention: {message}"):
        build(**knobs)
