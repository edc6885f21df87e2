"""Check properties of MLP-Mixer's token mixing that the reference does not cover."""

import pytest
import torch

from bakeoff.models import Mixer, build_mixer
from tests.models.small_models import tokens


def build(max_length: int = 12, hidden: int = 16, dim: int = 8) -> Mixer:
    torch.manual_seed(0)
    return build_mixer("mlp_mixer", dim=dim, max_length=max_length, hidden=hidden).double()


def test_all_channels_share_the_weights_and_none_sees_another() -> None:
    mixer, x = build(), tokens(12)
    shuffle = torch.tensor([3, 0, 6, 1, 5, 2, 4, 7])
    torch.testing.assert_close(mixer(x)[..., shuffle], mixer(x[..., shuffle]))
    alone = torch.cat([build(dim=1)(channel) for channel in x.split(1, dim=-1)], dim=-1)
    torch.testing.assert_close(mixer(x), alone)
    assert mixer.num_parameters() == build(dim=1).num_parameters()


def test_it_is_the_papers_perceptron_over_time() -> None:
    mixer, x = build(), tokens(12)
    columns = x.transpose(1, 2)
    hidden = torch.nn.functional.gelu(mixer.expand(columns))
    torch.testing.assert_close(mixer(x), mixer.contract(hidden).transpose(1, 2))


def test_a_shorter_sequence_takes_the_weights_of_the_first_places() -> None:
    longer, shorter, x = build(max_length=20), build(), tokens(12)
    with torch.no_grad():
        shorter.expand.weight.copy_(longer.expand.weight[:, :12])
        shorter.contract.weight.copy_(longer.contract.weight[:12])
    for mixer in (longer, shorter):
        torch.nn.init.normal_(mixer.expand.bias, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        shorter.contract.bias.copy_(longer.contract.bias.normal_()[:12])
    torch.testing.assert_close(longer(x), shorter(x))


def test_a_padded_place_has_no_part_in_the_hidden_layer() -> None:
    mixer, x = build(), tokens(12, batch=1)
    mask = torch.tensor([[True, False, True, True, False, True] + 6 * [False]])
    output = mixer(x, mask)
    (gradient,) = torch.autograd.grad(output[mask].square().sum(), mixer.expand.weight)
    assert torch.all(gradient[:, ~mask[0]] == 0)
    assert torch.all(gradient[:, mask[0]] != 0)


def test_hidden_units_start_with_unit_variance() -> None:
    mixer, x = build(max_length=256, hidden=256), tokens(256, 64)
    hidden = mixer.expand(x.transpose(1, 2))
    assert hidden.std().item() == pytest.approx(1, rel=0.05)
    assert torch.all(mixer.contract.bias == 0)
