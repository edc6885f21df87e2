"""Check properties of Linformer that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from bakeoff.models import Mixer, build_mixer
from tests.models import small_models

tokens = partial(small_models.tokens, 12)

SHARINGS = ["none", "headwise", "key_value", "layerwise"]
sharings = pytest.mark.parametrize("sharing", SHARINGS)


def build(max_length: int = 12, seed: int = 0, **knobs: Any) -> Mixer:
    torch.manual_seed(seed)
    knobs = {"projected_length": 5, "heads": 4, **knobs}
    return build_mixer("linformer", dim=8, max_length=max_length, **knobs).double()


@sharings
def test_projected_to_itself_it_is_attention(sharing: str) -> None:
    """Check k = n with the identity for E and F."""
    mixer, x = build(projected_length=12, sharing=sharing), tokens()
    with torch.no_grad():
        mixer.projections.copy_(torch.eye(12).expand_as(mixer.projections))
    attention = build_mixer("attention", dim=8, heads=4).double()
    attention.load_state_dict(mixer.state_dict(), strict=False)
    torch.testing.assert_close(mixer(x), attention(x))


@pytest.mark.parametrize(
    ("sharing", "matrices"), [("none", 2 * 4), ("headwise", 2), ("key_value", 1), ("layerwise", 1)]
)
def test_sharing_says_how_many_matrices_there_are(sharing: str, matrices: int) -> None:
    mixer = build(sharing=sharing)
    assert mixer.num_parameters() == 4 * 8 * 8 + matrices * 5 * 12


@sharings
def test_only_layerwise_shares_with_the_layer_below(sharing: str) -> None:
    layers = [build(seed=layer, sharing=sharing) for layer in range(3)]
    for layer, mixer in enumerate(layers):
        mixer.take_place(layer, layers[0])
    owners = {id(mixer.projections) for mixer in layers}
    assert len(owners) == (1 if sharing == "layerwise" else 3)
    total = sum(parameter.numel() for parameter in nn.ModuleList(layers).parameters())
    per_layer = layers[0].num_parameters()
    saved = 2 * 5 * 12 if sharing == "layerwise" else 0
    assert total == 3 * per_layer - saved
    assert torch.equal(layers[0].projections, build(sharing=sharing).projections)


@sharings
def test_a_padded_place_has_no_part_in_any_projected_key(sharing: str) -> None:
    """Check that padded inputs and their columns of E and F have no effect and no gradient."""
    mixer, x = build(sharing=sharing), tokens(batch=1)
    mask = torch.tensor([[True, False, True, True, False, True] + 6 * [False]])
    output = mixer(x, mask)
    (gradient,) = torch.autograd.grad(output[mask].square().sum(), mixer.projections)
    assert torch.all(gradient[..., ~mask[0]] == 0)
    assert torch.all(gradient[..., mask[0]] != 0)
    with torch.no_grad():
        mixer.projections[..., ~mask[0]] = 1e6
    assert torch.equal(mixer(x, mask)[mask], output[mask])


def test_a_shorter_sequence_takes_the_first_columns() -> None:
    longer, shorter, x = build(max_length=20), build(), tokens()
    with torch.no_grad():
        shorter.projections.copy_(longer.projections[..., :12])
    torch.testing.assert_close(longer(x), shorter(x))


def test_projections_start_so_that_sums_are_about_as_large_as_tokens() -> None:
    mixer = build(max_length=1000, projected_length=64)
    assert mixer.projections.std().item() == pytest.approx(1064**-0.5, rel=0.02)
    sums = mixer.projections[0, 0].double() @ torch.randn(1000, 8, dtype=torch.float64)
    assert 0.8 < sums.std().item() < 1.2
