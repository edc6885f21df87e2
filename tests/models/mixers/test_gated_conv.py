"""Check properties of the gated convolution that the reference does not cover."""

import pytest
import torch

from bakeoff.models import Mixer, build_mixer
from tests.models.small_models import tokens


def gated(is_causal: bool, gate: float) -> Mixer:
    """Build a mixer with every gate fixed at sigmoid(gate)."""
    torch.manual_seed(0)
    mixer = build_mixer("gated_conv", dim=8, is_causal=is_causal).double()
    with torch.no_grad():
        mixer.conv.bias[:8] = torch.arange(8.0)
        mixer.conv.weight[8:] = 0
        mixer.conv.bias[8:] = gate
    return mixer


@pytest.mark.parametrize("is_causal", [False, True])
def test_with_gates_held_open_it_is_the_linear_convolution(is_causal: bool) -> None:
    mixer, plain = gated(is_causal, gate=1e3), build_mixer("conv", dim=8, is_causal=is_causal)
    plain.load_state_dict({"conv.weight": mixer.conv.weight[:8], "conv.bias": mixer.conv.bias[:8]})
    torch.testing.assert_close(mixer(tokens()), plain.double()(tokens()))
    half = gated(is_causal, gate=0.0)
    torch.testing.assert_close(half(tokens()), mixer(tokens()) / 2)


@pytest.mark.parametrize("is_causal", [False, True])
def test_with_gates_held_shut_nothing_passes(is_causal: bool) -> None:
    assert torch.all(gated(is_causal, gate=-1e3)(tokens()) == 0)


def test_outputs_start_about_as_large_as_inputs() -> None:
    """Check that A and B have four times the variance of the inputs, A sigmoid(B) 1.4 times."""
    torch.manual_seed(0)
    gates = torch.sigmoid(2 * torch.randn(100_000))
    expected = 4 * gates.square().mean()
    with torch.no_grad():
        found = build_mixer("gated_conv", dim=256)(torch.randn(8, 256, 256)).var()
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0)
    torch.testing.assert_close(expected, torch.tensor(1.4), rtol=0.02, atol=0)
