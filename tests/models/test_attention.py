"""Laws of softmax attention that the reference does not settle."""

import math

import pytest
import torch
from torch import Tensor

from models import build_mixer


def tokens(batch: int = 2, length: int = 7, dim: int = 8, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)


def test_without_positions_it_is_equivariant_to_permutations() -> None:
    mixer, x = build_mixer("attention", dim=8).double(), tokens()
    shuffle = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    torch.testing.assert_close(mixer(x)[:, shuffle], mixer(x[:, shuffle]))


@pytest.mark.parametrize("scale", ["1/sqrt(d)", "none"])
def test_one_head_is_the_plain_formula(scale: str) -> None:
    mixer, x = build_mixer("attention", dim=8, heads=1, scale=scale).double(), tokens()
    query, key, value = (x @ w.weight.T for w in (mixer.query, mixer.key, mixer.value))
    scores = query @ key.transpose(1, 2) / (math.sqrt(8) if scale == "1/sqrt(d)" else 1)
    expected = scores.softmax(dim=-1) @ value @ mixer.output.weight.T
    torch.testing.assert_close(mixer(x), expected)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_parameters_and_flops_do_not_depend_on_heads(heads: int) -> None:
    mixer = build_mixer("attention", dim=64, heads=heads)
    assert sum(parameter.numel() for parameter in mixer.parameters()) == 4 * 64 * 64
    assert mixer.flops(128) == build_mixer("attention", dim=64).flops(128)


def test_unscaled_scores_have_variance_d_and_scaled_ones_have_one() -> None:
    """The premise of 1/sqrt(d): footnote 4 of the paper, at this module's initialisation."""
    torch.manual_seed(0)
    mixer = build_mixer("attention", dim=256, heads=4).double()
    x = tokens(batch=4, length=64, dim=256)
    queries, keys, _ = mixer._project(x, None, None, None)
    variance = (queries @ keys.transpose(-1, -2)).var().item()
    assert variance == pytest.approx(64, rel=0.1)
    assert variance * mixer.scale**2 == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("is_causal", [False, True])
def test_weights_applied_to_values_are_the_output(is_causal: bool) -> None:
    mixer, x = build_mixer("attention", dim=8, is_causal=is_causal).double(), tokens()
    mask = torch.tensor([[True] * 7, [False, True, True, False, True, False, False]])
    _, _, values = mixer._project(x, mask, None, None)
    expected = mixer._merge(mixer.attention_weights(x, mask) @ values)
    torch.testing.assert_close(mixer(x, mask), expected)


def test_huge_scores_stay_finite_and_pick_one_token() -> None:
    mixer, x = build_mixer("attention", dim=8, heads=1, scale="none").double(), 1e4 * tokens()
    weights = mixer.attention_weights(x)
    assert mixer(x).isfinite().all()
    torch.testing.assert_close(weights.amax(dim=-1), torch.ones(2, 1, 7, dtype=torch.float64))


def test_a_query_that_may_see_nothing_takes_only_the_output_bias() -> None:
    mixer, x = build_mixer("attention", dim=8, bias=True).double(), tokens().requires_grad_()
    output = mixer(x, torch.zeros(2, 7, dtype=torch.bool))
    torch.testing.assert_close(output, mixer.output.bias.expand_as(x))
    output.sum().backward()
    assert torch.all(x.grad == 0)


def test_context_may_have_another_length_and_its_order_is_free() -> None:
    mixer, x, context = build_mixer("attention", dim=8).double(), tokens(), tokens(length=5, seed=2)
    output = mixer(x, context=context)
    torch.testing.assert_close(output, mixer(x, context=context.flip(1)))
    assert mixer.attention_weights(x, context=context).shape == (2, 4, 7, 5)
    torch.testing.assert_close(mixer(x, context=x), mixer(x))


def test_the_cache_grows_by_a_key_and_a_value_a_token() -> None:
    mixer = build_mixer("attention", dim=64, is_causal=True)
    assert mixer.state_bytes(0) == 0
    assert mixer.state_bytes(100) == 100 * 2 * 64 * 4
